"""Lines of what a program prints, in bytes.

Much is for a terminal: a progress bar writes its line again and again, with escape sequences. A line is what a terminal
shows: the text after the last carriage return, without these.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitune.base.text import without_codes


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
    """Splits an output into lines while it comes. What a carriage return has overwritten is forgotten."""

    def __init__(self) -> None:
        self._begun = bytearray()  # the line that has no end yet

    def feed(self, output: bytes) -> Iterator[tuple[bytes, str | None]]:
        """Take the next bytes, and yield them in pieces, each with the line that it ends, or with None."""
        for piece in output.splitlines(keepends=True):
            if self._begun.endswith(b"\r") and piece.strip(b"\r\n"):  # which overwrites what was before
                self._begun.clear()
            self._begun += piece
            yield piece, self.end() if piece.endswith(b"\n") else None

    def end(self) -> str | None:
        """The line that has begun; None if there is none."""
        line = shown_line(bytes(self._begun)) if self._begun else None
        self._begun.clear()
        return line
