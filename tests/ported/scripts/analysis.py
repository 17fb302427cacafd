"""`ExperimentAnalysis` after a run, and later from its directory; `ResultGrid` and `Result` from directories."""

import json
import os

import ray
from ray import tune
from ray.tune import Checkpoint, ExperimentAnalysis, Result, Tuner


def train_fn(config):
    os.makedirs("state", exist_ok=True)
    for i in range(5):
        with open("state/i", "w") as f:
            f.write(str(i))
        tune.report(
            {"loss": (config["x"] - 2) ** 2 + (i - 2) ** 2, "i": i}, checkpoint=Checkpoint.from_directory("state")
        )


ray.init(num_cpus=2, include_dashboard=False)
storage = os.environ["STORAGE"]
space = {"x": tune.grid_search([0, 1, 2, 3]), "other": {"k": "v"}}


def value(checkpoint):
    with checkpoint.as_directory() as d, open(os.path.join(d, "i")) as f:
        return int(f.read())


def look(analysis):
    trial = analysis.get_best_trial("loss", "min", "all")
    return {
        "best_config": analysis.get_best_config("loss", "min"),
        "best_config_all": analysis.get_best_config(metric="loss", mode="min", scope="all"),
        "best_trial": trial.config,
        "worst": analysis.get_best_trial("loss", "max").config["x"],
        "avg": analysis.get_best_trial("loss", "min", scope="avg").config["x"],
        "last5": analysis.get_best_trial("loss", "max", scope="last-5-avg").config["x"],
        "checkpoint": value(analysis.get_best_checkpoint(trial, "loss", "min")),
        "checkpoint_max": value(analysis.get_best_checkpoint(trial, "i", "max")),
        "last_checkpoint": value(analysis.get_last_checkpoint(trial)),
        "all_configs": sorted(c["x"] for c in analysis.get_all_configs().values()),
        "results": sorted(r["loss"] for r in analysis.results.values()),
        "n": len(analysis.trials),
    }


analysis = tune.run(train_fn, config=space, name="one", storage_path=storage, metric="loss", mode="min", verbose=0)
path = os.path.join(storage, "one")
loaded = ExperimentAnalysis(path, default_metric="loss", default_mode="min")
outcome = {"fresh": look(analysis), "loaded": look(loaded)}
outcome["properties"] = [
    analysis.best_config,
    analysis.best_trial.config["x"],
    analysis.best_result["loss"],
    value(analysis.best_checkpoint),
    loaded.best_config == analysis.best_config,
]
no_default = ExperimentAnalysis(path)
try:
    outcome["no_default"] = no_default.best_config
except ValueError:
    outcome["no_default"] = "ValueError"
outcome["no_metric"] = no_default.get_best_trial("nothing", "min")
two = os.path.join(storage, "two")
Tuner(train_fn, param_space=space, run_config=tune.RunConfig(name="two", storage_path=storage, verbose=0)).fit()
restored = Tuner.restore(two, trainable=train_fn).get_results()
outcome["restored"] = sorted([r.config["x"], r.metrics["i"], value(r.checkpoint)] for r in restored)
best = restored.get_best_result("loss", "min", scope="all")
from_path = Result.from_path(best.path)
outcome["from_path"] = [
    from_path.metrics["loss"],
    from_path.metrics["config"]["x"],
    value(from_path.checkpoint),
    value(from_path.get_best_checkpoint("loss", "min")),
    len(from_path.best_checkpoints),
    from_path.error,
]
print(json.dumps(outcome))
