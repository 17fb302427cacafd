"""A signal handler of the user's that raises while `report()` is at work, and reports from several threads."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from kit import Spy, fit

from minitune import ResultGrid, Trial, grid_search, report
from minitune.cli import main

REPORTS, HIT = 12, (1, 2, 7)


def _reporting(config: dict[str, Any]) -> None:
    def ring(number: int, frame: Any) -> None:
        if not Path(f"caught{i}").exists():
            raise TimeoutError

    i = 0
    signal.signal(signal.SIGALRM, ring)
    for i in range(REPORTS):
        try:
            report({"i": i})
        except TimeoutError:
            Path(f"caught{i}").touch()


def test_the_exception_of_a_handler_comes_out_of_report_and_no_report_is_lost() -> None:
    seen: list[int] = []

    def ring(trial: Trial, result: dict[str, Any]) -> None:
        """Send the signal while the trial waits in `report()`, and let it go on only when that has raised."""
        seen.append(result["i"])
        if result["i"] in HIT:
            caught = Path(trial.path, f"caught{result['i']}")
            while not caught.exists():
                os.kill(result["pid"], signal.SIGALRM)  # one that strikes while the answer is sent is dropped
                until_s = time.monotonic() + 0.2
                while not caught.exists() and time.monotonic() < until_s:
                    time.sleep(0.001)

    grid = fit(_reporting, executor="local", callbacks=[Spy(ring)])
    assert not grid.errors
    assert seen[:REPORTS] == list(range(REPORTS))


def _fit(trainable: Any, space: dict[str, Any] | None = None, **settings: Any) -> tuple[list[int], ResultGrid]:
    """A run in which nothing fails; with the iterations of its reports, in the order in which they arrive."""
    seen: list[int] = []
    spy = Spy(lambda trial, result: seen.append(result["training_iteration"]))
    grid = fit(trainable, space, executor="local", callbacks=[spy], **settings)
    assert not grid.errors
    return seen, grid


def _under_alarms(config: dict[str, Any]) -> None:
    """Single shots with delays of all lengths that a report takes, or one interval timer that goes on after the end."""

    def ring(number: int, frame: Any) -> None:
        nonlocal is_armed
        while frame is not None and frame.f_code is not function.f_code:
            frame = frame.f_back
        if is_armed or frame is None:  # in the function once: another one in the `except` clause would be its mistake
            is_armed = False
            raise TimeoutError

    is_armed = False
    function = sys._getframe()
    signal.signal(signal.SIGALRM, ring)
    if config["interval_s"]:
        signal.setitimer(signal.ITIMER_REAL, config["interval_s"], config["interval_s"])
    for i in range(config["reports"]):
        try:
            is_armed = True
            if not config["interval_s"]:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + 7 * i % 500))
            report({"i": i, "text": "x" * config["size"]})
            is_armed = False
        except TimeoutError:
            pass


@pytest.mark.parametrize("start_method", ["zygote", "interpreter"])
def test_alarms_that_raise_anywhere_in_report_end_no_trial_and_leave_no_gap(
    start_method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINITUNE_START_METHOD", start_method)
    alarms = [(0.0, 400, 0), (0.005, 400, 0), (0.005, 20, 1_000_000)]
    space = {"alarm": grid_search([dict(zip(("interval_s", "reports", "size"), one, strict=True)) for one in alarms])}
    seen, _ = _fit(lambda config: _under_alarms(config["alarm"]), space, max_concurrent_trials=1)
    starts = [at for at, iteration in enumerate(seen) if iteration == 1]
    assert starts
    for begin, end in zip(starts, [*starts[1:], len(seen)], strict=True):
        assert seen[begin:end] == list(range(1, end - begin + 1))


def _alarmed_and_reused(config: dict[str, Any]) -> None:
    _under_alarms({"interval_s": 0.005, "reports": 10, "size": 0})


@pytest.mark.parametrize("start_method", ["zygote", "interpreter"])
def test_a_worker_whose_timer_goes_on_is_used_again(start_method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITUNE_START_METHOD", start_method)
    seen, _ = _fit(_alarmed_and_reused, num_samples=6, reuse_actors=True, max_concurrent_trials=1)
    assert seen.count(1) == 6


def _reports_in_handler(config: dict[str, Any]) -> None:
    errors = []

    def ring(number: int, frame: Any) -> None:
        try:
            report({"of": "handler"})
        except RuntimeError as error:
            errors.append(str(error))

    signal.signal(signal.SIGALRM, ring)
    while not errors:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        report({"of": "function"})
    signal.setitimer(signal.ITIMER_REAL, 0)
    report({"of": "function", "error": errors[0]})


def test_a_handler_that_has_interrupted_report_must_not_report() -> None:
    _, grid = _fit(_reports_in_handler)
    assert "a signal handler called report()" in grid[0].metrics["error"]


def _reports_from_threads(config: dict[str, Any]) -> None:
    def work() -> None:
        for _ in range(50):
            report({"x": 1})

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_reports_from_several_threads_arrive_in_the_order_of_their_iterations() -> None:
    seen, _ = _fit(_reports_from_threads)
    assert seen == list(range(1, 201))


def _deaf(config: dict[str, Any]) -> None:
    while True:
        try:
            report({"x": 1})
        except:  # noqa: E722 - the mistake that is tried
            pass


def test_a_trial_that_swallows_its_stop_leaves_at_its_next_reports_and_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TUNE_FORCE_TRIAL_CLEANUP_S", "3600")  # nothing but the worker itself ends it in time
    _, grid = _fit(_deaf, stop={"training_iteration": 3})
    assert grid[0].metrics["training_iteration"] == 3
    assert "has caught TrialStopped and gone on" in caplog.text
    assert main(["explain", grid.experiment_path, grid[0].metrics["trial_id"]]) == 0
    assert "has caught TrialStopped and gone on" in capsys.readouterr().out
    assert "has caught TrialStopped and gone on" in Path(grid[0].path, "stderr").read_text()
