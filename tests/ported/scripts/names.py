"""Names of trials and directories: default ones, and those from user functions."""

import json
import os
import re

import ray
from ray import tune
from ray.tune import RunConfig, TuneConfig, Tuner


def trial_name_string(trial):
    """The usual function of tutorials."""
    return "my_" + str(trial)


def short(trial):
    return f"{trial.trainable_name}_x{trial.config['x']}"


def dirname(trial):
    return f"dir_{trial.config['x']}_{trial.trial_id[-5:]}"


def train_fn(config):
    tune.report(
        {
            "name": tune.get_context().get_trial_name(),
            "cwd": os.path.basename(os.getcwd()),
            "id": tune.get_context().get_trial_id(),
        }
    )


def normal(text):
    return re.sub(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", "DATE", re.sub(r"[0-9a-f]{5}_(\d{5})", r"ID_\1", text))


def go(name=None, **kwargs):
    results = Tuner(
        train_fn,
        param_space={"x": tune.grid_search([1, 2])},
        tune_config=TuneConfig(**kwargs),
        run_config=RunConfig(name=name, storage_path=os.environ["STORAGE"], verbose=0),
    ).fit()
    return [
        [normal(r.metrics["name"]), normal(os.path.basename(r.path)), normal(r.metrics["cwd"]), normal(r.metrics["id"])]
        for r in results
    ]


ray.init(num_cpus=2, include_dashboard=False)
usual = go()
outcome = {
    "usual_names": [row[0] for row in usual],
    "usual_ids": [row[3] for row in usual],
    "usual_dirs_begin": [row[1].startswith("train_fn_ID_0000") for row in usual],
    "usual_dirs_show": [f"x={i + 1}" in row[1] for i, row in enumerate(usual)],
    "named": go("named", trial_name_creator=short),
    "dirs": [row[1:3] for row in go("dirs", trial_dirname_creator=dirname)],
    "both": go("both", trial_name_creator=short, trial_dirname_creator=dirname),
    "str": [row[0] for row in go("str", trial_name_creator=trial_name_string)],
    "experiments": sorted(normal(name) for name in os.listdir(os.environ["STORAGE"])),
}
try:
    go("bad", trial_dirname_creator=lambda trial: "a/b")
    outcome["slash"] = "fine"
except Exception as error:
    outcome["slash"] = isinstance(error, (ValueError, tune.TuneError))
named = [row for row in outcome["named"]]
outcome["named"] = [[row[0], row[1].split("_")[:3], row[3]] for row in named]
print(json.dumps(outcome))
