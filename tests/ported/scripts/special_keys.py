"""Keys with a meaning: training_iteration, done, timesteps, should_checkpoint, config in the result."""

import json
import os

import ray
from ray import tune


def own_iteration(config):
    for i in range(3):
        tune.report({"training_iteration": i * 10, "v": i})


def done_early(config):
    for i in range(5):
        tune.report({"v": i, "done": i == 2})


def timesteps(config):
    for i in range(3):
        tune.report({"v": i, "timesteps_this_iter": 100, "episodes_this_iter": 2})


def total(config):
    for i in range(3):
        tune.report({"v": i, "timesteps_total": 1000 * i})


class Model(tune.Trainable):
    def setup(self, config):
        self.n = 0

    def step(self):
        self.n += 1
        return {"v": self.n, "should_checkpoint": self.n == 2, "timesteps_this_iter": 5, "done": self.n == 4}

    def save_checkpoint(self, checkpoint_dir):
        return {"n": self.n}

    def load_checkpoint(self, state):
        self.n = state["n"]


ray.init(num_cpus=2, include_dashboard=False)
outcome = {}
KEYS = (
    "v training_iteration done timesteps_total episodes_total timesteps_since_restore iterations_since_restore"
).split()
for trainable in (own_iteration, done_early, timesteps, total, Model):
    result = tune.Tuner(
        trainable,
        run_config=tune.RunConfig(
            storage_path=os.environ["STORAGE"],
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False) if trainable is Model else None,
            verbose=0,
        ),
    ).fit()[0]
    with open(os.path.join(result.path, "result.json")) as f:
        rows = [json.loads(line) for line in f]
    outcome[trainable.__name__] = {
        "last": {k: result.metrics.get(k, "-") for k in KEYS},
        "rows": [{k: row.get(k, "-") for k in KEYS} for row in rows],
        "checkpoints": sorted(n for n in os.listdir(result.path) if n.startswith("checkpoint_")),
    }
print(json.dumps(outcome))
