"""Tune a neural network on handwritten digits, with early stopping: `python -m minitune.examples.digits`.

`train_digits` is an ordinary training loop around scikit-learn's `MLPClassifier`: one `partial_fit` per epoch, followed
by a report with a checkpoint. At the end, the example loads the best checkpoint and measures it on digits that neither
training nor tuning has seen. The exit status is 0 only if the network is good enough.

A checkpoint here is a pickled model, as scikit-learn recommends. Loading a pickle can run any code of its author. So
the example loads only files that this run has written to its own directory. Never load another person's checkpoint like
this.

Data: 1797 scanned digits of 8 x 8 pixels that come with scikit-learn (from the UCI repository, 1998).
"""

from __future__ import annotations

import argparse
import pickle
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minitune import (
    ASHAScheduler,
    Checkpoint,
    CheckpointConfig,
    CLIReporter,
    ResultGrid,
    RunConfig,
    TuneConfig,
    Tuner,
    choice,
    get_checkpoint,
    loguniform,
    report,
)

MAX_EPOCHS = 27
GOOD_ACCURACY = 0.95
MODEL_FILE = "model.pkl"
Part = tuple[Any, Any]
"""Images, an array of (n, 64) floats from 0 to 1, and the n digits that they show."""


def split(seed: int) -> tuple[Part, Part, Part]:
    """Shuffle the digits: 60 % training, 20 % tuning, 20 % held out. All parts have the same share of each digit."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, digits = load_digits(return_X_y=True)
    images = images / 16.0
    x, rest_x, y, rest_y = train_test_split(images, digits, test_size=0.4, random_state=seed, stratify=digits)
    tune_x, test_x, tune_y, test_y = train_test_split(rest_x, rest_y, test_size=0.5, random_state=seed, stratify=rest_y)
    return (x, y), (tune_x, tune_y), (test_x, test_y)


def load(checkpoint: Checkpoint) -> dict[str, Any]:
    """Load the model of one of this run's checkpoints, and the number of epochs of its training."""
    with checkpoint.as_directory() as directory:
        state: dict[str, Any] = pickle.loads(Path(directory, MODEL_FILE).read_bytes())
    return state


def train_digits(config: dict[str, Any]) -> None:
    """Train one network, epoch by epoch; the trial's function."""
    from sklearn.neural_network import MLPClassifier

    (x, y), (tune_x, tune_y), _ = split(config["seed"])
    checkpoint = get_checkpoint()
    if checkpoint is None:
        model = MLPClassifier(
            hidden_layer_sizes=(config["units"],),
            learning_rate_init=config["lr"],
            alpha=config["l2"],
            batch_size=config["batch"],
            random_state=config["seed"],
        )
        epochs = 0
    else:
        state = load(checkpoint)
        model, epochs = state["model"], state["epochs"]
    for epoch in range(epochs + 1, MAX_EPOCHS + 1):
        model.partial_fit(x, y, classes=range(10))
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, MODEL_FILE).write_bytes(pickle.dumps({"model": model, "epochs": epoch}))
            metrics = {"accuracy": float(model.score(tune_x, tune_y)), "loss": float(model.loss_)}
            report(metrics, checkpoint=Checkpoint.from_directory(directory))


def tune(seed: int, samples: int, storage: str | None) -> ResultGrid:
    """Try `samples` networks; stop early the ones that fall behind. Blocks until all are done."""
    space = {
        "lr": loguniform(1e-4, 1e-1),
        "l2": loguniform(1e-6, 1e-1),
        "units": choice([16, 32, 64, 128]),
        "batch": choice([16, 32, 64]),
        "seed": seed,
    }
    tuner = Tuner(
        train_digits,
        param_space=space,
        tune_config=TuneConfig(
            metric="accuracy",
            mode="max",
            num_samples=samples,
            seed=seed,
            scheduler=ASHAScheduler(max_t=MAX_EPOCHS, grace_period=1, reduction_factor=3),
        ),
        run_config=RunConfig(
            storage_path=storage,
            progress_reporter=CLIReporter(
                metric_columns=["training_iteration", "accuracy", "loss"], max_progress_rows=5, sort_by_metric=True
            ),
            checkpoint_config=CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="accuracy"),
        ),
    )
    return tuner.fit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example with the arguments of a command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Tune a neural network on handwritten digits.")
    parser.add_argument("--seed", type=int, default=1, help="decides the split, the weights and the configurations")
    parser.add_argument("--samples", type=int, default=20, help="how many networks to try (default: 20)")
    parser.add_argument("--storage", metavar="DIR", help="where results go (default: ~/minitune_results)")
    options = parser.parse_args(arguments)
    if options.samples < 1:
        parser.error(f"expected --samples >= 1, but got {options.samples}")
    try:
        import sklearn  # noqa: F401 - here, so that a missing package is reported once and not by each trial
    except ImportError:
        print("this example needs scikit-learn: pip install 'minitune[examples]'", file=sys.stderr)
        return 1
    grid = tune(options.seed, options.samples, options.storage)
    if grid.errors:
        print(f"{len(grid.errors)} trials failed: see {grid.experiment_path}", file=sys.stderr)
        return 1
    best = grid.get_best_result(scope="all")
    checkpoint = best.get_best_checkpoint("accuracy", "max")
    accuracy = load(checkpoint)["model"].score(*split(options.seed)[2])
    print()
    print("Best configuration:  ", ", ".join(f"{k}={v:.3g}" for k, v in best.config.items() if k != "seed"))
    print(f"Held-out accuracy:    {accuracy:.4f}  (digits that neither training nor tuning has seen)")
    print(f"Best checkpoint:      {checkpoint.path}")
    if accuracy < GOOD_ACCURACY:
        print(f"that is less than {GOOD_ACCURACY}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
