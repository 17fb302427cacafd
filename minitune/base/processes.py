"""What the system shows of processes: whether one lives, since when, its environment, and its children.

On Linux, files below `/proc` show it, faster than psutil, which asks the other systems.
"""

from __future__ import annotations

import math
import os
import sys

_READ_BYTES = 16 * 1024
# The states of a thread that has ended: of a zombie, and of one that is just being reaped.
_ENDED = (b"Z", b"X")
# Linux's `PF_EXITING`, one of the flags of a thread.
_EXITING = 0x4
# Indices of the list that `stat` returns.
_STATE = 0
_FLAGS = 6
_START = 19  # in ticks since the boot


def read(path: str) -> bytes:
    """Read a file of `/proc`; `open` would need twice as many system calls."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        parts = []
        while part := os.read(descriptor, _READ_BYTES):
            parts.append(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def stat(pid: int) -> list[bytes] | None:
    """Return the fields of `/proc/<pid>/stat` from the third on (`proc(5)`); None if the process is dead. OSError:
    unknown.
    """
    try:
        fields = _fields(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[_STATE] in _ENDED else fields


def _fields(path: str) -> list[bytes]:
    # The second field is the program's name in brackets, which may hold spaces and brackets of its own.
    return read(path).rpartition(b")")[2].split()


def life(pid: int) -> str:
    """Return the start time of a process, which distinguishes it from a later one of the same number; empty if dead."""
    if not sys.platform.startswith("linux"):
        started_s = _start_by_psutil(pid)
        return "" if started_s is None or math.isnan(started_s) else str(started_s)
    try:
        fields = stat(pid)
    except OSError:
        return ""
    return "" if fields is None else fields[_START].decode()


def _start_by_psutil(pid: int) -> float | None:
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        started: float = process.create_time()
    except psutil.NoSuchProcess:
        return None
    except psutil.Error:
        return math.nan
    return started


def is_ending(pid: int) -> bool:
    """Whether a process is dead or exiting, so that no signal can speed up or stop its end."""
    if not sys.platform.startswith("linux"):
        return not life(pid)
    try:
        fields = stat(pid)
    except OSError:
        return True
    return fields is None or bool(int(fields[_FLAGS]) & _EXITING)


def threads(pid: int) -> list[str]:
    """Return the threads of a process (Linux), including ended ones that are not reaped; empty if it is dead."""
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def environment(pid: int) -> bytes:
    """Return the environment that a process shows to others; empty if it cannot be read."""
    if sys.platform.startswith("linux"):
        try:
            return read(f"/proc/{pid}/environ")
        except OSError:
            return b""
    import psutil

    try:
        return "\0".join(f"{name}={value}" for name, value in psutil.Process(pid).environ().items()).encode()
    except (psutil.Error, OSError):
        return b""


def session(pid: int) -> int:
    """Return the session of a process; 0 if there is none."""
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def all_pids() -> list[int]:
    """Return all processes of this machine that we can see."""
    if sys.platform.startswith("linux"):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    import psutil

    return list(psutil.pids())


def has_living_child() -> bool:
    """Whether the calling process has a child that is not dead."""
    return not _is_childless() and any(map(life, children(os.getpid())))


def _is_childless() -> bool:
    """Whether the calling process has no child, not even a zombie; False if one call cannot find out."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def children(pid: int, has_one_thread: bool = False) -> list[int]:
    """The processes whose parent is `pid`, with zombies; empty if it has ended.

    A file of Linux lists them, a hundred times cheaper than psutil; `has_one_thread`: one file is enough.
    """
    if not sys.platform.startswith("linux"):
        return _children_by_psutil(pid)
    listed = [str(pid)]
    if not has_one_thread:
        listed = threads(pid)
    found: list[int] = []
    for thread in listed:
        try:
            found += map(int, read(f"/proc/{pid}/task/{thread}/children").split())
        except FileNotFoundError:
            if thread == str(pid) and os.path.exists(f"/proc/{pid}/task/{thread}"):
                return _children_by_psutil(pid)  # a kernel without CONFIG_PROC_CHILDREN
        except OSError:
            continue
    return found


def _children_by_psutil(pid: int) -> list[int]:
    import psutil

    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.Error:
        return []
