"""Text for people: short texts of values, text that fits a terminal, standard output, warnings said once.

Any value of the user's may be shown, a huge list as well as an object with a failing `__repr__`. So the time that a
short text takes does not depend on how large the value is.
"""

from __future__ import annotations

import io
import logging
import os
import re
import reprlib
import sys
import unicodedata
from collections.abc import Iterable
from itertools import islice
from typing import Any

logger = logging.getLogger("minitune")

_LONG = 10_000
"""A text, or bytes, of more than this takes a while to show if there are many such values."""
_MANY = 1_000
"""The same for the members of a container."""
_CODES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_MOVES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-ln-~]"  # control sequences but for those that end in m, which set colours
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[^\[\]]"  # titles and the like, other escapes
    r"|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]"
)
_NO_COLUMN = frozenset(("Mn", "Me", "Cf"))  # accents, joiners, variation selectors: part of the character before
_said: set[str] = set()


# -- short texts of values ---------------------------------------------------------------------------------------------
class ShortRepr(reprlib.Repr):
    """Shows the beginning of large values, and survives a failing `__repr__`.

    Args:
        length: Characters of a text, of bytes, or of anything else without members.
        members: How many members of a list, a tuple or a dict are shown; by default what `reprlib` shows.
        level: How deep containers are shown.
    """

    def __init__(self, length: int = 200, members: int | None = None, level: int | None = None):
        super().__init__()
        self.maxother = self.maxstring = length
        if members is not None:
            self.maxdict = self.maxlist = self.maxtuple = members
        if level is not None:
            self.maxlevel = level

    def repr_bytes(self, value: bytes, level: int) -> str:
        """Called by `reprlib` for bytes: its own version would make the whole text first."""
        if len(value) <= self.maxstring:
            return self.repr_instance(value, level)
        return f"{value[: self.maxstring // 2]!r}...<{len(value)} bytes>"

    repr_bytearray = repr_bytes

    def repr_dict(self, value: dict[Any, Any], level: int) -> str:
        """Called by `reprlib` for a dict: its own version would sort all keys."""
        return super().repr_dict(value if len(value) <= _MANY else dict(islice(value.items(), _MANY)), level)

    def repr_set(self, value: set[Any], level: int) -> str:
        """Called by `reprlib` for a set: its own version would sort all members."""
        return super().repr_set(value if len(value) <= _MANY else set(islice(value, _MANY)), level)

    def repr_frozenset(self, value: frozenset[Any], level: int) -> str:
        """Called by `reprlib` for a frozenset: its own version would sort all members."""
        return super().repr_frozenset(value if len(value) <= _MANY else frozenset(islice(value, _MANY)), level)


def is_long(value: Any) -> bool:
    """Whether the text of a value of built-in types would be long: then there is `ShortRepr` for it."""
    left, waiting = _MANY, [value]
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if kind in (str, bytes, bytearray):
            if len(one) > _LONG:
                return True
        elif kind in (list, tuple, dict, set, frozenset):
            left -= len(one)
            if left < 0:
                return True
            members: Iterable[Any] = one.values() if kind is dict else one
            waiting.extend(members)
    return False


# -- text on a terminal ------------------------------------------------------------------------------------------------
def width_of(text: str) -> int:
    """Return the columns that `text` takes on a terminal: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum(map(_width_of_character, text))


def _width_of_character(character: str) -> int:
    if unicodedata.category(character) in _NO_COLUMN:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def one_line(text: str) -> str:
    """`text` as one line that does nothing to a terminal: spaces joined, escape and control characters as `?`."""
    text = " ".join(text.split())
    if text.isascii() and text.isprintable():
        return text
    return "".join("?" if unicodedata.category(character) in ("Cc", "Cs") else character for character in text)


def without_codes(text: str) -> str:
    """`text` without the escape sequences of terminals."""
    return _CODES.sub("", text)


def without_moves(text: str) -> str:
    """`text` without what moves a terminal's cursor or rings its bell; colours stay, and so do tabs and line ends."""
    return _MOVES.sub("", text)


def cut(text: str, columns: int) -> str:
    """The beginning of `text` in at most `columns` columns, with an ellipsis where something is missing."""
    if width_of(text) <= columns:
        return text
    kept, left = [], columns - 3
    for character in text:
        left -= _width_of_character(character)
        if left < 0:
            break
        kept.append(character)
    return "".join(kept) + "..."[: max(0, columns)]


def broken(text: str, columns: int) -> list[str]:
    """`text` as lines of at most `columns` columns, broken anywhere; at least one line."""
    lines, left = [""], columns
    for character in text:
        left -= _width_of_character(character)
        if left < 0:
            lines.append("")
            left = columns - _width_of_character(character)
        lines[-1] += character
    return lines


def cut_front(text: str, columns: int) -> str:
    """Return the end of `text` in at most `columns` columns: the end of a name distinguishes it from others."""
    if width_of(text) <= columns:
        return text
    kept, left = [], columns - 3
    for character in reversed(text):
        left -= _width_of_character(character)
        if left < 0:
            break
        kept.append(character)
    return "..."[: max(0, columns)] + "".join(reversed(kept))


def duration(seconds: float) -> str:
    """A length of time as people say it, in two units at most: `8 s`, `3 min 20 s`, `2 h 5 min`, `4 d 3 h`."""
    whole = round(max(0.0, seconds))
    for unit, size, lower, lower_size in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // lower_size
            return f"{whole // size} {unit}" + (f" {rest} {lower}" if rest else "")
    return f"{whole} s"


# -- output and warnings -----------------------------------------------------------------------------------------------
class Console:
    """The one way to standard output. Once a write fails (closed, broken pipe, full disk), it stays silent.

    Args:
        stream: A stream to write to instead; by default what `sys.stdout` is at the time.
    """

    def __init__(self, stream: Any = None) -> None:
        self.is_off = False
        self._stream = stream

    def is_terminal(self) -> bool:
        """Whether the output goes to a terminal now."""
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
            # Writing with the stream's own method lets a live view make room for the text.
            _write(stream, text, to_file=self._stream is not None or "write" not in getattr(stream, "__dict__", ()))
        except Exception as error:
            self.is_off = True
            logger.warning(
                "No more progress is shown, because stdout cannot be written (%s); the run continues.", error
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


def warn_once(text: str, about: str | None = None) -> None:
    """Log a warning the first time that this process calls this function with it.

    Args:
        text: The warning.
        about: Identifies the warning if its text differs from call to call.
    """
    key = about or text
    if key not in _said:
        _said.add(key)
        logger.warning("%s", text)
