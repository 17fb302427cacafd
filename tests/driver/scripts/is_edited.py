"""A run that `--cut` kills, and that tests edit before they resume it."""

import os
import sys

from minitune import RunConfig, TuneConfig, Tuner, grid_search, report


def train(config):
    if "--cut" in sys.argv and config["x"] == 1:
        os.kill(os.getpid(), 9)
    report({"loss": config["x"]})


Tuner(
    train,
    param_space={"x": grid_search([0, 1])},
    tune_config=TuneConfig(metric="loss", mode="min", executor="inline", max_concurrent_trials=1),
    run_config=RunConfig(storage_path=os.environ["MINITUNE_STORAGE_PATH"], verbose=0),
).fit()
