"""The median stopping rule, created by name, with one trial at a time, so that its decisions are always the same."""

import argparse
import json
import os

import ray
from ray import tune
from ray.tune.schedulers import create_scheduler


def train(config):
    for epoch in range(1, 11):
        tune.report({"accuracy": config["q"] * (1 - 0.5**epoch), "epoch": epoch})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke-test", action="store_true")
    args, _ = parser.parse_known_args()
    ray.init(num_cpus=1, include_dashboard=False)
    rule = create_scheduler(
        "medianstopping", time_attr="epoch", metric="accuracy", mode="max", grace_period=2, min_samples_required=2
    )
    values = [5, 3, 8, 1, 6, 2, 9, 4, 7]
    results = tune.Tuner(
        train,
        param_space={"q": tune.grid_search(values[:4] if args.smoke_test else values)},
        tune_config=tune.TuneConfig(scheduler=rule, max_concurrent_trials=1),
        run_config=tune.RunConfig(storage_path=os.environ["STORAGE"], verbose=0),
    ).fit()
    print(
        json.dumps(
            {
                "ended": [(r.config["q"], r.metrics["epoch"], r.metrics["accuracy"]) for r in results],
                "best": results.get_best_result("accuracy", "max").config,
                "status": rule.debug_string(),
            }
        )
    )
