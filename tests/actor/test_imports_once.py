"""What a trainable imports first is imported once per run where workers are forked, if that is safe."""

from pathlib import Path

import pytest

from minitune.actor.launcher import start_method

SCRIPTS = Path(__file__).with_name("scripts")

pytestmark = pytest.mark.skipif(start_method() != "zygote", reason="workers are new interpreters here")

ONCE, BY_EACH = "[5, 5, 5, 5] set() 1", "[5, 5, 5, 5] set() 4"


def imports(script, name, trainables, kind=""):
    """For each trainable what its run has come to and how often others than the driver have imported `slow`; stderr.

    That module lies beside the script, or where packages are installed; or a link there leads to it.
    """
    installed, sources = script.directory / "lib" / "site-packages", script.directory / "sources"
    installed.mkdir(parents=True)
    sources.mkdir()
    place = installed if "installed" in kind else sources if "linked" in kind else script.directory
    script.write(SCRIPTS / "slow.py").rename(place / "slow.py")
    if "linked" in kind:
        (installed / "slow.py").symlink_to(sources / "slow.py")
    for module in ("users.py", "fit_each.py"):
        script.write(SCRIPTS / module)
    process = script.start(
        SCRIPTS / name,
        trainables,
        IMPORTS=str(script.directory / "imports"),
        KIND=kind,
        STORAGE=str(script.storage),
        PYTHONPATH=str(installed),
    )
    stdout, stderr = script.finish(process)
    assert process.returncode == 0, stderr
    return stdout.splitlines(), stderr


@pytest.mark.parametrize("name", ["users.py", "imports_users.py"])
def test_imports_of_the_trainables_module_are_done_once(script, name):
    assert imports(script, name, "train, Stepwise") == ([ONCE] * 2, "")


def test_packages_imported_first_by_a_trainable_are_loaded_once(script):
    ways = (
        "trainable",
        "generator",
        "tune.with_resources(tune.with_parameters(trainable), {'cpu': 1})",
        "Stepwise",
        "tune.with_resources(Stepwise, {'cpu': 1})",
    )
    assert imports(script, "imports_first.py", ", ".join(ways), "installed") == ([ONCE] * len(ways), "")


@pytest.mark.parametrize("kind", ["", "linked"])
def test_a_module_of_the_users_own_is_imported_by_each_trial(script, kind):
    """It may draw a number at its import, or open a file: each trial does so itself, in its own directory."""
    assert imports(script, "imports_first.py", "trainable, generator, Stepwise", kind) == ([BY_EACH] * 3, "")


def test_only_leading_imports_are_preloaded(script):
    """What it does not do first it may not do at all."""
    (script.directory / "own.py").write_text("import sys\nassert 'slow' not in sys.modules, 'imported before'\n")
    found = imports(script, "imports_later.py", "after_the_users_own, InAStep, within", "installed")
    assert found == ([BY_EACH] * 3, "")


def test_a_new_interpreter_for_each_trial_imports_everything_itself(script):
    """`fit_each` starts such for what is "fresh"."""
    found = imports(script, "imports_first.py", "trainable, __import__('users').train", "installed fresh")
    assert found == ([BY_EACH] * 2, "")


def test_a_module_that_starts_a_thread_is_imported_by_each_worker(script):
    assert imports(script, "users.py", "train", kind="thread") == (["[5, 5, 5, 5] set() 5"], "")


@pytest.mark.parametrize(
    ("name", "trainable", "kind", "error"),
    [
        ("imports_first.py", "trainable", "installed broken", "TrialError"),
        ("users.py", "train", "broken", "WorkerStartError"),
    ],
)
def test_an_import_that_fails_is_tried_by_each_trial_and_told_by_them_alone(script, name, trainable, kind, error):
    [found], stderr = imports(script, name, trainable, kind)
    assert found.startswith(f"[None, None, None, None] {{'{error}'}}")
    assert "preload" not in stderr
    assert stderr.count("not in a worker") <= 4
