"""Paths and files of a run: open, replace atomically, sync to disk, remove, and append.

Trials and other programs read and write a run's directory at the same time. So this module keeps three rules:

* It follows no link below the run's directory when it writes, renames or removes, because a link may lead anywhere. The
  user has chosen the directory itself, so it, and the path to it, may contain links.
* It opens only regular files. A FIFO or a device might block forever, or never end.
* It replaces a file that others read in one step, so that they see either the old or the new content.

In all functions, `within` is the directory below which links are refused (see `entry_of`), and a `mode` is that of a
new file or directory, before the umask. The functions raise `LinkError` for a link, `SpecialFileError` for a file that
is not regular, and `OSError` if the system refuses an operation.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO, NamedTuple, TypeVar

from minitune.base import descriptors
from minitune.base.checks import shown

logger = logging.getLogger("minitune")

TEMPORARY_PREFIX = ".tmp-"
"""The prefix of files and directories that are not complete yet."""
BLOB_MODE = 0o600
"""The mode of pickles: only their owner may read them, because they may contain any data of the user."""
WRITE_TEMPORARY = re.compile(re.escape(TEMPORARY_PREFIX) + r"w-[0-9a-f]{32}")
"""The names of the temporary files of `new_file`."""
_STEP_ENTRIES = 50
_AS_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_PATH", os.O_RDONLY)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_TAIL_BYTES = 1 << 16
_T = TypeVar("_T")


class LinkError(OSError):
    """A path to write, rename or remove is a symbolic link, or goes through one."""

    def __init__(self, path: str | os.PathLike[str]):
        # the link is named in `strerror`, because callers set `filename` to the file they wanted
        super().__init__(errno.ELOOP, f"{os.fspath(path)} is a symbolic link; minitune does not write through links")


class SpecialFileError(OSError):
    """A path is not a regular file but a FIFO, a socket, a device or another special file."""

    def __init__(self, path: str | os.PathLike[str], mode: int):
        super().__init__(errno.EINVAL, f"{os.fspath(path)} is {kind_of(mode)}, but it must be a regular file")


def kind_of(mode: int) -> str:
    """The kind of a file as a noun, such as `a FIFO`."""
    return _KINDS.get(stat.S_IFMT(mode), "not a file")


# -- opening -----------------------------------------------------------------------------------------------------------
class Entry(NamedTuple):
    """A file in a directory that was reached without following a link: the arguments for functions of `os`.

    Attributes:
        name: The file's name.
        directory: A descriptor of the directory.
    """

    name: str
    directory: int


@contextlib.contextmanager
def entry_of(path: str, within: str) -> Iterator[Entry]:
    """Find the directory of `path` without following a link below `within`. This does not look at `path` itself.

    Args:
        path: A path below `within`.
        within: The directory below which links are refused. It may itself be a link.

    Yields:
        The entry. It is valid inside the `with` block.
    """
    directory, name = _directory_of(path, within)
    try:
        try:
            yield Entry(name, directory)
        except OSError as error:
            if error.filename == name:  # users need the whole path
                error.filename = path
            raise
    finally:
        os.close(directory)


def _directory_of(path: str, within: str) -> tuple[int, str]:
    """A descriptor of the directory of `path`, and the last part of `path`. See `entry_of`."""
    top = within if within.endswith(("/", os.sep)) or not within else f"{within}{os.sep}"
    if not path.startswith(top) or path == top:
        raise ValueError(f"{path} is not below {within}")
    *parents, name = path[len(top) :].split(os.sep)
    if not parents:
        return os.open(within or os.curdir, _AS_DIRECTORY), name
    directory: int | None = None
    end = len(top) - 1
    for parent in parents:
        end += len(parent) + 1
        reached = path[:end]
        step = parent if directory is not None else reached  # the first step opens the whole path
        try:
            deeper = os.open(step, _AS_DIRECTORY | _NO_FOLLOW, dir_fd=directory)
        except OSError as error:
            _explain(error, step, directory, reached)
            error.filename = reached
            raise
        finally:
            if directory is not None:
                os.close(directory)
        directory = deeper
    assert directory is not None  # there is at least one parent
    return directory, name


def open_directory(path: str, within: str) -> int:
    """Open a directory below `within` for several calls of `open_own`. The caller closes the descriptor."""
    return _directory_of(f"{path}{os.sep}", within)[0]


def open_own(path: str, flags: int, mode: int = 0o666, *, within: str, directory: int | None = None) -> int:
    """`os.open` for a regular file below `within`. Neither the file nor a directory on the way to it may be a link.

    The call never waits for the other end of a FIFO. `directory` is a descriptor of the file's directory from
    `open_directory`, which saves the search for it.
    """
    return _open_sized(path, flags, mode, within, directory)[0]


def _open_sized(path: str, flags: int, mode: int, within: str, directory: int | None) -> tuple[int, int]:
    """The descriptor of `open_own`, and the file's size in bytes."""
    found = None
    if directory is None:
        directory = found = _directory_of(path, within)[0]
    name = path.rpartition(os.sep)[2]
    try:
        try:
            descriptor = os.open(name, flags | _NO_FOLLOW | _NO_WAIT, mode, dir_fd=directory)
        except OSError as error:
            _explain(error, name, directory, path)
            error.filename = path  # users need the whole path
            raise
    finally:
        if found is not None:
            os.close(found)
    is_new = flags & os.O_EXCL  # so it is a regular file, and empty
    return descriptor, 0 if is_new else _size_of_regular(descriptor, path)


def open_to_read(path: str | os.PathLike[str], *, follow: bool = True) -> io.BufferedReader:
    """Open a regular file for reading. See `open_regular`."""
    return io.BufferedReader(io.FileIO(open_regular(path, follow=follow), "rb"))


def open_regular(path: str | os.PathLike[str], *, follow: bool = True) -> int:
    """Open a regular file for reading, and return the descriptor. Never waits for the other end of a FIFO.

    `follow` is whether the path may be a link.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | _NO_WAIT | (0 if follow else _NO_FOLLOW))
    except OSError as error:
        _explain(error, os.fspath(path), None, path, follow=follow)
        raise
    _size_of_regular(descriptor, path)
    return descriptor


def _size_of_regular(descriptor: int, path: str | os.PathLike[str]) -> int:
    """The size of a regular file in bytes. If it is another kind of file, close it and raise an error."""
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return status.st_size
    os.close(descriptor)
    raise SpecialFileError(path, status.st_mode)


def _explain(
    error: OSError, name: str, directory: int | None, path: str | os.PathLike[str], follow: bool = False
) -> None:
    """If a link or a special file has caused an error of `os.open`, raise an error that says so."""
    try:
        mode = os.stat(name, dir_fd=directory, follow_symlinks=follow).st_mode
    except OSError:
        return
    if stat.S_ISLNK(mode):
        raise LinkError(path) from error
    if error.errno in (errno.ENXIO, errno.EOPNOTSUPP):  # a FIFO without a reader, or a socket
        raise SpecialFileError(path, mode) from error


# -- writing -----------------------------------------------------------------------------------------------------------
def temporary_name() -> str:
    """A new name for a temporary file. It matches `WRITE_TEMPORARY`."""
    return f"{TEMPORARY_PREFIX}w-{os.urandom(16).hex()}"


@contextlib.contextmanager
def new_file(path: str, mode: int = 0o666, sync: bool = False, within: str | None = None) -> Iterator[BinaryIO]:
    """A temporary file that replaces the file at `path` when the `with` block ends without an error.

    Args:
        path: The file to replace or create. Its directory must exist. After an error, the file is unchanged.
        mode: The permissions.
        sync: Whether to sync content and name to disk at the end; this blocks.
        within: By default, the file's directory.

    Yields:
        The file, for reading and writing.
    """
    path = os.path.abspath(path)
    with entry_of(path, os.path.dirname(path) if within is None else within) as (name, directory):
        temporary = temporary_name()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_FOLLOW
        descriptor = os.open(temporary, flags, mode, dir_fd=directory)
        try:
            with open(descriptor, "w+b") as file:
                yield file
                file.flush()
                if sync:
                    sync_descriptor(descriptor)
            refuse_link(Entry(name, directory), path)
            os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise
    if sync:
        sync_directory(os.path.dirname(path))


def put_in_place(temporary: str, path: str, within: str) -> None:
    """Rename a temporary file, from `temporary_name`, to `path` in the same directory. An existing file is replaced."""
    with entry_of(path, within) as entry:
        refuse_link(entry, path)
        os.replace(os.path.basename(temporary), entry.name, src_dir_fd=entry.directory, dst_dir_fd=entry.directory)


def atomic_write(
    path: str | os.PathLike[str], data: bytes, mode: int = 0o666, sync: bool = False, within: str | None = None
) -> None:
    """Write a file so that a reader always sees either the old or the new content. See `new_file`."""
    with new_file(os.fspath(path), mode, sync, within) as file:
        file.write(data)


def write_new(path: str, data: bytes, mode: int = 0o666, *, within: str, directory: int | None = None) -> None:
    """Write a new file directly, without a temporary one. Replace an existing file with `atomic_write`.

    Use it only for files that are not read before their directory is complete: if the process is killed, a part of the
    file remains.
    """
    try:
        descriptor, _ = _open_sized(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, within, directory)
    except FileExistsError:
        written = -1
    else:
        try:
            written = os.write(descriptor, data)
        finally:
            os.close(descriptor)
    if written < len(data):
        atomic_write(path, data, mode, within=within)


def make_directory(path: str, mode: int = 0o777, *, within: str) -> None:
    """Create a directory if it does not exist. Its parents must exist."""
    with entry_of(path, within) as entry:
        try:
            os.mkdir(entry.name, mode, dir_fd=entry.directory)
        except FileExistsError:
            found = os.stat(entry.name, dir_fd=entry.directory, follow_symlinks=False).st_mode
            if stat.S_ISLNK(found):
                raise LinkError(path) from None
            if not stat.S_ISDIR(found):
                raise


def free_name(prefix: str) -> str:
    """A path that does not exist: the prefix and a number."""
    number = 1
    while os.path.lexists(f"{prefix}-{number}"):
        number += 1
    return f"{prefix}-{number}"


def refuse_link(entry: Entry, path: str) -> None:
    """Raise a `LinkError` if the entry of `path` is a link."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISLNK(os.stat(entry.name, dir_fd=entry.directory, follow_symlinks=False).st_mode):
            raise LinkError(path)


# -- syncing to disk ---------------------------------------------------------------------------------------------------
def sync_descriptor(descriptor: int) -> None:
    """Sync a file's content to disk. Blocks. After an error, everything since the last sync may be lost."""
    if sys.platform == "darwin":  # on macOS, fsync leaves the data in the drive's cache
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def sync_directory(path: str) -> None:
    """Sync the names in a directory to disk. Blocks."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def settle(directory: str) -> None:
    """Sync a checkpoint to disk: its files and directories, its name, and that of its trial's directory. Blocks."""
    for _ in settle_steps(directory):
        pass


def settle_steps(directory: str) -> Iterator[None]:
    """`settle` in small steps, so that a thread can do more urgent work between them."""
    for top, _, files in os.walk(directory, topdown=False, onerror=_raise):
        for name in files:
            path = os.path.join(top, name)
            if not stat.S_ISREG(os.lstat(path).st_mode):
                continue
            descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW | _NO_WAIT)
            try:
                sync_descriptor(descriptor)
            finally:
                os.close(descriptor)
            yield
        sync_directory(top)
        yield
    trial_directory = os.path.dirname(directory)
    sync_directory(trial_directory)
    yield
    sync_directory(os.path.dirname(trial_directory))


def _raise(error: OSError) -> None:
    raise error


# -- removing ----------------------------------------------------------------------------------------------------------
def remove_file(path: str, within: str | None = None) -> None:
    """Remove a file or link if it exists. By default, links on the way to `path` are followed."""
    with contextlib.suppress(FileNotFoundError), entry_of(path, within or os.path.dirname(path)) as entry:
        os.unlink(entry.name, dir_fd=entry.directory)


def remove_write_temporaries(directory: str, within: str) -> None:
    """Remove temporary files and directories of a killed process, by the pattern of `temporary_name`.

    `directory` is `within`, or a directory directly below it.
    """
    if directory != within and os.path.islink(directory):
        raise LinkError(directory)
    for name in names(directory):
        if WRITE_TEMPORARY.fullmatch(name):
            remove_tree(os.path.join(directory, name), within)


def remove_tree(path: str, within: str) -> None:
    """All steps of `remove_tree_steps`. Blocks."""
    for _ in remove_tree_steps(path, within):
        pass


def remove_tree_steps(path: str, within: str) -> Iterator[None]:
    """Remove a directory, a file or a link in small steps. Links are removed, never followed.

    Directories without read or write permission are removed as well; some programs create such directories. A missing
    entry is not an error, because another program may remove the same files.

    Yields:
        None after every few entries, so that a thread can do more urgent work between them.
    """
    with contextlib.suppress(FileNotFoundError), entry_of(path, within) as entry:
        if not stat.S_ISDIR(os.stat(entry.name, dir_fd=entry.directory, follow_symlinks=False).st_mode):
            os.unlink(entry.name, dir_fd=entry.directory)
        else:
            yield from _remove_directory(entry.name, entry.directory, path)


def _remove_directory(name: str, parent: int, path: str) -> Iterator[None]:
    """Remove a directory through its parent's descriptor. It is an error if a link replaces the directory meanwhile.

    `path` is the path of the directory, for errors.
    """
    descriptor = _open_to_empty(name, parent, path)
    try:
        with os.scandir(descriptor) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for count, (inner, is_directory) in enumerate(found, 1):
            with contextlib.suppress(FileNotFoundError):
                if is_directory:
                    yield from _remove_directory(inner, descriptor, os.path.join(path, inner))
                else:
                    os.unlink(inner, dir_fd=descriptor)
            if count % _STEP_ENTRIES == 0:
                yield
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=parent)


def _open_to_empty(name: str, parent: int, path: str) -> int:
    """Open a directory to remove its entries. If permissions are missing, set them."""
    flags = os.O_RDONLY | os.O_DIRECTORY | _NO_FOLLOW
    try:
        try:
            descriptor = os.open(name, flags, dir_fd=parent)
        except PermissionError:
            os.chmod(name, stat.S_IRWXU, dir_fd=parent)
            descriptor = os.open(name, flags, dir_fd=parent)
    except OSError as error:
        _explain(error, name, parent, path)
        raise
    if os.fstat(descriptor).st_mode & stat.S_IRWXU != stat.S_IRWXU:
        with contextlib.suppress(PermissionError):  # another user's directory: the removal reports the error
            os.fchmod(descriptor, stat.S_IRWXU)
    return descriptor


def names(directory: str) -> list[str]:
    """The sorted names in a directory; empty if it does not exist."""
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []


# -- paths -------------------------------------------------------------------------------------------------------------
def local_path(path: str | os.PathLike[str]) -> str:
    """The absolute form of a user's path. It may begin with `~` or `file://`.

    Raises:
        TypeError: If it is not a path.
        ValueError: If it is an address outside this machine, such as `s3://bucket`.
        FileNotFoundError: See `absolute`.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"a path must be text or a pathlib.Path, but got {shown(path)}")
    text = os.fspath(path)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return absolute(os.path.expanduser(text))
    if not text.startswith("file:///"):
        raise ValueError(f"a path must be local, but got {text!r}; mount the storage and pass the path of the mount")
    from urllib.parse import unquote

    return os.path.abspath(unquote(text.removeprefix("file://")))


def absolute(path: str) -> str:
    """The absolute form of a path.

    Raises:
        FileNotFoundError: If the path is relative and the working directory has been removed.
    """
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"a relative path such as {path!r} needs a working directory, but that of this process does not exist any "
            "more; pass an absolute path, or go to another directory first: os.chdir(...)"
        ) from None


def search_path() -> list[str]:
    """`sys.path` with absolute paths, for a process with another working directory. Keeps a notebook's empty entry."""
    try:
        here = os.getcwd()
    except OSError:  # the working directory has been removed
        here = ""
    return [os.path.join(here, entry) if entry else here for entry in sys.path if isinstance(entry, str)]


class StorageContext(NamedTuple):
    """The directories of a run and of one of its trials.

    Attributes:
        storage_fs_path: The directory that contains the runs.
        experiment_dir_name: The name of the run's directory.
        trial_dir_name: The name of the trial's directory; empty without a trial.
    """

    storage_fs_path: str
    experiment_dir_name: str
    trial_dir_name: str = ""

    @classmethod
    def of_run(cls, directory: str, trial_dir_name: str = "") -> StorageContext:
        """The directories of the run in `directory`, and of one of its trials."""
        return cls(os.path.dirname(directory), os.path.basename(directory), trial_dir_name)

    @property
    def experiment_fs_path(self) -> str:
        """The run's directory."""
        return os.path.join(self.storage_fs_path, self.experiment_dir_name)

    @property
    def trial_fs_path(self) -> str:
        """The trial's directory."""
        return os.path.join(self.experiment_fs_path, self.trial_dir_name)


# -- appending ---------------------------------------------------------------------------------------------------------
class AppendFiles:
    """Files that grow line by line, each with a key. Only some of them are open at a time.

    One system call writes a whole line, so a line is safe even if the process is killed right after. At most `limit`
    files are open. To open another one, the file that was opened first is closed; its next line opens it again. So any
    number of trials can be active without running out of descriptors. If descriptors run out anyway, all files are
    closed, and each is opened again for its next line.

    Neither a file nor its directory may be a link (see `open_own`).

    Args:
        limit: How many files may be open at once. The default depends on the process's own limit.
    """

    def __init__(self, limit: int | None = None):
        self._limit = limit or descriptors.share(16, most=64)
        self._paths: dict[str, tuple[str, str]] = {}  # the file, and the directory below which links are refused
        self._open: dict[str, int] = {}
        self._lapses: set[str] = set()

    def open(self, key: str, path: str, within: str, directory: int | None = None) -> int:
        """Open a file for appending, and return its size in bytes. See `open_own` for `directory`.

        An incomplete last line, which a killed process may have left, is cut off. The file is created if necessary, but
        its directory is not: a deleted directory must be noticed.
        """
        if key in self._paths:
            self.close(key)
        self._paths[key] = path, within
        descriptor, size = self._reopen(key, directory)
        if not size:
            return 0
        whole = _end_of_last_line(descriptor, size)
        if whole < size:
            os.ftruncate(descriptor, whole)
        return whole

    def append(self, key: str, line: bytes) -> bool:
        """Append `line`, which ends in a newline, to a file: either the whole line or nothing.

        Return False if there is no file with this key.
        """
        descriptor = self._open.get(key)
        if descriptor is None:
            if key not in self._paths:
                return False
            descriptor, _ = self._reopen(key)
        written = os.write(descriptor, line)
        if written < len(line):
            self._write_rest(descriptor, line, written)
        return True

    def lapse(self, key: str, path: str, error: OSError) -> None:
        """Close a file that could not be written, and warn once for each path. The run continues.

        Nothing is lost, because the journal has all results. The next `open` tries again.
        """
        self.close(key)
        if path not in self._lapses:
            self._lapses.add(path)
            logger.warning(
                "%s could not be written (%s); a resume of the run writes the missing lines",
                path,
                error.strerror or error,
            )

    def with_room(self, action: Callable[[], _T]) -> _T:
        """Call `action`, which opens another file. If no descriptor is free, close our files and call it once more."""
        try:
            return action()
        except OSError as error:
            if not self._open or not descriptors.is_lack(error):
                raise
            while self._open:
                os.close(self._open.popitem()[1])
            return action()

    def close(self, key: str) -> None:
        """Close a file and remove its key. Does nothing for an unknown key."""
        self._paths.pop(key, None)
        descriptor = self._open.pop(key, None)
        if descriptor is not None:
            os.close(descriptor)

    def close_all(self) -> None:
        """Close all files and remove their keys."""
        for key in list(self._paths):
            self.close(key)

    def _reopen(self, key: str, directory: int | None = None) -> tuple[int, int]:
        """Open a file again. Returns its descriptor and its size in bytes."""
        if len(self._open) >= self._limit:
            os.close(self._open.pop(next(iter(self._open))))
        path, within = self._paths[key]
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        descriptor, size = self.with_room(partial(_open_sized, path, flags, 0o666, within, directory))
        self._open[key] = descriptor
        return descriptor, size

    def _write_rest(self, descriptor: int, line: bytes, written: int) -> None:
        """Write the rest of a line after an incomplete write. If that fails, cut off the incomplete line."""
        try:
            while written < len(line):
                written += os.write(descriptor, line[written:])
        except OSError:
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
            raise


def _end_of_last_line(descriptor: int, size: int) -> int:
    """The end of the last complete line of an open file of `size` bytes."""
    end = size
    while end > 0:
        begin = max(0, end - _TAIL_BYTES)
        os.lseek(descriptor, begin, os.SEEK_SET)  # the position does not matter for appending
        newline = os.read(descriptor, end - begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return 0
