"""A run whose driver is killed at the second trial, once."""

import os
import sys
from pathlib import Path

from minitune import RunConfig, TuneConfig, Tuner, grid_search, report


def train(config):
    if config["x"] == 2 and not os.path.exists("again"):
        Path("again").touch()
        os.kill(os.getpid(), 9)
    report({"x": config["x"], "pid": os.getpid()})


tuner = Tuner(
    train,
    param_space={"x": grid_search([1, 2, 3])},
    tune_config=TuneConfig(executor="inline", max_concurrent_trials=1),
    run_config=RunConfig(storage_path=os.environ["MINITUNE_STORAGE_PATH"], verbose=0),
)
grid = tuner.fit()
print(sys.argv[1:], [result.metrics["x"] for result in grid], len({result.metrics["pid"] for result in grid}))
