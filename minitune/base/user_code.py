"""Where the user's code runs: on a thread of the driver, or on that of a trial with a process of its own.

In the driver, it is a hook of a plug-in, or a trial of the inline executor. An exception of a signal handler leaves
that code as its own ones do; in ours it could come between the two halves of a step. So a handler raises only where
`user_code.running` is set.

The thread of a trial is the main one, unless the process needs that for other work: see `declare_trial_thread`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _UserCode(threading.local):
    """Of each thread: the innermost of its calls of the user's code, and whether a pickle loads that."""

    running: tuple[Any, float] | None = None
    is_loaded = False


user_code = _UserCode()
_declared: threading.Thread | None = None


@contextmanager
def runs(what: Any) -> Iterator[None]:
    """A context in which the calling thread runs the user's code."""
    outer = user_code.running
    try:
        user_code.running = what, time.monotonic()
        yield
    finally:
        user_code.running = outer


@contextmanager
def loads_code() -> Iterator[None]:
    """A context in which the calling thread loads the user's code, which may import modules."""
    outer = user_code.is_loaded
    try:
        user_code.is_loaded = True
        yield
    finally:
        user_code.is_loaded = outer


def only_imports() -> bool:
    """Whether the calling thread imports the user's modules for a trial, or for a child that `multiprocessing` has
    spawned.
    """
    process = sys.modules.get("multiprocessing.process")
    is_child = process is not None and getattr(process.current_process(), "_inheriting", False)
    return user_code.is_loaded or is_child


def declare_trial_thread() -> None:
    """Say that the calling thread runs the code of the trial of this process, instead of the main thread."""
    global _declared
    _declared = threading.current_thread()


def has_process_to_itself() -> bool:
    """Whether the calling thread runs the code of a trial that has this process to itself."""
    current = threading.current_thread()
    return current is threading.main_thread() or current is _declared
