"""Ray Tune 0.2 to 0.7: a registered function with a `reporter`, and an experiment as a dict."""

import json
import os

import ray
from ray import tune
from ray.tune import register_trainable, run_experiments
from ray.tune.hyperband import HyperBandScheduler
from ray.tune.median_stopping_rule import MedianStoppingRule


def my_func(config, reporter):
    accuracy = 0.0
    for step in range(1, 20):
        accuracy += config["alpha"]
        reporter(timesteps_total=step, mean_accuracy=accuracy, neg_mean_loss=-1 / step)


ray.init()
register_trainable("my_func", my_func)
trials = run_experiments(
    {
        "my_experiment": {
            "run": "my_func",
            "trial_resources": {"cpu": 1, "gpu": 0},
            "stop": {"mean_accuracy": 1.0},
            "config": {"alpha": tune.grid_search([0.25, 0.5]), "momentum": tune.sample_from(lambda spec: 0.9)},
            "repeat": 2,
            "local_dir": os.environ["STORAGE"],
        }
    },
    scheduler=MedianStoppingRule(reward_attr="mean_accuracy", grace_period=100),
    verbose=0,
)
halved = run_experiments(
    {"halved": {"run": "my_func", "config": {"alpha": 0.1}, "local_dir": os.environ["STORAGE"]}},
    scheduler=HyperBandScheduler(time_attr="training_iteration", reward_attr="neg_mean_loss", max_t=3),
    verbose=0,
)

print(
    json.dumps(
        {
            "accuracies": [trial.last_result["mean_accuracy"] for trial in trials],
            "timesteps": [trial.last_result["timesteps_total"] for trial in trials],
            "alphas": [trial.config["alpha"] for trial in trials],
            "momentum": sorted({trial.config["momentum"] for trial in trials}),
            "statuses": sorted({trial.status for trial in [*trials, *halved]}),
            "halved": [trial.last_result["training_iteration"] for trial in halved],
        }
    )
)
