"""Trials that take too long are ended, and their errors say which limit, what they were doing, and where to look."""

import ctypes
import heapq
import os
import signal
import subprocess
import time

import pytest
from kit import (
    PauseOnce,
    SavedCounter,
    Spy,
    deciding,
    fit,
    is_gone,
    report_state,
    restored_state,
    run_path,
    virtual_executor,
)

from minitune import Trainable, get_context, grid_search, report
from minitune.base import clock
from minitune.base.clock import VirtualClock
from minitune.error import TrialTimeoutError
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor
from minitune.executors.local import LocalTrialExecutor
from minitune.executors.trial_executor import Placed
from minitune.stopper import Stopper


def wait_for_ever():
    while True:
        time.sleep(0.01)


def hold_the_lock():
    ctypes.PyDLL(None).sleep(300)


def freeze():
    os.kill(os.getpid(), signal.SIGSTOP)


def wait_with_a_child():
    print(subprocess.Popen(["sleep", "300"]).pid)
    wait_for_ever()


def nothing():
    pass


WAYS = {way.__name__: way for way in (wait_for_ever, hold_the_lock, freeze, wait_with_a_child, nothing)}


@pytest.mark.usefixtures("short_grace")
def test_trials_that_do_not_report_are_ended_with_their_stacks_and_children(monkeypatch):
    """Side by side, with one that is fine."""
    monkeypatch.setenv("MINITUNE_NUM_CPUS", "5")

    def trainable(config):
        for i in range(3):
            report({"i": i})
        WAYS[config["way"]]()
        report({"i": 3})

    *late, fine = fit(trainable, {"way": grid_search(list(WAYS))}, executor="local", report_timeout_s=2)
    assert (fine.error, fine.metrics["i"]) == (None, 3)
    for result in late:
        assert isinstance(result.error, TrialTimeoutError)
        assert result.metrics["i"] == 2
        assert "report_timeout_s=2: no report for 2.0 s (last: iteration 3)" in str(result.error)
        assert result.config["way"] == "freeze" or f"in {result.config['way']}" in str(result.error)
    (output,) = run_path().glob("*way=wait_with_a_child*/stdout")
    assert is_gone(int(output.read_text()))


class Slow(Trainable):
    def setup(self, config):
        if config["x"] == 0:
            time.sleep(300)

    def step(self):
        time.sleep(0.05)
        return {"done": self.config["x"] == 2}


@pytest.mark.usefixtures("short_grace")
def test_time_limit_of_a_trial_counts_setup_and_reports():
    """And the next one has its turn."""
    limits = {"trial_timeout_s": 3, "max_concurrent_trials": 2}
    in_setup, in_step, last = fit(Slow, {"x": grid_search([0, 1, 2])}, executor="local", **limits)
    assert isinstance(in_setup.error, TrialTimeoutError)
    assert isinstance(in_step.error, TrialTimeoutError)
    assert "trial_timeout_s=3: not done after 3.0 s (last: none)" in str(in_setup.error)
    assert "in setup" in str(in_setup.error)
    assert "trial_timeout_s=3: not done after 3.0 s (last: iteration " in str(in_step.error)
    assert last.error is None


def sleeping(config):
    """Sleeps before each of its reports, so many seconds of the executor's clock."""
    for i, seconds in enumerate(config["seconds"]):
        clock.current.sleep(seconds)
        report({"i": i})


@pytest.mark.usefixtures("short_grace")
def test_a_trial_over_its_limit_fails_although_the_run_ends_before_its_worker(monkeypatch):
    stopped = []
    stop = LocalTrialExecutor.stop

    def noting(self, *args, **options):
        stopped.append(args)
        return stop(self, *args, **options)

    class WhenStopped(Stopper):
        def __call__(self, trial_id, result):
            return False

        def stop_all(self):
            return bool(stopped)

    monkeypatch.setattr(LocalTrialExecutor, "stop", noting)
    (result,) = fit(lambda config: wait_for_ever(), executor="local", stop=WhenStopped(), report_timeout_s=0.5)
    assert isinstance(result.error, TrialTimeoutError)
    assert len(stopped) == 1


@pytest.mark.parametrize(
    ("limit", "fine", "late", "told"),
    [
        ("report_timeout_s", [2] * 9, [5], "no report for 3.0 s (last: none)"),
        ("trial_timeout_s", [1], [2, 2], "not done after 3.0 s (last: iteration 1)"),
    ],
)
def test_limits_hold_on_a_virtual_clock(limit, fine, late, told):
    """A trial may be slow as long as it reports, if only the time of a report is limited."""
    grid = fit(sleeping, {"seconds": grid_search([fine, late])}, executor=virtual_executor(2), **{limit: 3})
    assert (grid[0].error, grid[0].metrics["i"]) == (None, len(fine) - 1)
    assert isinstance(grid[1].error, TrialTimeoutError)
    assert told in str(grid[1].error)


class Queued(InlineTrialExecutor):
    """Its actors wait in a queue for 60 s, as those of a cluster do."""

    has_queue = True

    def start(self, spec):
        super().start(spec)
        work = self._work[-1]
        work.begins_s += 60
        heapq.heappush(self._ends, (work.begins_s, next(self._sequence), Placed(spec.actor_id), work.actor))


def test_the_time_of_a_trial_begins_when_it_leaves_the_queue():
    executor = Queued(Machine({"CPU": 2}, ()), VirtualClock())
    grid = fit(sleeping, {"seconds": grid_search([[9], [20]])}, executor=executor, trial_timeout_s=10)
    assert grid[0].error is None
    assert isinstance(grid[1].error, TrialTimeoutError)
    assert executor.clock.monotonic() == pytest.approx(70)


def test_a_broken_limit_is_a_failure_that_is_retried():
    def trainable(config):
        clock.current.sleep(5 if get_context().get_attempt() == 1 else 1)
        report({"attempt": get_context().get_attempt()})

    (result,) = fit(trainable, executor=virtual_executor(), report_timeout_s=3, max_failures=1)
    assert (result.error, result.metrics["attempt"]) == (None, 2)


@pytest.mark.parametrize(
    ("settings", "attempts"),
    [
        ({}, 3),
        ({"stop": {"i": 1}}, 3),
        ({"scheduler": deciding(lambda context, trial, result: "STOP")}, 3),
        ({"scheduler": PauseOnce(), "num_to_keep": 1}, 6),
        ({"max_failures": 1}, 6),
    ],
    ids=["they return", "they reach a limit", "they are stopped", "they are paused", "they are tried again"],
)
def test_a_limit_ends_with_the_attempt_that_it_is_for(settings, attempts):
    """Trials take turns on one CPU: each attempt has its three seconds, however many have gone before it."""
    starts = []

    def trainable(config):
        starts.append(clock.current.monotonic())
        for i in range(restored_state(), 2):
            clock.current.sleep(1)
            if "max_failures" in settings and get_context().get_attempt() == 1 and i == 1:
                raise ValueError("for once")
            report_state(i + 1, {"i": i})
        clock.current.sleep(0.5)

    limits = {"trial_timeout_s": 3, "report_timeout_s": 2}
    grid = fit(trainable, num_samples=3, executor=virtual_executor(1), **limits, **settings)
    assert not grid.errors
    assert len(starts) == attempts
    assert starts[-1] > 3 or attempts == 3


def test_a_save_is_no_report_that_is_late():
    class SavesSlowly(SavedCounter):
        def save_checkpoint(self, checkpoint_dir):
            clock.current.sleep(5)
            return super().save_checkpoint(checkpoint_dir)

    limits = {"report_timeout_s": 3, "checkpoint_frequency": 1}
    grid = fit(SavesSlowly, {"end": 3}, executor=virtual_executor(1), **limits)
    assert grid[0].error is None
    assert grid[0].metrics["n"] == 3


def test_a_report_that_the_driver_had_no_time_to_read_is_not_late():
    def hold_the_driver_up(trial, result):
        if trial.number == 0:
            clock.current.sleep(10)

    grid = fit(
        sleeping,
        {"seconds": grid_search([[1], [2, 2]])},
        executor=virtual_executor(2),
        report_timeout_s=3,
        callbacks=[Spy(hold_the_driver_up)],
    )
    assert [result.error for result in grid] == [None, None]
    assert grid[1].metrics["i"] == 1
