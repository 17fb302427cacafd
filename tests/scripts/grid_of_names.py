"""The basic experiment, without a main guard; also `without` functions that other systems lack."""

import os
import sys

if "without" in sys.argv:
    del os.pidfd_open

from minitune import Tuner, grid_search, with_resources

names = [f"model_{i}" for i in range(int(sys.argv[1]))]


def trainable(config):
    return {"score": config["model_id"], "other_data": ...}


space = {"model_id": grid_search(names)}
results = Tuner(with_resources(trainable, {"cpu": 1}), param_space=space).fit()
print(results[0])
assert [r.metrics["score"] for r in results] == names
assert all(r.metrics["other_data"] is Ellipsis for r in results)
