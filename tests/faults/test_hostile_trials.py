"""Trials that misbehave, and places that do: the run goes on, and nothing is left."""

import ctypes
import itertools
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from kit import Log, LoggingStopper, fit, is_gone

from minitune import RunConfig, Trainable, Tuner, grid_search, report

SCRIPTS = Path(__file__).with_name("scripts")

# -- trials that break their own process -------------------------------------------------------------------------------


@pytest.mark.usefixtures("hurried")
def test_closed_descriptors_hurt_only_their_own_trial():
    def trainable(config):
        report({"y": 0})
        if config["x"] == "low":
            os.closerange(3, 1024)
        elif config["x"] == "standard":
            for stream in (sys.stdin, sys.stdout, sys.stderr):
                stream.close()
            sys.stdout = None
            print("into the void")
        elif config["x"] == "numbers":
            os.closerange(0, 3)
        elif config["x"] == "all":
            os.closerange(3, 65536)
        report({"y": 1})
        return {"y": 2}

    space = {"x": grid_search(["low", "standard", "numbers", "none", "all"])}
    *fine, cut_off = fit(trainable, space, executor="local")
    assert [(result.metrics["y"], result.error) for result in fine] == [(2, None)] * 4
    assert cut_off.metrics["y"] == 0
    assert "the trial has closed a pipe to its driver" in str(cut_off.error)


def test_output_of_a_trial_is_in_order():
    def trainable(config):
        logging.basicConfig(stream=sys.stdout, format="%(message)s")
        for i in range(3):
            print(i, "print")
            os.write(1, f"{i} write\n".encode())
            subprocess.run(["echo", f"{i} child"])
            logging.warning("%d logging", i)
            ctypes.CDLL(None).puts(f"{i} C".encode())
            report({"y": i})

    [result] = fit(trainable, executor="local")
    assert result.error is None
    kinds = ("print", "write", "child", "logging", "C")
    lines = "".join(f"{i} {kind}\n" for i in range(3) for kind in kinds)
    assert Path(result.path, "stdout").read_text() == lines


# -- trials that do not stop -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("one_cpu", "short_grace")
def test_trials_that_ignore_a_stop_are_killed_after_the_grace_period():
    def trainable(config):
        report({"y": 1, "pid": os.getpid()})
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        while True:
            try:
                report({"y": 2, "pid": os.getpid()})
                while config["x"] == "no report":
                    pass
            except BaseException:
                pass

    grid = fit(trainable, {"x": grid_search(["swallows", "no report"])}, executor="local", stop={"y": 2})
    assert [(result.metrics["y"], result.metrics["done"], result.error) for result in grid] == [(2, True, None)] * 2
    assert all(is_gone(result.metrics["pid"]) for result in grid)


@pytest.mark.usefixtures("short_grace", "hurried")
def test_a_run_that_ends_waits_for_no_stuck_trial(tmp_path):
    """A signal unwinds what it can interrupt; a loop in C that holds the interpreter's lock is killed."""

    def spin(is_busy):  # of its own: several Pythons do not run the `finally` right around a loop that does nothing
        while is_busy:
            pass

    def trainable(config):
        report({"y": config["x"]})
        try:
            (tmp_path / f"{config['x']}.pid").write_text(str(os.getpid()))
            spin(config["x"] == "busy")
            while config["x"] == "sleep":
                time.sleep(0.05)
            while config["x"] == "interrupted":
                ctypes.PyDLL(None).sleep(600)
            sum(itertools.repeat(0))
        finally:
            (tmp_path / f"{config['x']}.unwound").touch()

    def are_all_stuck():
        return len([path for path in tmp_path.glob("*.pid") if path.read_text()]) == 4

    kinds = ["busy", "sleep", "interrupted", "never"]
    stop = LoggingStopper(Log(), stop_all_when=are_all_stuck)
    grid = fit(trainable, {"x": grid_search(kinds)}, executor="local", stop=stop)
    assert [(result.metrics["y"], result.error) for result in grid] == [(kind, None) for kind in kinds]
    assert grid.num_terminated == 4
    assert {path.name for path in tmp_path.glob("*.unwound")} == {f"{kind}.unwound" for kind in kinds[:3]}
    assert all(is_gone(int(path.read_text())) for path in tmp_path.glob("*.pid"))


@pytest.mark.usefixtures("short_grace")
def test_cleaning_up_that_raises_or_hangs_changes_no_status():
    def in_finally(config):
        try:
            for y in range(9):
                report({"y": y})
        finally:
            if config["x"] == "raises":
                raise ValueError("raised while cleaning up")
            time.sleep(600)

    class InCleanup(Trainable):
        def step(self):
            return {"y": self.iteration}

        def cleanup(self):
            if self.config["x"] == "raises":
                raise ValueError("raised while cleaning up")
            time.sleep(600)

    for name, trainable in (("function", in_finally), ("class", InCleanup)):
        space = {"x": grid_search(["raises", "hangs"])}
        raises, hangs = fit(trainable, space, name=name, executor="local", stop={"y": 2})
        assert (raises.metrics["y"], raises.error) == (hangs.metrics["y"], hangs.error) == (2, None)
        assert "raised while cleaning up" in Path(raises.path, "stderr").read_text()


# -- trials that start more --------------------------------------------------------------------------------------------


def test_a_run_inside_a_trial_dies_with_the_trial(tmp_path):
    def inner(config):
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(600)

    def trainable(config):
        def kill_when_it_runs():
            while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
                time.sleep(0.005)
            os.kill(os.getpid(), signal.SIGKILL)

        threading.Thread(target=kill_when_it_runs).start()
        Tuner(inner, run_config=RunConfig(name="inner", verbose=0)).fit()

    [result] = fit(trainable, executor="local")
    assert "SIGKILL (9)" in str(result.error)
    assert is_gone(int((tmp_path / "pid").read_text()))


# -- places where a run is not at home ---------------------------------------------------------------------------------

PLACE = (SCRIPTS / "away_from_home.py").read_text(encoding="utf-8")


def place(script):
    """A working directory with modules that hide some of Python's own, and one that the trial needs."""
    directory = script.directory / "here"
    directory.mkdir()
    for name in ("signal", "random", "socket", "select", "json", "cloudpickle", "minitune"):
        (directory / f"{name}.py").write_text("raise RuntimeError('this is not the module that you look for')\n")
    library = script.directory / "lib"
    library.mkdir()
    (library / "helper.py").write_text("VALUE = 7\n")
    return directory


def run_in(script, directory, *flags, source=PLACE, **environment):
    """Run a script that lies elsewhere in a working directory; returns its stdout."""
    path = script.directory / "main.py"
    path.write_text(source)
    command = ["sh", "-c", 'cd "$0" && exec "$@"', str(directory), sys.executable, *flags, str(path)]
    process = script.start_command(command, PYTHONPATH=str(script.directory / "lib"), **environment)
    stdout, stderr = script.finish(process)
    assert process.returncode == 0, stderr
    return stdout


@pytest.mark.parametrize("method", ["zygote", "interpreter"])
def test_a_working_directory_full_of_traps_hides_no_module(script, method):
    """And a long path of temporary files, no home, and flags of the interpreter."""
    temporary = script.directory / ("long" * 30)
    temporary.mkdir()
    environment = {"PYTHONSAFEPATH": "1", "TMPDIR": str(temporary), "HOME": "", "MINITUNE_START_METHOD": method}
    stdout = run_in(script, place(script), "-O", "-X", "dev", "-W", "error", **environment)
    assert stdout == "[[1, 7, True], [2, 7, True]] [1, ['default', 'error']]\n"


def test_a_driver_runs_trials_though_its_working_directory_is_gone(script):
    stdout = script.run(SCRIPTS / "stands_nowhere.py")
    assert json.loads(stdout) == [["run", "None"]] * 3


def test_trials_stay_where_the_driver_is_if_they_are_to(script):
    directory = script.directory / "here"
    place(script)
    source = PLACE.replace('os.makedirs("mine")', 'assert os.path.samefile(".", os.environ["PWD"])')
    stdout = run_in(script, directory, source=source, MINITUNE_CHDIR_TO_TRIAL_DIR="0")
    assert stdout.startswith("[[1, 7, True], [2, 7, True]]")


@pytest.mark.parametrize("way", ["module", "stdin", "inserted"])
def test_modules_are_found_where_the_driver_finds_them(script, way):
    """Also by an entry of `sys.path` that is relative to the driver's directory, or empty."""
    place(script)
    where = script.directory / "lib" if way == "inserted" else script.directory
    for name in ("helper", "late"):
        (where / f"{name}.py").write_text("VALUE = 7\n")
    path = script.write(SCRIPTS / "finds_modules.py")
    command = {"module": ["-m", path.stem], "stdin": ["-"], "inserted": [path.name, "lib"]}[way]
    stdin = path.read_text() if way == "stdin" else None
    process = script.start_command([sys.executable, *command], stdin=stdin, MINITUNE_NUM_CPUS="2")
    stdout, stderr = script.finish(process)
    assert stdout == "None [7, 7]\n", stderr


def test_a_driver_may_have_threads_and_a_start_method_of_its_own(script):
    """`fit` in a thread that ends, beside busy ones; the start method of `multiprocessing` is spawn."""
    stdout = script.run(SCRIPTS / "busy_threads.py")
    assert stdout == f"{[[1, 2, 3]] * 3} spawn\n"
