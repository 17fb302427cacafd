"""A run that lives until there is a file `go`."""

import os
import time

from minitune import RunConfig, Tuner, report


def train(config):
    print("begun", flush=True)
    report({"loss": 1})
    while not os.path.exists(config["go"]):
        time.sleep(0.01)
    print("done")


run = RunConfig(name="live", storage_path=os.environ["MINITUNE_STORAGE_PATH"], verbose=0)
Tuner(train, param_space={"go": os.path.abspath("go")}, run_config=run).fit()
