"""Lines of what a program prints, in bytes.

Much is for a terminal: a progress bar writes its line again and again, with escape sequences. A line is what a terminal
shows: the text after the last carriage return, without these.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitune.base.text import without_codes

LONGEST_BYTES = 16_000_000
"""The longest line that is kept while its end has not come."""


def shown_line(line: bytes) -> str:
    """What a terminal shows of a line. Bytes that are not UTF-8 are replaced."""
    last = line.rstrip(b"\r\n").rpartition(b"\r")[2]
    return without_codes(last.decode("utf-8", "replace")).removeprefix("\ufeff")


def shown_lines(output: bytes) -> list[str]:
    """The lines of an output."""
    if not output:
        return []
    return [shown_line(line) for line in output.removesuffix(b"\n").split(b"\n")]


class LineSplitter:
    """Splits an output into lines while it comes.

    What a carriage return has overwritten is forgotten, and so is a line that is too long: the memory has a bound.
    """

    def __init__(self) -> None:
        self.too_long = 0
        self._begun = bytearray()  # the line that has no end yet; of one that is too long, the last byte
        self._is_too_long = False

    def feed(self, output: bytes) -> Iterator[tuple[bytes, str | None]]:
        """Take the next bytes, and yield them in pieces, each with the line that it ends, or with None."""
        for piece in output.splitlines(keepends=True):
            if self._begun.endswith(b"\r") and piece.strip(b"\r\n"):  # which overwrites what was before
                self._begun.clear()
                self._is_too_long = False
            self._begun += piece
            if self._is_too_long or len(self._begun) > LONGEST_BYTES:
                self._is_too_long = True
                del self._begun[:-1]
            yield piece, self.end() if piece.endswith(b"\n") else None

    def end(self) -> str | None:
        """The line that has begun; None if there is none or it is too long."""
        line = None
        if self._is_too_long:
            self.too_long += 1
        elif self._begun:
            line = shown_line(bytes(self._begun))
        self._begun.clear()
        self._is_too_long = False
        return line
