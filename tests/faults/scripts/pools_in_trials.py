"""Trials that start pools of processes, or a run."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from script_kit import fit, hurry, show

from minitune import RunConfig, Tuner, grid_search

hurry()


def square(x):
    return x * x


def inner(config):
    return {"y": square(config["x"])}


def trainable(config):
    if config["x"] == "pool":
        with multiprocessing.Pool(2) as pool:
            y = pool.map(square, range(4))
    elif config["x"] == "executor":
        with ProcessPoolExecutor(2) as pool:
            y = list(pool.map(square, range(4)))
    elif config["x"] == "spawn":
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            y = pool.map(abs, range(-3, 1))
    else:
        space = {"x": grid_search([0, 1, 2, 3])}
        results = Tuner(inner, param_space=space, run_config=RunConfig(name="inner", verbose=0)).fit()
        y = [result.metrics["y"] for result in results]
    return {"y": y}


if __name__ == "__main__":  # a child that is spawned imports this script
    show(fit(trainable, ["pool", "executor", "spawn", "run"]))
