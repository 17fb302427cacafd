"""What a trainable imports is imported once per run where workers are forked, if that is safe."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minitune.actor.start_method import start_method

pytestmark = pytest.mark.skipif(start_method() != "zygote", reason="workers are new interpreters here")

SLOW = """
import os
import threading

with open(os.environ["IMPORTS"], "a") as file:
    file.write(f"{os.getpid()}\\n")
if "thread" in os.environ["KIND"]:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
if "broken" in os.environ["KIND"] and int(os.environ["DRIVER"]) != os.getpid():
    raise RuntimeError("not in a worker")
VALUE = 5
"""
USERS = """
import minitune as tune
import slow

def train(config):
    tune.report({"x": slow.VALUE, "pid": os.getpid()})

class Stepwise(tune.Trainable):
    def step(self):
        return {"x": slow.VALUE, "pid": os.getpid(), "done": True}
"""
FIT = """
run = tune.RunConfig(storage_path=os.environ["STORAGE"], verbose=0)
grid = tune.Tuner(trainable, param_space={"i": tune.grid_search([1, 2, 3, 4])}, run_config=run).fit()
print([result.metrics.get("x") for result in grid], {type(error).__name__ for error in grid.errors})
"""


def imports(tmp_path: Path, script: str, kind: str = "") -> tuple[str, str, int]:
    """What a script prints on stdout and stderr, and how often others than the driver have imported `slow`."""
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "users.py").write_text("import os\n" + USERS)
    (tmp_path / "script.py").write_text("import os\nos.environ['DRIVER'] = str(os.getpid())\n" + script)
    env = {"IMPORTS": str(tmp_path / "imports"), "KIND": kind, "STORAGE": str(tmp_path / "storage")}
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, **env, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    pids = (tmp_path / "imports").read_text().split()
    return done.stdout, done.stderr, len(pids) - 1


@pytest.mark.parametrize("name", ["train", "Stepwise"])
@pytest.mark.parametrize("place", ["main", "module"])
def test_imports_of_the_trainables_module_are_done_once(tmp_path: Path, name: str, place: str) -> None:
    begin = USERS if place == "main" else "import minitune as tune\nfrom users import train, Stepwise\n"
    found = imports(tmp_path, begin + f"trainable = {name}\n" + FIT)
    assert found == ("[5, 5, 5, 5] set()\n", "", 1)


FIRST = """
import minitune as tune

def trainable(config):
    "Begins with imports."
    import json, os.path as path
    import slow
    from slow import VALUE
    tune.report({"x": VALUE})

def generator(config):
    from slow import VALUE
    yield {"x": VALUE}

class Stepwise(tune.Trainable):
    def setup(self, config):
        import slow
        self.value = slow.VALUE
    def step(self):
        return {"x": self.value, "done": True}

import slow
"""


@pytest.mark.parametrize(
    "change",
    [
        "",
        "trainable = generator\n",
        "trainable = tune.with_resources(tune.with_parameters(trainable), {'cpu': 1})\n",
        "trainable = Stepwise\n",
    ],
)
def test_imports_with_which_a_trainable_begins_are_done_once(tmp_path: Path, change: str) -> None:
    assert imports(tmp_path, FIRST + change + FIT) == ("[5, 5, 5, 5] set()\n", "", 1)


def test_one_that_fails_there_is_tried_by_each_trial(tmp_path: Path) -> None:
    stdout, stderr, _ = imports(tmp_path, FIRST + FIT, kind="broken")
    assert stdout == "[None, None, None, None] {'TrialError(RuntimeError)'}\n"
    assert "preload" not in stderr


def test_other_imports_within_the_function_are_its_own(tmp_path: Path) -> None:
    """What it does not do first it may not do at all."""
    script = """
import minitune as tune

def trainable(config):
    if config["i"]:
        import slow
        tune.report({"x": slow.VALUE})

import slow
"""
    assert imports(tmp_path, script + FIT) == ("[5, 5, 5, 5] set()\n", "", 4)


def test_a_module_that_starts_a_thread_is_imported_by_each_worker(tmp_path: Path) -> None:
    found = imports(tmp_path, USERS + "trainable = train\n" + FIT, kind="thread")
    assert found == ("[5, 5, 5, 5] set()\n", "", 1 + 4)


def test_an_import_that_fails_is_told_by_the_trials_alone(tmp_path: Path) -> None:
    stdout, stderr, _ = imports(tmp_path, USERS + "trainable = train\n" + FIT, kind="broken")
    assert stdout == "[None, None, None, None] {'WorkerStartError(RuntimeError)'}\n"
    assert "preload" not in stderr
    assert stderr.count("not in a worker") <= 4
