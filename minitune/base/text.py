"""Text for people: short texts of values, text that fits a terminal, standard output, warnings logged once."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import os
import re
import reprlib
import signal
import sys
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any, TextIO

from minitune.base.numbers import item_of
from minitune.base.user_code import runs, user_code


class _Logger(logging.Logger):
    """The logger of this package. A handler that fails ends no run, even if standard error cannot be written."""

    def callHandlers(self, record: logging.LogRecord) -> None:
        within_hook = user_code.running is not None  # then a signal handler names that one
        with contextlib.suppress(Exception), contextlib.nullcontext() if within_hook else runs("the log"):
            super().callHandlers(record)


logger = logging.getLogger("minitune")
logger.__class__ = _Logger  # the logger may exist already, and other modules may hold it

_LARGEST_WHOLE = 1e15
# Longer texts and bytes take noticeable time to format if there are many of them.
_LONG = 10_000
# The same for containers: their number of members.
_MANY = 1_000
_SORTED = frozenset((dict, set, frozenset))
# Python's types of numbers and of texts.
_OWN_TYPES = frozenset((bool, int, float, complex, str))
_ESCAPES = (
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences, such as colours and moves of the cursor
    r"|\x1b\][^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\)"  # commands to the terminal, such as its title
    r"|\x1b[ -/]*[0-~]"  # other escape sequences, and the beginning of an incomplete one of those above
)
_CODES = re.compile(_ESCAPES)
_CONTROLS = re.compile(
    rf"{_ESCAPES}"
    r"|\r\n?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]"  # single control characters, and halves of surrogates
)
_NO_COLUMN = frozenset(("Mn", "Me", "Cf"))  # accents, joiners, variation selectors: they join the previous character
_said: set[str] = set()


# -- short texts of values ---------------------------------------------------------------------------------------------
def plain_number(value: Any) -> Any:
    """A single number or text of another library, such as `np.float64(0.27)`, as Python's own; other values as
    given.
    """
    if type(value) in _OWN_TYPES:
        return value
    item = item_of(value)
    return item if type(item) in _OWN_TYPES else value


def number_text(value: float) -> str:
    """A number as all views show it: a whole one in full, any other rounded to six digits. The page does the same."""
    # JavaScript, which draws the page, has one type for whole numbers and for others.
    if isinstance(value, float) and not (value.is_integer() and abs(value) < _LARGEST_WHOLE):
        return f"{value:.6g}"
    return str(int(value))


def plain_numbers(value: Any) -> Any:
    """A value whose numbers are Python's own, also in its lists, tuples and dicts."""
    return value if is_long(value) else _plain_numbers(value)


def _plain_numbers(value: Any) -> Any:
    kind = type(value)
    if kind in (list, tuple):
        return kind(map(_plain_numbers, value))
    if kind is dict:
        return {plain_number(key): _plain_numbers(member) for key, member in value.items()}
    return plain_number(value)


# Python may refuse to print and to read longer integers: the shortest limit that a process can set is 640 digits.
PRINTED_BITS = 2_100


def name_of_int(value: int) -> str:
    """A text for an integer that Python refuses to print."""
    return f"<int of {value.bit_length()} bits>"


class ShortRepr(reprlib.Repr):
    """Shows the beginning of large values, and survives a failing `__repr__`."""

    def __init__(self, length: int = 200, members: int | None = None, level: int | None = None):
        super().__init__()
        self.maxother = length
        self.maxstring = length
        if members is not None:
            self.maxdict = members
            self.maxlist = members
            self.maxtuple = members
        if level is not None:
            self.maxlevel = level

    def repr1(self, value: Any, level: int) -> str:
        """Called by `reprlib` for each value."""
        kind = type(value)
        if kind in _SORTED and len(value) > _MANY:
            members = islice(value.items() if kind is dict else value, _MANY)
            value = kind(members)
        return super().repr1(plain_number(value), level)

    def repr_bytes(self, value: bytes, level: int) -> str:
        """Called by `reprlib`, whose own version would first make the whole text."""
        if len(value) <= self.maxstring:
            return self.repr_instance(value, level)
        return f"{value[: self.maxstring // 2]!r}...<{len(value)} bytes>"

    repr_bytearray = repr_bytes

    def repr_int(self, value: int, level: int) -> str:
        """Called by `reprlib` for an int."""
        if value.bit_length() < PRINTED_BITS:
            return super().repr_int(value, level)
        return name_of_int(value)


def is_long(value: Any) -> bool:
    """Whether `str` of a value of built-in types would be long, so that `ShortRepr` should format it."""
    left = _MANY
    waiting = [value]
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
    import unicodedata

    if unicodedata.category(character) in _NO_COLUMN:
        return 0
    if unicodedata.east_asian_width(character) in "WF":
        return 2
    return 1


def printable(text: str) -> str:
    """`text` without anything that controls a terminal.

    Names, values and errors come from users' code and files. All output passes through here, in `Console`, `echo` or
    the filter of the logger.

    An escape sequence is removed. Each other control character becomes `?`.
    """
    return _CONTROLS.sub(_replacement, text)


def _replacement(found: re.Match[str]) -> str:
    code = found[0]
    if code[0] == "\r":
        return "\n"
    return "" if len(code) > 1 else "?"


def one_line(text: str) -> str:
    """`text` as one line that is safe to print, with single spaces. See `printable`."""
    return printable(" ".join(text.split()))


def without_codes(text: str) -> str:
    """`text` without the escape sequences of terminals."""
    return _CODES.sub("", text)


def cut(text: str, columns: int) -> str:
    """The beginning of `text` in at most `columns` columns, with an ellipsis at the end if it is cut."""
    if width_of(text) <= columns:
        return text
    kept = []
    left = columns - 3
    for character in text:
        left -= _width_of_character(character)
        if left < 0:
            break
        kept.append(character)
    return "".join(kept) + "..."[: max(0, columns)]


_WORDS = re.compile(r"(?:`[^`]*`|\S)+")


def wrapped(text: str, columns: int | None) -> list[str]:
    """A text as lines of at most so many columns, broken between words; None: no limit. What stands between backticks
    is one word, and so is a path, so that both can be copied.
    """
    if columns is None or width_of(text) <= columns:
        return [text]
    lines = [""]
    for word in _WORDS.findall(text):
        if lines[-1] and width_of(lines[-1]) + 1 + width_of(word) > columns:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines


def duration(seconds: float) -> str:
    """A length of time in at most two units, such as `8 s`, `3 min 20 s`, `2 h 5 min`, `4 d 3 h`."""
    whole = round(max(0.0, seconds))
    for unit, size, lower, lower_size in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // lower_size
            return f"{whole // size} {unit}" + (f" {rest} {lower}" if rest else "")
    return f"{whole} s"


def date(at_s: float) -> str:
    """Seconds since the epoch as local date and time, such as `2026-11-23 02:09:28`.

    Empty for 0, the unknown time, and for numbers that are no time.
    """
    try:
        if at_s:
            return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))
        return ""
    except (OverflowError, ValueError, OSError):  # a user's own `timestamp` may be any number
        return ""


def name_of_signal(number: int) -> str:
    """The name of a signal, such as `SIGKILL`."""
    try:
        return signal.Signals(number).name
    except ValueError:  # of the real-time signals, Python knows the first and the last one
        return f"signal {number}"


def counted(count: int, noun: str) -> str:
    """A number with its noun, such as `1 trial` and `2 trials`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


# -- output and warnings -----------------------------------------------------------------------------------------------
class Console:
    """Writes clean texts (see `printable`) to standard output, until a write fails."""

    def __init__(self, stream: Any = None) -> None:
        self.is_off = False
        self._stream = stream

    def is_terminal(self) -> bool:
        """Whether the output goes to a terminal now."""
        return is_terminal(self._stream or sys.stdout)

    def columns(self) -> int | None:
        """The maximum width of a line, which leaves the terminal's last column free; None without a terminal."""
        if not self.is_terminal():
            return None
        try:
            columns = os.get_terminal_size((self._stream or sys.stdout).fileno()).columns
        except (OSError, ValueError, AttributeError):
            return None
        # A pseudo-terminal without a size, such as that of some CI services, has 0 columns.
        return columns - 1 if columns > 1 else None

    def write(self, text: str) -> None:
        """Write `text`. The first failure is logged and ends all output. May block, as printing does."""
        self.write_codes(printable(text))

    def write_codes(self, text: str) -> None:
        """The same for a text with our own codes for the terminal, in which other texts are clean already."""
        if self.is_off:
            return
        try:
            stream = self._stream or sys.stdout
            if stream is None:
                raise ValueError("there is no standard output")
            # A live view replaces the stream's own method, to make room for the text.
            _write(stream, text, to_file=self._stream is not None or "write" not in getattr(stream, "__dict__", ()))
        except Exception as error:
            self.is_off = True
            logger.warning(
                "No more progress is shown, because stdout cannot be written (%s); the run continues.", error
            )


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; False for a closed or missing one."""
    try:
        return bool(stream.isatty())
    except Exception:
        return False


def colored(text: str, color: str) -> str:
    """`text` in a colour, by its number in the codes of terminals; in the usual one if that is empty."""
    return f"\x1b[{color}m{text}\x1b[0m" if color else text


def _write(stream: Any, text: str, to_file: bool) -> None:
    if to_file and type(stream) is io.TextIOWrapper and isinstance(getattr(stream.buffer, "raw", None), io.FileIO):
        # Write past the stream's buffer. After a failed flush, the buffer would be flushed again at exit, fail again,
        # and turn the script's exit status into 120.
        stream.flush()
        data = memoryview(text.replace("\n", os.linesep).encode(stream.encoding, "replace"))
        while data:
            data = data[os.write(stream.fileno(), data) :]
        return
    _write_encodable(stream, text)
    stream.flush()


def _write_encodable(stream: Any, text: str) -> None:
    """Write `text`, with `?` for what the stream's encoding lacks."""
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = getattr(stream, "encoding", None) or "ascii"
        stream.write(text.encode(encoding, "replace").decode(encoding))


def echo(*texts: object, sep: str = " ", end: str = "\n", file: TextIO | None = None, flush: bool = False) -> None:
    """Print texts as `print` does, but clean (see `printable`). Commands print everything with this function."""
    stream = file or sys.stdout
    if stream is None:  # the process was started without one
        return
    _write_encodable(stream, sep.join(printable(str(text)) for text in texts) + end)
    if flush:
        stream.flush()


def echo_codes(text: str) -> None:
    """The same for one text with our own codes for the terminal, in which other texts are clean already."""
    _write_encodable(sys.stdout, f"{text}\n")


def _clean_record(record: logging.LogRecord) -> bool:
    """The filter of the logger `minitune`, which cleans messages."""
    try:
        message = record.getMessage()
    except Exception:  # an argument's own `__str__`; the handler reports it
        return True
    clean = printable(message)
    if clean != message:
        record.msg = clean
        record.args = ()
    if record.exc_info:
        trace = logging.Formatter().formatException(record.exc_info)
        clean = printable(trace)
        if clean != trace:
            record.exc_text = clean  # handlers take it instead of the exception
    return True


logger.addFilter(_clean_record)


def warn_once(text: str, about: str | None = None) -> None:
    """Log a warning once in this process; `about` identifies it if its text differs from call to call."""
    key = about or text
    if key not in _said:
        _said.add(key)
        logger.warning("%s", text)


# -- plots -------------------------------------------------------------------------------------------------------------
_PLAIN_LENGTH = 200
"""Longer texts are shortened in plots."""
_LARGEST_EXACT = 1 << 53
"""Readers of JSON in browsers round larger integers."""
_PLAIN = ShortRepr()


def plain_or_short(value: Any) -> Any:
    """A value that JSON and a plot can show: None, a bool, a short text, a finite number; else a short `repr` of it."""
    value = plain_number(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value if len(value) <= _PLAIN_LENGTH else _short(value)
    if type(value) is int and abs(value) < _LARGEST_EXACT:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    return _short(value)


def _short(value: Any) -> str:
    return " ".join(_PLAIN.repr(value).split())
