"""The guard: a small process that outlives the driver just long enough to kill the processes that the driver leaves.

Without a zygote, workers are new interpreters and have no parent that kills them. Each worker watches its channel, but
user code in C can keep it from acting. A parent-death signal does not help, because it fires when the *thread* that
started the worker ends.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from typing import NoReturn

from minitune.actor import process_tree
from minitune.actor.messages import CLOSE_S, DRIVER_CHECK_S, QUIET_PASSES, SWEEP_TICK_S


def main(driver_pid: int, path: list[str]) -> NoReturn:
    """Wait for the driver's end on standard input. Never returns.

    Args:
        driver_pid: The process to watch; it is our parent.
        path: Additional directories for imports.
    """
    sys.path += path
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    if not _wait_for_end(driver_pid):
        _sweep(os.environ[process_tree.RUN_VARIABLE])
    os._exit(0)


def _wait_for_end(driver_pid: int) -> bool:
    """Wait until the driver has died or says good-bye. Blocks.

    Returns:
        Whether it said good-bye: then it has cleaned up itself.
    """
    if sys.platform == "win32":
        return bool(os.read(0, 1))
    while not select.select([0], [], [], DRIVER_CHECK_S)[0]:
        # If the user has forked a process from the driver, it holds the pipe, too, and there is no end-of-file.
        if os.getppid() != driver_pid:
            return False
    return bool(os.read(0, 1))


def _sweep(run_id: str) -> None:
    """Kill all processes that carry the run's mark."""
    until = time.monotonic() + CLOSE_S
    hunt = process_tree.Hunt()
    quiet_passes = 0
    while quiet_passes < QUIET_PASSES and time.monotonic() < until:
        left = hunt.strike(process_tree.marked([run_id]))
        quiet_passes = 0 if left else quiet_passes + 1
        time.sleep(SWEEP_TICK_S)
