"""Losses of workers and endless retries: how long a trial waits, when it has failed, and when the run ends."""

import itertools
import logging

import pytest
from kit import (
    Log,
    LoggingCallback,
    LoggingScheduler,
    LoggingSearcher,
    PauseOnce,
    fit,
    journal_of,
    report_state,
    restored_state,
    resume,
    statuses_of,
    virtual_executor,
)

from minitune import grid_search, report
from minitune.actor.messages import CallRaised, Exited
from minitune.base import clock
from minitune.base.clock import VirtualClock
from minitune.error import CrashLoopError, WorkerDiedError
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor


class Lost(Exception):
    """Raised by a trainable in place of the death of the parent process of its worker."""


class Losing(InlineTrialExecutor):
    """Loses workers as a machine does, on a virtual clock: those that raise `Lost`, and those that are refused.

    Args:
        cpus: The number of CPUs.
        room: How many workers can be started at a time; the others are refused.
    """

    def __init__(self, cpus=1, room=lambda: 100):
        super().__init__(Machine({"CPU": cpus}, ()), VirtualClock())
        self.room = room
        self.refused_s = []
        self.most = 0

    def _call(self, actor, method, load_args):
        event = super()._call(actor, method, load_args)
        if isinstance(event, CallRaised) and event.error.type_name.endswith("Lost"):
            return self._end(actor, "lost", event.error.message)
        return event

    def _build(self, actor, make, load_args):
        if len(self._actors) > self.room():
            self.refused_s.append(self.clock.monotonic())
            return self._end(actor, "refused", "no more processes")
        self.most = max(self.most, len(self._actors))
        return super()._build(actor, make, load_args)

    def _end(self, actor, kind, cause):
        del self._actors[actor.actor_id]
        actor.thread.end(0.0)
        return Exited(actor.actor_id, kind, cause, counts=False, pid=17)


class Attempts:
    """A trainable that notes the time of each attempt, counts it, and leaves the rest to `what(config, number)`."""

    def __init__(self, what):
        self.what = what
        self.times_s = {}

    def __call__(self, config):
        times_s = self.times_s.setdefault(config["i"], [])
        times_s.append(clock.current.monotonic())
        return self.what(config, len(times_s))

    def waits_s(self, number=0):
        """The seconds between one attempt of a trial and the next."""
        times_s = self.times_s[number]
        return [later - earlier for earlier, later in itertools.pairwise(times_s)]


# -- how long a trial waits --------------------------------------------------------------------------------------------


def test_unlimited_retries_back_off_until_a_new_report():
    def fail(config, attempt):
        report({"n": 1})
        if attempt > 9:
            report({"n": 2})  # the first report that it never had before
        if attempt < 12:
            raise ValueError("no luck")

    attempts = Attempts(fail)
    [result] = fit(attempts, {"i": 0}, max_failures=-1, executor=virtual_executor())
    assert result.error is None
    # The first attempt has brought a report, so the second one may follow at once, as after the tenth attempt.
    assert attempts.waits_s() == [0, 1, 2, 4, 8, 16, 30, 30, 30, 0, 1]


def test_a_trial_that_goes_on_from_checkpoints_never_waits():
    def fail(config, attempt):
        n = restored_state() + 1
        report_state(n, {"n": n})
        if n < 20:
            raise ValueError("after each report")

    attempts = Attempts(fail)
    [result] = fit(attempts, {"i": 0}, max_failures=-1, executor=virtual_executor())
    assert (result.error, result.metrics["n"]) == (None, 20)
    assert set(attempts.waits_s()) == {0}


def test_a_limited_number_of_retries_follows_at_once():
    attempts = Attempts(lambda config, attempt: 1 / 0)
    [result] = fit(attempts, {"i": 0}, max_failures=3, executor=virtual_executor())
    assert isinstance(result.error.__cause__, ZeroDivisionError)
    assert attempts.waits_s() == [0, 0, 0]


# -- losses ------------------------------------------------------------------------------------------------------------


def test_a_trial_fails_with_its_tenth_loss_in_a_row(caplog):
    def lose(config, attempt):
        report({"n": 1})
        raise Lost("the zygote ended with status -9")

    attempts = Attempts(lose)
    log = Log()
    hearing = {
        "callbacks": [LoggingCallback(log)],
        "scheduler": LoggingScheduler(log),
        "search_alg": LoggingSearcher(log),
    }
    [result] = fit(attempts, {"i": 0}, executor=Losing(), **hearing)
    assert attempts.waits_s() == [0, 1, 2, 4, 8, 16, 30, 30, 30]
    assert isinstance(result.error, WorkerDiedError)
    text = str(result.error)
    assert "has lost its worker 10 times in a row without a new report" in text
    assert "the zygote ended with status -9" in text
    assert "last report: iteration 1" in text
    assert statuses_of(0) == [
        *["PENDING lost: the zygote ended with status -9"] * 9,
        "ERROR the zygote ended with status -9",
    ]
    assert len(log.of("scheduler.on_trial_error")) == 1, "plug-ins hear of the failure only"
    assert len(log.of("callback.on_trial_error")) == 1
    assert len(log.of("scheduler.on_trial_add")) == 1
    assert [record.getMessage() for record in caplog.records if "lost its worker" in record.getMessage()][1:] == []


def test_losses_of_attempts_that_bring_something_new_are_never_too_many():
    def lose(config, attempt):
        for n in range(attempt):
            report({"n": n})
        if attempt < 15:
            raise Lost("the zygote ended with status -9")

    [result] = fit(Attempts(lose), {"i": 0}, executor=Losing())
    assert (result.error, result.metrics["n"]) == (None, 14)


def test_an_interrupt_in_a_trial_is_a_loss_twice_and_then_a_failure():
    def interrupt(config, attempt):
        report({"n": 1})
        if attempt < config["good"]:
            raise KeyboardInterrupt("stop it")
        report({"n": 2})

    attempts = Attempts(lambda config, attempt: interrupt({"good": [3, 99][config["i"]]}, attempt))
    log = Log()
    grid = fit(
        attempts,
        {"i": grid_search([0, 1])},
        executor=virtual_executor(),
        scheduler=LoggingScheduler(log),
        callbacks=[LoggingCallback(log)],
    )
    assert (grid[0].error, grid[0].metrics["n"]) == (None, 2)
    assert str(grid[1].error).endswith("KeyboardInterrupt: stop it")
    assert attempts.waits_s(0) == attempts.waits_s(1) == [1, 1]
    lost = "PENDING lost: KeyboardInterrupt: stop it"
    assert statuses_of(0)[:-1] == [lost, lost]
    assert statuses_of(1) == [lost, lost, "ERROR KeyboardInterrupt: stop it"]
    for hook in ("scheduler.on_trial_error", "callback.on_trial_error"):
        assert [line.split()[1] for line in log.of(hook)] == ["1"]


# -- workers that cannot be started ------------------------------------------------------------------------------------


def test_where_workers_are_refused_fewer_trials_run_at_a_time_and_none_fails(caplog):
    def sleep(config):
        clock.current.sleep(100.0)
        report({"n": 1})

    executor = Losing(cpus=8, room=lambda: 3)
    grid = fit(sleep, {"i": grid_search(list(range(9)))}, executor=executor)
    assert [result.error for result in grid] == [None] * 9
    assert executor.most == 3
    assert executor.clock.monotonic() == 300, "a worker that leaves makes room at once"
    assert len(executor.refused_s) < 100, "no busy tries"
    [warning] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "no more processes" in warning.getMessage()


def test_run_that_cannot_start_workers_ends_and_names_limits():
    executor = Losing(cpus=2, room=lambda: 0)
    with pytest.raises(CrashLoopError, match=r"no more processes \(8 times\)") as caught:
        fit(lambda config: {"n": 1}, {"i": grid_search([0, 1])}, executor=executor)
    assert "ulimit -u" in str(caught.value)
    assert 60 <= executor.refused_s[-1] < 100
    grid = resume(lambda config: {"n": 1}, executor=Losing(cpus=2))
    assert [result.metrics["n"] for result in grid] == [1, 1]


def test_a_system_that_has_processes_again_is_used_again():
    refusals = iter([0] * 12)
    grid = fit(
        lambda config: {"n": 1},
        {"i": grid_search([0, 1, 2])},
        executor=Losing(cpus=2, room=lambda: next(refusals, 100)),
    )
    assert [(result.error, result.metrics["n"]) for result in grid] == [(None, 1)] * 3


# -- when the run ends -------------------------------------------------------------------------------------------------


def test_a_trial_that_finishes_is_progress_although_it_only_repeats_a_report():
    """Else the other trial, which fails 29 times before that, would end the run with its next failure."""

    def trainable(config, attempt):
        if config["i"] == 1 and attempt < 45:
            raise ValueError("no luck")
        if config["i"] == 0 and attempt == 2:
            clock.current.sleep(750.0)
        report({"n": 1, "done": attempt > 1})
        raise Lost("the zygote ended with status -9")

    attempts = Attempts(trainable)
    grid = fit(attempts, {"i": grid_search([0, 1])}, executor=Losing(cpus=2), max_failures=-1)
    assert [(result.error, result.metrics["n"]) for result in grid] == [(None, 1)] * 2


def test_run_ends_after_thirty_attempts_without_a_report():
    def trainable(config):
        starts.append(config["i"])
        if has_module:
            return {"n": 1}
        if config["i"] < 9:
            raise ImportError("no module")
        raise ValueError("other")

    starts = []
    has_module = []
    space = {"i": grid_search(list(range(12)))}
    with pytest.raises(CrashLoopError, match=r"^30 attempts in a row .* ImportError: no module \(2\d times\)"):
        fit(trainable, space, executor=virtual_executor(12), max_failures=-1)
    assert 30 <= len(starts) <= 36
    has_module.append("yes")
    grid = resume(trainable, executor=virtual_executor())
    assert [result.metrics["n"] for result in grid] == [1] * 12


def test_a_search_without_an_end_comes_to_an_end_if_nothing_succeeds():
    with pytest.raises(CrashLoopError, match="ZeroDivisionError"):
        fit(lambda config: 1 / 0, num_samples=-1, executor=virtual_executor(2), max_failures=-1)
    assert sum(record["type"] == "start" for record in journal_of()) < 200


def test_the_run_goes_on_while_a_trial_runs():
    def trainable(config, attempt):
        if config["i"] == 0:
            clock.current.sleep(3000.0)
        elif clock.current.monotonic() < 3000:
            raise ValueError("no luck")
        report({"n": 1})

    attempts = Attempts(trainable)
    grid = fit(attempts, {"i": grid_search([0, 1])}, executor=virtual_executor(2), max_failures=-1)
    assert [(result.error, result.metrics["n"]) for result in grid] == [(None, 1)] * 2
    assert len(attempts.times_s[1]) > 60


def test_a_signal_to_all_workers_at_once_does_not_end_the_run():
    """The driver waits for its own copy of the signal, and goes on if there is none."""

    def trainable(config, attempt):
        if attempt == 1:
            raise KeyboardInterrupt
        return {"n": 1}

    grid = fit(Attempts(trainable), {"i": grid_search(list(range(40)))}, executor=virtual_executor(40))
    assert [(result.error, result.metrics["n"]) for result in grid] == [(None, 1)] * 40


def test_a_run_whose_paused_trials_wait_for_one_that_rests_is_not_stuck():
    class TheFirstWaits(PauseOnce):
        """Pauses the first trial until the second one has ended."""

        def on_trial_result(self, tune_controller, trial, result):
            return super().on_trial_result(tune_controller, trial, result) if trial.number == 0 else self.CONTINUE

        def choose_trial_to_run(self, tune_controller):
            others_left = any(trial.number for trial in tune_controller.get_live_trials())
            return tune_controller.first_pending() or (None if others_left else tune_controller.first_paused())

    attempts = []

    def train(config):
        attempts.append(config["i"])
        if config["i"] == 1 and attempts.count(1) < 4:
            raise ValueError("on purpose")
        report({"n": 1})

    space = {"i": grid_search([0, 1])}
    grid = fit(train, space, scheduler=TheFirstWaits(1), max_failures=-1, executor=virtual_executor(1))
    assert (grid.num_terminated, attempts) == (2, [0, 1, 1, 1, 1, 0])
