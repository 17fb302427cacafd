"""Calls: state, concurrency, values, arguments, errors."""

import os
import signal
import threading
from functools import partial
from selectors import DefaultSelector

import pytest
from actor_driver import Driver, Group, however_it_started
from actor_samples import Brittle, NeedsTwo
from kit import Injured

from minitune.actor import messages
from minitune.actor.messages import CallRaised, CallReturned, Exited


@however_it_started
def test_after_a_call_that_fails_in_an_odd_way_the_actor_lives_on(driver):
    """The contract of executors has the plain ways."""
    driver.start("a")
    driver.group.call("a", "fail", "what now")
    assert "actor/worker" not in _error(driver).traceback

    for make in (
        partial(SystemExit, 4),
        KeyboardInterrupt,
        partial(StopIteration, 2),
        GeneratorExit,
        partial(NeedsTwo, 1, 2),
    ):
        driver.group.call("a", "call", _raise, make)
        assert _error(driver).type_name.endswith(type(make()).__name__)

    driver.group.call("a", "call", Brittle)  # its value cannot be loaded
    assert "does not like to be loaded" in _error(driver).message
    driver.group.call("a", "echo", Brittle())  # nor can its argument
    assert "does not like to be loaded" in _error(driver).message
    with pytest.raises(TypeError, match=r"argument of echo\(\) cannot be pickled"):
        driver.group.call("a", "echo", threading.Lock())
    assert driver.call("a", "add", 1) == 1


def _error(driver):
    event = driver.next("a")
    assert isinstance(event, CallRaised), event
    return event.error


def _raise(make):
    raise make()


def _limit_messages():
    messages.MESSAGE_BYTES = 100_000


@however_it_started
def test_too_large_a_message_is_refused_with_size_limit_and_advice(start_method, monkeypatch):
    monkeypatch.setattr(messages, "MESSAGE_BYTES", 100_000)
    with Group() as group:
        driver = Driver(group)
        driver.start("a")
        driver.call("a", "call", _limit_messages)
        with pytest.raises(ValueError, match=r"100000 bytes.*checkpoint"):
            group.call("a", "echo", b"x" * 200_000)
        group.call("a", "call", bytes, 200_000)
        event = driver.next("a")
        assert isinstance(event, CallRaised)
        assert event.error.type_name == "ValueError"
        assert "200" in event.error.message
        assert driver.call("a", "add", 1) == 1
        with pytest.raises(ValueError, match="100000 bytes"):
            group.start_in("b", b"x" * 200_000)


@however_it_started
def test_large_messages_cross_in_both_directions_at_the_same_time(driver):
    driver.start("a")
    driver.start("b")
    data = os.urandom(8_000_000)
    for _ in range(2):
        driver.group.call("a", "echo", data)
        driver.group.call("b", "echo", data)
        assert driver.next("a").value == data
        assert driver.next("b").value == data


@however_it_started
def test_a_frozen_worker_does_not_delay_the_others(driver):
    """One worker is frozen in the middle of a big message; the others' answers flow; thawed, its own is whole."""
    frozen = driver.start("frozen")
    driver.start("other")
    driver.group.call("frozen", "call", bytes, 30_000_000)
    os.kill(frozen, signal.SIGSTOP)
    for number in range(1, 20):
        driver.group.call("other", "add", 1)
        event = driver.next("other")
        assert event.value == number
    os.kill(frozen, signal.SIGCONT)
    assert len(driver.next("frozen").value) == 30_000_000


@however_it_started
def test_after_a_large_message_the_driver_rests(driver, monkeypatch):
    driver.start("a")
    assert driver.call("a", "call", len, bytes(8_000_000)) == 8_000_000
    turns = Injured(DefaultSelector.select, DefaultSelector.select)
    monkeypatch.setattr(DefaultSelector, "select", lambda self, timeout=None: turns(self, timeout))
    assert driver.group.wait(0.05) == []
    assert turns.calls < 10


@however_it_started
@pytest.mark.parametrize("kind", [BaseException, TimeoutError])
def test_an_alarm_that_raises_loses_and_exchanges_no_answer(driver, kind):
    """A handler that raises again and again may end the worker, with a cause that says so."""
    for number in range(4):
        actor = f"a{number}"
        driver.start(actor)
        driver.group.call(actor, "call", partial(_arm_raising_timer, kind))
        event = driver.next(actor)
        for value in range(200):
            if isinstance(event, Exited):
                break
            driver.group.call(actor, "echo", value)
            event = driver.next(actor)
            assert isinstance(event, CallReturned | CallRaised | Exited)
            assert not isinstance(event, CallReturned) or event.value == value
        if isinstance(event, Exited):
            assert "a signal handler of the trial has raised it" in event.cause
        else:
            driver.stop(actor)


def _arm_raising_timer(kind):
    def ring(number, frame):
        raise kind

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
