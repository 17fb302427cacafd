"""What a trainable imports first is imported once per run where workers are forked, if that is safe."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minitune.actor.launcher import start_method

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
config = tune.TuneConfig(preload="fresh" not in os.environ["KIND"])
space = {"i": tune.grid_search([1, 2, 3, 4])}
grid = tune.Tuner(trainable, param_space=space, tune_config=config, run_config=run).fit()
print([result.metrics.get("x") for result in grid], {type(error).__name__ for error in grid.errors})
"""


def imports(tmp_path: Path, script: str, kind: str = "") -> tuple[str, str, int]:
    """What a script prints on stdout and stderr, and how often others than the driver have imported `slow`.

    That module lies beside the script, or where packages are installed; or a link there leads to it.
    """
    installed, sources = tmp_path / "lib" / "site-packages", tmp_path / "sources"
    installed.mkdir(parents=True)
    sources.mkdir()
    place = installed if "installed" in kind else sources if "linked" in kind else tmp_path
    (place / "slow.py").write_text(SLOW)
    if "linked" in kind:
        (installed / "slow.py").symlink_to(sources / "slow.py")
    (tmp_path / "users.py").write_text("import os\n" + USERS)
    (tmp_path / "script.py").write_text("import os\nos.environ['DRIVER'] = str(os.getpid())\n" + script)
    env = {"IMPORTS": str(tmp_path / "imports"), "KIND": kind, "STORAGE": str(tmp_path / "storage")}
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, **env, "PYTHONPATH": os.pathsep.join([str(installed), *filter(None, sys.path)])},
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
        "from minitune.trainable import wrap_function\ntrainable = wrap_function(trainable)\n",
        "trainable = Stepwise\n",
        "trainable = tune.with_resources(Stepwise, {'cpu': 1})\n",
    ],
)
def test_installed_packages_with_whose_import_a_trainable_begins_are_imported_once(tmp_path: Path, change: str) -> None:
    assert imports(tmp_path, FIRST + change + FIT, "installed") == ("[5, 5, 5, 5] set()\n", "", 1)


@pytest.mark.parametrize("kind", ["", "linked"])
@pytest.mark.parametrize("name", ["trainable", "generator", "Stepwise"])
def test_a_module_of_the_users_own_is_imported_by_each_trial(tmp_path: Path, name: str, kind: str) -> None:
    """It may draw a number at its import, or open a file: each trial does so itself, in its own directory."""
    assert imports(tmp_path, FIRST + f"trainable = {name}\n" + FIT, kind) == ("[5, 5, 5, 5] set()\n", "", 4)


def test_what_comes_after_a_module_of_the_users_own_is_not_imported_before_it(tmp_path: Path) -> None:
    script = """
import minitune as tune

def trainable(config):
    import own
    import slow
    tune.report({"x": slow.VALUE})

import slow
"""
    (tmp_path / "own.py").write_text("import sys\nassert 'slow' not in sys.modules, 'imported before'\n")
    assert imports(tmp_path, script + FIT, "installed") == ("[5, 5, 5, 5] set()\n", "", 4)


def test_a_step_imports_only_after_the_setup(tmp_path: Path) -> None:
    script = """
import sys
import minitune as tune

class Base(tune.Trainable):
    def setup(self, config):
        assert "slow" not in sys.modules, "imported before"

class trainable(Base):
    def step(self):
        import slow
        return {"x": slow.VALUE, "done": True}

import slow
"""
    assert imports(tmp_path, script + FIT, "installed") == ("[5, 5, 5, 5] set()\n", "", 4)


@pytest.mark.parametrize(
    "begin", [FIRST, "import minitune as tune\nfrom users import train as trainable\n"], ids=["function", "module"]
)
def test_without_preload_each_trial_imports_everything_itself(tmp_path: Path, begin: str) -> None:
    """`FIT` sets `preload=False` for what is "fresh"."""
    assert imports(tmp_path, begin + FIT, "installed fresh") == ("[5, 5, 5, 5] set()\n", "", 4)


def test_one_that_fails_there_is_tried_by_each_trial(tmp_path: Path) -> None:
    stdout, stderr, _ = imports(tmp_path, FIRST + FIT, "installed broken")
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
