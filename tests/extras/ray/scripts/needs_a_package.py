"""A trial that imports a package which Ray ships."""

import sys

import ray

import minitune as tune

ray.init(runtime_env={"py_modules": [sys.argv[2]]}, log_to_driver=False, logging_level="ERROR")


def train(config):
    import far_away

    return {"value": far_away.value}


(result,) = tune.Tuner(
    train,
    tune_config=tune.TuneConfig(executor="ray"),
    run_config=tune.RunConfig(storage_path=sys.argv[1], verbose=0),
).fit()
print(result.metrics["value"])
