"""The current clock, and the virtual one."""

import math

import pytest

from minitune.base import clock
from minitune.base.clock import VirtualClock


def test_a_virtual_clock_goes_on_by_sleep_alone():
    now = VirtualClock(100.0)
    assert (now.time(), now.monotonic()) == (100, 100)
    now.sleep(2.5)
    assert (now.time(), now.monotonic()) == (102.5, 102.5)
    now.sleep(0)
    now.sleep(-5)
    assert now.time() == 102.5
    assert VirtualClock().time() == 0


def test_the_shortest_sleep_lets_some_time_pass():
    now = VirtualClock(1e9)
    now.sleep(1e-12)
    assert now.time() == math.nextafter(1e9, math.inf)


def fail_with(inner):
    with clock.use(inner):
        assert clock.current is inner
        raise KeyError


def test_a_clock_is_the_current_one_within_its_block():
    outer = VirtualClock(1)
    with clock.use(outer):
        with pytest.raises(KeyError):
            fail_with(VirtualClock(2))
        assert clock.current is outer
    assert clock.current is clock.REAL
