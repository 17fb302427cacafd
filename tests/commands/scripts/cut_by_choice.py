"""A run that `--cut` kills, with a space that depends on the other arguments."""

import os
import sys

from minitune import RunConfig, TuneConfig, Tuner, grid_search, report, sample_from, uniform

HIGH, EXTRA, CUT = float(sys.argv[1]), sys.argv[2:3], "--cut" in sys.argv


def train(config):
    if CUT and config["i"] == 1:
        os.kill(os.getpid(), 9)
    report({"x": config["x"]})


space = {"i": grid_search([0, 1, 2]), "x": uniform(0, HIGH), "f": sample_from(lambda: HIGH)}
if EXTRA == ["more"]:
    space["wd"] = 0.5
grid = Tuner(
    train,
    param_space=space,
    tune_config=TuneConfig(executor="inline", max_concurrent_trials=1),
    run_config=RunConfig(storage_path=os.environ["MINITUNE_STORAGE_PATH"], verbose=0),
).fit()
print(len(grid), max(result.metrics["x"] for result in grid) <= 1)
