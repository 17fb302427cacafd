"""Each trial uses something of the script in one way, and reports whether that works as in the script itself."""

from __future__ import annotations

import atexit
import concurrent.futures
import dataclasses
import functools
import multiprocessing
import os
import sys
import typing

import settings_of_script

import minitune as tune
from minitune import RunConfig, TuneConfig, Tuner

Rows = typing.NewType("Rows", int)


@functools.lru_cache(maxsize=3)
def cached(n):
    return n + helper()


def helper():
    return 1


class Data:
    @staticmethod
    @functools.cache
    def load(n):
        return n + 1


@dataclasses.dataclass
class Layer:
    size: typing.Optional[Rows]  # noqa: UP045 - the name must be known
    inner: Model | None = None


@dataclasses.dataclass
class Model:
    layer: Layer


def square(x):
    return x * x


def uses_pools():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        squares = pool.map(square, [3])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        squares += pool.map(square, [4])
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        return squares + list(pool.map(square, [5]))


def hints():
    inner = typing.get_type_hints(typing.get_type_hints(Model)["layer"])
    return inner["inner"] == typing.Optional[Model] and inner["size"] == typing.Optional[Rows]  # noqa: UP045


CASES = {
    "lru_cache": lambda: (cached(2), cached.cache_parameters()["maxsize"]) == (3, 3),
    "cache of a static method": lambda: Data.load(2) == 3,
    "NewType": lambda: Rows(3) == 3 and Rows.__supertype__ is int,
    "hints": hints,
    "pools": lambda: uses_pools() == [9, 16, 25],
    "arguments": lambda: sys.argv[1:] == ["--epochs", "7"],
    "arguments at an import": lambda: settings_of_script.epochs == 7,
    "the script's file": lambda: os.path.samefile(sys.modules["__main__"].__file__, __file__),
}


def train(config):
    return {"works": CASES[config["case"]]()}


def closes(config):
    path = os.path.join(os.environ["HERE"], f"closed-{config['case']}")
    atexit.register(lambda: open(path, "w").close())
    atexit.register(lambda: 1 / 0)
    return {"works": True}


if __name__ == "__main__":
    for kind in ({}, {"reuse_actors": True}):
        for trainable in (train, closes):
            space = {"case": tune.grid_search(list(CASES))}
            for result in Tuner(
                trainable, param_space=space, tune_config=TuneConfig(**kind), run_config=RunConfig(verbose=0)
            ).fit():
                if not result.metrics.get("works"):
                    print("FAILS", kind, trainable.__name__, result.config["case"], result.error)
    for module in ("settings_of_script", "starts_a_run"):
        [result] = Tuner(__import__(module).train, run_config=RunConfig(verbose=0)).fit()
        print(module, result.metrics.get("epochs"), str(result.error).count('if __name__ == "__main__":'))
    print("closed", sum(name.startswith("closed-") for name in os.listdir(os.environ["HERE"])) == len(CASES))
