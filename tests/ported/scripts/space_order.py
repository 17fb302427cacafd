"""The configurations and their order: grids, nested grids, several samples, dependencies."""

import json
import os
import random

import ray
from ray import tune


def train_fn(config):
    return {"ok": 1}


def configs(space, **kwargs):
    results = tune.Tuner(
        train_fn,
        param_space=space,
        tune_config=tune.TuneConfig(**kwargs),
        run_config=tune.RunConfig(storage_path=os.environ["STORAGE"], verbose=0),
    ).fit()
    return [result.config for result in results]


ray.init(num_cpus=2, include_dashboard=False)
random.seed(1)
outcome = {}
outcome["two_grids"] = configs({"b": tune.grid_search([1, 2]), "a": tune.grid_search(["x", "y", "z"]), "c": "same"})
outcome["nested"] = configs(
    {
        "model": {"layers": tune.grid_search([1, 2]), "inner": {"act": tune.grid_search(["relu", "tanh"])}},
        "list": [tune.grid_search([5, 6]), 7],
        "plain": {"grid_search": ["p", "q"]},
    }
)
outcome["samples"] = configs({"a": tune.grid_search([1, 2]), "b": tune.sample_from(lambda: 3)}, num_samples=3)
outcome["dependent"] = configs(
    {
        "a": tune.grid_search([2, 3]),
        "double": tune.sample_from(lambda spec: spec.config.a * 2),
        "again": tune.sample_from(lambda spec: spec.config["double"] + 1),
        "deep": {"x": tune.sample_from(lambda spec: spec.config.a - 1), "y": 0},
    }
)
outcome["inside"] = configs(
    {"opt": tune.grid_search([{"name": "sgd", "m": tune.grid_search([0.5, 0.9])}, {"name": "adam"}])}
)
outcome["single_choice"] = configs({"a": tune.choice(["only"]), "b": tune.choice([[1, 2]]), "c": tune.choice([None])})
drawn = configs(
    {
        "u": tune.uniform(-1, 1),
        "lu": tune.loguniform(1e-4, 1e-1),
        "qu": tune.quniform(0, 1, 0.25),
        "i": tune.randint(3, 9),
        "qi": tune.qrandint(0, 20, 5),
        "li": tune.lograndint(1, 100),
        "qli": tune.qlograndint(2, 64, 2),
        "n": tune.randn(10, 0.1),
        "qn": tune.qrandn(0, 1, 0.5),
        "qlu": tune.qloguniform(0.01, 1, 0.01),
        "c": tune.choice(["a", "b"]),
    },
    num_samples=8,
)
outcome["drawn"] = {
    "u": all(-1 <= c["u"] < 1 for c in drawn),
    "lu": all(1e-4 <= c["lu"] < 1e-1 for c in drawn),
    "qu": all(c["qu"] in (0, 0.25, 0.5, 0.75, 1) for c in drawn),
    "i": all(c["i"] in range(3, 9) for c in drawn),
    "qi": all(c["qi"] in (0, 5, 10, 15, 20) for c in drawn),
    "li": all(1 <= c["li"] < 100 for c in drawn),
    "qli": all(2 <= c["qli"] <= 64 and c["qli"] % 2 == 0 for c in drawn),
    "n": all(9 < c["n"] < 11 for c in drawn),
    "qn": all(c["qn"] * 2 == int(c["qn"] * 2) for c in drawn),
    "qlu": all(0.01 <= c["qlu"] <= 1 for c in drawn),
    "c": all(c["c"] in "ab" for c in drawn),
    "different": len({c["u"] for c in drawn}),
    "keys": sorted(drawn[0]),
}
print(json.dumps(outcome))
