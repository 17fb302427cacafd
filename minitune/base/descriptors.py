"""Descriptors: how many files a driver may have open, and how the limit is divided.

Each worker needs up to three descriptors in the driver. If workers used all of them (`ulimit -n`: 256 on macOS, 1024 on
most Linux systems), the driver could not open a trial's file. So fewer workers run at the same time.
"""

from __future__ import annotations

import errno
import os
import sys

# The descriptors of a worker: the work pipe, the control pipe, and that of its process if it is a new interpreter.
_PER_WORKER = 3
# Reserved for short uses: start a process, write a file, save a state, sync, read the machine's state.
_FOR_A_MOMENT = 12
# Reserved for files that stay open, by `share`, or 3/16 of the limit if that is less. Not measured: with more, fewer
# are left for workers.
_MOST_FOR_FILES = 192
# The directory that lists the open descriptors of the calling process.
_TABLE = "/dev/fd"
if sys.platform == "linux":
    _TABLE = "/proc/self/fd"


def limit() -> int | None:
    """How many files this process may have open; None if the limit is unknown."""
    import resource

    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def share(part: int, most: int) -> int:
    """How many files may stay open for one purpose: 1/`part` of the limit, from 1 to `most`.

    All shares together must not exceed the reserved part.
    """
    soft = limit()
    return most if soft is None else max(1, min(most, soft // part))


def is_lack(error: BaseException) -> bool:
    """Whether an error means too many open files."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def has_room_for_worker() -> bool:
    """Whether there are enough descriptors for another worker and the driver. Asked before each start."""
    soft = limit()
    if soft is None:
        return True
    try:
        used = len(os.listdir(_TABLE)) - 1  # the listing itself uses one
    except OSError as error:
        return not is_lack(error)
    kept = min(3 * soft // 16, _MOST_FOR_FILES) + _FOR_A_MOMENT
    return used + kept + _PER_WORKER <= soft
