"""Runs within runs: five deep, or (`daemonic`) in a daemonic process of multiprocessing."""

import multiprocessing
import os
import sys

from script_kit import hurry

from minitune import RunConfig, TuneError, Tuner

hurry()


def nest(config):
    if config["levels"]:
        results = fit(config["levels"] - 1)
        if results.errors:
            raise results.errors[0]
        return {"y": 1 + results[0].metrics["y"]}
    return {"y": 1}


def fit(levels):
    run = RunConfig(name=f"level-{levels}-{os.getpid()}", verbose=0)
    return Tuner(nest, param_space={"levels": levels}, run_config=run).fit()


def child(queue):
    queue.put(fit(1)[0].metrics["y"])


def too_deep():
    error = fit(5)[0].error
    print(isinstance(error, TuneError), error)


def daemonic():
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,), daemon=True)
        process.start()
        print(queue.get(timeout=30))
        process.join()


if __name__ == "__main__":
    {"too_deep": too_deep, "daemonic": daemonic}[sys.argv[1]]()
