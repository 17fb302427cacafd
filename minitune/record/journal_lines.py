"""The lines of a journal: `crc32 in 8 hex digits, space, JSON, newline`; how they are read and checked."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from minitune.record import records

BODY = 9
"""The position of the JSON in a line, after eight digits and a space."""
_HEAD = re.compile(rb'\{"%b":"(\w+)"(?:,"trial":"([^"]*)")?' % records.KIND.encode())
_ZEROS = re.compile(rb"\0+")
_SECTOR_BYTES = 512


def head(line: bytes) -> tuple[bytes, bytes]:
    """The kind of a line's record, and its trial's id as in JSON, without decoding; both empty for a bad line.

    The id is empty for a record about the run.
    """
    found = _HEAD.match(line, BODY)
    if found is None:
        return b"", b""
    return found[1], found[2] or b""


def body_of(line: bytes) -> str:
    """The JSON in a line. ValueError if its checksum does not fit."""
    if line[-1:] != b"\n" or line[8:9] != b" ":
        raise ValueError("a line must consist of a checksum, a space, JSON and a newline")
    body = line[BODY:-1]
    # compare texts, not numbers: a flipped bit may only change the case of a hex digit
    if line[:8] != b"%08x" % zlib.crc32(body):
        raise ValueError("the checksum of a line does not fit its content")
    return body.decode("ascii")


def is_good(line: bytes) -> bool:
    """Whether `body_of` takes the line."""
    try:
        body_of(line)
    except ValueError:
        return False
    return True


def lacks_pages(offset: int, line: bytes) -> bool:
    """Whether zeros stand in the bad line at `offset`, in bytes, up to the end of a sector. A power cut leaves them
    where a page has not reached the disk, although later ones have.
    """
    for zeros in _ZEROS.finditer(line):
        sector_end = (offset + zeros.end()) // _SECTOR_BYTES * _SECTOR_BYTES
        if sector_end > offset + zeros.start():
            return True
    return False


def each_line(file: BinaryIO, begin: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line) from the line at `begin`, in bytes, up to the present length of the file."""
    size_bytes = os.fstat(file.fileno()).st_size  # fixed now, since a driver may write faster than this reads
    offset = begin
    file.seek(begin)
    # Lines that a file yields cost a third of those of a split block: each takes the memory of the one before.
    for line in file:
        yield offset, line
        offset += len(line)
        if offset >= size_bytes:
            return
