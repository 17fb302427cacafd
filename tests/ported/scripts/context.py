"""What a trial can ask about itself, the answers outside of trials, and old names for the same functions."""

import json
import os

import ray
from ray import train, tune
from ray.air import session
from ray.tune import TuneConfig


def train_fn(config):
    context = tune.get_context()
    old = train.get_context()
    tune.report(
        {
            "same": [
                context.get_trial_id() == old.get_trial_id() == session.get_trial_id(),
                context.get_trial_name() == old.get_trial_name() == session.get_trial_name(),
                context.get_experiment_name() == old.get_experiment_name() == session.get_experiment_name(),
            ],
            "name_holds_id": context.get_trial_id() in context.get_trial_name(),
            "i": config["i"],
            "experiment": context.get_experiment_name(),
            "cpus": context.get_trial_resources().required_resources,
            "checkpoint": tune.get_checkpoint(),
            "dir_base": context.get_trial_id() in os.path.basename(context.get_trial_dir()),
            "original": os.environ.get("TUNE_ORIG_WORKING_DIR") == config["here"],
        }
    )


ray.init(num_cpus=2, include_dashboard=False)
results = tune.Tuner(
    train_fn,
    param_space={"here": os.getcwd(), "i": tune.grid_search([0, 1])},
    tune_config=TuneConfig("max", "i"),
    run_config=tune.RunConfig(name="known", storage_path=os.environ["STORAGE"], verbose=0),
).fit()
keys = ("same", "name_holds_id", "experiment", "cpus", "checkpoint", "dir_base", "original")
print(
    json.dumps(
        {
            "inside": [{k: r.metrics[k] for k in keys} for r in results],
            "ids": [r.metrics["trial_id"][-6:] for r in results],
            "config": TuneConfig("max", "i").metric,
            "keys": sorted(k for k in results[0].metrics if k not in keys),
            "errors": [str(e) for e in results.errors],
        }
    )
)
