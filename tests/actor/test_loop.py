"""The driver's loop: timers, time limits, descriptors, and calls from other threads."""

import os
import threading

import pytest

from minitune.actor import loop as loops
from minitune.actor.loop import Loop, TimeLimit


class Time:
    """A clock that tests set."""

    def __init__(self):
        self.now_s = 1_000.0

    def monotonic(self):
        return self.now_s


@pytest.fixture
def time(monkeypatch):
    time = Time()
    monkeypatch.setattr(loops, "time", time)
    return time


@pytest.fixture
def loop(time):
    loop = Loop()
    yield loop
    loop.close()
    loop.close()


def pass_time(loop, time, seconds):
    time.now_s += seconds
    loop.turn(0.0)


def test_calls_come_when_they_are_due_and_in_their_order(loop, time):
    called = []
    for name, delay_s in (("c", 3.0), ("a", 1.0), ("b", 1.0), ("never", 2.0)):
        timer = loop.call_later(delay_s, lambda name=name: called.append(name))
        if name == "never":
            timer.cancel()
            timer.cancel()
    pass_time(loop, time, 0.5)
    assert called == []
    pass_time(loop, time, 0.5)
    assert called == ["a", "b"]
    pass_time(loop, time, 1.9)
    assert called == ["a", "b"]
    pass_time(loop, time, 0.1)
    assert called == ["a", "b", "c"]
    pass_time(loop, time, 100.0)
    assert called == ["a", "b", "c"]


def test_only_the_last_limit_counts(loop, time):
    called = []
    limit = TimeLimit(loop)
    assert not limit.is_set
    limit.set(5.0, lambda: called.append("first"))
    assert limit.is_set
    limit.set(10.0, lambda: called.append("later"))
    pass_time(loop, time, 5.0)
    assert called == []
    limit.set(1.0, lambda: called.append("sooner"))
    pass_time(loop, time, 1.0)
    assert called == ["sooner"]
    assert not limit.is_set
    pass_time(loop, time, 100.0)
    assert called == ["sooner"]


@pytest.mark.parametrize("end", [TimeLimit.clear, TimeLimit.close])
def test_a_limit_that_is_removed_is_not_exceeded(loop, time, end):
    called = []
    limit = TimeLimit(loop)
    limit.set(1.0, lambda: called.append("exceeded"))
    end(limit)
    assert not limit.is_set
    pass_time(loop, time, 2.0)
    assert called == []
    if end is TimeLimit.clear:
        limit.set(1.0, lambda: called.append("again"))
        pass_time(loop, time, 1.0)
        assert called == ["again"]


def test_steps_follow_each_other_after_their_limits(loop, time):
    taken = []

    def steps():
        taken.append(("begin", time.now_s))
        yield 1.0
        taken.append(("middle", time.now_s))
        yield 2.0
        taken.append(("end", time.now_s))

    limit = TimeLimit(loop)
    limit.follow(steps())
    for _ in range(6):
        pass_time(loop, time, 1.0)
    assert taken == [("begin", 1_000.0), ("middle", 1_001.0), ("end", 1_003.0)]
    assert not limit.is_set


def test_what_has_arrived_is_read_before_a_limit_counts(loop, time):
    out, into = os.pipe()
    heard = []
    limit = TimeLimit(loop)

    def read(mask):
        heard.append(os.read(out, 10))
        limit.clear()

    loop.watch(out, read)
    limit.set(1.0, lambda: heard.append("late"))
    os.write(into, b"in time")
    pass_time(loop, time, 5.0)
    assert heard == [b"in time"]
    loop.unwatch(out)
    loop.unwatch(out)
    os.write(into, b"more")
    pass_time(loop, time, 5.0)
    assert heard == [b"in time"]
    os.close(out)
    os.close(into)


def test_a_descriptor_has_one_callback(loop):
    out, into = os.pipe()
    heard = []
    loop.watch(out, lambda mask: heard.append("old"))
    loop.watch(out, lambda mask: heard.append("new"))
    os.write(into, b"x")
    loop.turn(None)
    assert heard == ["new"]
    loop.watch(into, lambda mask: heard.append(f"can write {mask == loops.WRITE}"), loops.WRITE)
    loop.unwatch(out)
    loop.turn(None)
    assert heard == ["new", "can write True"]
    loop.unwatch(into)
    os.close(out)
    os.close(into)


def test_a_wake_ends_one_turn(loop):
    assert loop.turn(0.0) is False
    for _ in range(3):
        loop.wake()
    assert loop.turn(None) is True
    assert loop.turn(0.0) is False


def test_a_call_of_another_thread_ends_the_turn_that_waits(loop):
    called = []
    other = threading.Thread(target=lambda: loop.post(lambda: called.append(threading.current_thread())))
    other.start()
    other.join()
    assert loop.turn(None) is False
    assert called == [threading.current_thread()]


def test_a_closed_loop_can_be_woken():
    loop = Loop()
    loop.close()
    loop.wake()
    loop.post(lambda: None)
