"""Protect a run's directory against a second driver, and against files of another user.

The lock is a POSIX record lock: the kernel releases it when the process ends, and a fork does not inherit it, so no
worker can keep it. It does not exclude the process that holds it, which loses it as soon as it closes *any* descriptor
of the file. So the process keeps a registry of its locks, and consults it before it opens the file. Whether a lock is
held, the kernel says; what the file says of its holder is for people. A file system without locks has no runs.

`check_own_directory` checks who could write to a run's directory, before the run is written; `check_trusted` who could
have written a file, before it is unpickled.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
import stat
import struct
import sys
import threading
import time
from typing import NamedTuple

from minitune.base import files
from minitune.base.settings import is_on
from minitune.base.text import date
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

logger = logging.getLogger("minitune")

_held: dict[str, RunLock] = {}
_held_guard = threading.Lock()

OBJECTS_DIRECTORY = "objects"
"""The directory of a run with the values that are too large for its journal."""


# -- another driver ----------------------------------------------------------------------------------------------------


class Holder(NamedTuple):
    """The holder of a lock, and since when it has it, in seconds since the epoch."""

    pid: int
    host: str
    since: float

    @classmethod
    def here(cls) -> Holder:
        """The present process, as a holder from now on."""
        return cls(os.getpid(), socket.gethostname(), time.time())

    def __str__(self) -> str:
        since = date(self.since)
        return f"process {self.pid} on {self.host}, since {since}"


class RunLock:
    """The lock of one run's directory.

    Args:
        path: The lock's file, which stays when the lock is released.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.path.realpath(os.path.dirname(os.path.abspath(path))) + os.sep + os.path.basename(path)
        self.holder: Holder | None = None
        self._descriptor: int | None = None

    def acquire(self) -> Holder:
        """Take the lock. Does not wait.

        Raises:
            RunLockedError: If another driver holds it, in this process or another; the text names the holder.
            TuneError: If the lock's file cannot be created or locked.
        """
        with _held_guard:
            # Ask before the file is opened: closing it again would release the lock that this process holds.
            own = _own_holder(self.path)
            if own is not None:
                raise _locked(self.path, own)
            holder = Holder.here()
            self._acquire(holder)
            _held[self.path] = self
            return holder

    def release(self) -> None:
        """Release the lock, if it is held."""
        with _held_guard:
            if self.holder is None:
                return
            if _held.get(self.path) is self:
                del _held[self.path]
            holder = self.holder
            self.holder = None
            is_own = holder.pid == os.getpid()  # False in a fork of the holder
            if self._descriptor is not None:
                # Before the close, which releases the lock: then the file may already have the name of another driver.
                if is_own:
                    _write(self._descriptor, b"")
                os.close(self._descriptor)
                self._descriptor = None

    def is_in_place(self) -> bool:
        """Whether the locked file is still at the path; if not, another driver could lock a new one."""
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(os.lstat(self.path), os.fstat(self._descriptor))
        except OSError:
            return False

    def __enter__(self) -> RunLock:
        self.acquire()
        return self

    def __exit__(self, *args: object) -> None:
        self.release()

    def _acquire(self, holder: Holder) -> None:
        """Lock the file for `holder`. A link at its path is an error."""
        try:
            # Others may see who holds the lock, but not say so.
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, files.OWN_FILE_MODE)
            try:
                if not _lock(descriptor):
                    raise _locked(self.path, _read_holder(self.path))
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as error:
            raise TuneError(
                f"the run's lock {self.path} cannot be taken ({error.strerror or error}); check the permissions of its "
                "directory, or choose another storage_path"
            ) from error
        # Only now, since until here the file tells who else holds the lock.
        self.holder = holder
        self._descriptor = descriptor
        _write(descriptor, json.dumps(holder._asdict()).encode() + b"\n")


def read_holder(path: str | os.PathLike[str]) -> Holder | None:
    """The holder of the lock file at `path`; None if it is free. For display only: it may change any moment."""
    lock = RunLock(path)
    with _held_guard:
        # If this process holds the lock, closing any descriptor of the file would release it. So do not open it.
        own = _own_holder(lock.path)
        if own is not None:
            return own
    try:
        pid = driver_pid(lock.path)
    except OSError:
        return None
    if pid is None:
        return None
    # The driver may just be writing the file.
    return _read_holder(lock.path) or Holder(pid, socket.gethostname(), time.time())


def driver_pid(path: str | os.PathLike[str]) -> int | None:
    """The process that holds the lock file at `path`; 0 if this one cannot see it, as on another machine; None if the
    lock is free. Unlike the file, which may be old or of another author, the kernel knows.

    Raises:
        OSError: If the file cannot be read.
    """
    import fcntl

    lock = RunLock(path)
    with _held_guard:
        if _own_holder(lock.path) is not None:
            return os.getpid()
        fields = [0] * 5
        fields[_FLOCK_TYPE] = fcntl.F_WRLCK
        try:
            with open(lock.path, "rb") as file:
                fields = list(_FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, _FLOCK.pack(*fields))))
        except FileNotFoundError:
            return None
    if fields[_FLOCK_TYPE] != fcntl.F_WRLCK:
        return None
    return max(0, fields[_FLOCK_PID])


def _own_holder(path: str) -> Holder | None:
    """This process, if it holds the lock. The caller holds `_held_guard`."""
    lock = _held.get(path)
    if lock is None or lock.holder is None or lock.holder.pid != os.getpid():
        return None
    return lock.holder


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


def _locked(path: str, holder: Holder | None) -> RunLockedError:
    run = os.path.dirname(path)
    who = str(holder) if holder is not None else "another process"
    return RunLockedError(
        f"the run {run} is in use by {who}; wait until it has ended, or end it. "
        "You can look at the results of a running run without the lock"
    )


def _read_holder(path: str) -> Holder | None:
    try:
        with open(path, "rb") as file:
            fields = json.loads(file.read(10_000))
        return Holder(int(fields["pid"]), str(fields["host"]), float(fields["since"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None  # the lock is free, or its holder is just writing the file


def _write(descriptor: int, data: bytes) -> None:
    try:
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, data)
    except OSError:
        pass


# -- another user ------------------------------------------------------------------------------------------------------


def check_own_directory(path: str) -> None:
    """Raise an error if another user could change what this process writes into a directory.

    It must belong to the current user or to root, be no link, and no other user may be able to write to it.
    `MINITUNE_TRUST=1` turns the check off.

    Raises:
        UntrustedStateError: If the check fails. The text has the owner and the mode.
        FileNotFoundError: If `path` does not exist.
    """
    if is_on("TRUST"):
        return
    reason = _distrust(path)
    if reason is not None:
        raise UntrustedStateError(
            f"{path} cannot be the directory of a run: {reason}. Its owner may read or change "
            "the files there. Choose another name or storage_path; or, if you trust it, pass the directory behind "
            "the link, make it yours (chown, chmod go-w), or set MINITUNE_TRUST=1"
        )


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
            f"{path} may have been written by another user: {reason}. Reading it would run code that its author "
            "chose. If you trust it, make it yours (chown, chmod go-w) or set MINITUNE_TRUST=1"
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
    elif mode & stat.S_IWGRP and not _is_private_group(found.st_gid):
        reason = "its group can write to it"
    else:
        return None
    return f"{reason} (owner {_user_name(found.st_uid)}, mode {mode:04o})"


def _is_private_group(group_id: int) -> bool:
    """Whether the current user is the only member of a group, as some systems have for umask 002."""
    import grp
    import pwd

    try:
        user = pwd.getpwuid(os.getuid())
        group = grp.getgrgid(group_id)
    except KeyError:
        return False
    return user.pw_gid == group_id and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _user_name(user_id: int) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(user_id).pw_name} ({user_id})"
    except KeyError:
        return str(user_id)
