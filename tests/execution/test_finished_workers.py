"""A worker that says with its last answer that it is free is parked, moved and called without further questions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from minitune.execution.devices import Machine
from minitune.execution.local import LocalTrialExecutor
from minitune.execution.trial_executor import Exited, Started
from minitune.resources import Allocation

pytest.register_assert_rewrite("minitune.testing.executor_watch")

from minitune.testing.executor_watch import ONE_CPU, Watch  # noqa: E402 - its asserts are rewritten first

GRACE_S = 10.0
BOUND_S = 30.0 * float(os.environ.get("MINITUNE_TEST_TIMEFACTOR", "1"))

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked from a template on Linux only")


class Work:
    """Works for one name after the other, and notes each piece of work in a file."""

    def __init__(self, user_thread: Executor, name: str, notes: Path, *, allocation: Allocation):
        self._user_thread = user_thread
        self._name = name
        self._notes = notes
        self._left: list[Any] = []
        self.is_over = False

    def work(self) -> Future[str]:
        return self._user_thread.submit(self._work, lambda: None)

    def work_and_leave_a_thread(self) -> Future[str]:
        return self._user_thread.submit(self._work, threading.Thread(target=threading.Event().wait, daemon=True).start)

    def work_and_leave_a_process(self) -> Future[str]:
        return self._user_thread.submit(self._work, lambda: self._left.append(subprocess.Popen(["sleep", "1000"])))

    def _work(self, action: Callable[[], object]) -> str:
        action()
        with self._notes.open("a") as file:
            file.write(f"{self._name}\n")
        self.is_over = True
        return f"{self._name} in {os.getpid()}"

    def reset(self, name: str, outcome: str, allocation: Allocation) -> bool:
        if outcome == "raise":
            raise ValueError("no reset")
        if outcome == "exit":
            os._exit(3)
        self._name, self.is_over = name, False
        return outcome == "yes"


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    executor = LocalTrialExecutor(Machine({"CPU": 1}, ()), directory=str(tmp_path))
    try:
        yield Watch(executor, BOUND_S)
    finally:
        executor.shutdown(GRACE_S)


def start(watch: Watch, tmp_path: Path, name: str, outcome: str = "yes") -> Started:
    factory = partial(Work, name=name, notes=tmp_path / "notes")
    return watch.start(name, factory, reuse_key="key", reset_args=(name, outcome))


def finish(watch: Watch, tmp_path: Path, name: str, method: str = "work") -> int:
    """Start an actor that works and is let go; the pid of its worker."""
    pid = start(watch, tmp_path, name).pid
    assert watch.value(name, method) == f"{name} in {pid}"
    return pid


def notes(tmp_path: Path) -> list[str]:
    return (tmp_path / "notes").read_text().split()


def test_is_parked_at_once_and_started_without_waiting(watch: Watch, tmp_path: Path) -> None:
    pid = finish(watch, tmp_path, "a#1")

    assert watch.executor.stop("a#1", GRACE_S, keep=True)
    assert watch.executor.resources()[1] == {"CPU": 1}
    again = start(watch, tmp_path, "b#1")

    assert (again.reused, again.pid) == (True, pid)
    assert watch.value("b#1", "work") == f"b#1 in {pid}"
    assert watch.rest() == []
    assert notes(tmp_path) == ["a#1", "b#1"]


def test_is_stopped_for_good_if_it_is_not_to_be_kept(watch: Watch, tmp_path: Path) -> None:
    finish(watch, tmp_path, "a#1")

    assert not watch.executor.stop("a#1", GRACE_S)
    assert watch.expect(Exited, "a#1").kind == "stopped"
    assert not start(watch, tmp_path, "b#1").reused


@pytest.mark.parametrize("outcome", ["no", "raise", "exit"])
def test_a_refused_reset_costs_nothing_but_a_fresh_worker(watch: Watch, tmp_path: Path, outcome: str) -> None:
    """The call that was made meanwhile is answered by that one, and by that one alone."""
    pid = finish(watch, tmp_path, "a#1")
    assert watch.executor.stop("a#1", GRACE_S, keep=True)

    assert start(watch, tmp_path, "b#1", outcome).reused
    value = watch.value("b#1", "work")

    assert value.startswith("b#1 in ")
    assert value != f"b#1 in {pid}"
    assert notes(tmp_path) == ["a#1", "b#1"]
    watch.executor.stop("b#1", GRACE_S)
    assert watch.expect(Exited, "b#1").kind == "stopped"
    assert watch.rest() == []


def test_one_that_was_killed_meanwhile(watch: Watch, tmp_path: Path) -> None:
    """It is taken for alive, and what it was to do is done by a fresh one."""
    pid = finish(watch, tmp_path, "a#1")
    assert watch.executor.stop("a#1", GRACE_S, keep=True)
    os.kill(pid, signal.SIGKILL)

    start(watch, tmp_path, "b#1")

    assert watch.value("b#1", "work") != f"b#1 in {pid}"
    assert notes(tmp_path) == ["a#1", "b#1"]


@pytest.mark.parametrize("method", ["work_and_leave_a_thread", "work_and_leave_a_process"])
def test_one_that_has_left_something_is_not_free(watch: Watch, tmp_path: Path, method: str) -> None:
    finish(watch, tmp_path, "a#1", method)

    assert not watch.executor.stop("a#1", GRACE_S, keep=True)
    assert watch.expect(Exited, "a#1").kind == "stopped"
    assert not start(watch, tmp_path, "b#1").reused


def test_a_stop_before_its_start_was_told(watch: Watch, tmp_path: Path) -> None:
    finish(watch, tmp_path, "a#1")
    assert watch.executor.stop("a#1", GRACE_S, keep=True)
    factory = partial(Work, name="b#1", notes=tmp_path / "notes")
    watch.executor.start("b#1", factory, ONE_CPU, reuse_key="key", reset_args=("b#1", "yes"))

    assert not watch.executor.stop("b#1", GRACE_S)

    assert watch.expect(Exited, "b#1").kind == "stopped"
    assert watch.rest() == []
    assert notes(tmp_path) == ["a#1"]


def test_one_that_nobody_calls_is_moved_all_the_same(watch: Watch, tmp_path: Path) -> None:
    """What is held back for the next call goes out when the driver waits, and a fresh worker takes over unasked."""
    pid = finish(watch, tmp_path, "a#1")
    assert watch.executor.stop("a#1", GRACE_S, keep=True)
    start(watch, tmp_path, "b#1", "no")

    assert watch.executor.wait(0.2) == []
    value = watch.value("b#1", "work")

    assert value != f"b#1 in {pid}"
    assert notes(tmp_path) == ["a#1", "b#1"]
