"""Trials that report how many threads OpenMP may use, and may have used when a module was imported."""

import probe

from minitune import RunConfig, Tuner, grid_search, with_resources


def trainable(config):
    import os

    return {"threads": [os.environ["OMP_NUM_THREADS"], probe.THREADS]}


trainable = with_resources(trainable, lambda config: {"cpu": config["cpus"]})
space = {"cpus": grid_search([0.5, 2.5, 4])}
results = Tuner(trainable, param_space=space, run_config=RunConfig(verbose=0)).fit()
print([result.metrics["threads"] for result in results])
