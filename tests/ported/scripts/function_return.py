"""Functions that return instead of reporting; lambdas, partials and callable objects."""

import functools
import json
import os

import ray
from ray import tune

ray.init(num_cpus=2, include_dashboard=False)
run_config = tune.RunConfig(storage_path=os.environ["STORAGE"], verbose=0)


def returns_number(config):
    return config["x"] * 2


def returns_dict(config):
    return {"score": config["x"] ** 2, "deep": {"er": config["x"]}}


def reports_then_returns(config):
    for i in range(2):
        tune.report({"score": i})
    return {"score": 100 + config["x"]}


def with_extra(config, offset):
    return {"score": config["x"] + offset}


class Objective:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, config):
        return {"score": self.factor * config["x"]}

    def method(self, config):
        return {"score": -self.factor * config["x"]}


def returns_nothing(config):
    print("nothing")


def look(trainable):
    grid = tune.Tuner(trainable, param_space={"x": tune.grid_search([1, 2, 3])}, run_config=run_config).fit()
    seen = []
    for result in grid:
        keys = ("_metric", "score", "deep", "training_iteration", "done")
        seen.append({key: result.metrics[key] for key in keys if key in result.metrics})
    return seen


outcome = {
    "number": look(returns_number),
    "dict": look(returns_dict),
    "both": look(reports_then_returns),
    "lambda": look(lambda config: {"score": config["x"] - 1.5}),
    "partial": look(functools.partial(with_extra, offset=7)),
    "callable": look(Objective(3)),
    "bound": look(Objective(3).method),
    "nothing": [sorted(seen) for seen in look(returns_nothing)],
}
print(json.dumps(outcome))
