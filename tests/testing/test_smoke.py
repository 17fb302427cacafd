"""`smoke` and `assert_best`: what passes, what is refused, and the texts."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from kit import Listed, listening

from minitune import ExperimentAnalysis, grid_search, report, uniform
from minitune.error import TuneError
from minitune.testing import SmokeFailure, assert_best, smoke, smoke_runs
from minitune.testing.smoke_runs import ProcessSnapshot

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
        ({"may_leave": ["chaos"]}, ValueError, "may_leave must be a collection of children, threads,"),
        ({"num_sample": 3}, TypeError, "smoke() takes the arguments of TuneConfig and RunConfig, but got num_sample"),
        ({"time_budget_s": 3}, TypeError, "smoke() takes budget_s, but got time_budget_s"),
        ({"storage_path": "x"}, TypeError, "smoke() takes directory, but got storage_path"),
        ({"executor": "threads"}, ValueError, "executor must be 'local', 'inline'"),
        ({"num_samples": 0}, ValueError, "num_samples must be an int >= 1"),
    ],
)
def test_bad_arguments_are_refused_at_once(arguments, kind, text, tmp_path):
    with pytest.raises(kind) as caught:
        smoke(train, {"lr": 1.0}, directory=tmp_path, **arguments)
    assert str(caught.value).startswith(text)


# -- what is left behind -------------------------------------------------------------------------------------------

release = threading.Event()
children = []


def leave_thread(config):
    threading.Thread(target=release.wait, name="left", daemon=True).start()
    return {"loss": 1}


def leave_child(config):
    children.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))
    return {"loss": 1}


def leave_variable(config):
    os.environ["SECRET_OF_A_TRIAL"] = "hunter2"
    os.environ.pop("HOME", None)
    return {"loss": 1}


def leave_directory(config):
    os.chdir(os.path.dirname(os.getcwd()))
    return {"loss": 1}


def leave_file(config):
    Path("model.pkl").touch()
    return {"loss": 1}


def leave_descriptor(config):
    config["fd"].append(os.open(os.devnull, os.O_RDONLY))
    descriptors.extend(config["fd"])
    return {"loss": 1}


descriptors = []


@pytest.mark.parametrize(
    ("trainable", "kind", "text"),
    [
        (leave_thread, "threads", "thread 'left' (daemon=True)"),
        (leave_child, "children", "process "),
        (leave_variable, "environment", "environment variable SECRET_OF_A_TRIAL was set"),
        (leave_directory, "directory", "the working directory is "),
        (leave_file, "files", "file model.pkl in "),
        (leave_descriptor, "descriptors", "-> /dev/null"),
    ],
)
def test_leftovers_are_named_and_undone(trainable, kind, text, tmp_path, monkeypatch):
    if kind == "descriptors" and not sys.platform.startswith("linux"):
        pytest.skip("this system does not show descriptors")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr("minitune.testing.smoke_runs.STRAGGLER_BOUND_S", 0.1)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    release.clear()
    home = os.environ.get("HOME")
    try:
        told = refused(tmp_path, trainable, {"fd": []}, num_samples=1)
        assert told.startswith(f"the trials of {trainable.__name__} have left something behind:")
        assert text in told
        assert "hunter2" not in told
        assert (os.getcwd(), os.environ.get("HOME")) == (str(here), home)
        assert "SECRET_OF_A_TRIAL" not in os.environ
        if kind in ("threads", "descriptors"):
            smoke(trainable, {"fd": []}, num_samples=1, may_leave=[kind], directory=tmp_path / "runs")
    finally:
        release.set()
        for child in children:
            child.kill()
            child.wait()
        children.clear()
        while descriptors:
            os.close(descriptors.pop())
        for thread in threading.enumerate():
            if thread.name == "left":
                thread.join()


def test_nothing_of_a_smoke_test_stays_in_the_process(tmp_path):
    handlers = [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)]
    environment, state = dict(os.environ), random.getstate()
    smoke(train, {"lr": uniform(0, 1)}, directory=tmp_path)
    assert [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)] == handlers
    assert dict(os.environ) == environment
    assert random.getstate() == state


class OnALibrary(Listed):
    """A searcher whose library sets a variable when it is first imported."""

    def __init__(self):
        super().__init__({"lr": 1.0})
        os.environ["SET_BY_A_LIBRARY"] = "1"


def test_changes_by_imported_libraries_are_no_leftovers(tmp_path, monkeypatch):
    monkeypatch.setenv("SET_BY_A_LIBRARY", "")  # taken back after the test
    del os.environ["SET_BY_A_LIBRARY"]
    monkeypatch.setitem(sys.modules, "minitune.search.nevergrad", SimpleNamespace(NevergradSearch=OnALibrary))
    smoke(train, {"lr": 1.0}, directory=tmp_path, search_alg="nevergrad", metric="loss", mode="min", num_samples=1)
    assert os.environ["SET_BY_A_LIBRARY"] == "1"


# -- the bound -----------------------------------------------------------------------------------------------------


def hang(config):
    release.wait()


def spin(config):
    os.environ["SPINNING"] = "1"
    while True:
        pass


def test_a_loop_without_end_is_ended_by_force(tmp_path, monkeypatch):
    monkeypatch.setattr("minitune.testing.smoke_runs.STOP_S", 0.1)
    monkeypatch.setattr("minitune.testing.smoke_runs._INTERRUPT_S", 10)
    text = refused(tmp_path, spin, {}, num_samples=1, budget_s=0.5)
    assert text.startswith("a trial of spin has not stopped 0.1 s after the budget of 0.5 s. It hangs here:")
    assert "SPINNING" not in os.environ


def never_ends(config):
    while True:
        report({"loss": 1.0})


def test_a_hang_ends_at_the_budget_and_the_text_tells_where(tmp_path, monkeypatch):
    monkeypatch.setattr("minitune.testing.smoke_runs.STOP_S", 0.1)
    monkeypatch.setattr("minitune.testing.smoke_runs._INTERRUPT_S", 0.1)
    monkeypatch.setattr("minitune.testing.smoke_runs.STRAGGLER_BOUND_S", 0.1)
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


# -- the state of a process ----------------------------------------------------------------------------------------
def test_handlers_of_signals_are_named_and_put_back():
    own = signal.getsignal(signal.SIGUSR1)
    before = ProcessSnapshot(("signals",))
    assert before.leftovers(0) == []
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        (told,) = before.leftovers(0)
        assert told.startswith("the handler of SIGUSR1 is ")
        assert "SIG_IGN" in told
        assert signal.getsignal(signal.SIGUSR1) is own
    finally:
        signal.signal(signal.SIGUSR1, own)
    assert before.leftovers(0) == []


def test_variables_that_libraries_set_stay_and_others_are_put_back(monkeypatch):
    for name, value in (("CHANGED_ONE", "1"), ("REMOVED_ONE", "2")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SET_ONE", raising=False)
    monkeypatch.delenv("TORCH_ONE", raising=False)
    before = ProcessSnapshot(("environment",))
    monkeypatch.setenv("CHANGED_ONE", "9")
    monkeypatch.delenv("REMOVED_ONE")
    for name in ("SET_ONE", "TORCH_ONE", "CUDA_MODULE_LOADING"):
        monkeypatch.setenv(name, "9")
    assert before.leftovers(0) == [
        "environment variable CHANGED_ONE was changed",
        "environment variable REMOVED_ONE was removed",
        "environment variable SET_ONE was set",
    ]
    assert [os.environ.get(name) for name in ("CHANGED_ONE", "REMOVED_ONE", "SET_ONE", "TORCH_ONE")] == [
        *("1", "2", None, "9")
    ]
    assert before.leftovers(0) == []


def test_files_of_test_runners_are_no_leftovers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").touch()
    before = ProcessSnapshot(("files",))
    for name in ("__pycache__", ".pytest_cache", ".coverage.host.1", "b", "a"):
        (tmp_path / name).touch()
    assert before.leftovers(0) == [f"file a in {tmp_path}", f"file b in {tmp_path}"]


def test_a_working_directory_that_is_gone_is_no_fault_of_the_trials(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    before = ProcessSnapshot(("directory", "files"))
    assert before.leftovers(0) == []
    os.chdir(tmp_path)
    assert before.leftovers(0) == []


@pytest.mark.parametrize(
    ("new", "told"),
    [
        ({3: "/a", 4: "pipe:[1]"}, ["descriptor 3 -> /a", "descriptor 4 -> pipe:[1]"]),
        ({3: "/a", 4: "/dev/nvidia0"}, []),  # the library of a GPU keeps others, too
        ({}, []),
    ],
)
def test_descriptors_are_named_unless_a_library_keeps_them(monkeypatch, new, told):
    table = {1: "/dev/tty", 2: "/dev/tty"}
    monkeypatch.setattr("minitune.testing.smoke_runs._descriptors", lambda: dict(table))
    before = ProcessSnapshot(("descriptors",))
    table.update(new)
    del table[2]
    assert before.leftovers(0) == told


def test_only_the_kinds_that_were_asked_for_are_looked_at(monkeypatch):
    monkeypatch.delenv("SET_ONE", raising=False)
    before = ProcessSnapshot(("files", "signals"))
    monkeypatch.setenv("SET_ONE", "1")
    assert before.leftovers(0) == []
    assert os.environ["SET_ONE"] == "1"


class TMonitor(threading.Thread):
    """A thread with the name of the class of tqdm's."""


def test_threads_that_libraries_keep_are_no_leftovers():
    release.clear()
    before = ProcessSnapshot(("threads",))
    threads = [
        TMonitor(target=release.wait, daemon=True),
        threading.Thread(target=release.wait, name="own", daemon=False),
    ]
    for thread in threads:
        thread.start()
    try:
        assert before.leftovers(0) == ["thread 'own' (daemon=False)"]
    finally:
        release.set()
        for thread in threads:
            thread.join()
    assert before.leftovers(0) == []


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
