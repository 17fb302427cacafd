"""The first script of every tutorial: a function that reports, a grid, the best result."""

import json
import os

from ray import tune


def objective(x, a, b):
    return a * (x**0.5) + b


def trainable(config):
    for x in range(4):
        tune.report({"score": objective(x, config["a"], config["b"])})


space = {"a": tune.grid_search([1, 3, 2]), "b": tune.grid_search([0, 10])}
tuner = tune.Tuner(
    trainable,
    param_space=space,
    tune_config=tune.TuneConfig(metric="score", mode="max"),
    run_config=tune.RunConfig(name="first", storage_path=os.environ["STORAGE"], verbose=0),
)
results = tuner.fit()
best = results.get_best_result()
lowest = results.get_best_result(metric="score", mode="min", scope="all")

print(
    json.dumps(
        {
            "configs": [result.config for result in results],
            "iterations": [result.metrics["training_iteration"] for result in results],
            "since_restore": [result.metrics["iterations_since_restore"] for result in results],
            "done": [result.metrics["done"] for result in results],
            "scores": [round(result.metrics["score"], 6) for result in results],
            "best": best.config,
            "lowest": lowest.config,
            "errors": len(results.errors),
            "terminated": results.num_terminated,
            "where": os.path.relpath(results.experiment_path, os.environ["STORAGE"]),
            "checkpoint": best.checkpoint,
            "same_results": [results[i].config == result.config for i, result in enumerate(tuner.get_results())],
        }
    )
)
