"""Resources that change while trials run, for functions and classes."""

import json
import os
import tempfile

import ray
from ray import tune
from ray.tune import Checkpoint, PlacementGroupFactory
from ray.tune.schedulers import ASHAScheduler, ResourceChangingScheduler
from ray.tune.schedulers.resource_changing_scheduler import DistributeResources, DistributeResourcesToTopJob

STORAGE = os.environ["STORAGE"]


def train_fn(config):
    start = 0
    if tune.get_checkpoint():
        with tune.get_checkpoint().as_directory() as d:
            start = int(open(os.path.join(d, "n")).read())
    for n in range(start + 1, 11):
        cpus = tune.get_context().get_trial_resources().required_resources["CPU"]
        with tempfile.TemporaryDirectory() as d:
            open(os.path.join(d, "n"), "w").write(str(n))
            tune.report({"n": n, "cpus": cpus}, checkpoint=Checkpoint.from_directory(d))


class Model(tune.Trainable):
    def setup(self, config):
        self.n = 0

    def step(self):
        self.n += 1
        return {"n": self.n, "cpus": self.trial_resources.required_resources["CPU"], "done": self.n == 10}

    def save_checkpoint(self, d):
        return {"n": self.n}

    def load_checkpoint(self, state):
        self.n = state["n"]


def allocate(tune_controller, trial, result, scheduler):
    base = scheduler.base_trial_resources
    if result["training_iteration"] < 3:
        return None
    return PlacementGroupFactory([{"CPU": base.required_resources["CPU"] * 2, "GPU": 0}])


def go(trainable, function, **kwargs):
    scheduler = ResourceChangingScheduler(
        base_scheduler=ASHAScheduler(max_t=16, grace_period=16), resources_allocation_function=function
    )
    (result,) = tune.Tuner(
        tune.with_resources(trainable, PlacementGroupFactory([{"CPU": 1, "GPU": 0}])),
        run_config=tune.RunConfig(storage_path=STORAGE, verbose=0),
        tune_config=tune.TuneConfig(metric="n", mode="max", num_samples=1, scheduler=scheduler, **kwargs),
        param_space={"lr": 0.1},
    ).fit()
    rows = [json.loads(line) for line in open(os.path.join(result.path, "result.json"))]
    return {"cpus": [row["cpus"] for row in rows], "n": [row["n"] for row in rows], "error": result.error is not None}


ray.init(num_cpus=4)
print(
    json.dumps(
        {
            "own": go(train_fn, allocate),
            "own_class": go(Model, allocate),
            "distribute": go(train_fn, DistributeResources()),
            "distribute_class": go(Model, DistributeResources(increase_by={"CPU": 1}, increase_by_times=2)),
            "bundles": go(train_fn, DistributeResources(add_bundles=True)),
            "top": go(Model, DistributeResourcesToTopJob(reserve_resources={"CPU": 1})),
        }
    )
)
