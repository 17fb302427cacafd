"""Text on a terminal: how many columns it takes, cut to what fits, free of what moves the cursor."""

from __future__ import annotations

import re
import unicodedata

_CODES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_MOVES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-ln-~]"  # control sequences but for those that end in m, which set colours
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[^\[\]]"  # titles and the like, other escapes
    r"|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]"
)
_NO_COLUMN = frozenset(("Mn", "Me", "Cf"))  # accents, joiners, variation selectors: part of the character before


def width_of(text: str) -> int:
    """The columns that `text` takes on a terminal: wide characters take two, those that join the one before none."""
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
    """The end of `text` in at most `columns` columns: of a name, it is what tells it from the others."""
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
