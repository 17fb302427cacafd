"""Failing trials with all values of `max_failures`, `fail_fast` and `raise_on_failed_trial`."""

import json
import os

import ray
from ray import tune
from ray.tune import FailureConfig, RunConfig, TuneError

storage = os.environ["STORAGE"]


def flaky(config):
    path = os.path.join(config["notes"], str(config["x"]))
    attempt = int(open(path).read()) if os.path.exists(path) else 0
    with open(path, "w") as f:
        f.write(str(attempt + 1))
    tune.report({"attempt": attempt})
    if attempt < config["failures"]:
        raise RuntimeError(f"attempt {attempt}")


def run(name, failures, max_failures, **options):
    notes = os.path.join(storage, f"notes_{name}")
    os.makedirs(notes)
    try:
        analysis = tune.run(
            flaky,
            config={"x": tune.grid_search([1, 2]), "notes": notes, "failures": failures},
            max_failures=max_failures,
            storage_path=storage,
            name=name,
            verbose=0,
            **options,
        )
    except TuneError as error:
        return ["TuneError", len(error.args)]
    except Exception as error:
        return [isinstance(error, RuntimeError), "attempt 0" in str(error)]
    return [[t.status, t.last_result.get("attempt"), t.num_failures] for t in analysis.trials]


ray.init(num_cpus=2, include_dashboard=False)
outcome = {
    "recovers": run("recovers", 1, 1),
    "endless": run("endless", 2, -1),
    "too_often": run("too_often", 3, 1),
    "told": run("told", 3, 1, raise_on_failed_trial=False),
    "fast": run("fast", 1, 0, fail_fast=True),
    "raised": run("raised", 1, 0, fail_fast="raise"),
}
for name, options in {"both": {"max_failures": 2, "fail_fast": True}, "word": {"fail_fast": "soon"}}.items():
    try:
        outcome[name] = repr(FailureConfig(**options))
    except ValueError:
        outcome[name] = "ValueError"
os.makedirs(os.path.join(storage, "notes"))
grid = tune.Tuner(
    flaky,
    param_space={
        "x": tune.grid_search([1, 2, 3]),
        "notes": os.path.join(storage, "notes"),
        "failures": tune.sample_from(lambda spec: 5 if spec.config.x == 2 else 0),
    },
    run_config=RunConfig(storage_path=storage, name="grid", verbose=0, failure_config=FailureConfig(max_failures=1)),
).fit()
outcome["grid"] = [grid.num_errors, grid.num_terminated, len(grid.errors), "attempt 1" in str(grid.errors[0])]
outcome["results"] = sorted([r.config["x"], r.metrics["attempt"], r.error is None] for r in grid)
print(json.dumps(outcome))
