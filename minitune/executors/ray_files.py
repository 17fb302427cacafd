"""Directories that travel between the driver's machine and a node of a cluster in pieces, and where they lie there.

A piece has a few megabytes: many small files, or a part of a large one. So neither side holds more than a piece of a
directory in memory. Links travel as links.

A node that does not see the run's directory has a *scratch* directory for each process with trials. A process that is
killed leaves it behind. So each one has a lock file, which the system unlocks when the process ends, and a new process
removes those of its user that are not locked.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from minitune.base import files
from minitune.checkpoint import ManifestEntry, walk

PIECE_BYTES = 4 * 1024 * 1024
"""The size of a piece. A larger one takes more memory on both sides, a smaller one more messages."""
_ENTRY_BYTES = 256
"""What an entry without content counts, so that a piece has a limited number of them."""
_PREFIX = "minitune-ray-"
_LOCK = "lock"
_NEW_S = 60.0
"""How old a lock is at least when its directory is removed because it is not locked."""
_OUTPUTS = ("stdout", "stderr")


class Part(NamedTuple):
    """A directory, a link, or a part of a file, on its way.

    Attributes:
        name: Its path below the top. That of a directory ends in a slash.
        mode: The permissions of a file.
        link: The target of a link; None for a file.
        size_bytes: The size of the whole file.
        offset: The part's offset in the file.
        content: The part's bytes.
    """

    name: str
    mode: int = 0
    link: str | None = None
    size_bytes: int = 0
    offset: int = 0
    content: bytes = b""


def read_pieces(top: str) -> Iterator[list[Part]]:
    """Read a directory in pieces; an empty directory is one empty piece. Each step blocks while it reads.

    Raises:
        OSError: If it cannot be read.
        ValueError: If it has entries other than files, directories and links.
    """
    piece: list[Part] = []
    left_bytes = PIECE_BYTES
    for entry in walk(top):
        for part in _parts(top, entry):
            piece.append(part)
            left_bytes -= len(part.content) + _ENTRY_BYTES
            if left_bytes <= 0:
                yield piece
                piece = []
                left_bytes = PIECE_BYTES
    yield piece


def _parts(top: str, entry: ManifestEntry) -> Iterator[Part]:
    name = entry.name
    path = os.path.join(top, name)
    if name.endswith("/"):
        yield Part(name)
        return
    if entry.is_link:
        yield Part(name, link=os.readlink(path))
        return
    with open(files.open_regular(path), "rb", buffering=0) as file:
        found = os.fstat(file.fileno())
        mode = stat.S_IMODE(found.st_mode)
        yield Part(name, mode, size_bytes=found.st_size)
        offset = 0
        while content := file.read(PIECE_BYTES):
            yield Part(name, mode, None, found.st_size, offset, content)
            offset += len(content)


def write_piece(piece: list[Part], top: str) -> None:
    """Write a piece into a directory. Blocks while it writes.

    Args:
        piece: A piece of `read_pieces`. Its directory's earlier pieces were written before.
        top: An existing directory.

    Raises:
        ValueError: If the piece would write outside of the directory.
        OSError: If it cannot be written.
    """
    for part in piece:
        if os.path.isabs(part.name) or ".." in part.name.split("/"):
            raise ValueError(f"{part.name!r} is not the name of an entry of a directory")
        path = os.path.join(top, part.name)
        if part.name.endswith("/"):
            files.make_directory(path.rstrip("/"))
        elif part.link is not None:
            os.symlink(part.link, path)
        else:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666), "wb", buffering=0) as file:
                if part.content:
                    _write_at(file.fileno(), part.content, part.offset)
                else:  # the first part of the file
                    os.ftruncate(file.fileno(), part.size_bytes)
                    os.fchmod(file.fileno(), part.mode)


def _write_at(descriptor: int, content: bytes, offset: int) -> None:
    left = memoryview(content)
    while left:
        written = os.pwrite(descriptor, left, offset)
        offset += written
        left = left[written:]


class Scratch:
    """A directory for the trials of this process, on a machine that does not see that of the run.

    Args:
        name: Its name, which no other process on the machine uses.

    Attributes:
        path: The directory. It exists until `remove` is called.
    """

    def __init__(self, name: str) -> None:
        _sweep()
        self.path = _path_of(name)
        os.mkdir(self.path, mode=0o700)
        self._lock = open(os.path.join(self.path, _LOCK), "wb")  # noqa: SIM115 - it stays open
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    @property
    def outputs(self) -> list[str]:
        """The files for stdout and stderr in it."""
        return [os.path.join(self.path, name) for name in _OUTPUTS]

    def remove(self) -> None:
        """Remove the directory with all that is in it."""
        self._lock.close()
        shutil.rmtree(self.path, ignore_errors=True)


def _path_of(name: str) -> str:
    return os.path.join(tempfile.gettempdir(), f"{_PREFIX}{name}")


def collect(name: str, read_bytes: tuple[int, int]) -> tuple[bytes, bytes]:
    """The end of the output in the scratch directory of a process that has died. The directory is removed.

    Args:
        name: The directory's name.
        read_bytes: How many bytes of stdout and stderr are known.

    Returns:
        What follows them, at most the last `PIECE_BYTES` of each.
    """
    found = []
    path = _path_of(name)
    for output, known_bytes in zip(_OUTPUTS, read_bytes, strict=True):
        try:
            with open(os.path.join(path, output), "rb") as file:
                size_bytes = file.seek(0, os.SEEK_END)
                file.seek(max(known_bytes, size_bytes - PIECE_BYTES))
                found.append(file.read())
        except FileNotFoundError:
            found.append(b"")
    shutil.rmtree(path, ignore_errors=True)
    return found[0], found[1]


def _sweep() -> None:
    """Remove the directories of processes that have ended. A new one may not be locked yet, so it is left alone."""
    directory = tempfile.gettempdir()
    for name in os.listdir(directory):
        if not name.startswith(_PREFIX):
            continue
        path = os.path.join(directory, name)
        with suppress(OSError), open(os.path.join(path, _LOCK), "rb") as lock:
            if time.time() - os.fstat(lock.fileno()).st_mtime < _NEW_S:
                continue
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
