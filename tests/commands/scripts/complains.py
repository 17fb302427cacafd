"""A run with a trial that fails in a module of the user's, or stops at a breakpoint before."""

import os
import random

from module_of_mine import complain

from minitune import RunConfig, Tuner, grid_search, report


class Model:
    weight = 3


def train(config):
    model, hidden = Model(), random.random()
    report({"loss": config["x"], "hidden": hidden})
    if config["x"]:
        breakpoint() if "BREAK" in os.environ else None
        complain(model.weight)


if __name__ == "__main__":
    run = RunConfig(name="bad", storage_path=os.environ["MINITUNE_STORAGE_PATH"], verbose=0)
    Tuner(train, param_space={"x": grid_search([0, 1])}, run_config=run).fit()
