"""How trials die, what is said of it, and what goes on."""

import ctypes
import importlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from kit import Log, LoggingStopper, fit, is_gone, report_state, restored_state

from minitune import get_context, grid_search, report
from minitune.error import CrashLoopError, TrialError, TuneError, WorkerDiedError, WorkerStartError

SCRIPTS = Path(__file__).with_name("scripts")


@pytest.mark.usefixtures("hurried")
def test_a_trial_that_exits_goes_on_from_its_checkpoint(caplog):
    def trainable(config):
        for i in range(restored_state() + 1, 5):
            print("iteration", i)
            if i == 3 and config["x"] == 1 and get_context().get_attempt() == 1:
                os._exit(3)
            report_state(i, {"i": i})

    grid = fit(trainable, {"x": grid_search([0, 1])}, executor="local", max_failures=1)
    assert [(r.metrics["i"], r.metrics["training_iteration"], r.error) for r in grid] == [(4, 4, None)] * 2
    [warning] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    for text in ("trainable_", "exit code 3", "attempt 2 of 2", "checkpoint_000001"):
        assert text in warning
    directory = Path(grid[1].path)
    assert "exit code 3" in (directory / "error.txt").read_text()
    rows = [json.loads(line)["training_iteration"] for line in (directory / "result.json").read_text().splitlines()]
    assert rows == [1, 2, 3, 4]
    assert (directory / "stdout").read_text() == "".join(f"iteration {i}\n" for i in (1, 2, 3, 3, 4))


@pytest.mark.usefixtures("hurried")
def test_a_killed_worker_is_an_error_that_says_all_there_is_to_know():
    """The other trial knows nothing of it."""

    def trainable(config):
        report({"i": 1})
        print("the last words of", config["x"])
        if config["x"] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        report({"i": 2})

    dead, alive = fit(trainable, {"x": grid_search([0, 1])}, executor="local")
    assert (alive.metrics["i"], alive.error) == (2, None)
    assert dead.metrics["i"] == 1
    assert isinstance(dead.error, WorkerDiedError)
    assert isinstance(dead.error, TrialError)
    pid = dead.metrics["pid"]
    for text in ("SIGKILL (9)", f"pid {pid}", "iteration 1", "last words of 0", dead.path, "out of memory"):
        assert text in str(dead.error)
    assert re.search(r"peak memory \d+ MiB", str(dead.error))
    assert str(dead.error) in Path(dead.path, "error.txt").read_text()


def test_a_crash_in_c_leaves_the_python_stack():
    def trainable(config):
        def deeply_inside():
            ctypes.string_at(0)

        deeply_inside()

    [result] = fit(trainable, executor="local")
    for text in (str(result.error), *(Path(result.path, name).read_text() for name in ("error.txt", "stderr"))):
        assert "Segmentation fault" in text
        assert "in deeply_inside" in text
    assert "SIGSEGV (11)" in str(result.error)


@pytest.mark.usefixtures("one_cpu", "hurried")
def test_a_trial_that_ends_its_process_in_order_has_not_crashed():
    class Own(BaseException):
        pass

    def trainable(config):
        report({"i": 1})
        if config["x"] < 6:
            raise [
                SystemExit(4),
                SystemExit("a word"),
                KeyboardInterrupt("stop it"),
                Own("mine"),
                SystemExit(0),
                StopIteration,
            ][config["x"]]
        return {"i": 2}

    grid = fit(trainable, {"x": grid_search(list(range(7)))}, executor="local", reuse_actors=True)
    assert [result.error and str(result.error).splitlines()[-1] for result in grid] == [
        "SystemExit: 4",
        "SystemExit: a word",
        "KeyboardInterrupt: stop it",
        "test_deaths.Own: mine",
        None,
        None,
        None,
    ]
    assert [result.metrics["i"] for result in grid] == [1, 1, 1, 1, 1, 1, 2]
    pids = [result.metrics["pid"] for result in grid]
    assert len(set(pids)) == 5, "a worker whose trial has failed is not handed on"
    assert len(set(pids[4:])) == 1, "one whose trial has finished is"


class Bomb:
    """Calls a function when it is pickled for the second time; the first time, a report is only checked."""

    def __init__(self, explode):
        self.explode, self.times = explode, 0

    def __reduce__(self):
        self.times += 1
        if self.times == 2:
            self.explode()
        return int, ()


def kill_itself():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.usefixtures("hurried")
def test_unreported_checkpoint_does_not_count(caplog):
    """The worker dies when the report is pickled, after the checkpoint was renamed into its place."""

    def trainable(config):
        attempt, begin = get_context().get_attempt(), restored_state()
        found = sorted(path.name for path in Path().glob("checkpoint_*"))
        for i in range(begin + 1, 4):
            bomb = Bomb(kill_itself) if i == 2 and attempt == 1 else 0
            report_state(i, {"i": i, "attempt": attempt, "found": found, "bomb": bomb})

    [result] = fit(trainable, executor="local", max_failures=1)
    metrics = result.metrics
    assert (metrics["i"], metrics["attempt"], metrics["found"]) == (3, 2, ["checkpoint_000000"]), result.error
    assert "SIGKILL (9)" in caplog.text
    assert "starts from checkpoint_000000" in caplog.text


@pytest.mark.parametrize("end", ["dies", "is ended"])
def test_unreported_checkpoint_is_removed(end, tmp_path, monkeypatch):
    """The trial has no further attempt that would tidy up after the one before."""
    monkeypatch.setenv("MINITUNE_FORCE_TRIAL_CLEANUP_S", "0.1")
    monkeypatch.setattr("minitune.driver.hooks.ASKED_EVERY_S", 0.05)
    stuck = tmp_path / "stuck"

    def hang():
        stuck.touch()
        while True:
            time.sleep(0.05)

    def trainable(config):
        report_state(1, {"i": 1})
        report_state(2, {"i": 2, "bomb": Bomb(kill_itself if end == "dies" else hang)})

    [result] = fit(trainable, executor="local", stop=LoggingStopper(Log(), stop_all_when=stuck.exists))
    assert result.metrics["i"] == 1
    assert [path.name for path in Path(result.path).glob("*checkpoint*")] == ["checkpoint_000000"]


def needy(directory, monkeypatch, way):
    """The trainable of a module that no worker can import: it raises there, or exits."""
    shutil.copy(SCRIPTS / "needy.py", directory)
    monkeypatch.syspath_prepend(str(directory))
    monkeypatch.setenv("NEEDY", way)
    monkeypatch.delitem(sys.modules, "needy", raising=False)
    return importlib.import_module("needy").trainable


@pytest.mark.parametrize(
    ("way", "kind", "text"),
    [
        ("raises", ImportError, "ImportError: libfoo is missing"),
        ("exits", WorkerStartError, "exit code 7"),
    ],
)
def test_a_module_that_no_worker_can_import_fails_its_trials_with_the_reason(way, kind, text, tmp_path, monkeypatch):
    errors = fit(needy(tmp_path, monkeypatch, way), num_samples=2, executor="local").errors
    assert len(errors) == 2
    for error in errors:
        assert isinstance(error, WorkerStartError)
        assert isinstance(error, kind) or isinstance(error.__cause__, kind)
        assert text in str(error)


@pytest.mark.usefixtures("hurried")
def test_run_ends_if_no_worker_ever_starts(tmp_path, monkeypatch):
    trainable = needy(tmp_path, monkeypatch, "exits")
    with pytest.raises(CrashLoopError, match=r"^30 attempts in a row have brought no new report.*exit code 7"):
        fit(trainable, num_samples=3, max_failures=-1, executor="local")


def test_a_config_that_json_cannot_hold_keeps_its_classes_over_a_resume(script):
    source = SCRIPTS / "classes_in_a_configuration.py"
    (script.directory / "first").touch()
    driver = script.start(source, str(script.directory), "fit")
    script.finish(driver)
    assert driver.returncode == -signal.SIGKILL
    assert "Colour.RED" in (script.trial_directories()[0] / "params.json").read_text()
    assert script.run(source, str(script.directory), "restore") == "None [True, True, 42] True\n"


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("refusals", [3, 1_000_000])
def test_a_system_without_processes_is_waited_for_and_no_trial_is_to_blame(refusals, tmp_path, monkeypatch, caplog):
    if os.environ.get("MINITUNE_START_METHOD") == "interpreter":
        pytest.skip("new interpreters are not forked in Python code, where this test could refuse it")
    shutil.copy(SCRIPTS / "too_few_processes.py", tmp_path / "sitecustomize.py")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("REFUSED_FORKS", str(refusals))

    def run():
        return [r.metrics["y"] for r in fit(lambda config: {"y": 1}, num_samples=3, executor="local")]

    if refusals == 3:
        assert run() == [1, 1, 1]
    else:
        with pytest.raises(CrashLoopError, match=r"^8 attempts in a row have brought no new report.*ulimit -u"):
            run()
    assert caplog.text.count("Resource temporarily unavailable") == 1


@pytest.mark.usefixtures("hurried")
def test_where_workers_must_not_be_forked_the_run_ends_and_names_the_way_out(tmp_path, monkeypatch):
    if os.environ.get("MINITUNE_START_METHOD") == "interpreter":
        pytest.skip("none is forked")
    shutil.copy(SCRIPTS / "forbids_descriptors.py", tmp_path / "sitecustomize.py")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(TuneError, match="MINITUNE_START_METHOD=interpreter"):
        fit(lambda config: {"y": 1}, executor="local")
    monkeypatch.setenv("MINITUNE_START_METHOD", "interpreter")
    assert [result.metrics["y"] for result in fit(lambda config: {"y": 1}, executor="local")] == [1]


@pytest.mark.usefixtures("hurried")
def test_zygote_death_is_no_failure_of_its_workers(tmp_path, caplog):
    if os.environ.get("MINITUNE_START_METHOD") == "interpreter":
        pytest.skip("there is none")

    def trainable(config):
        attempt = get_context().get_attempt()
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        (tmp_path / f"{attempt}-{config['x']}").write_text(f"{child.pid}\n")
        while attempt == 1:
            if config["x"] == 0 and len(list(tmp_path.glob("1-*"))) == 2:
                os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(0.01)
        return {"y": attempt}

    grid = fit(trainable, {"x": grid_search([0, 1])}, executor="local")
    assert [(result.metrics["y"], result.error) for result in grid] == [(2, None)] * 2
    assert "the zygote ended with status -9" in caplog.text
    children = [int(path.read_text()) for path in tmp_path.glob("[12]-[01]")]
    assert len(children) == 4
    assert all(map(is_gone, children))


# -- values that cannot be pickled, and exceptions that must arrive ----------------------------------------------------


class Plain(ValueError):
    pass


class Holder(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


class TwoArguments(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class NoText(Exception):
    def __str__(self):
        raise RuntimeError("not even this")


class NoReduce(Exception):
    def __reduce__(self):
        raise RuntimeError("no")


def circle():
    error = Plain("round and round")
    error.__cause__ = Plain("other")
    error.__cause__.__cause__ = error
    return error


def test_any_exception_arrives_with_name_message_and_traceback():
    makers = [
        lambda: Plain("just so"),
        lambda: Holder("held"),
        lambda: TwoArguments("this", "that"),
        lambda: NoText("unseen"),
        lambda: NoReduce("stays"),
        lambda: Plain("x" * 20_000_000),
        circle,
    ]

    def trainable(config):
        raise makers[config["x"]]()

    errors = [result.error for result in fit(trainable, {"x": grid_search(list(range(7)))}, executor="local")]
    texts = list(map(str, errors))
    for text in texts:
        assert "in trainable" in text
        assert "minitune/trainable" not in text
    lasts = [text.splitlines()[-1].removeprefix("test_deaths.") for text in texts]
    assert lasts[:3] == ["Plain: just so", "Holder: held", "TwoArguments: this and that"]
    assert lasts[3].startswith("NoText: ")
    assert lasts[4] == "NoReduce: stays"
    assert "characters left out" in texts[5]
    assert len(texts[5]) < 70_000
    assert lasts[6] == "Plain: round and round"
    assert isinstance(errors[0].__cause__, Plain)
    assert isinstance(errors[6].__cause__, Plain)


AWKWARD = SCRIPTS / "awkward_metrics.py"


def test_awkward_metrics_come_back_as_they_are_also_after_a_restore(script):
    first = script.run(AWKWARD, "fit")
    assert first.startswith("None True 3 True\n")
    assert first.rstrip().endswith(" 23")
    assert str(10**400) in first
    assert script.run(AWKWARD, "restore") == first
