"""PyTorch's old tutorial: a function with `checkpoint_dir`, ASHA, and the best trial's checkpoint."""

import json
import os
from functools import partial

import ray
from ray import tune
from ray.tune import CLIReporter
from ray.tune.schedulers import ASHAScheduler


def train_model(config, checkpoint_dir=None, data_dir=None):
    first, weight = 0, 0.0
    if checkpoint_dir:
        with open(os.path.join(checkpoint_dir, "checkpoint")) as file:
            first, weight = json.load(file)
    for epoch in range(first, 8):
        weight += config["lr"]
        with tune.checkpoint_dir(epoch) as checkpoint_dir:
            path = os.path.join(checkpoint_dir, "checkpoint")
            with open(path, "w") as file:
                json.dump((epoch + 1, weight), file)
        tune.report(loss=1 / weight, accuracy=weight, data=os.path.basename(data_dir))
    print("Finished Training")


ray.init(num_cpus=2)
scheduler = ASHAScheduler(metric="loss", mode="min", max_t=4, grace_period=4, reduction_factor=2)
reporter = CLIReporter(metric_columns=["loss", "accuracy", "training_iteration"])
result = tune.run(
    partial(train_model, data_dir=os.path.abspath("data")),
    name="tutorial",
    resources_per_trial={"cpu": 1, "gpu": 0},
    config={"lr": tune.grid_search([0.5, 2.0, 1.0]), "layers": tune.choice([2])},
    scheduler=scheduler,
    progress_reporter=reporter,
    local_dir=os.environ["STORAGE"],
    verbose=0,
)
best_trial = result.get_best_trial("loss", "min", "last")
best_checkpoint_dir = best_trial.checkpoint.value
with open(os.path.join(best_checkpoint_dir, "checkpoint")) as file:
    saved = json.load(file)

print(
    json.dumps(
        {
            "config": best_trial.config,
            "loss": best_trial.last_result["loss"],
            "data": best_trial.last_result["data"],
            "iterations": [trial.last_result["training_iteration"] for trial in result.trials],
            "saved": saved,
            "kept_below": os.path.relpath(os.path.dirname(best_checkpoint_dir), best_trial.logdir),
            "same": best_checkpoint_dir == result.get_best_checkpoint(best_trial, "loss", "min").value,
        }
    )
)
