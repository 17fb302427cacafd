"""A run that has no end but its budget's."""

import os
import sys
import time

from minitune import RunConfig, TuneConfig, Tuner, report

# The budget is counted from the start of this script, and the imports may take long on a busy machine.
assert 0 < float(os.environ["MINITUNE_END_AT"]) - time.time() <= 60
os.environ["MINITUNE_END_AT"] = repr(time.time() + 0.5)


def train(config):
    while True:
        report({"loss": 1})


Tuner(
    train,
    tune_config=TuneConfig(num_samples=3, metric="loss", mode="min", executor="inline"),
    run_config=RunConfig(name="long", storage_path=sys.argv[1], verbose=0),
).fit()
