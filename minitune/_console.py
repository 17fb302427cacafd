"""Console: the one guarded way to standard output."""

from __future__ import annotations

import io
import logging
import os
import sys
from typing import Any


class Console:
    """The one way to standard output. If that cannot be written (closed, broken pipe, full disk), it goes silent.

    Args:
        stream: A stream to write to instead; by default what `sys.stdout` is at the time.
    """

    def __init__(self, stream: Any = None) -> None:
        self.is_off = False
        self._stream = stream

    def is_terminal(self) -> bool:
        """Whether somebody looks at it now."""
        return is_terminal(self._stream or sys.stdout)

    def columns(self) -> int | None:
        """How wide a line may be on the terminal, the last column left free; None where it may be as long as it is."""
        if not self.is_terminal():
            return None
        try:
            return os.get_terminal_size((self._stream or sys.stdout).fileno()).columns - 1 or None
        except (OSError, ValueError, AttributeError):
            return None

    def write(self, text: str) -> None:
        """Write `text`; the first failure is logged, and nothing is written any more. May block as printing does."""
        if self.is_off:
            return
        try:
            stream = self._stream or sys.stdout
            if stream is None:
                raise ValueError("there is no standard output")
            # A live view on it gives way to what is written by the stream's own method.
            _write(stream, text, to_file=self._stream is not None or "write" not in getattr(stream, "__dict__", ()))
        except Exception as error:
            self.is_off = True
            logging.getLogger("minitune").warning(
                "No more progress is shown, since it cannot be written (%s); the run goes on.", error
            )


def is_terminal(stream: Any) -> bool:
    """Whether a stream leads to a terminal; one that is closed or missing does not."""
    try:
        return bool(stream.isatty())
    except Exception:
        return False


def _write(stream: Any, text: str, to_file: bool) -> None:
    if to_file and type(stream) is io.TextIOWrapper and isinstance(getattr(stream.buffer, "raw", None), io.FileIO):
        # Past the stream's buffer: what a failed flush leaves in there would fail again at exit, and turn the script's
        # exit status into 120.
        stream.flush()
        data = memoryview(text.replace("\n", os.linesep).encode(stream.encoding, "replace"))
        while data:
            data = data[os.write(stream.fileno(), data) :]
        return
    try:
        stream.write(text)
    except UnicodeEncodeError:
        stream.write(text.encode("ascii", "replace").decode("ascii"))
    stream.flush()
