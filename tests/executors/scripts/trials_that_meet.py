"""Trials that wait until all have come that there is room for."""

import json
import os
import sys
import time

from minitune import RunConfig, Tuner, grid_search, init, with_resources

size, inside, came = int(sys.argv[1]), os.path.abspath("inside"), os.path.abspath("came")
os.mkdir(inside), os.mkdir(came)


def trainable(config):
    for directory in (inside, came):
        open(os.path.join(directory, str(config["x"])), "w").close()
    most = 0
    while True:  # until all have come that there is room for
        most = max(most, len(os.listdir(inside)))
        if len(os.listdir(came)) >= size * (config["x"] // size + 1):
            break
        time.sleep(0.002)
    os.unlink(os.path.join(inside, str(config["x"])))
    return {"most": most}


init(resources={"tokens": 2.5})
request = json.loads(sys.argv[2])
space = {"x": grid_search(list(range(2 * size)))}
results = Tuner(with_resources(trainable, request), param_space=space, run_config=RunConfig(verbose=0)).fit()
assert not results.errors, results.errors
print(max(result.metrics["most"] for result in results), len(results))
