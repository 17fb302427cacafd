"""Fits the trainables that the first argument names, and prints what each run has come to."""

import os
import sys

import slow  # noqa: F401  # the driver imports it, too

import minitune as tune

if "fresh" in os.environ["KIND"]:
    os.environ["MINITUNE_START_METHOD"] = "interpreter"


def fit_each(names):
    """Print, for each of them, its values, its errors, and how many others than the driver have imported `slow`."""
    counted = 1  # by this process
    for trainable in eval(f"[{sys.argv[1]}]", names):
        run = tune.RunConfig(storage_path=os.environ["STORAGE"], verbose=0)
        space = {"i": tune.grid_search([1, 2, 3, 4])}
        grid = tune.Tuner(trainable, param_space=space, run_config=run).fit()
        with open(os.environ["IMPORTS"]) as file:
            total = len(file.readlines())
        values, errors = [result.metrics.get("x") for result in grid], {type(error).__name__ for error in grid.errors}
        print(values, errors, total - counted)
        counted = total
