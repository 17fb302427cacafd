"""A time limit for each test. A test that hangs fails with the stacks of all threads, and the session goes on.

The limit holds for the setup, the call and the teardown of a test. A timer sends the signal SIGALRM. Its handler fails
the test, wherever the main thread waits. A test that uses this timer for itself has no limit from then on.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType

import pytest

LIMIT_S = 180.0 * float(os.environ.get("MINITUNE_TEST_TIMEFACTOR", "1"))
"""More than any bound inside of a test, since those say more."""
AGAIN_S = 10.0
"""After so many seconds the failure comes again, if the code under test has caught it."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    """Limit the time of the test's fixtures."""
    yield from _limited()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Limit the time of the test itself."""
    yield from _limited()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Limit the time in which its fixtures end."""
    yield from _limited()


def _limited() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, _fail)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S, AGAIN_S)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def _fail(number: int, frame: FrameType | None) -> None:
    """Fail with the stack of the main thread, which pytest shows, and those of the others."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    text = f"the test took longer than {LIMIT_S:g} s"
    for ident, innermost in sys._current_frames().items():
        if ident != threading.get_ident():
            stack = "".join(traceback.format_stack(innermost))
            text += f"\n\nmeanwhile, in the thread {names.get(ident, ident)}:\n{stack}"
    pytest.fail(text)
