"""Checkpoints with metadata, read in their trial and after it; one run's checkpoint in the next run's space."""

import json
import os
import tempfile

import ray
from ray import tune
from ray.tune import Checkpoint


def write(directory, **values):
    os.makedirs(directory, exist_ok=True)
    for name, text in values.items():
        with open(os.path.join(directory, name), "w") as f:
            f.write(text)
    return directory


def read(checkpoint):
    with checkpoint.as_directory() as directory:
        return {n: open(os.path.join(directory, n)).read() for n in sorted(os.listdir(directory)) if n[0] != "."}


outcome = {}


def train_fn(config):
    start = 0
    if config.get("from"):
        start = int(read(config["from"])["n"])
    for n in range(start + 1, start + 3):
        with tempfile.TemporaryDirectory() as directory:
            write(directory, n=str(n), x=str(config["x"]))
            mine = Checkpoint.from_directory(directory)
            mine.set_metadata({"n": n})
            tune.report({"n": n}, checkpoint=mine)
        with tune.get_checkpoint().as_directory() as latest:
            assert open(os.path.join(latest, "n")).read() == str(n)


ray.init(num_cpus=2, include_dashboard=False)
run_config = tune.RunConfig(storage_path=os.environ["STORAGE"], verbose=0)
first = tune.Tuner(train_fn, param_space={"x": tune.grid_search([1, 2])}, run_config=run_config).fit()
outcome["first"] = [[read(r.checkpoint), r.checkpoint.get_metadata(), r.error] for r in first]
best = first.get_best_result("n", "max")
second = tune.Tuner(
    train_fn, param_space={"x": 3, "from": tune.grid_search([None, best.checkpoint])}, run_config=run_config
).fit()
outcome["second"] = [[read(r.checkpoint), str(r.error)] for r in second]
print(json.dumps(outcome))
