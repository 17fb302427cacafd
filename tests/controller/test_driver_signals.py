"""Trials that a signal has ended: they have failed, unless the driver gets a signal, too, within a short time."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit import Log, LoggingCallback, LoggingScheduler, LoggingStopper, fit, journal_of

from minitune import ResultGrid, Trial, grid_search, report

WAIT = "minitune.driver.tune_controller.VERDICT_S"
FOR_EVER_S = 3600.0


def _kill(number: int) -> None:
    os.kill(os.getpid(), number)
    signal.pause()


def _interrupted_on_the_way_out() -> None:
    try:
        raise KeyboardInterrupt
    finally:
        raise ValueError("while it was interrupted")


BY_SIGNAL: dict[str, tuple[Callable[[], Any], str]] = {
    "SIGTERM": (lambda: _kill(signal.SIGTERM), "SIGTERM (15)"),
    "SIGHUP": (lambda: _kill(signal.SIGHUP), "SIGHUP (1)"),
    "SIGUSR1": (lambda: _kill(signal.SIGUSR1), "SIGUSR1 (10)"),
    "SIGKILL": (lambda: _kill(signal.SIGKILL), "SIGKILL (9)"),
    "SIGINT": (lambda: _kill(signal.SIGINT), "KeyboardInterrupt"),
    "a handler that exits": (lambda: sys.exit(143), "SystemExit: 143"),
    "a program's exit code": (lambda: os._exit(130), "exit code 130"),
    "an error on the way out": (_interrupted_on_the_way_out, "while it was interrupted"),
}
OTHERWISE: dict[str, tuple[Callable[[], Any], str]] = {
    "SIGSEGV": (lambda: _kill(signal.SIGSEGV), "SIGSEGV"),
    "SIGABRT": (lambda: _kill(signal.SIGABRT), "SIGABRT"),
    "exit code": (lambda: os._exit(3), "exit code 3"),
    "sys.exit": (lambda: sys.exit("enough"), "SystemExit: enough"),
    "exception": (lambda: int("x"), "ValueError"),
}


def ends(how: Callable[[], Any], of_trial: int = 0) -> Callable[[dict[str, Any]], None]:
    """A function that reports once and ends one of the trials so; the others report twice."""

    def trainable(config: dict[str, Any]) -> None:
        report({"n": 1})
        if config["i"] == of_trial:
            how()
        report({"n": 2})

    return trainable


def fit_ways(ways: dict[str, tuple[Callable[[], Any], str]], **settings: Any) -> ResultGrid:
    """A run with a trial for each way to end, and one last that ends well."""

    def trainable(config: dict[str, Any]) -> None:
        report({"n": 1})
        if config["way"] is not None:
            ways[config["way"]][0]()
        report({"n": 2})

    grid = fit(trainable, {"way": grid_search([*ways, None])}, executor="local", **settings)
    assert (grid[len(ways)].error, grid[len(ways)].metrics["n"]) == (None, 2)
    return grid


def statuses_of(number: int) -> list[str]:
    """The statuses of a trial on record, each with the beginning of its cause."""
    records = journal_of()
    [trial_id] = [record["trial"] for record in records if record["type"] == "trial" and record["number"] == number]
    changes = [record for record in records if record["type"] == "status" and record["trial"] == trial_id]
    return [f"{record['status']} {record['cause']}" for record in changes]


def test_they_have_failed_if_the_run_goes_on(monkeypatch: pytest.MonkeyPatch, one_cpu: None) -> None:
    monkeypatch.setattr(WAIT, 0.05)
    log = Log()
    grid = fit_ways(BY_SIGNAL, callbacks=[LoggingCallback(log)], scheduler=LoggingScheduler(log))
    for number, (_, text) in enumerate(BY_SIGNAL.values()):
        result = grid[number]
        assert text in str(result.error)
        assert result.metrics["n"] == 1
        assert len(log.of(f"scheduler.on_trial_error {number} ")) == 1
        assert len(log.of(f"callback.on_trial_error {number} ")) == 1
        assert not log.of(f"scheduler.on_trial_add {number} PENDING")[1:], "it was never tried again"
        waits, fails = statuses_of(number)[-2:]
        assert waits.startswith("PENDING lost: by a signal")
        assert text in waits
        assert fails.startswith("ERROR ")
        assert text in fails
        assert text in Path(result.path, "error.txt").read_text()


def test_another_end_is_a_failure_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WAIT, FOR_EVER_S)
    grid = fit_ways(OTHERWISE)
    for number, (_, text) in enumerate(OTHERWISE.values()):
        assert text in str(grid[number].error)
        assert [status.split()[0] for status in statuses_of(number)] == ["RUNNING", "ERROR"]


def test_where_it_may_be_retried_it_is_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WAIT, FOR_EVER_S)

    def trainable(config: dict[str, Any]) -> None:
        if not Path("mark").exists():
            Path("mark").touch()
            _kill(signal.SIGTERM)
        report({"n": 1})

    [result] = fit(trainable, executor="local", max_failures=1)
    assert (result.error, result.metrics["n"]) == (None, 1)


def test_an_inline_trial_gets_no_signal_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WAIT, FOR_EVER_S)
    [result] = fit(ends(BY_SIGNAL["a handler that exits"][0]), {"i": 0})
    assert "SystemExit: 143" in str(result.error)


def test_other_trials_start_and_end_before_the_verdict(monkeypatch: pytest.MonkeyPatch, one_cpu: None) -> None:
    """The run comes to its end only with the verdict, which would never come."""
    monkeypatch.setattr(WAIT, FOR_EVER_S)
    log = Log()
    grid = fit(
        ends(BY_SIGNAL["SIGKILL"][0]),
        {"i": grid_search([0, 1, 2, 3])},
        executor="local",
        callbacks=[LoggingCallback(log)],
        stop=LoggingStopper(Log(), stop_all_when=lambda: len(log.of("callback.on_trial_complete")) == 2),
    )
    assert "SIGKILL (9)" in str(grid[0].error), "whatever else ends the run, the trial has failed before"
    assert [result.metrics.get("n") for result in grid] == [1, 2, 2, None]
    assert statuses_of(0)[-1].startswith("ERROR ")


@pytest.mark.parametrize("fail_fast", [True, "raise"])
def test_the_verdict_ends_a_run_that_fails_fast(fail_fast: Any, monkeypatch: pytest.MonkeyPatch, one_cpu: None) -> None:
    monkeypatch.setattr(WAIT, 0.05)

    def trainable(config: dict[str, Any]) -> None:
        report({"n": 1})
        if config["i"] == 0:
            raise KeyboardInterrupt
        while True:
            time.sleep(0.01)
            report({"n": 1})

    space = {"i": grid_search([0, 1, 2])}
    settings = {"executor": "local", "fail_fast": fail_fast}
    if fail_fast == "raise":
        with pytest.raises(KeyboardInterrupt):
            fit(trainable, space, **settings)
    else:
        grid = fit(trainable, space, **settings)
        assert [result.error is None for result in grid] == [False, True, True]
        assert (grid[0].metrics["n"], grid[2].metrics.get("n")) == (1, None)  # the other may not have got that far


def test_a_scheduler_may_end_it_before_the_verdict(monkeypatch: pytest.MonkeyPatch, one_cpu: None) -> None:
    monkeypatch.setattr(WAIT, 0.5)
    log = Log()

    def stop_the_first(controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        if trial.number == 1:
            controller.stop_trial(controller.get_trials()[0])
        return "CONTINUE"

    grid = fit(
        ends(BY_SIGNAL["SIGTERM"][0]),
        {"i": grid_search([0, 1])},
        executor="local",
        callbacks=[LoggingCallback(log)],
        scheduler=LoggingScheduler(log, stop_the_first),
    )
    assert grid.num_errors == 0
    assert not log.of("callback.on_trial_error")
    assert statuses_of(0)[-1].startswith("TERMINATED")


def test_in_logical_order_nothing_happens_before_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WAIT, 0.3)

    def trainable(config: dict[str, Any]) -> None:
        for n in range(1, 30):
            report({"n": n})
            if n == 2 and config["i"] == 0:
                _kill(signal.SIGKILL)

    space = {"i": grid_search([0, 1, 2])}
    grid = fit(trainable, space, executor="local", deterministic=True, max_concurrent_trials=2, seed=1)
    assert [result.metrics["n"] for result in grid] == [2, 29, 29]
    kinds = [
        (record["type"], record.get("status")) for record in journal_of() if record["type"] in ("result", "status")
    ]
    waits = kinds.index(("status", "PENDING"))
    assert kinds[waits + 1] == ("status", "ERROR")
