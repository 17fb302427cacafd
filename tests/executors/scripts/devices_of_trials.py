"""Trials that hold GPUs, each with a child, and look who else holds the same."""

import json
import os
import subprocess
import sys
import time

import probe

from minitune import RunConfig, Tuner, grid_search, with_resources

size, held = int(sys.argv[1]), os.path.abspath("held")
os.mkdir(held)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def is_held_by_the_living(name):
    with open(os.path.join(held, name)) as file:
        return any(map(is_alive, file.read().split()))


def trainable(config):
    x, devices = config["x"], os.environ["CUDA_VISIBLE_DEVICES"]
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    others = [name for name in os.listdir(held) if name.split("-")[0] == devices]
    shared = sum(map(is_held_by_the_living, others))
    with open(os.path.join(held, f".{x}"), "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    os.rename(os.path.join(held, f".{x}"), os.path.join(held, f"{devices}-{x}"))
    while len(os.listdir(held)) < size * (x // size + 1):
        time.sleep(0.002)
    return {"devices": devices, "shared": shared, "seen": [probe.DEVICES, probe.ORDER]}


space = {"x": grid_search(list(range(3 * size)))}
request = json.loads(sys.argv[2])
results = Tuner(with_resources(trainable, request), param_space=space, run_config=RunConfig(verbose=0)).fit()
assert not results.errors, results.errors
for result in results:
    assert result.metrics["seen"] == [result.metrics["devices"], "PCI_BUS_ID"], result.metrics["seen"]
print(json.dumps([[result.metrics["devices"], result.metrics["shared"]] for result in results]))
