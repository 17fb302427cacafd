"""Errors of processes and threads that the system does not start. Linux counts each thread as a process."""

from __future__ import annotations

import threading

from minitune.error import TuneError


def with_limits(reason: str) -> str:
    """A reason why a process or thread cannot be started, with the limits that may be behind it."""
    return f"{reason}; limits are ulimit -u, and pids.max of the control group, as in a container"


def start_thread(thread: threading.Thread) -> None:
    """Start a thread.

    Raises:
        TuneError: If the system does not allow another one.
    """
    try:
        thread.start()
    except RuntimeError as error:
        reason = with_limits(f"the thread {thread.name} cannot be started: {error}")
        raise TuneError(
            f"{reason}. End other processes, let fewer trials run at a time, or raise the limit of processes or memory"
        ) from error
