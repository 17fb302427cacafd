"""Where a view is redrawn in place: on a terminal (`Screen`), or below a cell of a notebook (`Cell`).

A `Screen` is a block of lines at the bottom of a terminal. Other code may print above it.

No thread, no alternate screen, and the cursor stays visible: a process that is killed leaves nothing to repair. The
cursor rests at the beginning of the line below the block. When other code prints
through `sys.stdout` or `sys.stderr`, logging and warnings included, the block is taken away first, and the next `draw`
brings it back. For that, a function of ours covers `write` of these streams. The streams stay the same objects, so
this also works for handlers that were given one before.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from minitune.base.table import Part, as_html, as_text
from minitune.base.text import Console, is_terminal, width_of, without_codes
from minitune.settings import shared_variable

_FALLBACK_SIZE = (80, 24)

_owner: tuple[int, Screen] | None = None
"""The screen that has the terminal, and its process: a fork of that process has none."""
_owner_lock = threading.Lock()


class Screen:
    """A terminal with a block of lines that is redrawn in place. Made by `open_screen`, given back by `close`.

    Attributes:
        has_color: Whether lines may hold colour codes.
        is_ascii: Whether the terminal's encoding knows no block characters.
        is_erased: Whether other code has printed since the last `draw`, so that the block is not there now.
    """

    def __init__(self, stream: Any):
        self.has_color = not shared_variable("NO_COLOR")
        self.is_ascii = not _can_encode(stream, "█░")
        self.is_erased = False
        self._stream = stream
        self._console = Console(stream)
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._drawn: list[str] = []
        self._drawn_columns = 0
        self._tail = ""  # the last line that was printed, while it has no end
        self._is_bridged = False  # whether the block starts one line below an unfinished line
        self._is_ours = False  # whether the current write is our own
        self._covered: list[tuple[Any, Any, Any]] = []
        self._had_sigcont = False
        for covered in {id(s): s for s in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)}.values():
            self._cover(covered)
        self._watch_sigcont()

    # -- what is drawn ---------------------------------------------------------------------------------------------

    def size(self) -> tuple[int, int]:
        """Columns and rows that a block may take now."""
        try:
            columns, rows = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError, AttributeError):
            columns = rows = 0
        columns, rows = columns or _FALLBACK_SIZE[0], rows or _FALLBACK_SIZE[1]
        return max(1, columns - 1), max(1, rows - 2)  # no line is full, and the cursor has a separate line

    def draw(self, lines: Sequence[str]) -> None:
        """Show `lines` in place of those that are there. Blocks as printing does.

        In the background (`&`, or stopped and sent there) nothing is drawn: the terminal belongs to another program.

        Args:
            lines: As many, and as wide, as `size` allows.
        """
        with self._lock:
            if not self._is_in_foreground():
                self._forget()
                self.is_erased = False  # there is none to bring back
                return
            if self._had_sigcont:
                self._had_sigcont = False
                self._forget()
            columns = self.size()[0] + 1
            if not self.is_erased and self._drawn == list(lines) and self._drawn_columns == columns:
                return
            text = self._way_up(columns)
            if self._tail and not self._is_bridged:
                text += "\n"
                self._is_bridged = True
            self._write(text + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
            self._drawn, self._drawn_columns, self.is_erased = list(lines), columns, False

    def write(self, text: str) -> None:
        """Print `text` above the block. Blocks as printing does."""
        with self._lock:
            self._give_way()
            self._write(text)
            self._note(text)

    def close(self, *, keeps: bool = True) -> None:
        """Give the terminal back; may be called more than once.

        Args:
            keeps: Whether the block stays where it is; else it goes.
        """
        global _owner
        with self._lock:
            if not keeps:
                self._give_way()
            self._forget()
            self._uncover()
            self._unwatch_sigcont()
        with _owner_lock:
            if _owner is not None and _owner[1] is self:
                _owner = None

    # -- moving about ----------------------------------------------------------------------------------------------

    def _way_up(self, columns: int) -> str:
        """The code that moves the cursor to the first line of the block; `columns` is the width now.

        A terminal that was made narrower has broken the lines: modern terminals and tmux do so.
        """
        rows = len(self._drawn)
        if columns < self._drawn_columns:
            rows = sum(max(1, -(-width_of(without_codes(line)) // columns)) for line in self._drawn)
        return f"\r\x1b[{rows}A" if rows else ""

    def _give_way(self) -> None:
        """Take the block off the screen, and move the cursor back to the end of the other output."""
        if not self._drawn:
            return
        columns = self.size()[0] + 1
        # From its second line on: when a whole screen is erased, some terminals keep its lines for scrolling back.
        text = f"{self._way_up(columns)}\x1b[K\n\x1b[J\x1b[1A"
        if self._is_bridged:
            column = width_of(without_codes(self._tail)) % columns
            if column:
                text += f"\x1b[1A\x1b[{column}C"
        self._write(text)
        self._forget(tail=self._tail)

    def _forget(self, tail: str = "") -> None:
        """Note that there is no block on the screen."""
        self._drawn, self._tail, self._is_bridged, self.is_erased = [], tail, False, True

    def _note(self, text: str) -> None:
        """Note that other code has printed `text`."""
        self._tail = (self._tail + text).rpartition("\n")[2].rpartition("\r")[2]

    def _write(self, text: str) -> None:
        self._is_ours = True
        try:
            self._console.write(text)
        finally:
            self._is_ours = False

    def _is_in_foreground(self) -> bool:
        if sys.platform == "win32":
            return True
        try:
            return bool(os.tcgetpgrp(self._stream.fileno()) == os.getpgrp())
        except (OSError, ValueError, AttributeError):
            return True  # it is not our controlling terminal, so job control does not apply

    # -- when other code prints ------------------------------------------------------------------------------------

    def _cover(self, stream: Any) -> None:
        """Make the block give way to output on `stream`, if that is a terminal."""
        if not is_terminal(stream):
            return
        write, before = stream.write, getattr(stream, "__dict__", {}).get("write")

        def covered(text: str, *more: Any) -> Any:
            if os.getpid() != self._pid:  # a fork has a copy of this, but no block on the terminal
                return write(text, *more)
            with self._lock:
                if self._is_ours:
                    return write(text, *more)
                self._give_way()
                try:
                    return write(text, *more)
                finally:
                    stream.flush()  # before the block is drawn again
                    self._note(str(text))

        try:
            stream.write = covered
        except AttributeError:  # one that cannot be covered
            return
        self._covered.append((stream, covered, before))

    def _uncover(self) -> None:
        self._is_ours = True  # for code that has kept the function
        while self._covered:
            stream, covered, before = self._covered.pop()
            if getattr(stream, "__dict__", {}).get("write") is covered:
                del stream.write
                if before is not None:
                    stream.write = before

    def _watch_sigcont(self) -> None:
        """Note when a shell has stopped us and let us go on: it has printed below the block in between."""
        self._sigcont: Callable[[int, FrameType | None], None] | None = None
        if sys.platform == "win32":
            return
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGCONT) == signal.SIG_DFL and self._is_job():

            def note(number: int, frame: FrameType | None) -> None:
                self._had_sigcont = True

            signal.signal(signal.SIGCONT, note)
            self._sigcont = note

    def _unwatch_sigcont(self) -> None:
        if sys.platform != "win32" and self._sigcont is not None and signal.getsignal(signal.SIGCONT) is self._sigcont:
            signal.signal(signal.SIGCONT, signal.SIG_DFL)
        self._sigcont = None

    def _is_job(self) -> bool:
        """Whether a shell with job control has started us on this terminal."""
        if sys.platform == "win32":
            return False
        try:
            os.tcgetpgrp(self._stream.fileno())
        except (OSError, ValueError, AttributeError):
            return False
        return os.getpgrp() != os.getsid(0)


def open_screen() -> Screen | None:
    """The terminal that standard output is, to draw on.

    Returns:
        The screen; or None if standard output is no terminal, or one that cannot move its cursor, or if another run
        in this process draws on it, in another thread or around this one.
    """
    global _owner
    stream = sys.stdout
    if os.name == "nt" or not is_terminal(stream) or shared_variable("TERM") in ("dumb", "unknown"):
        return None
    with _owner_lock:
        if _owner is not None and _owner[0] == os.getpid():
            return None
        screen = Screen(stream)
        _owner = os.getpid(), screen
    return screen


class Cell:
    """The output of a notebook's cell: one place with replaceable content. Needs IPython.

    Args:
        clears: Whether what the cell has shown so far goes with the first content.
    """

    def __init__(self, clears: bool = False):
        self._clears = clears
        self._handle: Any = None
        self._end: tuple[list[Part], tuple[str, ...]] | None = None

    def show_end(self, parts: Sequence[Part], *more: str) -> None:
        """Show the end of a run: `parts`, to which `add` appends, and HTML after them."""
        self._end = [*parts], more
        self.show(as_html(parts, *more), as_text(parts))

    def add(self, line: str) -> bool:
        """Append a line to the end of a run; returns whether that was shown yet."""
        if self._end is not None:
            parts, more = self._end
            self.show_end([*parts, line], *more)
        return self._end is not None

    def show(self, html: str, text: str) -> None:
        """Replace the content.

        Args:
            html: For notebooks.
            text: For front ends that show no HTML.
        """
        from IPython.display import clear_output, display

        data = {"text/html": html, "text/plain": text}
        if self._handle is not None:
            self._handle.update(data, raw=True)
            return
        if self._clears:
            clear_output(wait=True)
        self._handle = display(data, raw=True, display_id=True)
        self._clears = True  # a front end that cannot update its output returns no handle


def in_notebook() -> bool:
    """Whether this is a notebook's kernel. IPython is not imported for that: in a notebook it is there already."""
    ipython = sys.modules.get("IPython")
    try:
        return ipython is not None and "IPKernelApp" in ipython.get_ipython().config
    except Exception:  # no shell, or one without a configuration
        return False


def _can_encode(stream: Any, text: str) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except (LookupError, UnicodeError, AttributeError, TypeError):
        return False
    return True
