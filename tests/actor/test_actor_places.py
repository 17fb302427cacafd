"""The workplace of an actor: directory, output, environment; and how a worker is cleaned for the next actor."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from functools import partial

import pytest
from actor_driver import Driver, Group, Leaps, however_it_started
from actor_samples import FOREVER_S, Clean, Counter, Family, Hosted, Nester, Sleeper
from kit import BOUND_S, is_gone, read_pids, wait_until

from minitune.actor.messages import CallRaised, Exited, Show, Started, Stop, Workplace, encode
from minitune.actor.remote_actor import RemoteActor


def workplace_in(directory, **env):
    directory.mkdir(exist_ok=True)
    return Workplace(str(directory), str(directory / "out"), str(directory / "err"), env=env)


def test_a_place_is_taken_before_the_object_is_made(driver, tmp_path, monkeypatch):
    monkeypatch.setenv("MINITUNE_TEST_REMOVED", "1")
    workplace = workplace_in(tmp_path / "a", MINITUNE_TEST_SET="yes", MINITUNE_TEST_REMOVED=None)
    umask = os.umask(0o027)
    try:
        driver.start("a", _Observer, workplace=workplace)
    finally:
        os.umask(umask)
    assert driver.call("a", "look") == (str(tmp_path / "a"), "yes", None)
    driver.call("a", "show", "hello")
    driver.call("a", "call", partial(subprocess.run, ["sh", "-c", "echo from a child"], check=True))
    assert (tmp_path / "a" / "out").read_text() == "made\nhello\nfrom a child\n"
    assert (tmp_path / "a" / "err").read_text() == "hello\n"
    assert (tmp_path / "a" / "out").stat().st_mode & 0o777 == 0o640
    assert os.getcwd() != str(tmp_path / "a")


class _Observer(Counter):
    def __init__(self):
        super().__init__()
        print("made")
        self.seen = os.getcwd(), os.environ.get("MINITUNE_TEST_SET"), os.environ.get("MINITUNE_TEST_REMOVED")

    def look(self):
        return self.seen


def test_a_directory_that_is_not_there_is_a_failed_start(driver, tmp_path):
    missing = str(tmp_path / "missing")
    driver.group.start_in("a", partial(Hosted, factory=Counter), workplace=Workplace(missing))
    event = driver.next("a")
    assert isinstance(event, CallRaised)
    assert missing in event.error.message


def test_a_dirty_worker_is_handed_on_clean(driver, tmp_path):
    driver.start("a", workplace=workplace_in(tmp_path / "a"))
    before = driver.call("a", "call", _look_around)
    driver.call("a", "call", _make_dirty)
    assert driver.call("a", "call", _look_around) != before
    driver.group.stop("a", BOUND_S, keep=True)
    assert driver.next("a").kind == "parked"
    driver.group.move("b", workplace_in(tmp_path / "b"))
    assert driver.next("b").reused
    assert driver.call("b", "call", _look_around) == before
    modes = [(tmp_path / name / "out").stat().st_mode for name in "ab"]
    assert modes[0] == modes[1] != 0o100666


def _look_around():
    return {
        "is at home": os.path.exists("out"),
        "environment": {name: value for name, value in os.environ.items() if name not in ("MINITUNE_TRIAL", "PWD")},
        "handlers": {number: str(signal.getsignal(number))[:24] for number in signal.valid_signals()},
        "mask": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "timer": signal.getitimer(signal.ITIMER_REAL),
        "logging": (len(logging.root.handlers), logging.root.level, logging.root.manager.disable),
        "warnings": len(warnings.filters),
        "path": list(sys.path),
        "arguments": list(sys.argv),
        "open files": len(os.listdir("/dev/fd")),
        "streams": (sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__),
    }


def _make_dirty():
    import io

    os.chdir("/")
    os.environ.update(DIRT="1", PATH="/nowhere")
    del os.environ["HOME"]
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda number, frame: None)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.alarm(int(FOREVER_S))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])
    logging.basicConfig(level=logging.DEBUG, stream=io.StringIO())
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    sys.path.insert(0, "/dirt")
    sys.argv.append("dirt")
    sys.stdout = io.StringIO()
    sys.stderr = io.StringIO()


@however_it_started
@pytest.mark.parametrize("left", ["family", "thread"])
def test_a_worker_with_something_left_is_not_kept(driver, tmp_path, left):
    pids = []
    if left == "family":
        driver.start("a", partial(Family, str(tmp_path / "pids")))
        pids = read_pids(tmp_path / "pids", driver.call("a", "start_all"))
    else:
        driver.start("a")
        driver.call("a", "call", _leave_thread)
    driver.group.stop("a", BOUND_S, keep=True)
    assert driver.ended("a").cause == "stopped"
    assert all(map(is_gone, pids))


def _leave_thread():
    threading.Thread(target=time.sleep, args=(FOREVER_S,), daemon=True).start()


@however_it_started
def test_a_worker_that_does_not_come_back_is_not_kept(driver, tmp_path):
    driver.start("a", partial(Sleeper, str(tmp_path / "pids")))
    driver.group.call("a", "ignore_everything")
    read_pids(tmp_path / "pids", 1)
    driver.group.stop("a", 0.05, keep=True)
    event = driver.ended("a")
    assert event.kind == "stopped"
    assert event.exit_code == -9


@however_it_started
def test_a_process_that_cannot_be_handed_on_is_replaced(driver, tmp_path):
    driver.start("a")
    assert driver.call("a", "add", 7) == 7
    driver.group.stop("a", BOUND_S, keep=True)
    assert driver.next("a").kind == "parked"
    driver.group.move("b", Workplace(str(tmp_path / "missing")))
    assert not driver.next("b").reused
    assert driver.call("b", "add", 1) == 1


def _park_clean(driver):
    """Park an actor with the value 7; returns its process."""
    driver.group.start_in("a", partial(Clean, factory=Counter))
    pid = driver.next("a").pid
    assert driver.call("a", "add", 7) == 7
    assert driver.group.stop("a", BOUND_S, keep=True) == Exited("a", "parked")
    return pid


@however_it_started
def test_a_parked_process_outlives_the_time_that_its_stop_had(driver, tmp_path, monkeypatch):
    pid = driver.start("a")
    assert driver.group.stop("a", 5.0, keep=True) is None
    assert driver.next("a").kind == "parked"
    Leaps(monkeypatch, driver).by(60.0, parts=20)
    driver.group.move("b", workplace_in(tmp_path / "b"))
    started = driver.next("b")
    assert (started.pid, started.reused) == (pid, True)
    assert driver.stop("b").cause == "stopped"


@however_it_started
def test_no_more_processes_are_kept_than_there_are_cpus(start_method):
    with Group(cpus=1) as group:
        driver = Driver(group)
        kinds = []
        for name in ("a", "b"):
            driver.start(name)
            exited = group.stop(name, BOUND_S, keep=True) or driver.next(name)
            kinds.append(exited.kind)
    assert kinds == ["parked", "stopped"]


def test_a_reset_that_cannot_fail_is_sent_with_the_first_call(driver, tmp_path):
    pid = _park_clean(driver)
    driver.group.move("b", workplace_in(tmp_path / "b"))
    assert not (tmp_path / "b" / "out").exists(), "nothing was sent"
    started = driver.next("b")
    assert (started.pid, started.reused) == (pid, True)
    assert driver.call("b", "add", 1) == 8
    assert driver.call("b", "directory") == str(tmp_path / "b")
    assert driver.stop("b").cause == "stopped"


@however_it_started
@pytest.mark.parametrize(
    ("injury", "cause"),
    [
        (signal.SIGKILL, "its worker has died before it began"),
        (signal.SIGSTOP, "its worker was not ready for it within 0.5 s"),
    ],
)
def test_a_process_that_fails_with_the_first_call_is_lost(driver, tmp_path, injury, cause):
    """Nothing of the trial has run, so the end does not count."""
    pid = _park_clean(driver)
    driver.group.move("b", workplace_in(tmp_path / "b"), timeout_s=0.5)
    assert driver.next("b").reused
    os.kill(pid, injury)
    driver.group.call("b", "add", 1)
    exited = driver.ended("b")
    assert (exited.kind, exited.cause, exited.counts) == ("lost", cause, False)
    assert is_gone(pid)


@however_it_started
def test_a_workplace_that_is_missing_is_the_error_of_the_first_call(driver, tmp_path):
    _park_clean(driver)
    driver.group.move("b", Workplace(str(tmp_path / "missing")))
    assert driver.next("b").reused
    driver.group.call("b", "add", 1)
    assert "missing" in driver.next("b").error.last_line()
    driver.group.stop("b", BOUND_S)
    assert driver.ended("b").cause == "stopped"


@however_it_started
@pytest.mark.parametrize("keep", [True, False])
def test_a_worker_stops_that_had_no_call_yet(driver, tmp_path, keep):
    pid = _park_clean(driver)
    driver.group.move("b", workplace_in(tmp_path / "b"))
    assert driver.next("b").reused
    exited = driver.group.stop("b", BOUND_S, keep=keep)
    if not keep:
        assert exited is None
        assert driver.next("b").kind == "stopped"
    else:
        assert exited == Exited("b", "parked")
        driver.group.move("c", workplace_in(tmp_path / "c"))
        assert driver.next("c").pid == pid
        assert driver.call("c", "add", 1) == 8


@however_it_started
def test_a_stop_that_comes_late_does_not_hit_the_next_actor(driver, tmp_path):
    driver.group.start_in("a", Nester, workplace=workplace_in(tmp_path / "a"))
    assert isinstance(driver.next("a"), Started)
    assert driver.call("a", "work", 1) == (1,)
    driver.group.stop("a", BOUND_S, keep=True)
    assert driver.next("a").kind == "parked"
    driver.group.move("b", workplace_in(tmp_path / "b"))
    assert driver.next("b").reused
    process = driver.group._actors["b"].remote.process
    process.tell([*encode(Stop(0)), *encode(Show())])
    wait_until(lambda: "Current thread" in (tmp_path / "b" / "err").read_text(), "the worker has heard both")
    assert driver.call("b", "work", 1) == (1,)
    assert driver.call("b", "work", 1) == "done"


@however_it_started
def test_only_a_parked_process_is_handed_on(driver):
    driver.start("a")
    process = driver.group._actors["a"].remote.process
    with pytest.raises(RuntimeError, match="not parked"):
        RemoteActor(process, Started("b", 0, "", None), Workplace(), print).take_over(b"", BOUND_S)


@however_it_started
def test_a_worker_that_was_to_be_kept_can_be_stopped_for_good(driver):
    driver.start("a")
    driver.group.stop("a", BOUND_S, keep=True)
    driver.group.stop("a", BOUND_S)
    assert driver.ended("a").cause == "stopped"
