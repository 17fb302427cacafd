"""A time limit for each test. A test that hangs fails with the stacks of all threads, and the session goes on.

The limit holds for the setup, the call and the teardown of a test. A timer sends the signal SIGALRM. Its handler fails
the test, wherever the main thread waits. A test that uses this timer for itself has no limit from then on.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

_FACTOR = float(os.environ.get("MINITUNE_TEST_TIMEFACTOR", "1"))
LIMIT_S = 45.0 * _FACTOR
"""More than any bound inside of a test, since those say more."""
LONG_S = 180.0 * _FACTOR
"""The same for a test of programs: with the fixture `script`, in a module that says `HAS_PROGRAMS = True`, or of an
optional package.
"""
AGAIN_S = 10.0
"""After so many seconds the failure comes again, if the code under test has caught it."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Limit the time of the test's fixtures."""
    yield from _limited(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Limit the time of the test itself."""
    yield from _limited(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Limit the time in which its fixtures end."""
    yield from _limited(item)


def _limit_s(item: pytest.Item) -> float:
    has_programs = "script" in getattr(item, "fixturenames", ()) or "extras" in item.path.parts
    return LONG_S if has_programs or getattr(getattr(item, "module", None), "HAS_PROGRAMS", False) else LIMIT_S


def _limited(item: pytest.Item) -> Iterator[None]:
    limit_s = _limit_s(item)
    before = signal.signal(signal.SIGALRM, _handler(limit_s))
    signal.setitimer(signal.ITIMER_REAL, limit_s, AGAIN_S)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@functools.cache  # the handler of a test must be the same in all its phases: it is compared before and after
def _handler(limit_s: float) -> Callable[[int, FrameType | None], None]:
    return functools.partial(_fail, limit_s)


def _fail(limit_s: float, number: int, frame: FrameType | None) -> None:
    """Fail with the stack of the main thread, which pytest shows, and those of the others."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    text = f"the test took longer than {limit_s:g} s"
    for ident, innermost in sys._current_frames().items():
        if ident != threading.get_ident():
            stack = "".join(traceback.format_stack(innermost))
            text += f"\n\nmeanwhile, in the thread {names.get(ident, ident)}:\n{stack}"
    pytest.fail(text)
