"""Protect a run's directory against a second driver, and against files of another user.

The lock is a POSIX record lock: the kernel releases it when the process ends, and a fork does not inherit it, so no
worker can keep it. It does not exclude the process that holds it, which loses it as soon as it closes *any* descriptor
of the file. So the process keeps a registry of its locks, and consults it before it opens the file. Who holds a lock,
the kernel says; the file is empty. A file system without locks has no runs.

`check_own_directory` checks who could write to a run's directory, before the run is written; `check_trusted` who could
have written a file, before it is unpickled.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
import threading

from minitune.base import files
from minitune.base.forks import Origin
from minitune.base.settings import is_on
from minitune.error import RunLockedError, TuneError, UntrustedStateError

_BUSY = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
# The fields of the system's `struct flock`, and where it has the type of the lock and the process.
if sys.platform == "darwin":
    _FLOCK = struct.Struct("qqihh")  # start, length, process, type, whence
    _FLOCK_TYPE = 3
    _FLOCK_PID = 2
else:
    _FLOCK = struct.Struct("hhqqi4x")  # type, whence, start, length, process
    _FLOCK_TYPE = 0
    _FLOCK_PID = 4

_held: dict[str, RunLock] = {}
_held_guard = threading.Lock()

OBJECTS_DIRECTORY = "objects"
"""The directory of a run with the values that are too large for its journal."""


# -- another driver ----------------------------------------------------------------------------------------------------


class RunLock:
    """The lock of one run's directory.

    Args:
        path: The lock's file, which stays when the lock is released.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.path.realpath(os.path.dirname(os.path.abspath(path))) + os.sep + os.path.basename(path)
        self._origin = Origin()
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether this process holds the lock by this object, and is no fork of the holder."""
        return self._descriptor is not None and self._origin.is_here()

    def acquire(self) -> None:
        """Take the lock. Does not wait.

        Raises:
            RunLockedError: If another driver holds it, in this process or another; the text names the process.
            TuneError: If the lock's file cannot be created or locked.
        """
        with _held_guard:
            # Ask before the file is opened: closing it again would release the lock that this process holds.
            if _is_ours(self.path):
                raise _locked(self.path, os.getpid())
            try:
                # Others may see who holds the lock, but not hold it.
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, files.OWN_FILE_MODE)
                try:
                    if not _lock(descriptor):
                        raise _locked(self.path, _holder(descriptor))
                except BaseException:
                    os.close(descriptor)
                    raise
            except OSError as error:
                raise TuneError(
                    f"the run's lock {self.path} cannot be taken ({error.strerror or error}); check the permissions of "
                    "its directory, or choose another storage_path"
                ) from error
            self._origin = Origin()
            self._descriptor = descriptor
            _held[self.path] = self

    def release(self) -> None:
        """Release the lock, if it is held."""
        with _held_guard:
            if self._descriptor is not None:
                if _held.get(self.path) is self:
                    del _held[self.path]
                os.close(self._descriptor)  # in a fork of the holder, its lock stays
                self._descriptor = None

    def is_in_place(self) -> bool:
        """Whether the locked file is still at the path; if not, another driver could lock a new one."""
        return self._descriptor is not None and is_at(self.path, self._descriptor)

    def __enter__(self) -> RunLock:
        self.acquire()
        return self

    def __exit__(self, *args: object) -> None:
        self.release()


def driver_pid(path: str | os.PathLike[str]) -> int | None:
    """The process that holds the lock file at `path`; 0 if this one cannot see it, as on another machine; None if the
    lock is free or cannot be read. It may change any moment.
    """
    lock = RunLock(path)
    with _held_guard:
        if _is_ours(lock.path):
            return os.getpid()
        try:
            with open(lock.path, "rb") as file:
                return _holder(file.fileno())
        except OSError:
            return None


def is_at(path: str, descriptor: int) -> bool:
    """Whether the file at a path is this open one."""
    try:
        # stat both each time: some file systems give a file that is not open a new inode number
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


def _is_ours(path: str) -> bool:
    """Whether this process holds the lock. The caller holds `_held_guard`."""
    return path in _held and _held[path].is_held


def _holder(descriptor: int) -> int | None:
    import fcntl

    fields = [0] * 5
    fields[_FLOCK_TYPE] = fcntl.F_WRLCK
    fields = list(_FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, _FLOCK.pack(*fields))))
    return None if fields[_FLOCK_TYPE] != fcntl.F_WRLCK else max(0, fields[_FLOCK_PID])


def _lock(descriptor: int) -> bool:
    """Lock the file for this process, without waiting; False if another one has it."""
    import fcntl

    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _BUSY:
            return False
        raise
    return True


def _locked(path: str, pid: int | None) -> RunLockedError:
    return RunLockedError(
        f"the run {os.path.dirname(path)} is in use by {name_of(pid)}; wait until it has ended, or end it. "
        "You can look at the results of a running run without the lock"
    )


def name_of(pid: int | None) -> str:
    """The process that holds a lock, as a noun, from `driver_pid`."""
    return f"process {pid}" if pid else "a process elsewhere"


# -- another user ------------------------------------------------------------------------------------------------------


def check_own_directory(path: str) -> None:
    """Raise an error if another user could change what this process writes into a directory.

    It must belong to the current user or to root, be no link, and no other user may be able to write to it.
    `MINITUNE_TRUST=1` turns the check off.

    Raises:
        UntrustedStateError: If the check fails. The text has the owner and the mode.
        FileNotFoundError: If `path` does not exist.
    """
    if not is_on("TRUST"):
        _check_owner(path)


def check_trusted(path: str | os.PathLike[str]) -> None:
    """Raise an error if another user may have written the files that are about to be unpickled.

    `path` must belong to the current user or to root, and no other user may be able to write to it. For a file, the
    same holds for its directory; for a directory, for the files that are read from it: pickles, journal, objects and
    the trials' directories. `MINITUNE_TRUST=1` turns the check off.

    Raises:
        UntrustedStateError: If the check fails.
        FileNotFoundError: If `path` does not exist.
    """
    if is_on("TRUST"):
        return
    real = os.path.realpath(path)
    if not stat.S_ISDIR(os.stat(real).st_mode):
        _check_owner(os.path.dirname(real))
        _check_owner(real)
        return
    _check_owner(real)
    with os.scandir(real) as entries:
        for entry in entries:
            if entry.name.endswith(".pkl") or entry.name == "journal" or entry.is_dir(follow_symlinks=False):
                _check_owner(entry.path)
    objects = os.path.join(real, OBJECTS_DIRECTORY)
    if os.path.lexists(objects):
        _check_owner(objects)
        for name in files.names(objects):
            _check_owner(os.path.join(objects, name))


def _check_owner(path: str) -> None:
    reason = _distrust(path)
    if reason is not None:
        raise UntrustedStateError(
            f"{path} may be written by another user: {reason}. Reading it would run code that its author chose. Choose "
            "another path; or, if you trust it, make it yours (chown, chmod go-w) or set MINITUNE_TRUST=1"
        )


def _distrust(path: str) -> str | None:
    """Why another user may be able to write to `path`, or None."""
    # `stat` would follow a link, and the owner of a link decides where it leads.
    found = os.lstat(path)
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        reason = "it is a link"
    elif found.st_uid not in (0, os.getuid()):
        reason = "it belongs to another user"
    elif mode & stat.S_IWOTH:
        reason = "every user can write to it"
    elif mode & stat.S_IWGRP:
        reason = "its group can write to it"
    else:
        return None
    return f"{reason} (owner {found.st_uid}, mode {mode:04o})"
