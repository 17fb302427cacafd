"""Trials look whether the values of their configurations are words of a command line."""

import json

import psutil
from script_kit import hurry

from minitune import RunConfig, Tuner, get_context, grid_search

hurry()


def trainable(config):
    family = [psutil.Process(), *psutil.Process().parents()[:2]]
    words = [word for process in family for word in process.cmdline() if len(word) > 1]
    with open(get_context().get_trial_name() + ".txt", "x"):
        return {"y": config["a/../b"], "is_seen": any(config["a/../b"] in word for word in words)}


with open("values.json") as file:
    space = {"a/../b": grid_search(json.load(file)), "--key\n": 1}
results = Tuner(trainable, param_space=space, run_config=RunConfig(name="run", verbose=0)).fit()
assert not results.errors, results.errors
print(json.dumps([[r.metrics["y"], r.metrics["is_seen"]] for r in results]))
