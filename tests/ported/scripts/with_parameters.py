"""Large objects with `with_parameters`, resources with `with_resources`, in both orders, for functions and classes."""

import json
import os

import ray
from ray import tune

STORAGE = os.environ["STORAGE"]


def train_fn(config, data=None, names=()):
    tune.report({"sum": sum(data) * config["x"], "names": list(names), "cpus": cpus()})


def cpus():
    return tune.get_context().get_trial_resources().required_resources


class Model(tune.Trainable):
    def setup(self, config, data=None, scale=1):
        self.data = data
        self.scale = scale

    def step(self):
        return {"sum": sum(self.data) * self.scale * self.config["x"], "done": True}

    def save_checkpoint(self, checkpoint_dir):
        return {}

    def load_checkpoint(self, state):
        pass


def go(trainable):
    results = tune.Tuner(
        trainable,
        param_space={"x": tune.grid_search([1, 2])},
        run_config=tune.RunConfig(storage_path=STORAGE, verbose=0),
    ).fit()
    return [[r.metrics.get(k) for k in ("sum", "names", "cpus")] for r in results], results.num_errors


ray.init(num_cpus=2, include_dashboard=False)
data = list(range(1000))
trainables = {
    "function": tune.with_parameters(train_fn, data=data),
    "two": tune.with_parameters(train_fn, data=data, names=["a", "b"]),
    "class": tune.with_parameters(Model, data=data, scale=2),
    "resources_inside": tune.with_parameters(tune.with_resources(train_fn, {"cpu": 2}), data=data),
    "resources_outside": tune.with_resources(tune.with_parameters(train_fn, data=data), {"cpu": 2}),
    "class_resources": tune.with_resources(tune.with_parameters(Model, data=data), {"cpu": 2}),
    "lambda": tune.with_parameters(lambda config, data: {"sum": len(data) + config["x"]}, data=data),
}
outcome = {name: go(trainable) for name, trainable in trainables.items()}
outcome["names"] = [trainables[name].__name__ for name in ("function", "class")]
try:
    tune.with_parameters("not a trainable", data=data)
except ValueError:
    outcome["wrong"] = "ValueError"
print(json.dumps(outcome))
