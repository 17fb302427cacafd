"""Workers that end by a signal: SIGTERM, SIGINT and SIGHUP may be meant for the whole run, so their trials go on."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from kit import Log, LoggingCallback, LoggingScheduler, fit, statuses_of

from minitune import get_context, grid_search, report


def _kill(number):
    os.kill(os.getpid(), number)
    while True:
        time.sleep(0.05)


LOST = {
    "SIGTERM": (lambda: _kill(signal.SIGTERM), "SIGTERM (15)"),
    "SIGHUP": (lambda: _kill(signal.SIGHUP), "SIGHUP (1)"),
    "SIGINT": (lambda: _kill(signal.SIGINT), "KeyboardInterrupt"),
}
FAILED = {
    "SIGKILL": (lambda: _kill(signal.SIGKILL), "SIGKILL (9)"),
    "SIGUSR1": (lambda: _kill(signal.SIGUSR1), "SIGUSR1 (10)"),
    "SIGSEGV": (lambda: _kill(signal.SIGSEGV), "SIGSEGV"),
    "a shell's exit code": (lambda: os._exit(130), "exit code 130"),
    "a handler that exits": (lambda: sys.exit(143), "SystemExit: 143"),
}


@pytest.mark.usefixtures("hurried")
def test_worker_ended_by_a_signal_is_lost_at_most_twice_in_a_row():
    """Others are failures, and are recorded at once."""
    ways = {**LOST, **FAILED}

    def trainable(config):
        report({"n": 1, "attempt": get_context().get_attempt()})
        if config["way"] in ways and get_context().get_attempt() < config["good"]:
            ways[config["way"]][0]()
        report({"n": 2, "attempt": get_context().get_attempt()})

    log = Log()
    points = [
        *({"way": way, "good": 3} for way in LOST),
        *({"way": way, "good": 99} for way in [*LOST, *FAILED]),
    ]
    grid = fit(
        lambda config: trainable(config["point"]),
        {"point": grid_search(points)},
        executor="local",
        callbacks=[LoggingCallback(log)],
        scheduler=LoggingScheduler(log),
    )
    for number, (_, text) in enumerate(LOST.values()):
        result = grid[number]
        assert (result.error, result.metrics["n"], result.metrics["attempt"]) == (None, 2, 3)
        losses = statuses_of(number)[:-1]
        assert [loss.split(":")[0] for loss in losses] == ["PENDING lost"] * 2
        assert all(text in loss for loss in losses)
    for number, (way, (_, text)) in enumerate({**LOST, **FAILED}.items(), start=len(LOST)):
        result = grid[number]
        assert text in str(result.error)
        assert result.metrics["n"] == 1
        assert text in Path(result.path, "error.txt").read_text()
        *losses, end = statuses_of(number)
        assert len(losses) == (2 if way in LOST else 0)
        assert end.startswith("ERROR ")
        assert text in end
    failed = sorted(range(len(LOST), len(points)))
    for hook in ("scheduler.on_trial_error", "callback.on_trial_error"):
        assert sorted(int(line.split()[1]) for line in log.of(hook)) == failed
    assert len(log.of("scheduler.on_trial_add")) == len(points), "for plug-ins, a loss is no new start"
