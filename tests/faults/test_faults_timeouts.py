"""Trials that take too long are ended, and their errors say which limit, what they were doing, and where to look."""

from __future__ import annotations

import json

import pytest
from kit import (
    Log,
    LoggingScheduler,
    PauseOnce,
    SavedCounter,
    fit,
    is_gone,
    report_state,
    restored_state,
    virtual_executor,
)

from minitune import Callback, TuneConfig, clock, get_context, grid_search, report
from minitune.error import TrialTimeoutError


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITUNE_FORCE_TRIAL_CLEANUP_S", "0.3")


@pytest.mark.usefixtures("short_grace")
def test_trials_that_do_not_report_are_ended_with_their_stacks_and_children(script):
    """Side by side, with one that is fine."""
    stdout = script.run(
        """
        import ctypes, json, os, signal, subprocess, time
        import minitune as tune

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

        def trainable(config):
            for i in range(3):
                tune.report({"i": i})
            WAYS[config["way"]]()
            tune.report({"i": 3})

        grid = tune.Tuner(
            trainable,
            param_space={"way": tune.grid_search(list(WAYS))},
            tune_config=tune.TuneConfig(report_timeout_s=2),
            run_config=tune.RunConfig(name="run", verbose=0),
        ).fit()
        print(json.dumps({r.config["way"]: [type(r.error).__name__, str(r.error), r.metrics["i"]] for r in grid}))
        """,
        MINITUNE_NUM_CPUS="5",
    )
    seen = json.loads(stdout)
    assert seen.pop("nothing") == ["NoneType", "None", 3]
    assert len(seen) == 4
    for way, (error, text, last) in seen.items():
        assert (error, last) == ("TrialTimeoutError", 2)
        assert "report_timeout_s=2: no report for 2.0 s (last: iteration 3)" in text
        assert way == "freeze" or f"in {way}" in text
    (output,) = script.storage.glob("run/*way=wait_with_a_child*/stdout")
    assert is_gone(int(output.read_text()))


@pytest.mark.usefixtures("short_grace")
def test_what_takes_too_long_in_all_is_ended_in_setup_or_between_reports(script):
    """And the next one has its turn."""
    stdout = script.run(
        """
        import json, time
        import minitune as tune

        class Slow(tune.Trainable):
            def setup(self, config):
                if config["x"] == 0:
                    time.sleep(300)
            def step(self):
                time.sleep(0.05)
                return {"done": self.config["x"] == 2}

        grid = tune.Tuner(
            Slow,
            param_space={"x": tune.grid_search([0, 1, 2])},
            tune_config=tune.TuneConfig(trial_timeout_s=3, max_concurrent_trials=2),
            run_config=tune.RunConfig(verbose=0),
        ).fit()
        print(json.dumps([[type(r.error).__name__, str(r.error)] for r in grid]))
        """
    )
    (in_setup, setup), (in_step, step), last = json.loads(stdout)
    assert (in_setup, in_step, last) == ("TrialTimeoutError", "TrialTimeoutError", ["NoneType", "None"])
    assert "trial_timeout_s=3: not done after 3.0 s (last: none)" in setup
    assert "in setup" in setup
    assert "trial_timeout_s=3: not done after 3.0 s (last: iteration " in step


def sleeping(config):
    """Sleeps before each of its reports, so many seconds of the executor's clock."""
    for i, seconds in enumerate(config["seconds"]):
        clock.current.sleep(seconds)
        report({"i": i})


@pytest.mark.parametrize("limits", [{"report_timeout_s": 3}, {"trial_timeout_s": 3}], ids=" ".join)
def test_limits_hold_on_a_virtual_clock(limits):
    grid = fit(sleeping, {"seconds": grid_search([[1], [5]])}, executor=virtual_executor(2), **limits)
    assert grid[0].error is None
    assert grid[0].metrics["i"] == 0
    assert isinstance(grid[1].error, TrialTimeoutError)


def test_a_broken_limit_is_a_failure_that_is_retried():
    def trainable(config):
        clock.current.sleep(5 if get_context().get_attempt() == 1 else 1)
        report({"attempt": get_context().get_attempt()})

    (result,) = fit(trainable, executor=virtual_executor(), report_timeout_s=3, max_failures=1)
    assert (result.error, result.metrics["attempt"]) == (None, 2)


def test_a_trial_may_be_slow_as_long_as_it_reports():
    grid = fit(sleeping, {"seconds": [2] * 9}, executor=virtual_executor(), report_timeout_s=3)
    assert grid[0].error is None
    (result,) = fit(sleeping, {"seconds": [2, 2]}, executor=virtual_executor(), trial_timeout_s=3, name="all of it")
    assert "not done after 3.0 s (last: iteration 1)" in str(result.error)


def always(decision):
    return lambda context, trial, result: decision


@pytest.mark.parametrize(
    ("settings", "attempts"),
    [
        ({}, 3),
        ({"stop": {"i": 1}}, 3),
        ({"scheduler": LoggingScheduler(Log(), always("STOP"))}, 3),
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


@pytest.mark.parametrize("name", ["trial_timeout_s", "report_timeout_s"])
def test_a_limit_that_is_none_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be None, a number of seconds"):
        TuneConfig(**{name: -1})


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
    class HoldsTheDriverUp(Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):
            if trial.number == 0:
                clock.current.sleep(10)

    grid = fit(
        sleeping,
        {"seconds": grid_search([[1], [2, 2]])},
        executor=virtual_executor(2),
        report_timeout_s=3,
        callbacks=[HoldsTheDriverUp()],
    )
    assert [result.error for result in grid] == [None, None]
    assert grid[1].metrics["i"] == 1
