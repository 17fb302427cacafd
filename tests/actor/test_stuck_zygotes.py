"""Zygotes that are stuck: stopped by somebody, or traced. Another one forks later workers, and no actor is to blame.

Time passes by leaps here: the driver's clock is set forward, and the driver looks at its limits. So a leap is like a
long stop of the driver's process, too.
"""

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest
from actor_driver import Leaps, zygote_pids
from actor_samples import Counter, Family, Hosted
from kit import is_gone, read_pids, wait_until

from minitune.actor.messages import (
    EOF_S,
    KILL_CONFIRM_S,
    PRELOAD_S,
    ZYGOTE_HELLO_S,
    ZYGOTE_SILENCE_S,
    Started,
)

FORCED_S = KILL_CONFIRM_S + ZYGOTE_SILENCE_S

SCRIPTS = Path(__file__).with_name("scripts")

BY_REFERENCE = True  # see `conftest`
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the zygote needs Linux")


@pytest.fixture
def leap(monkeypatch, zygote):
    return Leaps(monkeypatch, zygote).by


def begin(driver, actor_id):
    driver.group.start_in(actor_id, partial(Hosted, factory=Counter))


def sleeps(pid):
    return bool(psutil.Process(pid).status() == psutil.STATUS_SLEEPING)


def workers_of(pid):
    return [child.pid for child in psutil.Process(pid).children()]


@contextmanager
def traced(pid):
    """A context in which another process traces this one and does nothing more, as a debugger does at its prompt."""
    command = [sys.executable, SCRIPTS / "traces.py", str(pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tracer:
        error = tracer.stdout.readline().strip()
        if error:
            pytest.skip(f"this system allows no tracing: {error}")
        wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_TRACING_STOP, "it is stopped")
        yield
        tracer.communicate("")


@contextmanager
def stopped(pid):
    """A context in which this process is stopped."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "it is stopped")
    yield
    os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("holds", [stopped, traced])
def test_a_worker_that_does_not_begin_is_not_to_blame_and_the_next_has_a_new_zygote(zygote, leap, holds):
    zygote.start("runs")
    [pid] = zygote_pids()
    with holds(pid):
        begin(zygote, "begins")
        leap(ZYGOTE_HELLO_S)
        leap(FORCED_S)
        begun = zygote.ended("begins")
        assert (begun.kind, begun.counts) == ("refused", False)
        zygote.start("next")
        assert zygote.call("runs", "add", 2) == 2, "the others live on"


def test_an_end_that_a_stopped_zygote_does_not_report_is_a_loss(zygote, leap):
    worker = zygote.start("a")
    [pid] = zygote_pids()
    with stopped(pid):
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: is_gone(worker), "it is dead")
        assert zygote.group.wait(0) == []  # the end of its pipe is read
        leap(EOF_S)
        leap(KILL_CONFIRM_S)
        leap(FORCED_S)
        event = zygote.ended("a")
        assert (event.kind, event.counts, event.cause) == ("lost", False, "the zygote does not answer")
        zygote.start("next")


def test_the_driver_kills_a_worker_for_a_stopped_zygote(zygote, monkeypatch):
    for name in ("KILL_CONFIRM_S", "ZYGOTE_SILENCE_S"):
        monkeypatch.setattr(f"minitune.actor.process.{name}", 0.05)
    zygote.start("stops")
    [pid] = zygote_pids()
    with stopped(pid):
        event = zygote.stop("stops", grace_s=0.1)
        assert (event.kind, event.exit_code, event.survivors) == ("stopped", None, False)
        zygote.start("next")


def test_at_the_end_nothing_is_left_of_a_stopped_zygote(zygote, tmp_path, monkeypatch):
    monkeypatch.setattr("minitune.actor.zygote_process.CLOSE_S", 0.1)
    zygote.start("a", partial(Family, str(tmp_path / "pids")))
    family = read_pids(tmp_path / "pids", zygote.call("a", "start_all"))
    [pid] = zygote_pids()
    os.kill(pid, signal.SIGSTOP)
    zygote.group._finalizer()  # as when the interpreter exits
    assert all(map(is_gone, [pid, *family]))


def test_a_stop_of_the_driver_is_not_taken_for_one_of_the_zygote(zygote, leap):
    zygote.start("a")
    [pid] = zygote_pids()
    begin(zygote, "b")
    wait_until(lambda: len(workers_of(pid)) == 2 and all(map(sleeps, workers_of(pid))), "it is ready, unread")
    leap(1000)
    assert isinstance(zygote.next("b"), Started)
    assert zygote_pids() == [pid]


def test_what_keeps_workers_from_beginning_is_not_preloaded_again(zygote, leap):
    zygote.group.preload(_hang_after_forks)
    begin(zygote, "a")
    [loaded] = zygote_pids()
    wait_until(lambda: zygote.group.wait(0) == [] and len(workers_of(loaded)) == 1, "it is forked")
    leap(ZYGOTE_HELLO_S + PRELOAD_S)
    event = zygote.ended("a")
    assert (event.kind, event.counts) == ("refused", False)
    assert "no message within" in event.cause
    zygote.start("b")


def _hang_after_forks():
    os.register_at_fork(after_in_child=threading.Event().wait)
