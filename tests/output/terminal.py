"""A terminal for tests: a pseudo-terminal, and a reader that follows the control codes."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import struct
import sys
import termios
import threading
import unicodedata

_TOKENS = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")
_CUT_CODE = re.compile(r"\x1b(\[[0-9;?]*)?$")


class Terminal:
    """Standard output and error within its `with` block. At the end of the block, its `lines` are complete.

    Args:
        columns: Its width; longer lines are broken.
        rows: Its height, as far as programs ask for it.
        encoding: The encoding of what is written to it.
    """

    def __init__(self, columns: int = 100, rows: int = 30, encoding: str = "utf-8"):
        self._master, slave = pty.openpty()
        self.stream = open(slave, "w", encoding=encoding, buffering=1)  # noqa: SIM115 (closed at the end)
        self.columns = columns
        self.resize(columns, rows)
        self.raw = ""
        self.frames: list[list[str]] = []
        self._lines: list[list[str]] = [[]]
        self._row = self._column = 0
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Terminal:
        self._before = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = self.stream
        return self

    def __exit__(self, *error: object) -> None:
        sys.stdout, sys.stderr = self._before
        self.stream.close()
        self._reader.join()
        os.close(self._master)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size that programs see. The present lines stay."""
        fcntl.ioctl(self.stream.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def lines(self) -> list[str]:
        """The visible lines, from the first one on."""
        return ["".join(line).rstrip() for line in self._lines]

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")()
        begun = ""  # the beginning of a control code that the last read has cut
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:  # the other end is closed
                return
            if not data:
                return
            text = begun + decoder.decode(data)
            cut = _CUT_CODE.search(text)
            begun = cut[0] if cut else ""
            text = text.removesuffix(begun)
            self.raw += text
            self._feed(text)

    def _feed(self, text: str) -> None:
        for numbers, code, control, plain in _TOKENS.findall(text):
            count = int(numbers) if numbers.isdigit() else 1
            if control == "\r":
                self._column = 0
            elif control == "\n":
                self._go_down()
            elif code == "A":
                self._row = max(0, self._row - count)
            elif code == "C":
                self._column += count
            elif code in ("J", "K"):
                del self._line()[self._column :]
                if code == "J":
                    del self._lines[self._row + 1 :]
                    self.frames.append(self.lines())
            for character in plain:
                self._put(character)

    def _go_down(self) -> None:
        self._row += 1
        if self._row == len(self._lines):
            self._lines.append([])

    def _line(self) -> list[str]:
        return self._lines[self._row]

    def _put(self, character: str) -> None:
        if unicodedata.combining(character):
            return
        cells = [character, ""] if unicodedata.east_asian_width(character) in "WF" else [character]
        if self._column + len(cells) > self.columns:
            self._go_down()
            self._column = 0
        line = self._line()
        line += [" "] * (self._column - len(line))
        line[self._column : self._column + len(cells)] = cells
        self._column += len(cells)
