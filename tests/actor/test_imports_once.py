"""What a trainable imports first is imported once per run where workers are forked, if that is safe."""

from __future__ import annotations

import pytest
from kit import Script

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
counted = 1  # the driver has imported it, too
for trainable in trainables:
    run = tune.RunConfig(storage_path=os.environ["STORAGE"], verbose=0)
    config = tune.TuneConfig(preload="fresh" not in os.environ["KIND"])
    space = {"i": tune.grid_search([1, 2, 3, 4])}
    grid = tune.Tuner(trainable, param_space=space, tune_config=config, run_config=run).fit()
    with open(os.environ["IMPORTS"]) as file:
        total = len(file.readlines())
    values, errors = [result.metrics.get("x") for result in grid], {type(error).__name__ for error in grid.errors}
    print(values, errors, total - counted)
    counted = total
"""
ONCE, BY_EACH = "[5, 5, 5, 5] set() 1", "[5, 5, 5, 5] set() 4"


def imports(script: Script, source: str, trainables: str, kind: str = "") -> tuple[list[str], str]:
    """For each trainable what its run has come to and how often others than the driver have imported `slow`; stderr.

    That module lies beside the script, or where packages are installed; or a link there leads to it.
    """
    installed, sources = script.directory / "lib" / "site-packages", script.directory / "sources"
    installed.mkdir(parents=True)
    sources.mkdir()
    place = installed if "installed" in kind else sources if "linked" in kind else script.directory
    (place / "slow.py").write_text(SLOW)
    if "linked" in kind:
        (installed / "slow.py").symlink_to(sources / "slow.py")
    (script.directory / "users.py").write_text("import os\n" + USERS)
    begin = f"import os, sys\nos.environ['DRIVER'] = str(os.getpid())\nsys.path.insert(1, {str(installed)!r})\n"
    process = script.start(
        begin + source + f"trainables = [{trainables}]\n" + FIT,
        IMPORTS=str(script.directory / "imports"),
        KIND=kind,
        STORAGE=str(script.storage),
    )
    stdout, stderr = script.finish(process)
    assert process.returncode == 0, stderr
    return stdout.splitlines(), stderr


@pytest.mark.parametrize("begin", [USERS, "import minitune as tune\nfrom users import train, Stepwise\n"])
def test_imports_of_the_trainables_module_are_done_once(script: Script, begin: str) -> None:
    assert imports(script, begin, "train, Stepwise") == ([ONCE] * 2, "")


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


def test_packages_imported_first_by_a_trainable_are_loaded_once(script: Script) -> None:
    ways = (
        "trainable",
        "generator",
        "tune.with_resources(tune.with_parameters(trainable), {'cpu': 1})",
        "__import__('minitune.trainable').trainable.wrap_function(trainable)",
        "Stepwise",
        "tune.with_resources(Stepwise, {'cpu': 1})",
    )
    assert imports(script, FIRST, ", ".join(ways), "installed") == ([ONCE] * len(ways), "")


@pytest.mark.parametrize("kind", ["", "linked"])
def test_a_module_of_the_users_own_is_imported_by_each_trial(script: Script, kind: str) -> None:
    """It may draw a number at its import, or open a file: each trial does so itself, in its own directory."""
    assert imports(script, FIRST, "trainable, generator, Stepwise", kind) == ([BY_EACH] * 3, "")


STOPPED_SHORT = """
import minitune as tune

def after_the_users_own(config):
    import own
    import slow
    tune.report({"x": slow.VALUE})

class Base(tune.Trainable):
    def setup(self, config):
        assert "slow" not in sys.modules, "imported before"

class InAStep(Base):
    def step(self):
        import slow
        return {"x": slow.VALUE, "done": True}

def within(config):
    if config["i"]:
        import slow
        tune.report({"x": slow.VALUE})

import slow
"""


def test_only_leading_imports_are_preloaded(script: Script) -> None:
    """What it does not do first it may not do at all."""
    (script.directory / "own.py").write_text("import sys\nassert 'slow' not in sys.modules, 'imported before'\n")
    found = imports(script, STOPPED_SHORT, "after_the_users_own, InAStep, within", "installed")
    assert found == ([BY_EACH] * 3, "")


def test_without_preload_each_trial_imports_everything_itself(script: Script) -> None:
    """`FIT` sets `preload=False` for what is "fresh"."""
    begin = FIRST + "from users import train\n"
    assert imports(script, begin, "trainable, train", "installed fresh") == ([BY_EACH] * 2, "")


def test_import_that_fails_once_is_tried_by_each_trial(script: Script) -> None:
    [found], stderr = imports(script, FIRST, "trainable", "installed broken")
    assert found.startswith("[None, None, None, None] {'TrialError(RuntimeError)'}")
    assert "preload" not in stderr


def test_a_module_that_starts_a_thread_is_imported_by_each_worker(script: Script) -> None:
    assert imports(script, USERS, "train", kind="thread") == (["[5, 5, 5, 5] set() 5"], "")


def test_an_import_that_fails_is_told_by_the_trials_alone(script: Script) -> None:
    [found], stderr = imports(script, USERS, "train", kind="broken")
    assert found.startswith("[None, None, None, None] {'WorkerStartError(RuntimeError)'}")
    assert "preload" not in stderr
    assert stderr.count("not in a worker") <= 4
