"""`smoke` and `assert_best`: what passes, what is refused, and the texts."""

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from kit import listening

from minitune import ExperimentAnalysis, grid_search, report, uniform
from minitune.error import TuneError
from minitune.testing import SmokeFailure, assert_best, smoke, smoke_runs

SCRIPTS = Path(__file__).with_name("scripts")

BY_REFERENCE = True  # see `conftest`


def train(config):
    for i in range(1, 4):
        report({"loss": config["lr"] / i})


def break_down(lr):
    if lr > 0.5:
        raise ValueError(f"lr={lr} is too large")


def fail_late(config):
    report({"loss": 1.0})
    break_down(config["lr"])


def refused(directory, *arguments, **options):
    with pytest.raises(SmokeFailure) as caught:
        smoke(*arguments, directory=directory / "runs", **options)
    return str(caught.value)


@pytest.mark.parametrize("executor", ["inline", "local"])
def test_a_good_trainable_passes_and_the_results_are_there(executor, tmp_path):
    space = {"lr": uniform(0, 1)}
    grid = smoke(train, space, metric="loss", mode="min", executor=executor, directory=tmp_path)
    assert [result.metrics["training_iteration"] for result in grid] == [3, 3]
    assert Path(grid.experiment_path).parent == tmp_path
    again = smoke(train, space, directory=tmp_path)
    assert [result.config for result in again] == [result.config for result in grid]


def test_failures_of_several_kinds_are_told_with_their_numbers(tmp_path):
    def fails(config):
        raise ValueError(f"{config['n']} is odd" if config["n"] % 2 else "even")

    text = refused(tmp_path, fails, {"n": grid_search([1, 2, 3])}, num_samples=1)
    assert "all failures:\n  2 x ValueError: 1 is odd\n  1 x ValueError: even" in text


def test_a_failure_shows_the_users_frames_the_configuration_and_the_seed(tmp_path):
    text = refused(tmp_path, fail_late, {"lr": grid_search([0.1, 0.7, 0.8])}, num_samples=1, seed=7)
    assert text.startswith("2 of 3 trials of fail_late failed\n")
    assert 'break_down(config["lr"])' in text
    assert "ValueError: lr=0.7 is too large" in text
    assert "configuration: {'lr': 0.7}" in text
    assert "seed:          7" in text
    assert "all failures:" not in text, "they are of one kind"
    assert os.sep.join(("minitune", "executors")) not in text


def test_arguments_go_to_the_config_that_has_them(tmp_path):
    limits = {"stop": {"training_iteration": 2}, "max_concurrent_trials": 1}
    grid = smoke(train, {"lr": 1.0}, name="short", directory=tmp_path, **limits)
    assert [result.metrics["training_iteration"] for result in grid] == [2, 2]
    assert os.path.basename(grid.experiment_path) == "short"


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"budget_s": 0}, ValueError, "budget_s must be a number of seconds > 0, but got 0"),
        ({"budget_s": "5"}, ValueError, "budget_s must be a number of seconds > 0, but got '5'"),
        ({"num_sample": 3}, TypeError, "RunConfig() takes no argument 'num_sample'"),
        ({"time_budget_s": 3}, TypeError, "minitune.tune_config.TuneConfig() got multiple values for keyword"),
        ({"storage_path": "x"}, TypeError, "minitune.config.RunConfig() got multiple values for keyword"),
        ({"executor": "threads"}, ValueError, "executor must be 'local', 'inline'"),
        ({"num_samples": 0}, ValueError, "num_samples must be an int >= 1"),
    ],
)
def test_bad_arguments_are_refused_at_once(arguments, kind, text, tmp_path):
    with pytest.raises(kind) as caught:
        smoke(train, {"lr": 1.0}, directory=tmp_path, **arguments)
    assert str(caught.value).startswith(text)


# -- the bound -----------------------------------------------------------------------------------------------------

release = threading.Event()


def hang(config):
    release.wait()


def never_ends(config):
    while True:
        report({"loss": 1.0})


def test_a_hang_ends_at_the_budget_and_the_text_tells_where(tmp_path, monkeypatch):
    monkeypatch.setattr("minitune.testing.smoke_runs.STOP_S", 0.1)
    release.clear()
    before = set(threading.enumerate())
    try:
        text = refused(tmp_path, hang, {}, num_samples=1, budget_s=1.0)
    finally:
        release.set()
        for thread in set(threading.enumerate()) - before:
            thread.join()
    assert text.startswith("a trial of hang has not stopped 0.1 s after the budget of 1 s; its threads stay")
    assert "in hang\n    release.wait()" in text
    assert text.count("File") == 1


def hang_in_the_end(config):
    for _ in range(config["reports"]):
        report({"loss": 1.0})
    hang(config)


@pytest.mark.parametrize("reports", [0, 1])
def test_hanging_trial_in_a_process_fails_with_its_stack(reports, tmp_path, monkeypatch):
    monkeypatch.setattr("minitune.testing.smoke_runs.STOP_S", 0.1)
    release.clear()
    # The budget is long enough for a slow machine. The limit of reports, a share of it, ends the trial before.
    monkeypatch.setattr("minitune.testing.smoke_runs._SILENT_SHARE", 0.01)
    options = {"num_samples": 1, "budget_s": 50, "executor": "local"}
    told = refused(tmp_path, hang_in_the_end, {"reports": reports}, **options)
    assert told.startswith("1 of 1 trials of hang_in_the_end failed")
    assert "no report for 0.5 s" in told
    assert f'File "{__file__}", line {hang.__code__.co_firstlineno + 1} in hang\n' in told


def test_a_training_without_end_is_stopped_at_the_budget(tmp_path):
    grid = smoke(never_ends, {}, num_samples=1, budget_s=0.1, directory=tmp_path)
    assert grid[0].metrics["training_iteration"] > 1


def test_a_training_without_reports_gets_advice(tmp_path):
    text = refused(tmp_path, lambda config: None, {}, num_samples=1)
    assert text.endswith("has reported anything before its end: call report(), or return a dict of metrics")


# -- assert_best ---------------------------------------------------------------------------------------------------


def test_assert_best_returns_the_best_trial_or_names_it(tmp_path):
    grid = smoke(train, {"lr": grid_search([0.3, 0.6])}, num_samples=1, metric="loss", mode="min", directory=tmp_path)
    assert assert_best(grid, at_most=0.2).config == {"lr": 0.3}
    assert assert_best(ExperimentAnalysis(grid.experiment_path), "loss", at_most=0.2).config == {"lr": 0.3}
    assert assert_best(grid, "loss", at_least=0.19, mode="max").config == {"lr": 0.6}
    with pytest.raises(AssertionError) as caught:
        assert_best(grid, "loss", at_most=0.05)
    told = str(caught.value)
    assert told.startswith("expected best loss <= 0.05, got loss=0.1 with ")
    assert " with lr=0.3 (trial " in told
    with pytest.raises(
        AssertionError,
        match=r"expected best accuracy >= 0\.5, but no trial of 2 has reported 'accuracy'; reported were: loss",
    ):
        assert_best(grid, "accuracy", at_least=0.5)
    with pytest.raises(ValueError, match="at_least or at_most must be a number"):
        assert_best(grid, "loss")
    with pytest.raises(TypeError, match="result_grid must be a ResultGrid"):
        assert_best([], "loss", at_least=1)
    with pytest.raises(ValueError, match="metric must be the metric's name"):
        assert_best(smoke(train, {"lr": 1.0}, num_samples=1, directory=tmp_path), at_least=1)


# -- pytest --------------------------------------------------------------------------------------------------------


def test_the_fixture_fails_a_test_with_the_users_traceback_alone(tmp_path, bound_s):
    shutil.copy(SCRIPTS / "suite_with_the_fixture.py", tmp_path / "test_suite.py")
    shutil.copy(SCRIPTS / "minitune_user.py", tmp_path)
    command = ["-m", "pytest", "-p", "minitune.testing.pytest_plugin", "-p", "no:cacheprovider", "-W", "error", "-q"]
    done = subprocess.run(
        [sys.executable, *command, "test_suite.py", f"--basetemp={tmp_path / 'base'}"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=bound_s(60),
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    told = done.stdout.partition("test_bad")[2].partition("short test summary")[0]
    assert told.count("Traceback") == 1
    assert 'assert lr < 0.5, "too large"' in told
    assert "configuration: {'lr': 0.9}" in told
    assert "seed:          3" in told
    assert "_smoke.py" not in told
    assert "inline.py" not in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "minitune_user.py", "test_suite.py"]


# -- rare ends -----------------------------------------------------------------------------------------------------
def test_a_training_that_reports_nothing_within_its_budget_is_told_so(tmp_path):
    def late(config):
        until_s = time.monotonic() + 0.15
        while time.monotonic() < until_s:
            pass

    text = refused(tmp_path, late, {}, num_samples=1, budget_s=0.1)
    assert text == "no trial of late has reported anything within 0.1 s: report earlier, or give a longer budget_s"


def test_an_error_of_a_plug_in_is_raised_as_it_is(tmp_path):
    def fails(**info):
        raise LookupError("in a callback")

    with pytest.raises(TuneError, match="in a callback"):
        smoke(train, {"lr": 1.0}, num_samples=1, callbacks=[listening(on_trial_result=fails)], directory=tmp_path)


def test_runs_without_a_directory_share_one_that_goes_with_the_process(tmp_path, monkeypatch):
    at_exit = []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("atexit.register", lambda *call: at_exit.append(call))
    smoke_runs._own_directory.cache_clear()
    try:
        paths = [Path(smoke(train, {"lr": 1.0}, num_samples=1).experiment_path) for _ in range(2)]
    finally:
        smoke_runs._own_directory.cache_clear()
    assert paths[0].parent == paths[1].parent
    assert paths[0].parent.parent == tmp_path
    assert paths[0].parent.name.startswith("minitune-smoke-")
    (remove, directory), *_ = [call for call in at_exit if call[1:] == (str(paths[0].parent),)]
    remove(directory)
    assert not paths[0].parent.exists()


def test_the_fixture_passes_its_arguments_on_and_names_the_failure(minitune_smoke, tmp_path):
    grid = minitune_smoke(train, {"lr": 1.0}, num_samples=1)
    assert Path(grid.experiment_path).parent == tmp_path / "minitune"
    assert Path(minitune_smoke(train, {"lr": 1.0}, directory=tmp_path / "own").experiment_path).parent.name == "own"
    with pytest.raises(pytest.fail.Exception, match="1 of 1 trials of fail_late failed") as caught:
        minitune_smoke(fail_late, {"lr": 1.0}, num_samples=1)
    assert not caught.value.pytrace
    frames = [frame.name for frame in caught.traceback]
    assert frames[-1] == "break_down", "where a debugger stops"
