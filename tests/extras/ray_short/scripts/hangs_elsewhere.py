"""A run on a cluster whose trial hangs, on a node that seems to share no directory with the driver."""

import pathlib
import sys
import time

import minitune as tune
from minitune.ray.cluster import executor as ray_executor

ray_executor.new_landmark = lambda directory: "/elsewhere/.node-of-the-killed"


begun = pathlib.Path(sys.argv[1])  # here: a trial on Ray has other arguments


def hanging(config):
    begun.touch()
    time.sleep(600)


tune.Tuner(
    hanging,
    tune_config=tune.TuneConfig(executor="ray"),
    run_config=tune.RunConfig(storage_path=sys.argv[2], verbose=0),
).fit()
