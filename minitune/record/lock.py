"""Guards a run's directory against another driver at work on it, and against files that another user may have written.

`RunLock` keeps a second driver out, and is free at once when its holder dies, however that happens. A POSIX record lock
goes with its process and is not inherited over a fork, so no worker can keep it. It has two weaknesses: it does not
exclude the process that holds it, and that process loses it as soon as it closes *any* descriptor of the file. Hence a
registry inside the process, which is asked before the file is opened. Where there are no such locks (no `fcntl`, or a
file system that refuses), `msvcrt` locks the file on Windows; elsewhere the lock is a file that only one process can
create. Such a file counts as free if its process is gone, by pid and start time.

`check_trusted` asks, before anything is unpickled, who could have written it.
"""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import platform
import stat
import sys
import threading
import time
from typing import Any, NamedTuple

from minitune.base import files
from minitune.error import RunLockedError, TuneError, UntrustedStateError
from minitune.settings import is_on

_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)

_BUSY = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)

_EXCLUSIVE_SUFFIX = ".exclusive"

_UNWRITTEN_PATIENCE_S = 10.0
"""A file without content belongs to a process that is just writing it, unless it is older than this."""

_CLOCK_STEP_S = 5.0

_WINDOWS_LOCK_POSITION = 1 << 30  # the lock is mandatory there: put it where no reader comes

logger = logging.getLogger("minitune")

_held: dict[str, RunLock] = {}

_held_guard = threading.Lock()

_OBJECTS_DIRECTORY = "objects"


# -- another driver ----------------------------------------------------------------------------------------------------


class Holder(NamedTuple):
    """The holder of a lock.

    Attributes:
        pid: The process.
        start_time: When it was started, in seconds since the epoch: a pid may be used again.
        host: The machine.
        since: When it took the lock, in seconds since the epoch.
    """

    pid: int
    start_time: float
    host: str
    since: float

    @classmethod
    def here(cls) -> Holder:
        """This process, now."""
        return cls(os.getpid(), _start_time(os.getpid()) or math.nan, platform.node(), time.time())

    def is_alive(self) -> bool:
        """Whether the process still runs. Of another machine nothing is known, so yes."""
        if self.host != platform.node():
            return True
        started = _start_time(self.pid)
        # Start times are computed from the time of day, which may have been set since. Unknown (NaN) counts as same.
        return started is not None and not abs(started - self.start_time) > _CLOCK_STEP_S

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"process {self.pid} on {self.host}, since {since}"


class RunLock:
    """The lock of one run's directory.

    Args:
        path: The lock's file; it stays there when the lock is free.

    Example:
        >>> import tempfile
        >>> with RunLock(tempfile.mkdtemp() + "/lock"):
        ...     pass
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.path.realpath(os.path.dirname(os.path.abspath(path))) + os.sep + os.path.basename(path)
        self.holder: Holder | None = None
        self._descriptor: int | None = None
        self._exclusive_path: str | None = None

    def acquire(self) -> None:
        """Take the lock, or refuse at once.

        Raises:
            RunLockedError: If another driver holds it, in this process or another; the text names it.
            TuneError: If the lock's file cannot be made.
        """
        with _held_guard:
            other = _held.get(self.path)
            if other is not None and other.holder is not None and other.holder.pid == os.getpid():
                raise _locked(self.path, other.holder)
            try:
                self._acquire(Holder.here())
            except OSError as error:
                raise TuneError(f"the run's lock {self.path} cannot be taken ({error.strerror or error})") from error
            _held[self.path] = self

    def release(self) -> None:
        """Give the lock back; nothing happens if it is not held."""
        with _held_guard:
            if self.holder is None:
                return
            if _held.get(self.path) is self:
                del _held[self.path]
            holder, self.holder = self.holder, None
            is_own = holder.pid == os.getpid()  # else this is a fork of the holder
            if self._exclusive_path is not None:
                found = _read_holder(self._exclusive_path)
                if is_own and found is not None and (found.pid, found.host) == (holder.pid, holder.host):
                    _remove(self._exclusive_path)
                self._exclusive_path = None
            if self._descriptor is not None:
                if is_own:
                    _write(self._descriptor, b"")
                os.close(self._descriptor)
                self._descriptor = None

    def take_again(self) -> None:
        """Take the lock on a new file, since somebody has removed the one that there was. Any thread.

        A link in its place is set aside.

        Raises:
            RunLockedError: If another driver has taken it meanwhile.
            TuneError: If it cannot be taken.
        """
        with _held_guard:
            if self.holder is None:
                return
            descriptor = self._descriptor
            try:
                if os.path.islink(self.path):
                    os.rename(self.path, files.free_name(f"{self.path}.other"))
                self._acquire(self.holder)
            except OSError as error:
                raise TuneError(f"the run's lock {self.path} cannot be taken ({error.strerror or error})") from error
            if descriptor is not None:
                os.close(descriptor)
            logger.warning("the lock %s was removed during the run; it is taken again", self.path)

    def is_in_place(self) -> bool:
        """Whether the file that is locked is still the one at the path: else another driver could take a new one."""
        if self._descriptor is None:
            return self._exclusive_path is not None and os.path.lexists(self._exclusive_path)
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
        descriptor = files.open_own(self.path, os.O_RDWR | os.O_CREAT, within=os.path.dirname(self.path))
        try:
            if not _lock(descriptor):
                raise _locked(self.path, _read_holder(self.path))
            self.holder, self._descriptor = holder, descriptor
            _write(descriptor, _encode(holder))
        except _NoLocks:
            os.close(descriptor)
            _create_exclusively(self.path + _EXCLUSIVE_SUFFIX, holder)
            self.holder, self._exclusive_path = holder, self.path + _EXCLUSIVE_SUFFIX
        except BaseException:
            os.close(descriptor)
            raise


def read_holder(path: str | os.PathLike[str]) -> Holder | None:
    """The holder of the lock at `path`; None if it is free. For display: it may change at any moment.

    Args:
        path: The lock's file.
    """
    lock = RunLock(path)
    with _held_guard:
        # Closing a descriptor of a lock that this process holds would release it: do not even open the file.
        other = _held.get(lock.path)
        if other is not None and other.holder is not None and other.holder.pid == os.getpid():
            return other.holder
    holder = _read_holder(lock.path) or _read_holder(lock.path + _EXCLUSIVE_SUFFIX)
    return holder if holder is not None and holder.is_alive() else None


class _NoLocks(Exception):
    """Neither this Python nor this file system has locks that go with the process."""


def _lock(descriptor: int) -> bool:
    """Lock the file, without waiting; False if somebody else has.

    Raises:
        _NoLocks: If there are no locks here.
    """
    if sys.platform == "win32":
        return _lock_on_windows(descriptor)
    try:
        import fcntl
    except ImportError:
        return _lock_on_windows(descriptor)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _BUSY:
            return False
        if error.errno in _UNSUPPORTED:
            raise _NoLocks from error
        raise
    return True


def _lock_on_windows(descriptor: int) -> bool:
    try:
        import msvcrt
    except ImportError as error:
        raise _NoLocks from error
    module: Any = msvcrt  # its functions are only known to type checkers on Windows
    os.lseek(descriptor, _WINDOWS_LOCK_POSITION, os.SEEK_SET)
    try:
        module.locking(descriptor, module.LK_NBLCK, 1)
    except OSError as error:
        if error.errno in _BUSY:
            return False
        raise
    return True


def _create_exclusively(path: str, holder: Holder) -> None:
    """Create the file, once that of a dead process is out of the way.

    Raises:
        RunLockedError: If a living process has it.
    """
    for _ in range(3):
        try:
            descriptor = files.open_own(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, within=os.path.dirname(path))
        except FileExistsError:
            _take_away_stale(path)
            continue
        try:
            _write(descriptor, _encode(holder))
        finally:
            os.close(descriptor)
        return
    raise _locked(path, _read_holder(path))  # others were faster, three times


def _take_away_stale(path: str) -> None:
    """Remove the file of a dead process; raise RunLockedError if it is not dead."""
    found = _read_holder(path)
    if found is not None and found.is_alive():
        raise _locked(path, found)
    if found is None and _age_s(path) < _UNWRITTEN_PATIENCE_S:
        raise _locked(path, None)
    # Two processes may both have found it dead, and one may have put its own file there already: so the file is
    # renamed, which only one of them can do, and looked at again before it is thrown away.
    aside = f"{path}.{os.getpid()}"
    try:
        os.replace(path, aside)
    except FileNotFoundError:
        return
    if _read_holder(aside) != found:
        os.replace(aside, path)
        raise _locked(path, _read_holder(path))
    _remove(aside)


def _locked(path: str, holder: Holder | None) -> RunLockedError:
    run = os.path.dirname(path)
    who = str(holder) if holder is not None else "another process"
    return RunLockedError(
        f"the run {run} is in use by {who}; wait until it has ended, or end it. "
        "You can look at the results of a running run without the lock"
    )


def _encode(holder: Holder) -> bytes:
    return json.dumps(holder._asdict()).encode() + b"\n"


def _read_holder(path: str) -> Holder | None:
    try:
        with files.open_to_read(path) as file:
            fields = json.loads(file.read(10_000))
        return Holder(int(fields["pid"]), float(fields["start_time"]), str(fields["host"]), float(fields["since"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None  # free, or its holder is just writing


def _write(descriptor: int, data: bytes) -> None:
    """Replace the content, which is for people: that the disk is full is no reason not to hold the lock."""
    try:
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, data)
    except OSError:
        pass


def _age_s(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except OSError:
        return _UNWRITTEN_PATIENCE_S


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _start_time(pid: int) -> float | None:
    """When a process was started, in seconds since the epoch; None if it is gone or a zombie, NaN if unknown."""
    if sys.platform != "linux":
        return _start_time_by_psutil(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, *fields = file.read().rpartition(b")")[2].split()
        with open("/proc/stat", "rb") as file:
            booted_s = next(int(line.split()[1]) for line in file if line.startswith(b"btime"))
    except (FileNotFoundError, ProcessLookupError):
        return None
    except (OSError, StopIteration):
        return math.nan
    return None if state in (b"Z", b"X") else booted_s + int(fields[18]) / os.sysconf("SC_CLK_TCK")


def _start_time_by_psutil(pid: int) -> float | None:
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


# -- another user ------------------------------------------------------------------------------------------------------


def check_trusted(path: str | os.PathLike[str]) -> None:
    """Refuse to go on if somebody else may have written what is about to be unpickled.

    Unpickling runs whatever code the pickle's author wrote. So `path`, the directory around it if it is a file,
    and what is read from it if it is a directory (pickles, the journal, the objects, the trials' directories) must
    belong to the current user or to root, and no other user may be able to write there. `MINITUNE_TRUST=1` skips the
    check. On Windows there is none.

    Args:
        path: A run's directory, or a file.

    Raises:
        UntrustedStateError: Naming the path, its owner and its mode.
        FileNotFoundError: If `path` is not there.
    """
    if is_on("TRUST") or not hasattr(os, "getuid"):
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
    objects = os.path.join(real, _OBJECTS_DIRECTORY)
    if os.path.lexists(objects):
        _check_owner(objects)
        for name in files.names(objects):
            _check_owner(os.path.join(objects, name))


def _check_owner(path: str) -> None:
    if sys.platform == "win32":  # access lists there say more than these modes; a restore runs the author's code
        return
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
        return
    raise UntrustedStateError(
        f"{path} may have been written by another user: {reason} (owner {_user_name(found.st_uid)}, mode {mode:04o}). "
        "Reading it would run code that its author chose. If you trust it, make it yours (chown, chmod go-w) or set "
        "MINITUNE_TRUST=1"
    )


def _is_private_group(group_id: int) -> bool:
    """Whether a group has no member but the current user, as on systems that give each user a group and umask 002."""
    if sys.platform == "win32":
        return False
    try:
        import grp
        import pwd

        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(group_id)
    except (ImportError, KeyError):
        return False
    return user.pw_gid == group_id and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _user_name(user_id: int) -> str:
    if sys.platform == "win32":
        return str(user_id)
    try:
        import pwd

        return f"{pwd.getpwuid(user_id).pw_name} ({user_id})"
    except (ImportError, KeyError):
        return str(user_id)
