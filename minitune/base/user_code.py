"""The user's code that a thread runs for the driver: a hook of a plug-in, or a trial of the inline executor.

An exception of a signal handler leaves that code as its own ones do; in ours it could come between the two halves of a
step. So a handler raises only where `user_code.running` is set.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _UserCode(threading.local):
    """Of each thread: the innermost of its calls of the user's code."""

    running: tuple[Any, float] | None = None


user_code = _UserCode()


@contextmanager
def runs(what: Any) -> Iterator[None]:
    """A context in which the calling thread runs the user's code."""
    outer = user_code.running
    try:
        user_code.running = what, time.monotonic()
        yield
    finally:
        user_code.running = outer
