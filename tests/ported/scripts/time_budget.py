"""A time budget ends an endless search; all reported results are there."""

import datetime
import json
import os
import time

import ray
from ray import tune


def train_fn(config):
    while True:
        time.sleep(0.05)
        tune.report({"x": config["x"]})


def short(config):
    time.sleep(0.05)
    return {"x": config["x"]}


ray.init(num_cpus=2, include_dashboard=False)


def go(trainable, budget, **kwargs):
    return tune.Tuner(
        trainable,
        param_space={"x": tune.uniform(1, 2)},
        tune_config=tune.TuneConfig(time_budget_s=budget, metric="x", mode="max", **kwargs),
        run_config=tune.RunConfig(storage_path=os.environ["STORAGE"], verbose=0),
    ).fit()


endless = go(train_fn, 4, num_samples=2)
many = go(short, datetime.timedelta(seconds=4), num_samples=-1)
print(
    json.dumps(
        {
            "endless": [1 <= r.metrics["x"] < 2 for r in endless],
            "errors": endless.num_errors + many.num_errors,
            "terminated": [endless.num_terminated, len(many) == many.num_terminated, len(many) > 2],
            "best": 1 <= many.get_best_result().config["x"] < 2,
        }
    )
)
