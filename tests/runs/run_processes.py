"""Processes as a test looks at them from outside."""

from __future__ import annotations

import psutil


def is_gone(pid: int) -> bool:
    """Whether a process is dead. Where nobody reaps them, dead orphans stay to be seen."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
