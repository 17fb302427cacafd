"""Callbacks that change results, stop a trial with a mark, ask for a checkpoint, and count."""

import collections
import json
import os

from ray import tune
from ray.tune import Callback, RunConfig, TuneConfig, Tuner


class Changes(Callback):
    def __init__(self):
        self.counts = collections.Counter()

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.counts[trial.trial_id[-5:]] += 1
        result["added"] = result["v"] * 10
        result.setdefault("nested", {})["from_callback"] = "yes"
        if result["training_iteration"] == 2:
            result["should_checkpoint"] = True

    def on_step_begin(self, iteration, trials, **info):
        self.counts["steps"] += 1

    def on_experiment_end(self, trials, **info):
        self.counts["ended"] += len(trials)


class Simple(tune.Trainable):
    def setup(self, config):
        self.v = config["start"]

    def step(self):
        self.v += 1
        return {"v": self.v, "nested": {"own": 1}}

    def save_checkpoint(self, checkpoint_dir):
        with open(os.path.join(checkpoint_dir, "v"), "w") as f:
            f.write(str(self.v))

    def load_checkpoint(self, checkpoint_dir):
        pass


changes = Changes()
results = Tuner(
    Simple,
    param_space={"start": tune.grid_search([0, 100])},
    tune_config=TuneConfig(metric="v", mode="max"),
    run_config=RunConfig(
        storage_path=os.environ["STORAGE"],
        stop=lambda trial_id, result: result["training_iteration"] >= 3,
        callbacks=[changes],
        checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        verbose=0,
    ),
).fit()
rows = []
for result in results:
    with open(os.path.join(result.path, "result.json")) as f:
        rows.append([[r["v"], r["added"], r["nested"]] for r in map(json.loads, f)])
steps = changes.counts.pop("steps")
print(
    json.dumps(
        {
            "rows": rows,
            "metrics": [[r.metrics["added"], r.metrics["nested"]] for r in results],
            "best": results.get_best_result("added", "max").config,
            "checkpoints": [sorted(n for n in os.listdir(r.path) if n.startswith("checkpoint")) for r in results],
            "counts": changes.counts,
            "steps": steps > 0,
        }
    )
)
