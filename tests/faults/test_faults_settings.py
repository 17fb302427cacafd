"""Settings of the process that the user makes for the user's own code: they must not reach what minitune does.

They are made in the script, in a module of the trainable, or in a trial. Or the process has them from its parent.
"""

import os
import signal
import socket
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import fit, resume

from minitune import Checkpoint, grid_search, report

SCRIPTS = Path(__file__).with_name("scripts")

START_METHODS = ("zygote", "interpreter")


@pytest.mark.parametrize("method", START_METHODS)
@pytest.mark.parametrize("where", ["script", "module", "trial"])
def test_settings_of_the_users_code_reach_nothing_of_ours(script, where, method):
    script.write(SCRIPTS / "settings.py")
    stdout = script.run(SCRIPTS / "runs_under_settings.py", where, MINITUNE_START_METHOD=method)
    assert stdout == '[[4, "None"], [4, "None"]]\n[True, True]\n'


@contextmanager
def _changed(change, to):
    """`change(to)`, which returns the value before, and the change back."""
    before = change(to)
    try:
        yield
    finally:
        change(before)


def _set_timeout(seconds):
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    return before


@pytest.mark.parametrize("method", START_METHODS)
@pytest.mark.parametrize("seconds", [0.0, 0.001, 5.0])
def test_a_default_timeout_of_sockets_kills_no_trial_and_stays(monkeypatch, method, seconds):
    monkeypatch.setenv("MINITUNE_START_METHOD", method)

    def trainable(config):
        report({"timeout": socket.getdefaulttimeout()})
        report({"timeout": socket.getdefaulttimeout()})

    with _changed(_set_timeout, seconds):
        grid = fit(trainable, executor="local")
        assert socket.getdefaulttimeout() == seconds
    assert not grid.errors
    assert grid[0].metrics["timeout"] is None


@pytest.mark.parametrize("method", START_METHODS)
def test_a_trial_has_no_signal_that_is_blocked_or_ignored_in_the_driver(monkeypatch, method):
    monkeypatch.setenv("MINITUNE_START_METHOD", method)
    numbers = (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)

    def trainable(config):
        ignored = [number for number in (signal.SIGCHLD, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_IGN]
        return {"blocked": len(signal.pthread_sigmask(signal.SIG_BLOCK, ())), "ignored": len(ignored)}

    def ignore_hang_up(handler):
        return signal.signal(signal.SIGHUP, handler)

    def block(mask):
        return signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    with _changed(block, numbers), _changed(ignore_hang_up, signal.SIG_IGN):
        grid = fit(trainable, executor="local")
    assert [(result.metrics["blocked"], result.metrics["ignored"]) for result in grid] == [(0, 0)]


@pytest.mark.parametrize(("method", "how"), [("zygote", "exit code 3"), ("interpreter", "exit status unknown")])
def test_the_end_of_a_worker_is_not_invented_where_the_driver_ignores_its_children(monkeypatch, method, how):
    """Then the system reaps the driver's children, and nobody learns their status."""
    monkeypatch.setenv("MINITUNE_START_METHOD", method)

    def ignore_children(handler):
        return signal.signal(signal.SIGCHLD, handler)

    with _changed(ignore_children, signal.SIG_IGN):
        grid = fit(lambda config: os._exit(3), executor="local")
    assert how in str(grid.errors[0])


@pytest.mark.parametrize("umask", [0, 0o002])
def test_a_run_is_trusted_at_its_resume_whatever_the_umask(umask):
    def trainable(config):
        report({"large": b"x" * 2_000_000}, checkpoint=Checkpoint.from_dict({"n": 1}))

    with _changed(os.umask, umask):
        fit(trainable, {"x": grid_search([1, 2])}, executor="local")
    assert len(resume(trainable)) == 2
