"""The effects of environment variables on loggers and the working directory; trials have the user's variables."""

import json
import os

os.environ["MY_SETTING"] = "from the script"
os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
os.environ["RAY_CHDIR_TO_TRIAL_DIR"] = "0"

import ray
from ray import tune
from ray.tune.logger import JsonLoggerCallback


def train_fn(config):
    tune.report(
        {
            "mine": os.environ.get("MY_SETTING"),
            "cwd_kept": os.getcwd() == config["here"],
            "data": open("data.txt").read(),
        }
    )


with open("data.txt", "w") as f:
    f.write("beside the script")
with open("beside_the_script.py", "w") as f:
    f.write("def double(x):\n    return 2 * x\n")

import sys

sys.path.insert(0, os.getcwd())
import beside_the_script


def uses_module(config):
    return {"doubled": beside_the_script.double(config["x"])}


ray.init(num_cpus=2, include_dashboard=False)
outcome = {}
for name, callbacks in {"none": None, "json": [JsonLoggerCallback()]}.items():
    results = tune.Tuner(
        train_fn,
        param_space={"here": os.getcwd()},
        run_config=tune.RunConfig(storage_path=os.environ["STORAGE"], callbacks=callbacks, verbose=0),
    ).fit()
    outcome[name] = [{k: r.metrics.get(k) for k in ("mine", "cwd_kept", "data")} for r in results] + [
        [n for n in ("result.json", "progress.csv", "params.json") if os.path.exists(os.path.join(results[0].path, n))]
    ]
results = tune.Tuner(
    uses_module,
    param_space={"x": tune.grid_search([1, 2])},
    run_config=tune.RunConfig(storage_path=os.environ["STORAGE"], verbose=0),
).fit()
outcome["module"] = [r.metrics.get("doubled") for r in results]
print(json.dumps(outcome))
