"""`reuse_actors`: a class with `reset_config` is set up once; a function continues in the same process."""

import json
import os

import ray
from ray import tune


class Resettable(tune.Trainable):
    def setup(self, config):
        self.setups = 1
        self.resets = 0
        self.x = config["x"]

    def step(self):
        return {"x": self.x, "resets": self.resets, "setups": self.setups, "it": self.training_iteration}

    def reset_config(self, new_config):
        self.resets += 1
        self.x = new_config["x"]
        return True

    def save_checkpoint(self, checkpoint_dir):
        return {"x": self.x}

    def load_checkpoint(self, state):
        self.x = state["x"]


def train_fn(config):
    for i in range(2):
        tune.report({"pid_of_trial": os.getpid(), "i": i, "x": config["x"], "dir": os.path.basename(os.getcwd())})


ray.init(num_cpus=1, include_dashboard=False)


def go(trainable, reuse):
    return tune.Tuner(
        trainable,
        param_space={"x": tune.grid_search([1, 2, 3])},
        tune_config=tune.TuneConfig(reuse_actors=reuse, max_concurrent_trials=1),
        run_config=tune.RunConfig(storage_path=os.environ["STORAGE"], stop={"training_iteration": 2}, verbose=0),
    ).fit()


keys = ("x", "setups", "it", "training_iteration")
reused, fresh = go(Resettable, True), go(Resettable, False)
functions, fresh_functions = go(train_fn, True), go(train_fn, False)
print(
    json.dumps(
        {
            "reused": [[r.metrics[k] for k in keys] for r in reused],
            "resets_grow": sorted(r.metrics["resets"] for r in reused),
            "fresh": [[r.metrics[k] for k in (*keys, "resets")] for r in fresh],
            "processes": len({r.metrics["pid_of_trial"] for r in functions}),
            "fresh_processes": len({r.metrics["pid_of_trial"] for r in fresh_functions}),
            "dirs": len({r.metrics["dir"] for r in functions}),
            "functions": [[r.metrics["x"], r.metrics["i"], r.metrics["training_iteration"]] for r in functions],
        }
    )
)
