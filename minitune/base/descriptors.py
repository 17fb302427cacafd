"""Descriptors: how many files a driver may have open, and who may use how many of them.

Each worker costs the driver three descriptors. If workers took all that there are (`ulimit -n`: 256 on macOS, 1024 on
most Linux systems), the driver could not even open the file for a trial's next result. So a part of the limit is kept
from workers: for files that stay open (loggers keep fewer open where the limit is low) and for those that are open for
a moment. Where no more workers fit in, fewer run at a time.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from typing import NamedTuple

_PER_WORKER = 3
"""The control channel, the report pipe, and the descriptor that reports the death."""
_FOR_A_MOMENT = 12
"""To start a process, write a file, save a state, sync, look at the machine: not all of it at once."""
_MOST_FOR_FILES = 192
_TABLE = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
"""Lists the open descriptors of the process that looks."""
_SURE_S = 1.0


class _Sure(NamedTuple):
    """The result of the last count: under this limit there is room for so many workers more, until this time."""

    limit: int = 0
    workers: int = 0
    until_s: float = 0.0


_sure = _Sure()


def limit() -> int | None:
    """How many files this process may have open; None where no limit is known."""
    if sys.platform == "win32":
        return None
    import resource

    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def share(part: int, most: int) -> int:
    """How many files may stay open for one purpose: 1/`part` of the limit, 1 at least and `most` at most.

    The shares of all purposes together must not be more than what is kept from workers.
    """
    soft = limit()
    return most if soft is None else max(1, min(most, soft // part))


def is_lack(error: BaseException) -> bool:
    """Whether an error says that this process, or the whole system, has too many files open: no room *now*."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def has_room_for_worker() -> bool:
    """Whether one worker more leaves enough descriptors to the driver itself. To be asked before each is started.

    They are counted, which takes some microseconds. Where there are many, a count holds for a while.
    """
    global _sure
    soft, now_s = limit(), time.monotonic()
    if soft is None:
        return True
    if _sure.limit == soft and _sure.workers > 0 and now_s < _sure.until_s:
        _sure = _sure._replace(workers=_sure.workers - 1)
        return True
    try:
        used = len(os.listdir(_TABLE)) - 1  # without that of the directory itself
    except OSError as error:
        return not is_lack(error)
    kept = min(3 * soft // 16, _MOST_FOR_FILES) + _FOR_A_MOMENT
    workers = (soft - used - kept) // _PER_WORKER
    _sure = _Sure(soft, workers // 2, now_s + _SURE_S)  # half of it, for others open files, too
    return workers > 0
