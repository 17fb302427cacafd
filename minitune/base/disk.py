"""Errors of the disk: a write, a sync or a rename in a run's directory that the system refuses ends the run.

So does a driver with too many open files: the next file would be refused, too. All that was acknowledged is on record
for a resume.
"""

from __future__ import annotations

import errno
from typing import TypeGuard

from minitune.error import DiskError

_OF_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_TOO_MANY_OPEN = (errno.EMFILE, errno.ENFILE)


def is_of_disk(error: BaseException) -> TypeGuard[OSError]:
    """Whether an error means that a disk is full, is read-only, or has failed."""
    return isinstance(error, OSError) and error.errno in _OF_DISK


def has_too_many_open(error: OSError) -> bool:
    """Whether an error means that this process, or the system, may open no other file."""
    return error.errno in _TOO_MANY_OPEN


def ends_run(error: OSError) -> bool:
    """Whether an error of a file of the driver ends the run: the disk refuses it, or too many files are open."""
    return is_of_disk(error) or has_too_many_open(error)


def refuses_writes(error: OSError) -> bool:
    """Whether an error means that a disk is full or read-only. Reading raises other ones."""
    return error.errno in (*_FULL, errno.EROFS)


def reason_of(error: OSError) -> str:
    """The reason of an error, such as `No space left on device (ENOSPC)`."""
    return f"{error.strerror or error} ({errno.errorcode.get(error.errno or 0, 'unknown errno')})"


def refusal(path: str, action: str, error: OSError) -> str:
    """An error as a sentence: `PATH could not be written: No space left on device (ENOSPC)`."""
    return f"{path} could not be {action}: {reason_of(error)}"


def disk_error(run_path: str, path: str, action: str, error: OSError) -> DiskError:
    """The error that ends a run. `action`, a participle, is what could not be done to `path`."""
    if has_too_many_open(error):
        way_out = _way_out_of_open_files()
    elif error.errno in _FULL:
        way_out = "free some space"
    else:
        way_out = "check path and disk"
    return _ended(run_path, refusal(path, action, error), f"{way_out}, then ")


def open_files_error(run_path: str, error: OSError) -> DiskError:
    """The error that ends a run if the driver could not open another file or pipe, such as those of a worker."""
    return _ended(
        run_path, f"the driver could not open a file or pipe: {reason_of(error)}", f"{_way_out_of_open_files()}, then "
    )


def _way_out_of_open_files() -> str:
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return f"raise the limit of open files (ulimit -n, now {most}), or lower max_concurrent_trials"


def gone_error(run_path: str, path: str) -> DiskError:
    """The error of a run whose journal or directory, `path`, is not at its path any more."""
    way_out = "put it back, then " if path == run_path else ""
    return _ended(run_path, f"{path} was removed or moved during the run", way_out)


def _ended(run_path: str, why: str, way_out: str) -> DiskError:
    import shlex  # here, because workers import this module and do not need it

    ended = DiskError(
        f"{why}. The run has ended, and all its reports are kept; {way_out}resume it with Tuner.restore({run_path!r}, "
        f"trainable).fit(), or on the command line: minitune resume {shlex.quote(run_path)}"
    )
    ended.run_path = run_path
    return ended
