"""A training as a test, for CI: `pytest --pyargs minitune.examples.ci_smoke`, or without pytest by `python -m`.

`smoke` runs a short tuning. It fails, with the training's own traceback, if a trial fails or leaves something behind.
`assert_best` compares the best value with a target. In your own suite, the fixture `minitune_smoke` does the same
without an import. The training and the data are those of the quickstart.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minitune import ASHAScheduler, choice, loguniform
from minitune.examples.quickstart import train_iris
from minitune.testing import assert_best, smoke

SPACE = {"lr": loguniform(1e-2, 1.0), "l2": 1e-4, "units": choice([4, 8]), "batch": 16, "seed": 1}


def test_the_training_runs() -> None:
    """A few epochs of two configurations, in this process: with `--pdb`, the debugger stops where it fails."""
    smoke(train_iris, SPACE, stop={"training_iteration": 3})


def test_the_training_runs_in_processes_and_is_good_enough() -> None:
    """Run trials in processes, with a scheduler. The best network must recognise most flowers."""
    grid = smoke(
        train_iris,
        SPACE,
        metric="loss",
        mode="min",
        num_samples=6,
        budget_s=30,
        executor="local",
        scheduler=ASHAScheduler(max_t=30, grace_period=3),
    )
    assert_best(grid, "accuracy", at_least=0.8, mode="max", scope="all")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests without pytest; returns the exit status."""
    for test in (test_the_training_runs, test_the_training_runs_in_processes_and_is_good_enough):
        test()
        print(f"{test.__name__}: passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
