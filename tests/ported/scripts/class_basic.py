"""A class with save and load: checkpoints every second step and at the end, the last two kept."""

import json
import os

import ray
from ray import train, tune
from ray.train import CheckpointConfig, RunConfig


class Counter(tune.Trainable):
    def setup(self, config):
        self.step_size = config["step_size"]
        self.total = 0

    def step(self):
        self.total += self.step_size
        return {"total": self.total, "iteration_inside": self.iteration}

    def save_checkpoint(self, checkpoint_dir):
        with open(os.path.join(checkpoint_dir, "state.json"), "w") as f:
            json.dump({"total": self.total}, f)

    def load_checkpoint(self, checkpoint_dir):
        with open(os.path.join(checkpoint_dir, "state.json")) as f:
            self.total = json.load(f)["total"]


ray.init(num_cpus=2, include_dashboard=False)
tuner = tune.Tuner(
    Counter,
    param_space={"step_size": tune.grid_search([1, 10])},
    run_config=RunConfig(
        name="counters",
        storage_path=os.environ["STORAGE"],
        stop={"training_iteration": 5},
        checkpoint_config=CheckpointConfig(checkpoint_frequency=2, checkpoint_at_end=True, num_to_keep=2),
    ),
)
results = tuner.fit()
outcome = []
for result in results:
    with result.checkpoint.as_directory() as directory, open(os.path.join(directory, "state.json")) as f:
        state = json.load(f)
    outcome.append(
        {
            "total": result.metrics["total"],
            "inside": result.metrics["iteration_inside"],
            "iteration": result.metrics["training_iteration"],
            "state": state,
            "directories": sorted(name for name in os.listdir(result.path) if name.startswith("checkpoint_")),
            "kept": [(os.path.basename(c.path), m["total"]) for c, m in result.best_checkpoints],
            "latest": os.path.basename(result.checkpoint.path),
            "is_checkpoint": isinstance(result.checkpoint, train.Checkpoint),
        }
    )
print(json.dumps(outcome))
