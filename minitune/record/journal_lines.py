"""The lines of a journal: how they are checked, and which of them a reader needs.

Nearly all lines are results. Most readers need none of those of a trial that has ended with their sum. `LineIndex`
finds the others in one reading, which checks every line.
"""

from __future__ import annotations

import os
import re
import zlib
from array import array
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO

from minitune.record import records

BODY = 9
"""The position of the JSON in a line, after eight digits and a space."""
SUM = b'"%b":{' % records.SUM.encode()
"""The beginning of the sum in a `status` line."""
UNDECIDED = b'"decision":"CONTINUE","reason":"","checkpoint":null}\n'
"""The end of a `result` line without a decision, its reason or its facts, and without a checkpoint."""
_BLOCK_BYTES = 1 << 16
_HEAD = re.compile(rb'\{"%b":"(\w+)"(?:,"trial":"([^"]*)")?' % records.KIND.encode())
_RESULT = b'{"%b":"%b","trial":"' % (records.KIND.encode(), records.RESULT.encode())
_STATUS = b'{"%b":"%b",' % (records.KIND.encode(), records.STATUS.encode())
_START = records.START.encode()
_CONFIGURES = frozenset(kind.encode() for kind in (records.TRIAL, records.CHANGE, records.EXPLOIT))
_ID = BODY + len(_RESULT)
# A span has the offset of a line above its length, which takes so many bits: one int is much smaller than a tuple.
_LENGTH_BITS = 24
_NEWLINE = ord("\n")
_MOST_BYTES = (1 << _LENGTH_BITS) - 1


def head(line: bytes) -> tuple[bytes, bytes]:
    """The kind of a line's record, and its trial's id as in JSON, without decoding; both empty for a bad line.

    The id is empty for a record about the run.
    """
    found = _HEAD.match(line, BODY)
    if found is None:
        return b"", b""
    return found[1], found[2] or b""


def result_of(line: bytes) -> bytes:
    """The id of the trial of a `result` line, as `head`; else empty."""
    if line.startswith(_RESULT, BODY):
        return line[_ID : line.find(b'"', _ID)]
    return b""


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


def blocks(file: BinaryIO, begin: int) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, whole lines) from the line at `begin`, in bytes, up to the present length of `file`."""
    # Fixed now, since a driver may write faster than this reads.
    left = os.fstat(file.fileno()).st_size - begin
    file.seek(begin)
    offset = begin
    while left > 0:
        block = file.read(min(left, _BLOCK_BYTES))
        if not block:
            return  # the file has been cut meanwhile
        if not block.endswith(b"\n"):
            block += file.readline(left - len(block))
        left -= len(block)
        yield offset, block
        offset += len(block)


def each_line(file: BinaryIO, begin: int) -> Iterator[tuple[int, bytes]]:
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


def _no_spans() -> array[int]:
    return array("Q")


class LineIndex:
    """Where the lines of a journal are, by who needs them. A span is an int, of the line's offset and length.

    Attributes:
        end: Where the last good line ends, in bytes.
        has_bad: Whether a bad line follows there.
        of_run: The spans of the records about the run itself, which are few.
        starts: Those of `start` records.
        configures: By trial id as in JSON, those of the records that set the configuration of its reports.
    """

    def __init__(self) -> None:
        self.end = 0
        self.has_bad = False
        self.of_run = array("Q")
        self.starts = array("Q")
        self.configures: defaultdict[bytes, array[int]] = defaultdict(_no_spans)
        self._needed = array("Q")  # of all lines but results
        self._decided = array("Q")  # of results at which something was decided, or that have a checkpoint
        self._results: defaultdict[bytes, array[int]] = defaultdict(_no_spans)  # by trial id: of those without a sum
        self._covered: list[tuple[int, bytes, array[int]]] = []  # the offset of a sum, its trial, what it covers

    def extend(self, file: BinaryIO) -> None:
        """Read on from `end`, and check each line. Blocks."""
        checksum = zlib.crc32
        most_bytes = _MOST_BYTES
        results = self._results
        size_bytes = os.fstat(file.fileno()).st_size
        offset = self.end
        file.seek(offset)
        self.has_bad = False
        # As `each_line`, without its overhead: this is the largest part of a look at a large run.
        for line in file:
            # What `body_of` checks, without a call.
            if line[:BODY] != b"%08x " % checksum(line[BODY:-1]) or line[-1] != _NEWLINE:
                self.has_bad = True
                break
            length = len(line)
            span = offset << _LENGTH_BITS | (length if length < most_bytes else most_bytes)
            is_undecided = line.endswith(UNDECIDED)  # only results end so
            if is_undecided or line.startswith(_RESULT, BODY):
                results[line[_ID : line.find(b'"', _ID)]].append(span)
                if not is_undecided:
                    self._decided.append(span)
            else:
                self._add(span, offset, line)
            offset += length
            if offset >= size_bytes:
                break
        self.end = offset

    def _add(self, span: int, offset: int, line: bytes) -> None:
        self._needed.append(span)
        kind, trial_id = head(line)
        if not trial_id:
            self.of_run.append(span)
        elif kind == _START:
            self.starts.append(span)
        elif kind in _CONFIGURES:
            self.configures[trial_id].append(span)
        elif line.startswith(_STATUS, BODY) and SUM in line and trial_id in self._results:
            self._covered.append((offset, trial_id, self._results.pop(trial_id)))

    def results(self) -> dict[bytes, array[int]]:
        """The spans of all results, by trial id as in JSON."""
        found: dict[bytes, array[int]] = defaultdict(_no_spans)
        for _, trial_id, covered in self._covered:
            found[trial_id] += covered
        for trial_id, others in self._results.items():
            found[trial_id] += others
        return found

    def spans(self, *, needs_decisions: bool = False, until: int | None = None) -> list[int]:
        """The spans of the lines that a reader needs, in order: all but results that a later sum covers.

        Args:
            needs_decisions: Whether those with a decision are needed, too.
            until: Only sums before this offset count, in bytes; None for all.
        """
        found = [self._needed, *self._results.values()]
        if until is not None:
            found += [covered for offset, _, covered in self._covered if offset >= until]
        if needs_decisions:
            return sorted({*chain.from_iterable(found), *self._decided})
        return sorted(chain.from_iterable(found))


def line_at(descriptor: int, span: int) -> tuple[int, bytes]:
    """The offset of the line at a span, and the line. It is shorter if the file was cut meanwhile."""
    offset = span >> _LENGTH_BITS
    length = span & _MOST_BYTES
    if length < _MOST_BYTES:
        return offset, os.pread(descriptor, length, offset)
    # Only the least length of such a line is known.
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(offset)
        return offset, file.readline()
