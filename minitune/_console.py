"""Console: the one guarded way to standard output."""

from __future__ import annotations

import io
import logging
import os
import sys
from typing import Any


class Console:
    """The one way to standard output. If that cannot be written (closed, broken pipe, full disk), it goes silent."""

    def __init__(self) -> None:
        self.is_off = False

    def is_terminal(self) -> bool:
        """Whether somebody looks at it now."""
        try:
            return bool(sys.stdout.isatty())
        except Exception:
            return False

    def write(self, text: str) -> None:
        """Write `text`; the first failure is logged, and nothing is written any more. May block as printing does."""
        if self.is_off:
            return
        try:
            if sys.stdout is None:
                raise ValueError("there is no standard output")
            _write(sys.stdout, text)
        except Exception as error:
            self.is_off = True
            logging.getLogger("minitune").warning(
                "No more progress is shown, since it cannot be written (%s); the run goes on.", error
            )


def _write(stream: Any, text: str) -> None:
    if type(stream) is io.TextIOWrapper and isinstance(getattr(stream.buffer, "raw", None), io.FileIO):
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
