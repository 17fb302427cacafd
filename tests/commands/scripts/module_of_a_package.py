"""A module of a package that is started as a script. Its package is made by the test."""

import minitune as tune

from .data import N


def train(config):
    tune.report({"n": N})


if __name__ == "__main__":
    grid = tune.Tuner(train, run_config=tune.RunConfig(name="run", verbose=0)).fit()
    print("GOT", [result.metrics["n"] for result in grid])
