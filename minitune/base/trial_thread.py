"""The thread that runs the code of a trial, in a process that the trial has to itself.

It is the main thread, unless the process needs that for other work and says so.
"""

from __future__ import annotations

import threading

_declared: threading.Thread | None = None


def declare() -> None:
    """Say that the calling thread runs the code of the trial of this process, instead of the main thread."""
    global _declared
    _declared = threading.current_thread()


def has_process_to_itself() -> bool:
    """Whether the calling thread runs the code of a trial that has this process to itself."""
    current = threading.current_thread()
    return current is threading.main_thread() or current is _declared
