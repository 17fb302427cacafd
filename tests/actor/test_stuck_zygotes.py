"""Zygotes that are stuck: stopped by somebody, or traced. They are replaced, and no actor is to blame.

Time passes by leaps here: the driver's clock is set forward, and the driver looks at its limits. So a leap is like a
long stop of the driver's process, too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
from actor_driver import Driver, Group, Leaps, zygote_pids
from actor_samples import Counter, Family, Hosted
from kit import is_gone, marked_processes, read_pids, wait_until

from minitune.actor.messages import (
    EOF_S,
    KILL_CONFIRM_S,
    PRELOAD_S,
    ZYGOTE_ANSWER_PARTS,
    ZYGOTE_ANSWER_S,
    ZYGOTE_HELLO_S,
    Started,
)

SCRIPTS = Path(__file__).with_name("scripts")

BY_REFERENCE = True  # see `conftest`
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the zygote needs Linux")


@pytest.fixture
def zygote(storage_of_its_own: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    monkeypatch.setenv("MINITUNE_START_METHOD", "zygote")
    with Group() as group:
        yield Driver(group)
    assert marked_processes(group.run_id) == []


@pytest.fixture
def leap(monkeypatch: pytest.MonkeyPatch, zygote: Driver) -> Callable[..., None]:
    return Leaps(monkeypatch, zygote).by


def begin(driver: Driver, actor_id: str) -> None:
    driver.group.start_in(actor_id, partial(Hosted, factory=Counter))


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "it is stopped")


def sleeps(pid: int) -> bool:
    return bool(psutil.Process(pid).status() == psutil.STATUS_SLEEPING)


def workers_of(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children()]


# -- stuck -------------------------------------------------------------------------------------------------------------


def test_a_stopped_zygote_is_replaced_and_no_actor_is_to_blame(
    zygote: Driver, leap: Callable[..., None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    zygote.start("runs", partial(Family, str(tmp_path / "pids")))
    family = read_pids(tmp_path / "pids", zygote.call("runs", "start_all"))
    [pid] = zygote_pids()
    stop(pid)
    begin(zygote, "begins")
    leap(ZYGOTE_HELLO_S / 2)
    leap(ZYGOTE_ANSWER_S, ZYGOTE_ANSWER_PARTS)
    begun = zygote.ended("begins")
    assert (begun.kind, begun.counts) == ("refused", False)
    running = zygote.ended("runs")
    assert (running.kind, running.counts) == ("lost", False)
    assert begun.cause == running.cause == f"the zygote did not answer for {ZYGOTE_ANSWER_S:g} s and was killed"
    assert is_gone(pid)
    assert all(map(is_gone, family))
    assert "2 worker(s) are lost with it" in caplog.text
    zygote.start("next")
    assert zygote.call("next", "add", 2) == 2


@contextmanager
def traced(pid: int) -> Iterator[None]:
    """A context in which another process traces this one and does nothing more, as a debugger does at its prompt."""
    command = [sys.executable, SCRIPTS / "traces.py", str(pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tracer:
        assert tracer.stdout is not None
        error = tracer.stdout.readline().strip()
        if error:
            pytest.skip(f"this system allows no tracing: {error}")
        wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_TRACING_STOP, "it is stopped")
        yield
        tracer.communicate("")


def test_a_traced_zygote_is_replaced_too(zygote: Driver, leap: Callable[..., None]) -> None:
    """No process can reap it meanwhile, and the driver does not wait for that."""
    zygote.start("runs")
    [pid] = zygote_pids()
    with traced(pid):
        begin(zygote, "begins")
        leap(ZYGOTE_HELLO_S / 2)
        leap(ZYGOTE_ANSWER_S, ZYGOTE_ANSWER_PARTS)
        assert zygote.ended("begins").kind == "refused"
        assert zygote.ended("runs").kind == "lost"
        zygote.start("next")
        assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    with suppress(ChildProcessError):  # it is reaped
        os.waitpid(pid, 0)


def test_a_traced_interpreter_that_is_dead_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITUNE_START_METHOD", "interpreter")
    with Group() as group:
        driver = Driver(group)
        pid = driver.start("a")
        with traced(pid):
            os.kill(pid, signal.SIGKILL)
            event = driver.ended("a")
            assert (event.kind, event.exit_code, event.survivors) == ("died", None, False)
            driver.start("b")
        with suppress(ChildProcessError):  # it is reaped
            os.waitpid(pid, 0)


def test_an_end_that_a_stopped_zygote_does_not_report_is_a_loss(zygote: Driver, leap: Callable[..., None]) -> None:
    worker = zygote.start("a")
    [pid] = zygote_pids()
    stop(pid)
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: is_gone(worker), "it is dead")
    assert zygote.group.wait(0) == []  # the end of its pipe is read
    leap(EOF_S)
    leap(KILL_CONFIRM_S)
    leap(ZYGOTE_ANSWER_S, ZYGOTE_ANSWER_PARTS)
    event = zygote.ended("a")
    assert (event.kind, event.counts) == ("lost", False)
    assert "did not answer" in event.cause
    zygote.start("next")


def test_a_stopped_zygote_that_does_not_carry_out_a_kill_is_replaced(
    zygote: Driver, leap: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver kills that worker itself, at once."""
    for name in ("KILL_CONFIRM_S", "ZYGOTE_SILENCE_S"):
        monkeypatch.setattr(f"minitune.actor.process.{name}", 0.05)
    zygote.start("runs")
    zygote.start("stops")
    [pid] = zygote_pids()
    stop(pid)
    assert zygote.stop("stops", grace_s=0.1).kind == "stopped"
    leap(ZYGOTE_ANSWER_S, ZYGOTE_ANSWER_PARTS)
    assert zygote.ended("runs").kind == "lost"
    assert is_gone(pid)


def test_at_the_end_nothing_is_left_of_a_stopped_zygote(
    zygote: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minitune.actor.zygote_process.CLOSE_S", 0.1)
    zygote.start("a", partial(Family, str(tmp_path / "pids")))
    family = read_pids(tmp_path / "pids", zygote.call("a", "start_all"))
    [pid] = zygote_pids()
    stop(pid)
    zygote.group._finalizer()  # as when the interpreter exits
    assert all(map(is_gone, [pid, *family]))


# -- not stuck ---------------------------------------------------------------------------------------------------------


def test_a_stop_of_the_driver_is_not_taken_for_one_of_the_zygote(zygote: Driver, leap: Callable[..., None]) -> None:
    zygote.start("a")
    [pid] = zygote_pids()
    begin(zygote, "b")
    wait_until(lambda: len(workers_of(pid)) == 2 and all(map(sleeps, workers_of(pid))), "it is ready, unread")
    leap(1000)
    assert isinstance(zygote.next("b"), Started)
    assert zygote_pids() == [pid]


def test_a_zygote_that_is_continued_in_time_is_not_stuck(zygote: Driver, leap: Callable[..., None]) -> None:
    """Even if the driver was stopped meanwhile, and has not waited itself."""
    zygote.start("a")
    [pid] = zygote_pids()
    stop(pid)
    begin(zygote, "b")
    leap(ZYGOTE_HELLO_S / 2)
    leap(1000)
    os.kill(pid, signal.SIGCONT)
    assert isinstance(zygote.next("b"), Started)
    assert zygote.call("a", "add", 2) == 2
    assert zygote_pids() == [pid]


def test_a_worker_that_a_continued_zygote_has_just_forked_has_time_left(
    zygote: Driver, leap: Callable[..., None]
) -> None:
    zygote.start("a")
    [pid] = zygote_pids()
    stop(pid)
    begin(zygote, "b")
    leap(ZYGOTE_HELLO_S / 2)
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: len(workers_of(pid)) == 2, "it is forked")
    [worker] = set(workers_of(pid)) - set(zygote.group.pids().values())
    os.kill(worker, signal.SIGSTOP)  # it may have said Hello or not
    leap(ZYGOTE_HELLO_S / 2 - 1)
    os.kill(worker, signal.SIGCONT)
    assert isinstance(zygote.next("b"), Started)


def test_a_zygote_that_loads_something_is_not_stuck(zygote: Driver, leap: Callable[..., None], tmp_path: Path) -> None:
    """That has a time limit of its own."""
    begun = tmp_path / "begun"
    end = tmp_path / "end"
    zygote.group.preload(_nothing)
    worker = zygote.start("a")
    [pid] = [each for each in zygote_pids() if worker in workers_of(each)]
    zygote.group.preload(partial(_wait_for, str(begun), str(end)))
    wait_until(begun.exists, "it has begun")
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: is_gone(worker), "it is dead")
    assert zygote.group.wait(0) == []
    leap(EOF_S)
    leap(KILL_CONFIRM_S)
    leap(ZYGOTE_ANSWER_S, ZYGOTE_ANSWER_PARTS)
    assert ZYGOTE_ANSWER_S < PRELOAD_S
    end.touch()
    event = zygote.ended("a")
    assert (event.kind, event.exit_code) == ("died", -signal.SIGKILL)
    assert pid in zygote_pids()


def test_a_zygote_is_stuck_although_another_one_loads_something(
    zygote: Driver, leap: Callable[..., None], tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    end = tmp_path / "end"
    worker = zygote.start("a")
    [pid] = zygote_pids()
    zygote.group.preload(partial(_wait_for, str(begun), str(end)))
    wait_until(begun.exists, "the other one has begun")
    stop(pid)
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: is_gone(worker), "it is dead")
    assert zygote.group.wait(0) == []
    leap(EOF_S)
    leap(KILL_CONFIRM_S)
    leap(ZYGOTE_ANSWER_S, ZYGOTE_ANSWER_PARTS)
    assert zygote.ended("a").kind == "lost"
    assert is_gone(pid)
    end.touch()


def _nothing() -> None:
    pass


def _wait_for(begun: str, end: str) -> None:
    Path(begun).touch()
    while not os.path.exists(end):
        time.sleep(0.005)


def test_a_worker_that_says_nothing_is_to_blame_if_its_zygote_answers(
    zygote: Driver, leap: Callable[..., None]
) -> None:
    zygote.start("a")
    [pid] = zygote_pids()
    zygote.group.preload(partial(_hang_after_forks, pid))
    begin(zygote, "b")
    wait_until(lambda: zygote.group.wait(0) == [] and len(zygote_pids()) == 2, "it has been loaded")
    [loaded] = set(zygote_pids()) - {pid}
    wait_until(lambda: zygote.group.wait(0) == [] and len(workers_of(loaded)) == 1, "it is forked")
    leap(ZYGOTE_HELLO_S + PRELOAD_S)
    wait_until(lambda: zygote.group.wait(0.01) == [] and not zygote.group._launcher._doubts, "the zygote answers")
    leap(ZYGOTE_HELLO_S + PRELOAD_S)
    event = zygote.ended("b")
    assert event.counts
    assert "no message within" in event.cause
    assert zygote.call("a", "add", 2) == 2


def _hang_after_forks(number: int) -> None:
    os.register_at_fork(after_in_child=threading.Event().wait)
