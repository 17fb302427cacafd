"""`ray.put` and `ray.get`: an object in the space, in a closure, in a trial; the return value of `ray.init`."""

import json
import os

import ray
from ray import tune

STORAGE = os.environ["STORAGE"]
if not ray.is_initialized():
    ray.init(num_cpus=2, include_dashboard=False, ignore_reinit_error=True, logging_level="ERROR", local_mode=False)
ray.init(ignore_reinit_error=True)
outcome = {"initialized": ray.is_initialized(), "cpus": ray.cluster_resources()["CPU"]}
try:
    ray.init(num_cpus=2)
    outcome["twice"] = "fine"
except RuntimeError:
    outcome["twice"] = "RuntimeError"

data = {"train": list(range(100)), "label": "data"}
data_ref = ray.put(data)


def by_closure(config):
    tune.report({"sum": sum(ray.get(data_ref)["train"]) * config["x"]})


def by_config(config):
    value = config["data"]
    if not isinstance(value, dict):
        value = ray.get(value)
    tune.report({"sum": sum(value["train"]) * config["x"], "in_trial": ray.get(ray.put([1, 2]))})


outcome["get"] = [ray.get(data_ref) == data, ray.get([ray.put(1), ray.put("b")])]
for name, fn, extra in (("closure", by_closure, {}), ("config", by_config, {"data": data_ref})):
    results = tune.Tuner(
        fn,
        param_space={"x": tune.grid_search([1, 2]), **extra},
        run_config=tune.RunConfig(storage_path=STORAGE, verbose=0),
    ).fit()
    outcome[name] = [[r.metrics.get("sum"), r.metrics.get("in_trial"), str(r.error)] for r in results]
ray.shutdown()
outcome["after"] = ray.is_initialized()
ray.init(num_cpus=1, include_dashboard=False)
outcome["again"] = ray.cluster_resources()["CPU"]
ray.shutdown()
print(json.dumps(outcome))
