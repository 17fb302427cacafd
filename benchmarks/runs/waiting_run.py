"""A script as users write it, for `waiting.py`: makes a run of many short trials, or continues it.

python waiting_run.py DIRECTORY TRIALS REPORTS            # makes the run in DIRECTORY
python waiting_run.py DIRECTORY TRIALS REPORTS resume     # continues it
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import minitune as tune


def train(config: dict[str, Any]) -> None:
    """Reports a curve."""
    for step in range(config["reports"]):
        tune.report({"loss": config["x"] / (step + 1), "accuracy": 1 - config["x"], "eval": {"seen": step}})


def main() -> None:
    """Make or continue the run. The trials run in this process, one after the other."""
    path = Path(sys.argv[1])
    trials, reports = map(int, sys.argv[2:4])
    os.environ["MINITUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"  # the files of loggers are no part of a wait
    if sys.argv[4:] == ["resume"]:
        tune.Tuner.restore(str(path), train).fit()
        return
    tune.Tuner(
        train,
        param_space={
            "x": tune.uniform(0, 1),
            "lr": tune.loguniform(1e-4, 1),
            "kind": tune.choice(["a", "b"]),
            "reports": reports,
        },
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", num_samples=trials, executor="inline", max_concurrent_trials=4, seed=1
        ),
        run_config=tune.RunConfig(storage_path=str(path.parent), name=path.name, verbose=0, callbacks=[]),
    ).fit()


if __name__ == "__main__":
    main()
