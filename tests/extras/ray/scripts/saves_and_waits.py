"""A run on a cluster whose trial reports once, and waits. With a second argument, the cluster is its own."""

import pathlib
import sys
import time

import minitune as tune

if sys.argv[2:]:
    import ray

    ray.init(address="local", num_cpus=1, include_dashboard=False)


def counting(config):
    pathlib.Path("saved").mkdir()
    pathlib.Path("saved/n").write_text("2")
    tune.report({"n": 2}, checkpoint=tune.Checkpoint("saved"))
    pathlib.Path("reported").touch()
    time.sleep(600)


tune.Tuner(
    counting,
    tune_config=tune.TuneConfig(executor="ray"),
    run_config=tune.RunConfig(storage_path=sys.argv[1], name="run", verbose=0),
).fit()
