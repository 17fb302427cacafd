"""Trials that give back what they hold, before one that needs it all and one that never fits."""

import os
import signal

from script_kit import hurry

from minitune import RunConfig, Tuner, grid_search, with_resources

hurry()


def trainable(config):
    if config["cpus"] == 8:
        os.kill(os.getpid(), signal.SIGKILL)
    if config["cpus"] == 4:
        raise ValueError("on purpose")
    return {"cpus": config["cpus"]}


trainable = with_resources(trainable, lambda config: {"cpu": config["cpus"]})
space = {"cpus": grid_search([4, 8, 2, 32])}
results = Tuner(trainable, param_space=space, run_config=RunConfig(verbose=0)).fit()
print([result.metrics.get("cpus") for result in results])
