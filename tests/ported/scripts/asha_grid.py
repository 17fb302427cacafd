"""ASHA on a grid with one trial at a time, so that it always stops the same trials at the same points."""

import json
import os

from ray import train, tune
from ray.tune.schedulers import ASHAScheduler


def train_fn(config):
    for epoch in range(1, 17):
        train.report({"loss": config["level"] / epoch, "epoch": epoch})


scheduler = ASHAScheduler(max_t=9, grace_period=1, reduction_factor=3)
tuner = tune.Tuner(
    train_fn,
    param_space={"level": tune.grid_search([5, 3, 8, 1, 7, 2, 6, 4, 9])},
    tune_config=tune.TuneConfig(
        metric="loss", mode="min", scheduler=scheduler, num_samples=1, max_concurrent_trials=1, reuse_actors=True
    ),
    run_config=train.RunConfig(storage_path=os.environ["STORAGE"], verbose=1),
)
results = tuner.fit()
print(
    json.dumps(
        {
            "ended": [(r.config["level"], r.metrics["epoch"], r.metrics["training_iteration"]) for r in results],
            "best": results.get_best_result().config,
            "best_avg": results.get_best_result(scope="avg").config,
            "best_all": results.get_best_result(scope="all").config,
            "debug": scheduler.debug_string().splitlines()[0].split(":")[0],
        }
    )
)
