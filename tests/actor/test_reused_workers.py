"""A worker that is handed on: what its first trial did to the process is undone before the next one."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from kit import SavedCounter, fit

from minitune import FIFOScheduler, get_context, grid_search, report

pytestmark = pytest.mark.usefixtures("one_cpu")


@pytest.fixture(autouse=True)
def short_grace(monkeypatch):
    monkeypatch.setenv("MINITUNE_FORCE_TRIAL_CLEANUP_S", "0.2")


def on_one_worker(trainable, **settings):
    """The results of trials 0 and 1; that the second one had the worker of the first is part of the test."""
    grid = fit(trainable, {"x": grid_search([0, 1])}, executor="local", reuse_actors=True, **settings)
    assert grid[0].error is None
    assert grid[0].metrics["pid"] == grid[1].metrics["pid"]
    return grid


def deaf(config):
    report({"pid": os.getpid()})
    if config["x"] == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return
    try:
        while True:
            time.sleep(0.01)
    finally:
        Path("unwound").touch()


def test_stop_reaches_the_next_trial_of_a_reused_worker():
    """One that never reports is ended by SIGTERM, upon which its `finally` blocks run."""
    grid = on_one_worker(deaf, report_timeout_s=2)
    assert type(grid[1].error).__name__ == "TrialTimeoutError"
    assert Path(grid[1].path, "unwound").exists()


def asked_to_end(config):
    report({"pid": os.getpid(), "is_over": int(config["x"] == 0)})
    if config["x"] == 1 and get_context().get_attempt() == 1:
        Path("pid").write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):
            pass
        Path("survived").touch()


@pytest.mark.usefixtures("hurried")
def test_an_unexpected_signal_ends_the_process():
    """It had been asked to end its first trial; it must not take this one for the same."""
    space = {"x": grid_search([0, 1])}
    grid = fit(asked_to_end, space, executor="local", reuse_actors=True, stop={"is_over": 1})
    assert Path(grid[1].path, "pid").read_text() == str(grid[0].metrics["pid"]), "the worker was handed on"
    assert not Path(grid[1].path, "survived").exists()
    assert grid[1].metrics["pid"] != grid[0].metrics["pid"], "the next attempt has another worker"


def leaves_something(config):
    report({"pid": os.getpid()})
    if config["left"] == "thread":
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    elif config["left"] == "child":
        subprocess.Popen(["sleep", "3600"])


def test_leftovers_of_a_function_end_before_the_next_trial():
    """A function that has returned is not asked to end; all the same its worker is looked at."""
    space = {"left": grid_search(["nothing", "thread", "child", "nothing"])}
    pids = [result.metrics["pid"] for result in fit(leaves_something, space, executor="local", reuse_actors=True)]
    assert pids[0] == pids[1]
    assert len(set(pids)) == 3


class Hasty(FIFOScheduler):
    """Stops or pauses one trial that starts."""

    def __init__(self, verb):
        self.verb = verb
        self.met = None

    def on_trial_add(self, tune_controller, trial):
        for other in tune_controller.get_live_trials():
            if other.phase.name == "STARTING" and other.number > 0 and self.met is None:
                self.met = other
                getattr(tune_controller, self.verb)(other)


@pytest.mark.parametrize("verb", ["stop_trial", "pause_trial"])
def test_trial_ended_before_its_start_leaves_its_worker_to_the_next(verb, monkeypatch):
    """Its worker is there at once. The run waits for no other event, because no other trial has a worker."""
    monkeypatch.setenv("MINITUNE_NUM_CPUS", "4")
    monkeypatch.setenv("MINITUNE_MAX_PENDING_TRIALS", "2")
    hasty = Hasty(verb)
    grid = fit(lambda config: {"y": 1}, num_samples=6, executor="local", scheduler=hasty, reuse_actors=True)
    stopped = hasty.met.number if verb == "stop_trial" else None
    assert [result.metrics.get("y") for result in grid] == [None if n == stopped else 1 for n in range(6)]


class Pausing(FIFOScheduler):
    def on_trial_result(self, tune_controller, trial, result):
        return self.PAUSE if result["attempt"] == 2 else self.CONTINUE


class Killing(SavedCounter):
    def step(self):
        attempt = get_context().get_attempt()
        if attempt in (1, 3, 4):
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(600)
        return {**super().step(), "attempt": attempt, "done": attempt > 2}

    def reset_config(self, new_config):
        return True


@pytest.mark.usefixtures("hurried")
@pytest.mark.skipif(sys.platform != "linux", reason="a worker's parent is the driver itself")
def test_a_trial_that_pauses_well_has_not_lost_its_worker_again_and_again(monkeypatch):
    """Three losses in a row are held against a trial. A pause between them ends the row."""
    monkeypatch.setenv("MINITUNE_START_METHOD", "zygote")
    monkeypatch.setattr("minitune.driver.limits._MAX_LOSSES", 3)
    [result] = fit(Killing, executor="local", scheduler=Pausing(), reuse_actors=True)
    assert (result.error, result.metrics["attempt"]) == (None, 5)
