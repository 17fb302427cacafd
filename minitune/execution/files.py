"""Files, carefully: atomic writes, syncs, and removal that never follows a link."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
import time
from collections.abc import Iterator

from minitune.checkpoint import TEMPORARY_PREFIX

REPLACE_PATIENCE_S = 2.5
"""How long a rename is tried again on Windows, where a virus scanner may hold a file open for a moment."""
BLOB_MODE = 0o600
"""Pickles are for their owner only: they hold whatever the user's objects hold."""
WRITE_TEMPORARY = re.compile(re.escape(TEMPORARY_PREFIX) + r"w-[0-9a-f]{32}")
"""Names under which `atomic_write` prepares a file."""

_STEP_ENTRIES = 50


def temporary_name() -> str:
    """A new name for a file that is being prepared; it fits `WRITE_TEMPORARY`."""
    return f"{TEMPORARY_PREFIX}w-{os.urandom(16).hex()}"


def atomic_write(path: str | os.PathLike[str], data: bytes, mode: int = 0o666, sync: bool = False) -> None:
    """Write a file so that a reader sees either the old content or the new one, whenever it looks.

    Args:
        path: The file; its directory must exist.
        data: The content.
        mode: Permissions of a new file, before the umask.
        sync: True to bring content and name to the disk before returning; blocks for it.

    Raises:
        OSError: If it cannot be written; nothing has changed then.
    """
    directory = os.path.dirname(os.path.abspath(path))
    temporary = os.path.join(directory, temporary_name())
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            if sync:
                sync_descriptor(descriptor)
        finally:
            os.close(descriptor)
        replace(temporary, path)
    except BaseException:
        remove_file(temporary)
        raise
    if sync:
        sync_directory(directory)


def replace(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """`os.replace`, tried again for a moment where other programs may hold a file open (Windows)."""
    deadline = time.monotonic() + REPLACE_PATIENCE_S
    while True:
        try:
            os.replace(source, target)
            return
        except PermissionError:
            if os.name != "nt" or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def sync_descriptor(descriptor: int) -> None:
    """Bring a file's content to the disk. Blocks.

    Raises:
        OSError: If that fails; what was written since the last sync may be lost then.
    """
    if sys.platform == "darwin":  # there fsync leaves the data in the drive's cache
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def sync_directory(path: str) -> None:
    """Bring the names in a directory to the disk. Blocks; does nothing on Windows, which cannot do it."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def settle(directory: str) -> None:
    """Bring a checkpoint's directory to the disk: all files, all directories, its name and that of its trial. Blocks.

    Raises:
        OSError: If the directory is gone or a sync fails.
    """
    for _ in settle_steps(directory):
        pass


def settle_steps(directory: str) -> Iterator[None]:
    """`settle` in small steps, so that a thread can do something more urgent between them."""
    for top, _, files in os.walk(directory, topdown=False, onerror=_raise):
        for name in files:
            path = os.path.join(top, name)
            if not stat.S_ISREG(os.lstat(path).st_mode):
                continue
            # Windows wants write access for a sync
            descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
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


def remove_file(path: str) -> None:
    """Remove a file or link if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def remove_write_temporaries(directory: str) -> None:
    """Remove what a killed process has left in `directory` under names of `temporary_name`, directories included."""
    for name in names(directory):
        if WRITE_TEMPORARY.fullmatch(name):
            for _ in remove_tree_steps(os.path.join(directory, name)):
                pass


def remove_tree_steps(path: str) -> Iterator[None]:
    """Remove a directory, a file or a link, in small steps; links are removed, never followed.

    Yields:
        None after every few entries, so that a thread can do something more urgent between them.

    Raises:
        OSError: If something cannot be removed. That it, or something in it, is gone already is no error: somebody
            else may be removing it, too.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        remove_file(path)
        return
    if not hasattr(os, "fwalk"):  # Windows
        import shutil

        yield
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)
        return
    count = 0
    # by descriptor, as shutil.rmtree does it: a directory that is swapped for a link meanwhile leads nowhere
    with contextlib.suppress(FileNotFoundError):
        for _, directories, files, top in os.fwalk(path, topdown=False, onerror=_raise_unless_gone):
            for name in files:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=top)
                count += 1
                if count % _STEP_ENTRIES == 0:
                    yield
            for name in directories:
                with contextlib.suppress(FileNotFoundError):
                    is_link = stat.S_ISLNK(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode)
                    (os.unlink if is_link else os.rmdir)(name, dir_fd=top)
        os.rmdir(path)


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def names(directory: str) -> list[str]:
    """The sorted names in a directory; none if it is not there."""
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
