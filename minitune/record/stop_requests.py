"""Requests to the driver of a run from another process: to stop one trial.

A request is an empty file, named after the trial, in a directory of the run. The directory exists while a driver hears
requests. The other process makes the file, and then sends the driver a signal, which wakes its loop. So the driver does
not poll for files. A process that does not know the signal ignores it.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from minitune.base.files import discard_tree, names
from minitune.record.layout import RunDirectory

SIGNAL = signal.SIGURG
"""Sent to the driver after a request. By default, a process ignores it."""


def begin_to_hear(run: RunDirectory) -> None:
    """Say that the driver hears requests from now on. It must have a handler for `SIGNAL`.

    A run whose directory cannot be written hears none.
    """
    discard_tree(run.requests)  # of a driver that was killed
    with suppress(OSError):
        os.mkdir(run.requests, 0o700)


def end_to_hear(run: RunDirectory) -> None:
    """Say that no driver hears requests, and drop those that are open."""
    discard_tree(run.requests)


def is_heard(run: RunDirectory) -> bool:
    """Whether the driver of a live run hears requests."""
    return os.path.isdir(run.requests)


def ask_to_stop(run: RunDirectory, trial_id: str, pid: int) -> None:
    """Ask the driver with this process id to stop a trial. Does not wait.

    Raises:
        OSError: If the driver has just ended, or belongs to somebody else.
    """
    with open(os.path.join(run.requests, trial_id), "x", encoding="utf-8"):
        pass
    os.kill(pid, SIGNAL)


def take_requests(run: RunDirectory) -> list[str]:
    """The ids of the trials to stop; the requests are done with then. What is no request stays, such as a directory."""
    ids = []
    for trial_id in names(run.requests):
        with suppress(OSError):
            os.remove(os.path.join(run.requests, trial_id))
            ids.append(trial_id)
    return ids
