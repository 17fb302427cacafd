"""Let a population of trainings find a schedule for the learning rate: `python -m minitune.examples.pbt`.

Eight trainings run at the same time. Every few epochs, the worst ones copy the weights of one of the best, and continue
with a slightly different learning rate. So the rate is large as long as that helps, and small at the end, without a
schedule.

The problem shows why: gradient descent on a quadratic function with a noisy gradient. A large rate is fast, but the
noise keeps it away from the minimum. A small rate gets there too late.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from minitune import (
    Checkpoint,
    CheckpointConfig,
    CLIReporter,
    ResultGrid,
    RunConfig,
    TuneConfig,
    Tuner,
    get_checkpoint,
    loguniform,
    report,
    with_resources,
)
from minitune.schedulers import PopulationBasedTraining

EPOCHS = 24
STEPS = 20
CURVATURES = [0.1, 0.3, 1.0] * 10
NOISE = 1.0


def descend(weights: list[float], lr: float, seed: int, epoch: int) -> None:
    """One epoch: steps along the noisy gradient. The noise of an epoch is the same for all trainings."""
    rng = random.Random(f"{seed} {epoch}")
    for _ in range(STEPS):
        for i, curvature in enumerate(CURVATURES):
            weights[i] -= lr * (curvature * weights[i] + rng.gauss(0, NOISE))


def loss_of(weights: list[float]) -> float:
    """The value of the quadratic function. Its minimum is 0."""
    return sum(curvature * weight**2 / 2 for curvature, weight in zip(CURVATURES, weights, strict=True))


def train(config: dict[str, Any]) -> None:
    """Train from the beginning, or from the saved weights of this or another training."""
    weights = [10.0] * len(CURVATURES)
    epoch = 0
    if checkpoint := get_checkpoint():
        state = json.loads(Path(checkpoint.path, "state.json").read_text())
        weights = state["weights"]
        epoch = state["epoch"]
    while epoch < EPOCHS:
        epoch += 1
        descend(weights, config["lr"], config["seed"], epoch)
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "state.json").write_text(json.dumps({"weights": weights, "epoch": epoch}))
            metrics = {"loss": loss_of(weights), "epoch": epoch, "lr": config["lr"]}
            report(metrics, checkpoint=Checkpoint.from_directory(directory))


def tune(seed: int, storage: str | None) -> ResultGrid:
    """Train a population. Blocks until all have ended."""
    tuner = Tuner(
        with_resources(train, {"cpu": 0.25}),  # so that all run at the same time, even on two CPUs
        param_space={"lr": loguniform(1e-3, 1.0), "seed": seed},
        tune_config=TuneConfig(
            metric="loss",
            mode="min",
            num_samples=8,
            seed=seed,
            reuse_actors=True,
            scheduler=PopulationBasedTraining(
                time_attr="epoch",
                perturbation_interval=3,
                hyperparam_mutations={"lr": loguniform(1e-3, 1.0)},
                quantile_fraction=0.25,
                resample_probability=0.1,
                perturbation_factors=(1.5, 0.5),
            ),
        ),
        run_config=RunConfig(
            storage_path=storage,
            checkpoint_config=CheckpointConfig(num_to_keep=2),
            progress_reporter=CLIReporter(metric_columns=["epoch", "loss", "lr"], max_report_frequency=1),
        ),
    )
    return tuner.fit()


def loss_at_constant_rate(lr: float, seed: int) -> float:
    """The final loss of a training with a constant rate."""
    weights = [10.0] * len(CURVATURES)
    for epoch in range(1, EPOCHS + 1):
        descend(weights, lr, seed, epoch)
    return loss_of(weights)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example with the arguments of a command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Let a population of trainings find a learning-rate schedule.")
    parser.add_argument("--seed", type=int, default=1, help="decides the noise, the rates and who copies whom")
    parser.add_argument("--storage", metavar="DIR", help="where results go (default: ~/minitune_results)")
    options = parser.parse_args(arguments)
    grid = tune(options.seed, options.storage)
    if grid.errors:
        print(f"{len(grid.errors)} trials failed: see {grid.experiment_path}", file=sys.stderr)
        return 1
    best = grid.get_best_result()
    constant_rates = [10 ** (k / 8) for k in range(-24, 1)]
    constant, lr = min((loss_at_constant_rate(rate, options.seed), rate) for rate in constant_rates)
    print()
    rates = {row["epoch"]: row["lr"] for row in best.get_rows()}
    starts = []
    for rate, same in groupby(rates.items(), key=lambda item: item[1]):
        starts.append(f"{rate:.2g} from epoch {min(epoch for epoch, _ in same)}")
    print("Rates of the best training:", ", ".join(starts))
    print(f"Loss of the best training:  {best.metrics['loss']:.4f}")
    print(f"Best constant rate:         {constant:.4f}  (lr={lr:.2g}, the best of 25)")
    print(f"All results:                {grid.experiment_path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
