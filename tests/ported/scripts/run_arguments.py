"""`tune.run` with the arguments of older scripts."""

import json
import os

import ray
from ray import tune
from ray.tune import CheckpointConfig, CLIReporter
from ray.tune.schedulers import ASHAScheduler


def train_fn(config):
    for i in range(4):
        tune.report({"mean_loss": config["lr"] * (4 - i), "i": i})


class Model(tune.Trainable):
    def setup(self, config):
        self.n = 0

    def step(self):
        self.n += 1
        return {"score": -abs(self.n - 3), "n": self.n}

    def save_checkpoint(self, checkpoint_dir):
        with open(os.path.join(checkpoint_dir, "n"), "w") as f:
            f.write(str(self.n))

    def load_checkpoint(self, checkpoint_dir):
        with open(os.path.join(checkpoint_dir, "n")) as f:
            self.n = int(f.read())


ray.init(num_cpus=2, include_dashboard=False)
storage = os.environ["STORAGE"]
analysis = tune.run(
    train_fn,
    name="old",
    metric="mean_loss",
    mode="min",
    config={"lr": tune.grid_search([0.3, 0.1, 0.2]), "fixed": "yes"},
    num_samples=2,
    resources_per_trial={"cpu": 1, "gpu": 0},
    scheduler=ASHAScheduler(max_t=10, grace_period=10),
    progress_reporter=CLIReporter(metric_columns=["mean_loss", "training_iteration"]),
    storage_path=storage,
    max_failures=1,
    fail_fast=False,
    verbose=1,
    log_to_file=False,
    reuse_actors=False,
)
model = tune.run(
    Model,
    stop={"training_iteration": 6},
    config={"unused": 1},
    checkpoint_config=CheckpointConfig(
        num_to_keep=2, checkpoint_score_attribute="score", checkpoint_frequency=1, checkpoint_at_end=True
    ),
    storage_path=storage,
    name="model",
    verbose=0,
)
trial = model.trials[0]
best = model.get_best_checkpoint(trial, metric="score", mode="max")
print(
    json.dumps(
        {
            "best_config": analysis.best_config,
            "best_result": analysis.best_result["mean_loss"],
            "configs": [t.config for t in analysis.trials],
            "statuses": [t.status for t in analysis.trials],
            "last": [t.last_result["i"] for t in analysis.trials],
            "path": os.path.relpath(analysis.experiment_path, storage),
            "best_checkpoint": os.path.basename(best.path),
            "last_checkpoint": os.path.basename(model.get_last_checkpoint(trial).path),
            "model_checkpoints": sorted(n for n in os.listdir(trial.path) if n.startswith("checkpoint")),
        }
    )
)
