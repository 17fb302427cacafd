"""Population based training with nested, listed and computed mutations, through `tune.run`."""

import json
import os
import random

import ray
from ray import tune
from ray.tune.schedulers import PopulationBasedTraining


class Climber(tune.Trainable):
    def setup(self, config):
        self.v = 0

    def step(self):
        self.v += self.config["lr"]
        return {"score": self.v, "seen": [self.config["opt"], self.config["bs"]]}

    def save_checkpoint(self, checkpoint_dir):
        with open(os.path.join(checkpoint_dir, "v.json"), "w") as f:
            json.dump(self.v, f)
        return checkpoint_dir

    def load_checkpoint(self, checkpoint_dir):
        with open(os.path.join(checkpoint_dir, "v.json")) as f:
            self.v = json.load(f)

    def reset_config(self, new_config):
        return True


ray.init(num_cpus=2, include_dashboard=False)
storage = os.environ["STORAGE"]
mutations = {
    "lr": lambda: random.uniform(0.1, 0.9),
    "opt": ["sgd", "adam"],
    "inner": {"momentum": tune.uniform(0.5, 0.9)},
    "bs": [16, 32, 64],
}
outcome = {}
for name, options in {
    "resampled": {"resample_probability": 1},
    "kept": {"resample_probability": 0, "perturbation_factors": (1.5, 0.5), "log_config": False},
}.items():
    analysis = tune.run(
        Climber,
        name=name,
        scheduler=PopulationBasedTraining(
            time_attr="training_iteration",
            metric="score",
            mode="max",
            perturbation_interval=2,
            hyperparam_mutations=mutations,
            **options,
        ),
        num_samples=3,
        config={
            "lr": tune.uniform(0.1, 0.9),
            "opt": tune.choice(["sgd", "adam"]),
            "inner": {"momentum": tune.uniform(0.5, 0.9), "fixed": 3},
            "bs": tune.choice([16, 32]),
        },
        stop={"training_iteration": 6},
        storage_path=storage,
        reuse_actors=name == "kept",
        verbose=0,
    )
    configs = [t.config for t in analysis.trials]
    outcome[name] = [
        [t.status for t in analysis.trials],
        [t.last_result["training_iteration"] for t in analysis.trials],
        [t.last_result["seen"] == [t.config["opt"], t.config["bs"]] for t in analysis.trials],
        all(c["opt"] in ("sgd", "adam") and c["bs"] in (16, 32, 64) and c["inner"]["fixed"] == 3 for c in configs),
        analysis.get_best_config("score", "max") in configs,
    ]
print(json.dumps(outcome))
