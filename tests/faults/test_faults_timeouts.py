"""Trials that take too long are ended, and their errors say which limit, what they were doing, and where to look."""

from __future__ import annotations

import json

import pytest
from run_scripts import is_gone

from minitune import RunConfig, TuneConfig, Tuner, clock, grid_search
from minitune.clock import VirtualClock
from minitune.error import TrialTimeoutError
from minitune.execution.devices import Machine
from minitune.execution.inline import InlineTrialExecutor


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
            tune_config=tune.TuneConfig(report_timeout_s=0.5),
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
        assert "report_timeout_s=0.5: no report for 0.5 s (last: iteration 3)" in text
        assert way == "freeze" or f"in {way}" in text
    (output,) = script.storage.glob("run/*way=wait_with_a_child*/stdout")
    assert is_gone(int(output.read_text()))


@pytest.mark.usefixtures("short_grace")
def test_a_trial_that_takes_too_long_is_ended_even_if_it_reports(script):
    """And the next one has its turn."""
    source = """
        import time
        import minitune as tune

        def trainable(config):
            for i in range(10_000 if config["x"] == 0 else 1):
                tune.report({"i": i})
                time.sleep(0.05)

        grid = tune.Tuner(
            trainable,
            param_space={"x": tune.grid_search([0, 1])},
            tune_config=tune.TuneConfig(trial_timeout_s=0.7, max_concurrent_trials=1),
            run_config=tune.RunConfig(verbose=0),
        ).fit()
        assert grid[1].error is None and grid[1].metrics["i"] == 0
        print(type(grid[0].error).__name__, grid[0].error)
    """
    text = script.run(source)
    assert text.startswith("TrialTimeoutError ")
    assert "trial_timeout_s=0.7: not done after 0.7 s (last: iteration" in text


@pytest.mark.usefixtures("short_grace")
def test_a_trainable_that_hangs_when_it_is_set_up_is_ended(script):
    source = """
        import time
        import minitune as tune

        class Hangs(tune.Trainable):
            def setup(self, config):
                time.sleep(300)
            def step(self):
                return {}

        config = tune.TuneConfig(trial_timeout_s=0.5)
        print(tune.Tuner(Hangs, tune_config=config, run_config=tune.RunConfig(verbose=0)).fit()[0].error)
    """
    text = script.run(source)
    assert "not done after 0.5 s (last: none)" in text
    assert "in setup" in text


@pytest.mark.usefixtures("short_grace")
def test_a_broken_limit_is_a_failure_that_is_retried(script):
    source = """
        import time
        import minitune as tune

        def trainable(config):
            tune.report({"attempt": tune.get_context().get_attempt()})
            if tune.get_context().get_attempt() == 1:
                time.sleep(300)

        grid = tune.Tuner(
            trainable,
            tune_config=tune.TuneConfig(report_timeout_s=0.4),
            run_config=tune.RunConfig(name="run", verbose=0, failure_config=tune.FailureConfig(max_failures=1)),
        ).fit()
        assert grid.num_errors == 0 and grid[0].metrics["attempt"] == 2
    """
    script.run(source)


def test_limits_hold_on_a_virtual_clock(tmp_path):
    def trainable(config):
        clock.current().sleep(config["seconds"])
        return {"slept": config["seconds"]}

    executor = InlineTrialExecutor(Machine({"CPU": 2}, ()), VirtualClock())
    grid = Tuner(
        trainable,
        param_space={"seconds": grid_search([1, 5])},
        tune_config=TuneConfig(executor=executor, report_timeout_s=3),
        run_config=RunConfig(storage_path=tmp_path, verbose=0),
    ).fit()
    assert grid[0].metrics["slept"] == 1
    assert isinstance(grid[1].error, TrialTimeoutError)


@pytest.mark.parametrize("name", ["trial_timeout_s", "report_timeout_s"])
def test_a_limit_that_is_none_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be None, a number of seconds"):
        TuneConfig(**{name: -1})
