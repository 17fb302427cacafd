"""Ray Tune 0.7 and 0.8: a function that calls `tune.track.log`, `reward_attr`, and `tune.Analysis` of a directory."""

import json
import os

import ray
from ray import tune
from ray.tune import track
from ray.tune.schedulers import AsyncHyperBandScheduler


def train_mnist(config):
    for step in range(5):
        track.log(mean_accuracy=config["lr"] * (step + 1), done=False)
    with open("model.h5", "w") as file:
        file.write(track.trial_id())


ray.init(num_cpus=2)
run = tune.run(
    train_mnist,
    name="exp",
    scheduler=AsyncHyperBandScheduler(time_attr="training_iteration", reward_attr="mean_accuracy", grace_period=5),
    stop={"mean_accuracy": 0.99, "training_iteration": 4},
    num_samples=2,
    resources_per_trial={"cpu": 1},
    config={"lr": tune.grid_search([0.01, 0.1]), "threads": 2},
    local_dir=os.environ["STORAGE"],
    verbose=0,
)
analysis = tune.Analysis(os.path.join(os.environ["STORAGE"], "exp"))
configs = analysis.get_all_configs()

print(
    json.dumps(
        {
            "best": analysis.get_best_config("mean_accuracy", "max"),
            "logdir": analysis.get_best_logdir("mean_accuracy", "max") == run.get_best_logdir("mean_accuracy", "max"),
            "accuracies": [round(trial.last_result["mean_accuracy"], 3) for trial in run.trials],
            "iterations": [trial.last_result["training_iteration"] for trial in run.trials],
            "lrs": sorted(config["lr"] for config in configs.values()),
        }
    )
)
