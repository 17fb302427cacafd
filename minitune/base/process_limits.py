"""Limits of the system on processes and threads, for the error of one that cannot be started.

Linux counts each thread as a process.
"""

from __future__ import annotations

import os
import threading

from minitune.base.cgroups import own_groups, read_text
from minitune.error import TuneError


def with_limits(reason: str) -> str:
    """A reason why a process or thread cannot be started, with the limits that may be behind it."""
    import resource

    found = {}
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if soft != resource.RLIM_INFINITY and os.getuid():  # root may start more
        found["RLIMIT_NPROC (ulimit -u)"] = str(soft)
    for directory in own_groups("pids"):
        path = os.path.join(directory, "pids.max")
        most = read_text(path)
        if most.isdigit():
            found[path] = most
    if not found:
        return reason
    return f"{reason}; limits: {', '.join(f'{name} {most}' for name, most in found.items())}"


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
