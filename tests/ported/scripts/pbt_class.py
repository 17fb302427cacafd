"""Population based training of a class with `reset_config`, and synchronous turns."""

import json
import os
import random

import ray
from ray import tune
from ray.tune.schedulers import PopulationBasedTraining

STORAGE = os.environ["STORAGE"]


class PBTBenchmarkExample(tune.Trainable):
    def setup(self, config):
        self.lr = config["lr"]
        self.accuracy = 0.0
        self.history = []

    def step(self):
        self.accuracy += self.lr
        self.history.append(self.lr)
        return {"mean_accuracy": self.accuracy, "cur_lr": self.lr, "history": list(self.history)}

    def save_checkpoint(self, checkpoint_dir):
        return {"accuracy": self.accuracy, "history": self.history}

    def load_checkpoint(self, checkpoint):
        self.accuracy = checkpoint["accuracy"]
        self.history = list(checkpoint["history"])

    def reset_config(self, new_config):
        self.lr = new_config["lr"]
        self.config = new_config
        self.accuracy, self.history = 0.0, []
        return True


def go(name, **kwargs):
    pbt = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=5,
        hyperparam_mutations={"lr": lambda: random.uniform(1, 100), "some_other_factor": [1, 2]},
        **kwargs,
    )
    results = tune.Tuner(
        PBTBenchmarkExample,
        run_config=tune.RunConfig(
            name=name,
            storage_path=STORAGE,
            stop={"training_iteration": 20},
            verbose=0,
            checkpoint_config=tune.CheckpointConfig(
                checkpoint_frequency=5, checkpoint_score_attribute="mean_accuracy", num_to_keep=4
            ),
        ),
        tune_config=tune.TuneConfig(
            scheduler=pbt, metric="mean_accuracy", mode="max", reuse_actors=True, num_samples=1
        ),
        param_space={"lr": tune.grid_search([1.0, 2.0, 50.0, 60.0]), "some_other_factor": 1},
    ).fit()
    lines = []
    if os.path.exists(os.path.join(results.experiment_path, "pbt_global.txt")):
        lines = [json.loads(line) for line in open(os.path.join(results.experiment_path, "pbt_global.txt"))]
    last = [r.metrics for r in results]
    return {
        "iterations": sorted(m["training_iteration"] for m in last),
        "history": all(len(m["history"]) == 20 and abs(sum(m["history"]) - m["mean_accuracy"]) < 1e-6 for m in last),
        "now": all(m["history"][-1] == m["config"]["lr"] == m["cur_lr"] for m in last),
        "exploits": len(lines) > 0,
        "errors": results.num_errors,
    }


ray.init(num_cpus=2)
outcome = {
    "async": go("async"),
    "synch": go("synch", synch=True),
    "none": go("none", quantile_fraction=0),
}
print(json.dumps(outcome))
