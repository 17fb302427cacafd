"""Areas for views that are redrawn: a terminal (`Screen`), or a part of a notebook's output (`NotebookCell`).

A `Screen` uses no thread and no alternate screen, so a killed process leaves the terminal in order. The cursor waits on
the line below the block.

Other code may print through `sys.stdout` or `sys.stderr`; the block is then erased first, and the next `draw` shows it
again. For this, the screen replaces the method `write` of these streams, which handlers may already hold.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from minitune.base.forks import Origin
from minitune.base.settings import shared_variable
from minitune.base.text import Console, is_terminal, printable, width_of, without_codes
from minitune.view.colors import NO_CODES, has_color

_FALLBACK_SIZE = (80, 24)

_owner: tuple[Origin, Screen] | None = None
"""The process and the screen that use the terminal, which a fork does not."""
_owner_lock = threading.Lock()


class _CoveredStreams:
    """Replaces the method `write` of standard streams that are terminals, to notice other code."""

    def __init__(self, lock: threading.RLock, before: Callable[[], object], after: Callable[[str], object]):
        self.is_ours = False
        self._lock = lock
        self._before = before
        self._after = after
        self._origin = Origin()
        self._covered: list[tuple[Any, Any, Any]] = []  # the stream, our method, and what was in its place
        # By identity, because a stream may stand in several places, and two wrappers would erase twice.
        for stream in {id(s): s for s in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)}.values():
            if is_terminal(stream):
                self._cover(stream)

    def _cover(self, stream: Any) -> None:
        write = stream.write
        original = getattr(stream, "__dict__", {}).get("write")

        def covered(text: str, *more: Any) -> Any:
            if not self._origin.is_here():  # a fork has a copy of this, but no block on the terminal
                return write(text, *more)
            with self._lock:
                if self.is_ours:
                    return write(text, *more)
                self._before()
                try:
                    return write(text, *more)
                finally:
                    stream.flush()  # before the block is drawn again
                    self._after(str(text))

        try:
            stream.write = covered
        except AttributeError:  # the stream's attributes cannot be set
            return
        self._covered.append((stream, covered, original))

    def uncover(self) -> None:
        """Put the streams' own methods back; may be repeated."""
        self.is_ours = True  # some code may have kept the function
        while self._covered:
            stream, covered, original = self._covered.pop()
            if getattr(stream, "__dict__", {}).get("write") is covered:
                del stream.write
                if original is not None:
                    stream.write = original


class Screen:
    """A terminal with a block of lines that is redrawn. `open_screen` creates it, `close` releases the terminal."""

    def __init__(self, stream: Any):
        self.has_color = has_color(stream)
        self._is_erased = False  # whether other code has printed since the last `draw`
        self._stream = stream
        self._console = Console(stream)
        self._lock = threading.RLock()
        self._drawn: list[str] = []
        self._drawn_columns = 0
        self._is_torn = False  # whether other code has printed half a line
        self._streams = _CoveredStreams(self._lock, self._give_way, self._note)

    # -- drawing ---------------------------------------------------------------------------------------------------
    def size(self) -> tuple[int, int]:
        """The maximum numbers of columns and rows of a block."""
        try:
            columns, rows = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError, AttributeError):
            columns = 0
            rows = 0
        # A pseudo-terminal without a size, such as that of some CI services, has 0 columns.
        columns = columns or _FALLBACK_SIZE[0]
        rows = rows or _FALLBACK_SIZE[1]
        return max(1, columns - 1), max(1, rows - 2)  # a full line would wrap; the cursor needs a separate line

    def draw(self, lines: Sequence[str]) -> None:
        """Show `lines` in place of the present ones. Blocks as printing does.

        A process in the background draws nothing. Lines must be clean, but for our own colours.
        """
        with self._lock:
            if self._is_in_foreground() is False:
                self._forget()
                self._is_erased = False  # there is no block to show again
                return
            columns = self.size()[0] + 1
            if not self._is_erased and self._drawn == list(lines) and self._drawn_columns == columns:
                return
            text = self._way_up(columns)
            if self._is_torn:  # the block must not begin in the middle of a line
                text += "\n"
                self._is_torn = False
            self._write(text + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
            self._drawn = list(lines)
            self._drawn_columns = columns
            self._is_erased = False

    def write(self, text: str) -> None:
        """Print `text` above the block. Blocks as printing does."""
        text = printable(text)
        with self._lock:
            self._give_way()
            self._write(text)
            self._note(text)

    def close(self, *, keeps: bool = True) -> None:
        """Release the terminal; may be repeated."""
        global _owner
        with self._lock:
            if not keeps:
                self._give_way()
            self._forget()
            self._streams.uncover()
        with _owner_lock:
            if _owner is not None and _owner[1] is self:
                _owner = None

    def _way_up(self, columns: int) -> str:
        """The code that moves the cursor to the first line of the block in this width."""
        rows = len(self._drawn)
        if columns < self._drawn_columns:
            rows = sum(max(1, -(-width_of(without_codes(line)) // columns)) for line in self._drawn)
        if rows:
            return f"\r\x1b[{rows}A"
        return ""

    def _give_way(self) -> None:
        """Erase the block, and move the cursor below the other output."""
        if not self._drawn:
            return
        columns = self.size()[0] + 1
        # Erase from the second line on. If a whole screen is erased, some terminals keep its lines for scrolling back.
        self._write(f"{self._way_up(columns)}\x1b[K\n\x1b[J\x1b[1A")
        self._forget()

    def _forget(self) -> None:
        self._drawn = []
        self._is_erased = True

    def _note(self, text: str) -> None:
        if text:
            self._is_torn = not text.endswith("\n")

    def _write(self, text: str) -> None:
        self._streams.is_ours = True
        try:
            self._console.write_codes(text)
        finally:
            self._streams.is_ours = False

    def _is_in_foreground(self) -> bool | None:
        """Whether the terminal belongs to this process; None without job control."""
        try:
            return bool(os.tcgetpgrp(self._stream.fileno()) == os.getpgrp())
        except (OSError, ValueError, AttributeError):
            return None


def open_screen() -> Screen | None:
    """Return the screen of standard output.

    None if it is not a terminal that can move its cursor, or another run in this process uses it.
    """
    global _owner
    stream = sys.stdout
    if not is_terminal(stream) or shared_variable("TERM") in NO_CODES:
        return None
    with _owner_lock:
        # Two blocks on one terminal would overwrite each other.
        if _owner is not None and _owner[0].is_here():
            return None
        screen = Screen(stream)
        _owner = Origin(), screen
    return screen


class NotebookCell:
    """A replaceable part of the output of a notebook's cell. Needs IPython."""

    def __init__(self, clears: bool = False):
        self._clears = clears
        self._handle: Any = None

    def show(self, html: str, text: str) -> None:
        """Replace the content.

        Args:
            html: For notebooks.
            text: For front ends that show no HTML.
        """
        from IPython.display import clear_output, display

        data = {"text/html": html, "text/plain": printable(text)}
        if self._handle is not None:
            self._handle.update(data, raw=True)
            return
        if self._clears:
            clear_output(wait=True)
        self._handle = display(data, raw=True, display_id=True)


def in_notebook() -> bool:
    """Whether this is a notebook's kernel. In a notebook, IPython is already imported."""
    ipython = sys.modules.get("IPython")
    try:
        return ipython is not None and "IPKernelApp" in ipython.get_ipython().config
    except Exception:  # there is no shell, or it has no configuration
        return False
