"""Trials that fail: the information about them afterwards, and the values of `fail_fast`."""

import json
import os

import ray
from ray import tune
from ray.tune import FailureConfig, RunConfig, TuneConfig, Tuner


class OwnError(Exception):
    def __init__(self, code):
        super().__init__(f"own error with code {code}")
        self.code = code


def train_fn(config):
    for i in range(3):
        tune.report({"i": i})
        if i == 1 and config["x"] == 1:
            raise OwnError(17)
        if i == 0 and config["x"] == 2:
            raise KeyError("missing")


class Breaks(tune.Trainable):
    def setup(self, config):
        if config["where"] == "setup":
            raise ValueError("in setup")

    def step(self):
        if self.config["where"] == "step":
            raise ArithmeticError("in step")
        if self.config["where"] == "nothing":
            return None
        return {"done": True}

    def save_checkpoint(self, checkpoint_dir):
        if self.config["where"] == "save":
            raise OSError("in save")

    def load_checkpoint(self, state):
        pass


def go(trainable, space, failure_config=None, **kwargs):
    return Tuner(
        trainable,
        param_space=space,
        tune_config=TuneConfig(max_concurrent_trials=1, **kwargs),
        run_config=RunConfig(storage_path=os.environ["STORAGE"], verbose=0, failure_config=failure_config),
    ).fit()


ray.init(num_cpus=1, include_dashboard=False)
grid = {"x": tune.grid_search([0, 1, 2, 3])}
results = go(train_fn, grid, metric="i", mode="max")
outcome = {
    "num": [len(results), results.num_errors, results.num_terminated, len(results.errors)],
    "types": [
        r.error is None
        or [isinstance(r.error, OwnError), isinstance(r.error, KeyError), isinstance(r.error, Exception)]
        for r in results
    ],
    "texts": ["own error with code 17" in str(results[1].error), "missing" in str(results[2].error)],
    "trace": "in train_fn" in str(results[1].error),
    "i": [r.metrics["i"] for r in results],
    "best": results.get_best_result().config["x"],
    "files": [[n for n in ("error.txt", "error.pkl") if os.path.exists(os.path.join(r.path, n))] for r in results],
}
classes = go(Breaks, {"where": tune.grid_search(["setup", "step", "save", "fine"])})
outcome["classes"] = [
    None if r.error is None else [e for e in (ValueError, ArithmeticError, OSError) if isinstance(r.error, e)][:1] != []
    for r in list(classes)[1:]  # in setup it may be another class
]
outcome["class_texts"] = [
    [text for text in ("in setup", "in step", "in save") if text in str(r.error)] for r in classes
]
fast = go(train_fn, grid, FailureConfig(fail_fast=True))
outcome["fast"] = [fast.num_errors, len(fast.errors), fast[0].metrics["i"], fast[1].metrics["i"]]
try:
    go(train_fn, grid, FailureConfig(fail_fast="raise"))
    outcome["raise"] = "nothing"
except Exception as error:
    outcome["raise"] = [isinstance(error, OwnError), "own error with code 17" in str(error)]
tries = go(train_fn, {"x": tune.grid_search([2, 0])}, FailureConfig(max_failures=2))
outcome["tries"] = sorted(r.metrics["i"] for r in tries)
failed = [r for r in tries if r.error][0]
with open(os.path.join(failed.path, "error.txt")) as f:
    text = f.read()
outcome["failures_written"] = [f"Failure # {n}" in text for n in (1, 2, 3, 4)]
print(json.dumps(outcome))
