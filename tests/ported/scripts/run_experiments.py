"""`tune.run_experiments`: a dict of specs, an `Experiment`, a list of these; registered names."""

import json
import os

import ray
from ray import tune
from ray.tune import Experiment, register_trainable, run_experiments


def train_fn(config):
    for i in range(config.get("n", 3)):
        tune.report({"i": i, "a": config["a"]})


class Model(tune.Trainable):
    def step(self):
        return {"i": self.iteration, "a": self.config["a"]}

    def save_checkpoint(self, checkpoint_dir):
        return {}

    def load_checkpoint(self, state):
        pass


ray.init(num_cpus=2, include_dashboard=False)
storage = os.environ["STORAGE"]
register_trainable("by_name", train_fn)
register_trainable("model", Model)


def look(trials):
    return sorted([t.trainable_name, t.config["a"], t.last_result["i"], t.status] for t in trials)


first = run_experiments(
    {
        "one": {
            "run": "by_name",
            "config": {"a": tune.grid_search([1, 2]), "n": 4},
            "storage_path": storage,
            "resources_per_trial": {"cpu": 1},
        },
        "two": {"run": "model", "config": {"a": 3}, "stop": {"training_iteration": 2}, "storage_path": storage},
    },
    verbose=0,
)
experiment = Experiment("three", train_fn, config={"a": tune.grid_search([5, 6])}, num_samples=2, storage_path=storage)
second = run_experiments(experiment, verbose=0)
third = run_experiments(
    [
        Experiment(name="four", run=Model, stop={"training_iteration": 3}, config={"a": 1}, storage_path=storage),
        Experiment.from_json("five", {"run": "by_name", "config": {"a": 0}, "storage_path": storage}),
    ],
    concurrent=False,
    verbose=0,
)
by_run = tune.run(Experiment("six", "model", stop={"training_iteration": 1}, config={"a": 9}, storage_path=storage))
tuner = tune.Tuner("by_name", param_space={"a": 1}, run_config=tune.RunConfig(storage_path=storage, verbose=0)).fit()
print(
    json.dumps(
        {
            "first": look(first),
            "second": look(second),
            "third": look(third),
            "by_run": look(by_run.trials),
            "tuner": [r.metrics["i"] for r in tuner],
            "spec": sorted(experiment.public_spec),
            "path": os.path.basename(experiment.path),
            "directories": sorted(n for n in os.listdir(storage) if not n.startswith("by_name")),
        }
    )
)
