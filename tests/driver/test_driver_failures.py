"""Failures of trials: retried, final, fatal to the run; and requests that can never be met."""

import os
import pickle
import re
import shutil
import signal
from pathlib import Path

import pytest
from kit import (
    Counter,
    Log,
    LoggingStopper,
    SavedCounter,
    Spy,
    counting,
    fit,
    listening,
    make_tuner,
    report_n,
    run_path,
)

from minitune import (
    ResultGrid,
    TrialError,
    TuneError,
    get_context,
    grid_search,
    report,
    with_resources,
)
from minitune.actor.messages import STOP_SWALLOWED_EXIT, CallRaised, Exited
from minitune.base.clock import VirtualClock
from minitune.error import WorkerDiedError, WorkerStartError
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor
from minitune.record.reading import read_run


class Unlucky(ValueError):
    """An exception with arguments of its own."""

    def __init__(self, code, text=""):
        super().__init__(code, text)
        self.code = code


def test_a_retry_of_a_class_goes_on_from_its_latest_checkpoint():
    failed = []

    class Failing(SavedCounter):
        def step(self):
            if self.n == 5 and not failed:
                failed.append(self.n)
                raise Unlucky(5)
            return super().step()

    grid = fit(
        Failing,
        {"end": 7},
        max_failures=1,
        checkpoint_frequency=2,
    )
    assert [row["n"] for row in grid[0].get_rows()] == [1, 2, 3, 4, 5, 5, 6, 7]
    assert [row["iterations_since_restore"] for row in grid[0].get_rows()] == [1, 2, 3, 4, 5, 1, 2, 3]


@pytest.mark.parametrize("max_failures", [0, 1, 3])
def test_a_trial_is_tried_again_from_the_beginning_max_failures_times(max_failures):
    def trainable(config):
        report({"n": 1})
        report({"n": 2})
        raise Unlucky(7)

    (result,) = fit(trainable, max_failures=max_failures)
    attempts = max_failures + 1
    assert [row["training_iteration"] for row in result.get_rows()] == [1, 2] * attempts
    assert result.metrics["training_iteration"] == 2
    assert Path(result.path, "error.txt").read_text().count("Failure # ") == attempts


@pytest.mark.usefixtures("one_cpu")
def test_each_trial_has_its_own_retries_and_keeps_its_place():
    failed = set()
    order = []

    def trainable(config):
        order.append(config["i"])
        if config["i"] in (0, 2) and config["i"] not in failed:
            failed.add(config["i"])
            raise Unlucky(1)
        report({"i": config["i"]})

    grid = fit(trainable, {"i": grid_search([0, 1, 2, 3])}, max_failures=1)
    assert order == [0, 1, 2, 3, 0, 2], "a retry goes to the back of the queue"
    assert [result.metrics["i"] for result in grid] == [0, 1, 2, 3]


def test_the_only_checkpoint_is_tried_again_after_it_could_not_be_loaded():
    loads = []

    class Moody(SavedCounter):
        def step(self):
            if self.n == 1 and not loads:
                raise Unlucky(1)
            return super().step()

        def load_checkpoint(self, checkpoint):
            loads.append(1)
            if len(loads) == 1:
                raise OSError("cannot be read now")
            super().load_checkpoint(checkpoint)

    (result,) = fit(Moody, {"end": 3}, max_failures=2, checkpoint_frequency=1)
    assert [row["n"] for row in result.get_rows()] == [1, 2, 3]


def test_a_trial_whose_directory_is_gone_is_not_tried_again():
    attempts = []

    def trainable(config):
        attempts.append(1)
        report({"n": 1})
        shutil.rmtree(get_context().get_trial_dir() or "")
        raise Unlucky(1)

    (result,) = fit(trainable, max_failures=3)
    assert len(attempts) == 1
    assert "cannot be used" in str(result.error)
    assert "no longer exists" in str(result.error)


@pytest.mark.parametrize("trainable", [report_n(2), counting(2)], ids=["without checkpoints", "with checkpoints"])
def test_a_trial_whose_directory_goes_between_two_attempts_fails(trainable):
    """It does not start over in an empty one, as if nothing had been lost."""

    def train(config):
        attempts.append(get_context().get_attempt())
        trainable(config)
        raise Unlucky(1)

    attempts = []
    loss = listening(on_trial_recover=lambda trial, **info: shutil.rmtree(trial.local_path))
    (result,) = fit(train, max_failures=3, callbacks=[loss])
    assert attempts == [1]
    assert "no longer exists" in str(result.error)


@pytest.mark.parametrize("name", ["args", "__dict__", "__str__", "__reduce__"])
def test_the_error_of_a_trial_is_the_users_whatever_its_class_does(name):
    def lie(error):
        raise RuntimeError("never")

    kind = type("Local", (Exception,), {name: property(lie)})

    def train(config):
        raise kind("mine")

    (result,) = fit(train)
    assert "raise kind(" in str(result.error)
    assert "Local" in result.error.summary()


class Dies(Exception):
    """Raised by a trainable in place of the death of its worker. Its only argument has the facts of the death."""


class Dying(InlineTrialExecutor):
    """Its workers die where user code raises `Dies`."""

    def __init__(self):
        super().__init__(Machine({"CPU": 1}, ()), VirtualClock())

    def _call(self, actor, method, load_args):
        return self._ended(actor, super()._call(actor, method, load_args))

    def _build(self, actor, make, load_args):
        return self._ended(actor, super()._build(actor, make, load_args))

    def _ended(self, actor, event):
        error = event.error.load() if isinstance(event, CallRaised) else None
        if not isinstance(error, Dies):
            return event
        del self._actors[actor.actor_id]
        actor.thread.end(0.0)
        return Exited(actor.actor_id, "died", **error.args[0])


KILLED = {"cause": "SIGKILL (9)", "exit_code": -signal.SIGKILL, "signal": signal.SIGKILL, "pid": 17}
CRASHED = {"cause": "SIGSEGV (11)", "exit_code": -signal.SIGSEGV, "signal": signal.SIGSEGV, "pid": 17}


@pytest.mark.parametrize(
    ("at", "death", "text"),
    [
        (2, KILLED, "(pid 17) died: SIGKILL (9), possibly out of memory"),
        (2, KILLED | {"signal": 0, "cause": "out of memory: see there"}, "(pid 17) died: out of memory: see there"),
        (2, CRASHED, "(pid 17) died: SIGSEGV (11)"),
        (2, CRASHED | {"peak_bytes": 300 << 20}, "(pid 17) died: SIGSEGV (11), peak memory 300 MiB"),
        (2, CRASHED | {"pid": 0}, "(pid of the tests) died: SIGSEGV (11)"),
        (0, CRASHED, "(pid 17) died while the trainable was loaded or set up: SIGSEGV (11)"),
    ],
)
def test_the_error_of_a_dead_worker_tells_what_is_known(at, death, text):
    class Mortal(Counter):
        def setup(self, config):
            super().setup(config)
            self.die(0)

        def step(self):
            self.die(self.n)
            return super().step()

        def die(self, number):
            if number == at:
                raise Dies(death)

    (result,) = fit(Mortal, executor=Dying())
    assert type(result.error) is (WorkerDiedError if at else WorkerStartError)
    first, last_report, *_ = str(result.error).splitlines()
    # The process that collects the tests may be another than this one.
    first = first.replace(f"(pid {os.getpid()})", "(pid of the tests)")
    assert re.sub(r"^the worker of trial \S+ ", "", first) == text
    assert last_report == f"last report: {f'iteration {at}' if at else 'none'}"


class Deaf(InlineTrialExecutor):
    """Its workers end because the trial has caught the exception of its stop."""

    def _stop(self, actor, grace_s, keep):
        super()._stop(actor, grace_s, keep)
        return Exited(actor.actor_id, "stopped", "it went on", exit_code=STOP_SWALLOWED_EXIT)


def test_a_trial_that_has_caught_its_stop_is_told_and_on_record(caplog):
    executor = Deaf(Machine({"CPU": 1}, ()), VirtualClock())
    (result,) = fit(report_n(3), stop={"n": 2}, executor=executor)
    assert result.error is None
    assert [text for text in caplog.messages if text.startswith("trial ") and text.endswith(": it went on")]


def test_the_error_has_the_users_exception_as_its_cause_and_names_the_line():
    def trainable(config):
        report({"n": 1})
        raise Unlucky(42, "bad luck")

    grid = fit(trainable)
    error = grid[0].error
    assert isinstance(error, TrialError)
    assert isinstance(error.__cause__, Unlucky)
    assert error.__cause__.code == 42
    assert 'raise Unlucky(42, "bad luck")' in str(error)
    assert grid.errors == [error]
    assert grid[0].metrics["n"] == 1


@pytest.mark.parametrize("executor", ["inline", "local"])
def test_the_cause_has_the_name_of_the_file(executor):
    def trainable(config):
        raise OSError(2, "is not there", "data.csv")

    error = fit(trainable, executor=executor)[0].error
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert isinstance(one.__cause__, OSError)
        assert (one.__cause__.errno, one.__cause__.filename) == (2, "data.csv")


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("end", [SystemExit(4), SystemExit("message"), KeyboardInterrupt(), GeneratorExit()])
def test_a_trial_that_raises_an_exit_or_an_interrupt_fails_alone(end):
    def trainable(config):
        report({"n": 1})
        if config["i"] == 0:
            raise end

    grid = fit(trainable, {"i": grid_search([0, 1])})
    assert [result.error is None for result in grid] == [False, True]


def test_fail_fast_starts_nothing_more():
    started = []

    def trainable(config):
        started.append(1)
        raise Unlucky(1)

    grid = fit(trainable, fail_fast=True, num_samples=10, max_concurrent_trials=1)
    assert len(started) == 1
    assert grid.num_errors == 1
    assert grid.num_errors + grid.num_terminated == len(grid)


def test_a_retry_that_comes_when_the_run_ends_is_ended_too():
    spy = Spy()

    class Failing(SavedCounter):
        def step(self):
            if self.config["i"] == 1 and self.n == 2:
                raise Unlucky(1)
            return super().step()

    stop_now = []
    spy.at_result = lambda trial, result: stop_now.append(True) if result["n"] == 2 and trial.number == 0 else None
    stopper = LoggingStopper(Log(), stop_all_when=lambda: bool(stop_now))
    grid = fit(Failing, {"i": grid_search([0, 1])}, max_failures=-1, stop=stopper, callbacks=[spy])
    assert spy.statuses == ["TERMINATED", "TERMINATED"]
    assert grid.num_errors == 0


# -- requests --------------------------------------------------------------------------------------------------------


def test_a_class_declares_its_resources():
    class Wide(Counter):
        @classmethod
        def default_resource_request(cls, config):
            return {"cpu": config["cpus"]}

    spy = Spy()
    fit(Wide, {"cpus": 3, "end": 2}, num_samples=3, callbacks=[spy])
    assert spy.most_running == 1
    grid = fit(Wide, {"cpus": grid_search([9, 1]), "end": 1})
    assert [result.error is None for result in grid] == [False, True]


def test_an_infeasible_trial_fails_fast_too():
    grid = fit(
        with_resources(report_n(3), lambda config: {"cpu": config["cpus"]}),
        {"cpus": grid_search([99, 1, 1])},
        fail_fast=True,
    )
    assert grid.num_errors == 1
    assert all(result.metrics.get("n", 0) < 3 for result in grid)


# -- what comes out of fit -------------------------------------------------------------------------------------------


def test_failed_trials_raise_only_on_demand(monkeypatch):
    def trainable(config):
        raise Unlucky(5, "why not")

    tuner = make_tuner(trainable)
    assert isinstance(tuner.fit(), ResultGrid)
    with pytest.raises(TuneError, match="1 of 1 trials failed") as caught:
        tuner.fit(raise_on_failed_trial=True)
    assert isinstance(caught.value.__cause__, TrialError)
    monkeypatch.setenv("MINITUNE_RAISE", "1")
    with pytest.raises(TuneError, match="why not"):
        tuner.fit()
    assert tuner.fit(raise_on_failed_trial=False).num_errors == 1
    monkeypatch.setenv("MINITUNE_RAISE", "0")
    assert tuner.fit().num_errors == 1


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("learning_rate", "\nhint: the configuration has no 'learning_rate'; it has lr, size"),
        ("lr", ""),
        (3, ""),
    ],
)
def test_a_key_error_says_what_the_configuration_has(key, hint):
    def trainable(config):
        raise KeyError(key)

    (result,) = fit(trainable, {"lr": 0.1, "size": 3})
    assert str(result.error).endswith(f"KeyError: {key!r}{hint}")


@pytest.mark.parametrize("pid", [17, 0])
def test_a_trial_that_lost_its_worker_too_often_has_the_time_of_the_last_death(pid):
    class Lost(Counter):
        def step(self):
            raise Dies(CRASHED | {"counts": False, "ended_s": 12.5, "pid": pid})

    (result,) = fit(Lost, executor=Dying())
    text = f"has lost its worker 10 times in a row without a new report, the last one (pid {pid or os.getpid()})"
    assert text in str(result.error)
    (trial,) = read_run(run_path()).trials
    assert trial.ending.facts["died_at"] == 12.5


def test_a_failure_whose_file_cannot_be_written_is_told(caplog):
    def train(config):
        Path(get_context().get_trial_dir() or "", "error.txt").mkdir()
        raise ValueError("on purpose")

    (result,) = fit(train)
    assert "on purpose" in str(result.error)
    assert [text for text in caplog.messages if "could not be written to its directory" in text]
