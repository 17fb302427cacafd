"""Tune a small neural network on real flowers, with early stopping: `minitune demo`.

`train_iris` is an ordinary training loop: it takes its hyperparameters from a dict, reports after each epoch, and
continues from a checkpoint if there is one. `tune` has everything that tuning needs. `show` tests the winner: it loads
the best checkpoint of each trial and measures it on flowers that neither training nor tuning has seen.

Data: Fisher's Iris measurements (1936), public domain: 150 flowers of three species, four lengths in centimetres.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
import shlex
import shutil
import statistics
import sys
import tempfile
from operator import mul
from pathlib import Path
from typing import Any

from minitune import (
    ASHAScheduler,
    Checkpoint,
    CheckpointConfig,
    ResultGrid,
    RunConfig,
    TuneConfig,
    Tuner,
    choice,
    get_checkpoint,
    loguniform,
    report,
)

DESCRIPTION = "Tune a small neural network on real flowers."
MAX_EPOCHS = 81
SPECIES = ("setosa", "versicolor", "virginica")
Weights = list[list[float]]
Flower = tuple[list[float], int]
"""The standardised measurements followed by a constant 1 (which makes a bias a weight), and the species' number."""


def split(seed: int) -> tuple[list[Flower], list[Flower], list[Flower]]:
    """Shuffle the flowers: 45 for training, 45 for tuning, 60 held out. Only the first 45 determine the scale."""
    with open(Path(__file__).with_name("iris.csv"), encoding="utf-8", newline="") as file:
        flowers = [([float(x) for x in line[:4]], SPECIES.index(line[4])) for line in list(csv.reader(file))[1:]]
    random.Random(seed).shuffle(flowers)
    columns = list(zip(*(features for features, _ in flowers[:45]), strict=True))
    # Figures of the other flowers would tell the training about them.
    means = [statistics.mean(column) for column in columns]
    scales = [statistics.stdev(column) for column in columns]
    rows = []
    for features, label in flowers:
        scaled = [(x - mean) / scale for x, mean, scale in zip(features, means, scales, strict=True)]
        rows.append(([*scaled, 1.0], label))
    return rows[:45], rows[45:90], rows[90:]


class Network:
    """Four inputs, one hidden layer of tanh units, three probabilities; the last weight of each row is the bias."""

    def __init__(self, hidden: Weights, output: Weights):
        self.hidden = hidden
        self.output = output

    @classmethod
    def fresh(cls, units: int, rng: random.Random) -> Network:
        """A network with random weights."""
        hidden = [[rng.gauss(0, 0.5) for _ in range(5)] for _ in range(units)]
        return cls(hidden, [[rng.gauss(0, 0.5) for _ in range(units + 1)] for _ in SPECIES])

    def forward(self, features: list[float]) -> tuple[list[float], list[float]]:
        """Activations of the hidden layer (with the constant 1), and the probability of each species."""
        activations = [*(math.tanh(sum(map(mul, row, features))) for row in self.hidden), 1.0]
        scores = [sum(map(mul, row, activations)) for row in self.output]
        # Minus the largest score, so that no power is too large for a float.
        powers = [math.exp(score - max(scores)) for score in scores]
        return activations, [power / sum(powers) for power in powers]

    def learn(self, batch: list[Flower], lr: float, l2: float) -> None:
        """One step of gradient descent on the cross-entropy of `batch`."""
        inputs = []
        activations = []
        errors = []
        blames = []
        for features, label in batch:
            hidden, probabilities = self.forward(features)
            error = [p - (k == label) for k, p in enumerate(probabilities)]
            columns = zip(*self.output, strict=True)
            blame = [(1 - h * h) * sum(map(mul, error, column)) for h, column in zip(hidden, columns, strict=True)]
            inputs.append(features)
            activations.append(hidden)
            errors.append(error)
            blames.append(blame[:-1])  # the constant 1 has no weights
        _descend(self.output, errors, activations, lr, l2)
        _descend(self.hidden, blames, inputs, lr, l2)

    def evaluate(self, rows: list[Flower]) -> tuple[float, float]:
        """Mean cross-entropy, and the share of flowers whose species is found."""
        answers = [(self.forward(features)[1], label) for features, label in rows]
        loss = statistics.mean(-math.log(max(ps[label], 1e-12)) for ps, label in answers)
        return loss, statistics.mean(float(max(ps) == ps[label]) for ps, label in answers)


def _descend(weights: Weights, errors: Weights, inputs: Weights, lr: float, l2: float) -> None:
    """Update the weights of a layer from the errors and the inputs of its units for each flower."""
    for row, error in zip(weights, zip(*errors, strict=True), strict=True):
        for j, values in enumerate(zip(*inputs, strict=True)):
            row[j] -= lr * (sum(map(mul, error, values)) / len(values) + l2 * row[j])


def save(directory: str, network: Network, epoch: int) -> None:
    """Write the state of the training to a file in `directory`."""
    state = {"epoch": epoch, "hidden": network.hidden, "output": network.output}
    Path(directory, "network.json").write_text(json.dumps(state), encoding="utf-8")


def load(directory: str) -> tuple[Network, int]:
    """Read the network and the epoch that `save` has written."""
    state = json.loads(Path(directory, "network.json").read_text(encoding="utf-8"))
    return Network(state["hidden"], state["output"]), state["epoch"]


def train_iris(config: dict[str, Any]) -> None:
    """Train epoch by epoch. The objective is the loss on the validation rows."""
    training, validation, _ = split(config["seed"])
    network = Network.fresh(config["units"], random.Random(config["seed"]))
    epoch = 0
    if checkpoint := get_checkpoint():
        network, epoch = load(checkpoint.path)
    while epoch < MAX_EPOCHS:
        epoch += 1
        # The order depends only on the epoch, so an interrupted training gives the same result as an uninterrupted one.
        order = random.Random(f"{config['seed']} {epoch}").sample(training, len(training))
        for start in range(0, len(order), config["batch"]):
            network.learn(order[start : start + config["batch"]], config["lr"], config["l2"])
        loss, accuracy = network.evaluate(validation)
        with tempfile.TemporaryDirectory() as directory:
            save(directory, network, epoch)
            report({"loss": loss, "accuracy": accuracy}, checkpoint=Checkpoint.from_directory(directory))


def tune(seed: int, samples: int, storage: str | None) -> ResultGrid:
    """Try `samples` configurations; stop early the ones that fall behind. Blocks until all are done."""
    space = {
        "lr": loguniform(1e-3, 1.0),
        "l2": loguniform(1e-5, 1e-1),
        "units": choice([2, 4, 8, 16]),
        "batch": choice([4, 8, 16]),
        "seed": seed,
    }
    tuner = Tuner(
        train_iris,
        param_space=space,
        tune_config=TuneConfig(
            metric="loss",
            mode="min",
            num_samples=samples,
            seed=seed,
            scheduler=ASHAScheduler(max_t=MAX_EPOCHS, grace_period=2, reduction_factor=3),
        ),
        run_config=RunConfig(
            storage_path=storage,
            checkpoint_config=CheckpointConfig(
                num_to_keep=1, checkpoint_score_attribute="loss", checkpoint_score_order="min"
            ),
        ),
    )
    return tuner.fit()


def show(grid: ResultGrid, seed: int) -> None:
    """Print the results of the run."""
    best = grid.get_best_result(scope="all")
    held_out = split(seed)[2]
    checkpoints = [result.get_best_checkpoint("loss", "min") for result in (best, *grid)]
    winner, *everyone = [load(checkpoint.path)[0].evaluate(held_out)[1] for checkpoint in checkpoints]
    epochs = sum(result.metrics["training_iteration"] for result in grid)
    print()
    print("Best configuration:             ", ", ".join(f"{k}={v:.3g}" for k, v in best.config.items() if k != "seed"))
    print(f"Held-out accuracy, best trial:    {winner:.4f}  (its best checkpoint, loaded again)")
    print(f"Held-out accuracy, median trial:  {statistics.median(everyone):.4f}")
    print(f"Epochs saved by early stopping:   {1 - epochs / (len(grid) * MAX_EPOCHS):.2%}  ({epochs} were run)")
    print(f"Best checkpoint:                  {checkpoints[0].path}")
    print(f"All results:                      {grid.experiment_path}")
    run = shlex.quote(grid.experiment_path)
    print()
    print("Next: list the trials, read why each one was stopped, or read the manual:")
    minitune = command_of_this_installation()
    for arguments in (f"ls {run}", f"show {run} --why", "help"):
        print(f"  {minitune} {arguments}")


def command_of_this_installation() -> str:
    """What to type for `minitune`, also if its environment is not activated."""
    found = shutil.which("minitune")
    if found is not None and Path(found).parent == Path(sys.executable).parent:
        return "minitune"
    return f"{shlex.quote(sys.executable)} -m minitune"


def add_parser(commands: Any) -> None:
    """Add the example to the `minitune` command, as `minitune demo`."""
    parser = commands.add_parser("demo", description=DESCRIPTION)
    parser.add_argument_group("examples", "minitune demo\nminitune demo --num-samples 10")
    add_arguments(parser)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Give the parser of a command line the arguments of the example, and `run` as its command."""
    parser.add_argument("--seed", type=int, default=1, help="decides the split, the weights and the configurations")
    parser.add_argument(
        "--num-samples", type=count, default=40, metavar="N", help="configurations to try (default: 40)"
    )
    parser.add_argument("--storage", metavar="DIR", help="where results go (default: ~/minitune_results)")
    parser.set_defaults(command=run)


def count(text: str) -> int:
    """Read a number of samples from the command line."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected N >= 1, but got {value}")
    return value


def run(options: argparse.Namespace) -> int:
    """Run the example with the options of a command line; returns the exit status."""
    grid = tune(options.seed, options.num_samples, options.storage)
    if grid.interrupted:
        return 4
    if grid.errors:
        print(f"minitune: {len(grid.errors)} trials failed: see {grid.experiment_path}", file=sys.stderr)
        return 1
    show(grid, options.seed)
    return 0


if __name__ == "__main__":
    main_parser = argparse.ArgumentParser(description=DESCRIPTION)
    add_arguments(main_parser)
    sys.exit(run(main_parser.parse_args()))
