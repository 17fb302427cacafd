"""A run whose trials need the first argument of the script."""

import sys

from minitune import RunConfig, TuneConfig, Tuner, report


def train(config):
    report({"total": int(sys.argv[1]) + config["x"]})


Tuner(
    train,
    param_space={"x": 1},
    tune_config=TuneConfig(executor="inline"),
    run_config=RunConfig(name="argued", storage_path=sys.argv[2], verbose=0),
).fit()
