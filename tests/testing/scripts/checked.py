"""A run for `minitune ci`, whose trials fail above a rate."""

import sys

from minitune import RunConfig, TuneConfig, Tuner, report, uniform


def train(config):
    report({"eval": {"accuracy": 1 - config["lr"]}, "loss": config["lr"]})
    if config["lr"] > float(sys.argv[1]):
        raise ValueError("too large")


Tuner(
    train,
    param_space={"lr": uniform(0, 1)},
    tune_config=TuneConfig(num_samples=50, metric="loss", mode="min", seed=1, executor="inline"),
    run_config=RunConfig(storage_path=sys.argv[2], verbose=0),
).fit()
