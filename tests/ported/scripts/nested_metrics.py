"""Metrics in nested dicts: a slash separates the keys wherever a metric is named."""

import json
import os
import tempfile

import ray
from ray import tune
from ray.tune import Checkpoint, CheckpointConfig, RunConfig, TuneConfig, Tuner
from ray.tune.schedulers import ASHAScheduler


def train_fn(config):
    for i in range(1, 6):
        result = {"eval": {"loss": config["base"] / i, "by": {"class": {"a": i}}}, "plain": i}
        with tempfile.TemporaryDirectory() as tmp:
            with open(os.path.join(tmp, "i"), "w") as f:
                f.write(str(i))
            tune.report(result, checkpoint=Checkpoint.from_directory(tmp))


ray.init(num_cpus=2, include_dashboard=False)
results = Tuner(
    train_fn,
    param_space={"base": tune.grid_search([3, 1, 2]), "nested": {"lr": 0.5, "deep": {"k": "v"}}},
    tune_config=TuneConfig(
        metric="eval/loss",
        mode="min",
        scheduler=ASHAScheduler(grace_period=2, max_t=4, reduction_factor=2),
        max_concurrent_trials=1,
    ),
    run_config=RunConfig(
        storage_path=os.environ["STORAGE"],
        stop={"eval/by/class/a": 5, "plain": 10},
        checkpoint_config=CheckpointConfig(num_to_keep=2),
        verbose=0,
    ),
).fit()
best = results.get_best_result()
stopped = Tuner(
    train_fn,
    param_space={"base": 1},
    run_config=RunConfig(storage_path=os.environ["STORAGE"], stop={"eval/by/class/a": 3}, verbose=0),
).fit()
with open(os.path.join(best.path, "result.json")) as f:
    rows = [json.loads(line) for line in f]
with open(os.path.join(best.path, "progress.csv")) as f:
    columns = f.readline().strip().split(",")
print(
    json.dumps(
        {
            "last": [r.metrics["eval"] for r in results],
            "configs": [r.config for r in results],
            "best": [best.config["base"], best.metrics["eval"]["loss"]],
            "best_other": results.get_best_result("eval/by/class/a", "max").config["base"],
            "best_checkpoint": os.path.basename(best.get_best_checkpoint("eval/loss", "min").path),
            "stopped": stopped[0].metrics["eval"]["by"]["class"]["a"],
            "row": rows[0]["eval"],
            "row_config": rows[0]["config"]["nested"],
            "columns": [c for c in columns if c.startswith(("eval", "plain", "config"))],
        }
    )
)
