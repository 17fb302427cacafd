"""A run in a process that may have few files open. It looks whether the files of each trial are whole."""

import csv
import json
import os
import resource
import sys
import time

from minitune import RunConfig, TuneConfig, Tuner, grid_search, report

limit, trials, reuses = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "reused"
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def trainable(config):
    print("hello", config["x"])
    for i in range(3):
        report({"i": i})
        time.sleep(0.02)
    print("bye", config["x"])


run = RunConfig(name="run", verbose=0)
tune, space = TuneConfig(reuse_actors=reuses), {"x": grid_search(list(range(trials)))}
path = os.path.join(os.environ["MINITUNE_STORAGE_PATH"], "run")
if Tuner.can_restore(path):
    tuner = Tuner.restore(path, trainable)
else:
    tuner = Tuner(trainable, param_space=space, tune_config=tune, run_config=run)
results = tuner.fit()
whole = 0
for x, result in enumerate(results):
    with open(os.path.join(result.path, "result.json")) as file:
        rows = [json.loads(line)["i"] for line in file]
    with open(os.path.join(result.path, "progress.csv")) as file:
        table = [int(row["i"]) for row in csv.DictReader(file)]
    with open(os.path.join(result.path, "stdout")) as file:
        output = file.read()
    with open(os.path.join(result.path, "params.json")) as file:
        config = json.load(file)
    whole += rows == table == [0, 1, 2] and output == f"hello {x}\nbye {x}\n" and config == {"x": x}
print(whole, results.num_errors)
