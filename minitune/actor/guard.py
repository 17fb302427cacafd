"""The guard: a small process that outlives the driver just long enough to kill the workers that a dead driver leaves.

Without a zygote, workers have no parent that kills them. Each worker exits when its channel ends, but user code in C
can prevent that. A parent-death signal that kills would not do, because it fires when the *thread* that started the
worker ends.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from typing import NoReturn

from minitune.actor import process_tree
from minitune.actor.messages import CLOSE_S, DRIVER_CHECK_S


def main(driver_pid: int, path: list[str]) -> NoReturn:
    """Wait until the driver is dead, and kill the processes with the group's mark. Never returns."""
    process_tree.wake_at_end_of_parent()
    sys.path += path
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if not _wait_for_end(driver_pid):
        process_tree.sweep([os.environ[process_tree.RUN_VARIABLE]], CLOSE_S)
    os._exit(0)


def _wait_for_end(driver_pid: int) -> bool:
    """Block until the driver has died or has dismissed us; returns whether it has dismissed us, after its own
    clean-up.
    """
    while not select.select([0], [], [], DRIVER_CHECK_S)[0]:
        # A process that the user forked from the driver holds the pipe, too. Then there is no end-of-file.
        if os.getppid() != driver_pid:
            return False
    return bool(os.read(0, 1))
