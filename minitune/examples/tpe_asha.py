"""A searcher that learns and a scheduler that stops early, together: `python -m minitune.examples.tpe_asha`.

TPE draws its first 10 configurations at random. After that, it suggests configurations that resemble the best ones.
ASHA gives 3 epochs to each trial, and more to the best ones. So every trial has a loss after 3 epochs, and the example
compares these losses of the first 10 trials and of the others. The network and the data are those of the quickstart.
Compare with `--search random`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from statistics import median

from minitune import ASHAScheduler, CLIReporter, ResultGrid, RunConfig, TuneConfig, Tuner, choice, loguniform
from minitune.examples.quickstart import MAX_EPOCHS, train_iris

LEAST_EPOCHS = 3
AT_RANDOM = 10
"""How many configurations TPE draws at random: its `n_initial_points`."""


def tune(search: str, seed: int, samples: int, storage: str | None) -> ResultGrid:
    """Try `samples` configurations. Blocks until all are done."""
    tuner = Tuner(
        train_iris,
        param_space={
            "lr": loguniform(1e-3, 1.0),
            "l2": loguniform(1e-5, 1e-1),
            "units": choice([2, 4, 8, 16]),
            "batch": choice([4, 8, 16]),
            "seed": seed,
        },
        tune_config=TuneConfig(
            metric="loss",
            mode="min",
            num_samples=samples,
            seed=seed,
            search_alg=search,
            scheduler=ASHAScheduler(max_t=MAX_EPOCHS, grace_period=LEAST_EPOCHS, reduction_factor=3),
        ),
        run_config=RunConfig(
            storage_path=storage,
            progress_reporter=CLIReporter(
                metric_columns=["training_iteration", "loss", "accuracy"],
                max_report_frequency=1,
                max_progress_rows=5,
                sort_by_metric=True,
            ),
        ),
    )
    return tuner.fit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example with the arguments of a command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Tune with TPE and ASHA together.")
    parser.add_argument("--search", default="tpe", choices=("tpe", "random"), help="what proposes (default: tpe)")
    parser.add_argument("--seed", type=int, default=1, help="decides the split, the weights and the configurations")
    parser.add_argument("--samples", type=int, default=40, help="how many configurations to try (default: 40)")
    parser.add_argument("--storage", metavar="DIR", help="where results go (default: ~/minitune_results)")
    options = parser.parse_args(arguments)
    if options.samples < 2:
        parser.error(f"expected --samples >= 2, but got {options.samples}")
    grid = tune(options.search, options.seed, options.samples, options.storage)
    if grid.errors:
        print(f"{len(grid.errors)} trials failed: see {grid.experiment_path}", file=sys.stderr)
        return 1
    best = grid.get_best_result()
    losses = [result.get_rows()[LEAST_EPOCHS - 1]["loss"] for result in grid]
    epochs = sum(result.metrics["training_iteration"] for result in grid)
    print()
    print("Best configuration:       ", ", ".join(f"{k}={v:.3g}" for k, v in best.config.items() if k != "seed"))
    print(f"Best loss:                 {best.metrics['loss']:.4f}")
    first, others = losses[:AT_RANDOM], losses[AT_RANDOM:]
    print(f"Median after {LEAST_EPOCHS} epochs:     {median(first):.4f} of the first {len(first)} trials", end="")
    print(f", {median(others):.4f} of the others" if others else "")
    print(f"Epochs:                    {epochs} of {len(grid) * MAX_EPOCHS}")
    print(f"All results:               {grid.experiment_path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
