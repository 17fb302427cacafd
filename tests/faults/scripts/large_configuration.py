"""A run whose configuration has 40 MB: it is begun and looked at, or (`resumed`) continued."""

import json
import os
import subprocess
import sys

from script_kit import hurry

import minitune
from minitune import RunConfig, TuneConfig, Tuner, grid_search, report

hurry()

MB, RUN = 1_000_000, os.path.join(os.environ["MINITUNE_STORAGE_PATH"], "run")


def memory_mb(field):
    return next(int(line.split()[1]) / 1000 for line in open("/proc/self/status") if line.startswith(field))


def is_whole(config):
    return (
        type(config["data"]) is bytes
        and len(config["data"]) == 40 * MB
        and config["data"][:3] == b"abc"
        and config["nested"]["text"] == "x" * 2 * MB
        and config["nested"]["numbers"] == list(range(100_000))
    )


def trainable(config):
    assert is_whole(config)
    for n in range(2):
        report({"n": n, "text": "y" * 2 * MB, "predictions": list(range(100_000))})


def sizes(path):
    return {name: os.path.getsize(os.path.join(path, name)) for name in os.listdir(path)}


def begin():
    data = b"abc" + bytes(40 * MB - 3)
    space = {
        "x": grid_search([0, 1]),
        "data": data,
        "nested": {"text": "x" * 2 * MB, "numbers": list(range(100_000)), "small": 1},
    }
    return Tuner(
        trainable,
        param_space=space,
        tune_config=TuneConfig(max_concurrent_trials=2),
        run_config=RunConfig(name="run", verbose=1),
    ).fit()


def look_at(grid):
    assert grid.num_terminated == 2, grid.errors
    run = sizes(RUN)
    assert run["journal"] < 50_000, run
    files = {name: size for name, size in sizes(os.path.join(RUN, "objects")).items() if size > MB}
    assert sorted(size // MB for size in files.values()) == [2, 2, 40], files
    own = sizes(grid[0].path)
    assert own["params.json"] < 3_000, own
    assert own["result.json"] < 2 * (2 * MB + 1 * MB), own
    with open(os.path.join(grid[0].path, "params.json")) as file:
        shown = json.load(file)
    assert shown["x"] == 0 and shown["nested"]["small"] == 1 and shown["data"].startswith("b'abc")

    known = set()
    sys.addaudithook(lambda event, arguments: known.add(event) if event == "pickle.find_class" else None)
    command = [sys.executable, "-m", "minitune"]
    looked = subprocess.run([*command, "show", RUN, "0"], capture_output=True, text=True, check=True)
    assert "nested/small: 1" in looked.stdout and len(looked.stdout) < 5_000, looked.stdout
    read = minitune.ExperimentAnalysis(RUN)
    assert repr(read.trials[0].config["data"]).startswith("b'abc") and not known
    again = subprocess.run([*command, "rerun", RUN, "0"], capture_output=True, text=True)
    assert "ended after 2 reports" in again.stdout, again


def look_at_resumed(grid):
    assert grid.num_terminated == 4, grid.errors
    assert {len(result.metrics["text"]) for result in grid} == {2 * MB}
    assert {len(result.metrics["predictions"]) for result in grid} == {100_000}
    assert len(os.listdir(os.path.join(RUN, "objects"))) <= 5


is_resumed = "resumed" in sys.argv
nothing_mb = memory_mb("VmRSS")
grid = Tuner.restore(RUN, trainable, add_samples=1).fit() if is_resumed else begin()
assert all(is_whole(result.config) for result in grid)
peak_mb = memory_mb("VmHWM")
# Two copies of the 40 MB, and the modules; at a resume a third, which is just read. Another would be noticed.
assert peak_mb - nothing_mb < (3 if is_resumed else 2) * 40 + 35, (nothing_mb, peak_mb)
(look_at_resumed if is_resumed else look_at)(grid)
print("good")
