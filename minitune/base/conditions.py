"""Conditions: the language in which users select rows of a table, as in `ls --filter "loss < 0.1 and finished"`.

::

    filter     condition (["and"] condition)*     all of them hold
    condition  name sign value                    lr <= 0.01, act = "a b"; = and == mean the same
             | number                             21: the trial of this number
             | word                               adam: a text in any cell of the row

A name is that of a column in any case, or its last part if that is unique. Names, values and words with spaces, other
signs or the meaning of a keyword stand in quotes. A name before a sign has no other meaning, so words such as `or`
are refused and not sought.

The page reads the same language in its script. One table of cases tests both readers.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from minitune.base.checks import is_real
from minitune.base.numbers import number_or_flag
from minitune.base.text import number_text

Row = Any
Test = Callable[[Row], bool]

_TOKEN = re.compile(r"\"[^\"]*\"|'[^']*'|[<>!=]=|[<>=]|[^\s<>=!\"']+|\S")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)
_Compare = Callable[[Any, Any], bool]
_ORDERS: dict[str, _Compare] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SIGNS: dict[str, _Compare] = {**_ORDERS, "=": operator.eq, "==": operator.eq, "!=": operator.ne}
_UNREAD = re.compile(r"or|not|in|.*[(),!\"'].*", re.IGNORECASE)


class ConditionError(ValueError):
    """A condition cannot be read."""


class UnknownColumnError(ConditionError):
    """No column has the name, or several have."""


@dataclass(frozen=True)
class NamedColumn:
    """A column, with a row's value and further names."""

    name: str
    get: Callable[[Row], Any]
    also: Sequence[str] = ()
    is_in_words: bool = True

    def value(self, row: Row) -> Any:
        """The value of a row, or None."""
        value = self.get(row)
        return None if value == "" or value != value else value


def column_named(name: str, columns: Sequence[NamedColumn]) -> NamedColumn:
    """The column with this name. Raises UnknownColumnError if there is none, or several."""
    lower = name.lower()
    for fits in (
        lambda one: one.name == name,
        lambda one: name in one.also,
        lambda one: lower in (one.name.lower(), *map(str.lower, one.also)),
        lambda one: one.name.lower().endswith(f"/{lower}"),
    ):
        found = [one for one in columns if fits(one)]
        if len(found) > 1 and found[0].name != found[1].name:
            raise UnknownColumnError(f"{name} is {' or '.join(one.name for one in found)}: write more of its name")
        if found:
            return found[0]
    names = dict.fromkeys(one.name for one in columns)
    raise UnknownColumnError(f"there is no column {name!r}; there are {', '.join(names)}")


def condition_of(words: str, columns: Sequence[NamedColumn], rows: Sequence[Row]) -> Test:
    """Read a condition on these rows; whether it holds for a row. Raises ConditionError if it cannot be read."""
    tokens = _TOKEN.findall(words)
    tests: list[Test] = []
    while tokens:
        first = tokens.pop(0)
        if first.lower() == "and":
            continue
        if not tokens or tokens[0] not in _SIGNS:
            numbered = next((column for column in columns if column.name == "trial" and first.isdecimal()), None)
            if numbered is not None:
                tests.append(_comparison(numbered, "=", first, ()))
            else:
                tests.append(_has_word(_text_in(first), columns))
            continue
        sign = tokens.pop(0)
        column = column_named(_text_in(first), columns)
        if not tokens or tokens[0] in _SIGNS or tokens[0].lower() == "and":
            raise ConditionError(f"a value is missing after {first} {sign}")
        value = _text_in(tokens.pop(0))
        there = [each for each in map(column.value, rows) if each is not None]
        tests.append(_comparison(column, sign, value, there))
    return lambda row: all(test(row) for test in tests)


def _text_in(token: str) -> str:
    """The text of a word, or between quotes."""
    if len(token) > 1 and token[0] in "\"'":
        return token[1:-1]
    if token in _SIGNS:
        raise ConditionError(f"a name is missing before {token}")
    if _UNREAD.fullmatch(token):
        raise ConditionError(
            f"{token} cannot be read: a filter is `name < value` and words, joined by spaces or `and`; other texts "
            "need quotes"
        )
    return token


def _number_in(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


def _text_of(value: Any) -> str:
    return number_text(value) if is_real(value) else str(value)


def _has_word(word: str, columns: Sequence[NamedColumn]) -> Test:
    def has(column: NamedColumn, row: Row) -> bool:
        value = column.value(row)
        return value is not None and word.lower() in _text_of(value).lower()

    sought = [column for column in columns if column.is_in_words]
    return lambda row: any(has(column, row) for column in sought)


def _comparison(column: NamedColumn, sign: str, text: str, there: Sequence[Any]) -> Test:
    """Compares numbers with a number, and texts in small letters. A missing value is equal to nothing."""
    compare = _SIGNS[sign]
    limit = _number_in(text)
    # A text can only be compared with a column of numbers by mistake. An empty table would hide it.
    if limit is None and there and all(map(is_real, there)):
        raise ConditionError(f"{column.name} holds numbers, and {text} is none")

    def holds(row: Row) -> bool:
        value = column.value(row)
        if value is None:
            return sign == "!="
        number = number_or_flag(value)
        if limit is not None and number is not None:
            return compare(number, limit)
        if sign in _ORDERS and (limit is not None or number is not None):
            return False
        return compare(_text_of(value).lower(), text.lower())

    return holds
