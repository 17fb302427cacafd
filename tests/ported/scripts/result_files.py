"""The contents of a run's files, for users who read them with their own tools."""

import csv
import json
import os

import ray
from ray import tune


def train_fn(config):
    print("to stdout")
    with open("artifact.txt", "w") as f:
        f.write("made by the trial")
    for i in range(2):
        tune.report({"z": i, "a": {"b": i * 0.5}, "flag": i == 1, "text": "word", "none": None, "list": [1, i]})
    return {"z": 5, "a": {"b": 0}, "flag": False, "text": "end", "none": None, "list": []}


ray.init(num_cpus=2, include_dashboard=False)
results = tune.Tuner(
    train_fn,
    param_space={"x": tune.grid_search([1, 2]), "fn": len, "nested": {"lr": 0.1, "list": [1, {"k": 2}]}, "t": (1, 2)},
    run_config=tune.RunConfig(name="files", storage_path=os.environ["STORAGE"], verbose=0),
).fit()
result = results[1]
with open(os.path.join(result.path, "result.json")) as f:
    rows = [json.loads(line) for line in f]
with open(os.path.join(result.path, "progress.csv"), newline="") as f:
    table = list(csv.DictReader(f))
with open(os.path.join(result.path, "params.json")) as f:
    params = json.load(f)
params["fn"] = "len" in str(params["fn"])
for row in rows:
    row["config"]["fn"] = "len" in str(row["config"]["fn"])
own = ("z", "a", "flag", "text", "none", "list")
print(
    json.dumps(
        {
            "order": [key for key in rows[0]],
            "own": [{k: row[k] for k in own} for row in rows],
            "automatic": [[row["training_iteration"], row["done"], row["iterations_since_restore"]] for row in rows],
            "types": {k: type(v).__name__ for k, v in rows[0].items()},
            "config": rows[0]["config"],
            "params": params,
            "csv": [{k: row[k] for k in ("z", "a/b", "flag", "text", "training_iteration", "done")} for row in table],
            "experiment_dir": sorted(
                n
                for n in os.listdir(results.experiment_path)
                if os.path.isfile(os.path.join(results.experiment_path, n)) and n == "tuner.pkl"
            ),
            "trial_dirs": len([n for n in os.listdir(results.experiment_path) if n.startswith("train_fn_")]),
            "metrics_keys": sorted(result.metrics),
        }
    )
)
