"""A trial that reads address 0."""

import ctypes
import os

from minitune import RunConfig, Tuner


def train(config):
    ctypes.string_at(0)


run = RunConfig(name="crash", storage_path=os.environ["MINITUNE_STORAGE_PATH"], verbose=0)
print(Tuner(train, run_config=run).fit()[0].error)
