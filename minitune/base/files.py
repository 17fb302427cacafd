"""Paths and files of a run: replace atomically, sync to disk, remove, and append.

Trials and other programs read and write a run's directory at the same time. So two rules hold:

* It replaces a file in one step: readers see the old or the new content.
* It follows no link when it removes something.

A `mode` is that of a new file or directory, before the umask. `OSError`: the system refuses.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
import sys
from collections.abc import Generator, Iterator
from typing import BinaryIO, NamedTuple

from minitune.base.checks import shown
from minitune.base.disk import disk_error, ends_run, is_of_disk
from minitune.error import DiskError

logger = logging.getLogger("minitune")

TEMPORARY_PREFIX = ".tmp-"
"""The prefix of files and directories that are not complete yet."""
BLOB_MODE = 0o600
"""The mode of pickles, which may contain any data of their owner."""
OWN_DIRECTORY_MODE = 0o755
"""The mode of a run's directories: a resume refuses what others may write."""
OWN_FILE_MODE = 0o644
"""The same for a file that a resume reads."""
WRITE_TEMPORARY = re.compile(re.escape(TEMPORARY_PREFIX) + r"w-[0-9a-f]{32}")
"""The names of the temporary files of `new_file`."""
_STEP_ENTRIES = 50
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_BLOCK_BYTES = 4096
_TAIL_BYTES = 1 << 16
_TO_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT


# -- reading and writing ----------------------------------------------------------------------------------------------
def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a file."""
    with open(path, "rb") as file:
        return file.read()


def read_end(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """At most the last `most_bytes` of a file."""
    with open(path, "rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(max(0, size_bytes - most_bytes))
        return file.read(most_bytes)


def temporary_name() -> str:
    """A new name for a temporary file. It matches `WRITE_TEMPORARY`."""
    return f"{TEMPORARY_PREFIX}w-{os.urandom(16).hex()}"


@contextlib.contextmanager
def new_file(path: str, mode: int = 0o666, sync: bool = False) -> Iterator[BinaryIO]:
    """A temporary file that replaces the one at `path` when the `with` block ends without an error. The directory must
    exist. With `sync`, content and name are synced. Blocks.
    """
    path = os.path.abspath(path)
    directory = os.path.dirname(path)
    temporary = os.path.join(directory, temporary_name())
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "w+b") as file:
            yield file
            file.flush()
            if sync:
                sync_descriptor(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if sync:
        sync_directory(directory)


def atomic_write(path: str | os.PathLike[str], data: bytes, mode: int = 0o666) -> None:
    """Write a file that readers see in its old or its new form. See `new_file`."""
    with new_file(os.fspath(path), mode) as file:
        file.write(data)


def link_or_copy(source: str, target: str) -> None:
    """Give a file that never changes a second name, or copy it to another file system. Blocks while it copies."""
    import shutil

    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one without links
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, BLOB_MODE))
        shutil.copyfile(source, target)


def make_directory(path: str, mode: int = 0o777) -> None:
    """Create a directory if it does not exist."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, mode)


def free_name(prefix: str) -> str:
    """A path that does not exist: the prefix and a number."""
    number = 1
    while os.path.lexists(f"{prefix}-{number}"):
        number += 1
    return f"{prefix}-{number}"


def look_at_disk(trial_directory: str, error: BaseException) -> DiskError | None:
    """Write a block to the run's disk, after a trial's `error`. If that is refused, too, no trial is to blame: returns
    the error that ends the run; else None.
    """
    if not is_of_disk(error):
        return None
    path = os.path.join(trial_directory, temporary_name())
    try:
        with open(path, "xb", buffering=0) as file:
            file.write(os.urandom(_BLOCK_BYTES))  # some file systems store no zeros
    except OSError as refused:
        if is_of_disk(refused):
            return disk_error(os.path.dirname(trial_directory), trial_directory, "written", refused)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
    return None


# -- syncing to disk ---------------------------------------------------------------------------------------------------
def sync_descriptor(descriptor: int) -> None:
    """Sync a file's content to disk. Blocks. After an error, everything since the last sync may be lost."""
    if sys.platform == "darwin":  # on macOS, fsync leaves the data in the drive's cache
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


def sync_directory(path: str) -> None:
    """Sync the names in a directory to disk. Blocks."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree_steps(directory: str) -> Generator[None, None, None]:
    """Sync a directory to disk, from the inside out, and its name. Blocks in steps."""
    for top, _, files in os.walk(directory, topdown=False, onerror=_raise):
        for name in files:
            path = os.path.join(top, name)
            if not stat.S_ISREG(os.lstat(path).st_mode):
                continue
            with open(path, "rb") as file:
                sync_descriptor(file.fileno())
            yield
        sync_directory(top)
        yield
    parent = os.path.dirname(directory)
    sync_directory(parent)
    yield
    sync_directory(os.path.dirname(parent))


def _raise(error: OSError) -> None:
    raise error


# -- removing ----------------------------------------------------------------------------------------------------------
def remove_file(path: str) -> None:
    """Remove a file or link if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def remove_write_temporaries(directory: str) -> None:
    """Remove temporary files and directories of a killed process, by the pattern of `temporary_name`."""
    for name in names(directory):
        if WRITE_TEMPORARY.fullmatch(name):
            remove_tree(os.path.join(directory, name))


def remove_tree(path: str) -> None:
    """All steps of `remove_tree_steps`. Blocks."""
    for _ in remove_tree_steps(path):
        pass


def discard_tree(path: str) -> None:
    """`remove_tree`, without errors. Blocks."""
    with contextlib.suppress(OSError):
        remove_tree(path)


def remove_tree_steps(path: str) -> Generator[None, None, None]:
    """Remove a directory, a file or a link in small steps. Links are removed, never followed.

    A missing entry is no error: another program may remove the same files.
    """
    with contextlib.suppress(FileNotFoundError):
        mode = os.lstat(path).st_mode
        if not stat.S_ISDIR(mode):
            os.unlink(path)
            return
        with os.scandir(path) as entries:
            found = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for count, (inner, is_directory) in enumerate(found, 1):
            if is_directory:
                yield from remove_tree_steps(inner)
            else:
                remove_file(inner)
            if count % _STEP_ENTRIES == 0:
                yield
        os.rmdir(path)


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
        ValueError: If it is elsewhere, such as `s3://bucket`.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"a path must be text or a pathlib.Path, but got {shown(path)}")
    text = os.fspath(path)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return os.path.abspath(os.path.expanduser(text))
    if not text.startswith("file:///"):
        raise ValueError(f"a path must be local, but got {text!r}; mount the storage and pass the path of the mount")
    from urllib.parse import unquote

    return os.path.abspath(unquote(text.removeprefix("file://")))


def working_directory() -> str | None:
    """The working directory; None if it has been removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def search_path() -> list[str]:
    """`sys.path` with absolute paths, for another working directory. Keeps a notebook's empty entry."""
    here = working_directory() or ""
    found = []
    for entry in sys.path:
        if isinstance(entry, str):
            found.append(os.path.join(here, entry) if entry else here)
    return found


class StorageContext(NamedTuple):
    """The directories of a run and of one of its trials."""

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
def finish_append(descriptor: int, data: bytes, written: int) -> None:
    """Write the rest of a line of which the first bytes were appended; cut them off after an error. Blocks."""
    try:
        while written < len(data):
            written += os.write(descriptor, data[written:])
    except OSError:
        os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
        raise


# How many files of one `AppendFiles` are open at a time. Not measured: with fewer, lines of more trials open their file
# again; with more, fewer descriptors are left for workers.
_MOST_OPEN = 64


class AppendFiles:
    """Files that grow line by line, each with a key. Only some are open at a time.

    One system call writes a whole line, which survives a kill right after. Of more than `_MOST_OPEN`, the one with the
    oldest last line is closed, until its next line.
    """

    def __init__(self) -> None:
        self._paths: dict[str, str] = {}
        self._open: dict[str, int] = {}
        self._lapses: set[str] = set()

    def open(self, key: str, path: str) -> int:
        """Open a file for appending, and return its size in bytes.

        A torn last line of a killed process is cut off.
        """
        if key in self._paths:
            self.close(key)
        self._paths[key] = path
        if len(self._open) >= _MOST_OPEN:
            os.close(self._open.pop(next(iter(self._open))))
        descriptor = os.open(path, _TO_APPEND, 0o666)
        self._open[key] = descriptor
        size = os.fstat(descriptor).st_size
        if not size:
            return 0
        whole = _end_of_last_line(descriptor, size)
        if whole < size:
            os.ftruncate(descriptor, whole)
        return whole

    def append(self, key: str, line: bytes) -> bool:
        """Append `line`, with its newline: the whole line or nothing.

        False for an unknown key.
        """
        descriptor = self._open.pop(key, None)
        if descriptor is None:
            if key not in self._paths:
                return False
            self.open(key, self._paths[key])  # it was closed to make room
            descriptor = self._open.pop(key)
        self._open[key] = descriptor  # it is the last one to be closed now
        written = os.write(descriptor, line)
        if written < len(line):
            finish_append(descriptor, line, written)
        return True

    def lapse(self, key: str, path: str, error: OSError) -> None:
        """Close a file that could not be written; if the disk has refused it, or too many files are open, the run ends.

        Otherwise, such as after the removal of the trial's directory, a warning for each path is enough.

        Raises:
            DiskError: If the run ends.
        """
        self.close(key)
        if ends_run(error):
            raise disk_error(os.path.dirname(os.path.dirname(path)), path, "written", error) from error
        if path not in self._lapses:
            self._lapses.add(path)
            logger.warning(
                "%s could not be written (%s); a resume of the run writes the missing lines",
                path,
                error.strerror or error,
            )

    def close(self, key: str) -> None:
        """Close a file and remove its key, if there is one."""
        self._paths.pop(key, None)
        descriptor = self._open.pop(key, None)
        if descriptor is not None:
            os.close(descriptor)

    def close_all(self) -> None:
        """Close all files and remove their keys."""
        for key in list(self._paths):
            self.close(key)


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
