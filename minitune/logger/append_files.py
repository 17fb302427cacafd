"""AppendFiles: many files that grow line by line, few of them open."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TypeVar

from minitune import _descriptors
from minitune.base import files

_T = TypeVar("_T")

logger = logging.getLogger("minitune")

_TAIL_BYTES = 1 << 16


class AppendFiles:
    """Files by key, each line written with one system call, so that it survives whatever happens to the process.

    At most `limit` are open; the one that was opened first is closed to make room and opened again when it is written
    to. So any number of trials can be alive without running out of descriptors. Where there are none left even so, all
    files are closed, and opened again when they are written to.

    Neither a file nor its directory may be a link (`files.open_own`).

    Args:
        limit: How many files may be open at once; by default what suits the process's own limit.
    """

    def __init__(self, limit: int | None = None):
        self._limit = limit or _descriptors.share(16, most=64)
        self._paths: dict[str, tuple[str, str]] = {}  # with the directory from which on links are refused
        self._open: dict[str, int] = {}
        self._lapses: set[str] = set()

    def open(self, key: str, path: str, within: str) -> int:
        """Open a file for appending; an incomplete last line, left by a process that was killed, is cut off.

        Args:
            key: What the file is called here.
            path: Where it lies; it is created if need be. Its directory is not: one that has gone is not made again,
                since that would hide it.
            within: See `files.entry_of`.

        Returns:
            Its size in bytes.

        Raises:
            OSError: If it cannot be opened.
        """
        self.close(key)
        self._paths[key] = path, within
        descriptor = self._reopen(key)
        size = os.fstat(descriptor).st_size
        whole = _end_of_last_line(descriptor, size)
        if whole < size:
            os.ftruncate(descriptor, whole)
        return whole

    def append(self, key: str, line: bytes) -> None:
        """Write `line`, ending in a newline, at the end of a file. It is there whole, or not at all.

        Raises:
            OSError: If it cannot be written (no space, for instance).
        """
        descriptor = self._open.get(key)
        if descriptor is None:
            descriptor = self._reopen(key)
        written = os.write(descriptor, line)
        if written < len(line):
            self._write_rest(descriptor, line, written)

    def lapse(self, key: str, path: str, error: OSError) -> None:
        """A file could not be written: it is closed, and what follows begins by opening it again.

        That is no reason to end a run: whatever is missing is on record. It is said once for each file.
        """
        self.close(key)
        if path not in self._lapses:
            self._lapses.add(path)
            logger.warning(
                "%s could not be written (%s); what it lacks is put in when the run is resumed",
                path,
                error.strerror or error,
            )

    def with_room(self, action: Callable[[], _T]) -> _T:
        """Do what opens another file; if there is no descriptor left for it, close ours and do it once more.

        Raises:
            OSError: What `action` raises.
        """
        try:
            return action()
        except OSError as error:
            if not self._open or not _descriptors.is_lack(error):
                raise
            while self._open:
                os.close(self._open.popitem()[1])
            return action()

    def close(self, key: str) -> None:
        """Close a file and forget it. Nothing happens if it is not known."""
        self._paths.pop(key, None)
        descriptor = self._open.pop(key, None)
        if descriptor is not None:
            os.close(descriptor)

    def close_all(self) -> None:
        """Close and forget all files."""
        for key in list(self._paths):
            self.close(key)

    def __contains__(self, key: str) -> bool:
        return key in self._paths

    def _reopen(self, key: str) -> int:
        if len(self._open) >= self._limit:
            os.close(self._open.pop(next(iter(self._open))))
        (path, within), flags = self._paths[key], os.O_RDWR | os.O_APPEND | os.O_CREAT
        descriptor = self._open[key] = self.with_room(lambda: files.open_own(path, flags, within=within))
        return descriptor

    def _write_rest(self, descriptor: int, line: bytes, written: int) -> None:
        """The rest of a line that was cut short; where that fails, the part that was written goes again."""
        try:
            while written < len(line):
                written += os.write(descriptor, line[written:])
        except OSError:
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
            raise


def _end_of_last_line(descriptor: int, size: int) -> int:
    """Where the last complete line of an open file of `size` bytes ends."""
    end = size
    while end > 0:
        begin = max(0, end - _TAIL_BYTES)
        os.lseek(descriptor, begin, os.SEEK_SET)  # writing appends, wherever this leaves it
        newline = os.read(descriptor, end - begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return 0
