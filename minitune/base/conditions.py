"""Conditions: the language in which users select rows of a table, as in `ls --filter "loss < 0.1 and not failed"`.

::

    either    both ("or" both)*
    both      single (["and" | ","] single)*            conditions side by side hold together
    single    "(" either ")" | "not" single
              | name sign value                         lr <= 0.01, act = "a b"; = and == mean the same
              | number sign name [sign value]           0.001 < lr <= 0.01
              | name "in" number ".." number            lr in 0.001..0.01, both ends included
              | word                                    adam: a text in any cell of the row

A name is that of a column in any case, or its last part if that is unique. A name or a text of several words needs
quotes only where no column or no row has it: the meaning of a condition depends on the table.

The page reads the same language in `page.js`.
"""

from __future__ import annotations

import difflib
import itertools
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from minitune.base.checks import did_you_mean, is_real
from minitune.base.numbers import number_or_flag
from minitune.base.text import number_text

Row = Any
Test = Callable[[Row], bool]

_TOKEN = re.compile(
    r"\s*(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<sign><=|>=|!=|==|<|>|=|\(|\)|,|\.\.)"
    r"|(?P<word>(?:(?!\.\.)[^\s()<>=!,\"'])+(?:\([^()\s]*\))?)|(?P<other>\S))"
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "==": "==", "!=": "!="}
_KEYWORDS = ("and", "or", "not", "in")
_VALUES_SHOWN = 10


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


@dataclass(frozen=True)
class Condition:
    """What a text asks of rows, and notes for the user."""

    holds: Test
    notes: list[str] = field(default_factory=list)


def find_column(name: str, columns: Sequence[NamedColumn]) -> NamedColumn | None:
    """The column with this name, if any. Raises UnknownColumnError if it may be several."""
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
    return None


def column_named(name: str, columns: Sequence[NamedColumn]) -> NamedColumn:
    """The column with this name. Raises UnknownColumnError if there is none, or several."""
    found = find_column(name, columns)
    if found is not None:
        return found
    names = list(dict.fromkeys(one.name for one in columns))
    ends = [each.rpartition("/")[2] for each in names]  # users write these
    # Columns have long names with prefixes, so the usual limit of 0.6 would find too few.
    near = difflib.get_close_matches(name, list(dict.fromkeys((*names, *ends))), 3, 0.5)
    hint = f"there are {', '.join(names)}"
    if near:
        hint = f"did you mean {' or '.join(near)}?"
    raise UnknownColumnError(f"there is no column {name!r}; {hint}")


def condition_of(words: str, columns: Sequence[NamedColumn], rows: Sequence[Row]) -> Condition:
    """Read a condition on these rows. Raises ConditionError if it cannot be read."""
    reader = _Reader(_tokens_of(words), columns, rows)
    if not reader.tokens:
        return Condition(lambda row: True)
    test = reader.either()
    if reader.now is not None:
        raise ConditionError(f"{reader.now.value} cannot stand here")
    return Condition(test, reader.notes)


@dataclass(frozen=True)
class _Token:
    kind: str  # text, sign or word
    value: str

    def is_sign(self, *signs: str) -> bool:
        return self.kind == "sign" and self.value in signs

    def is_keyword(self, *words: str) -> bool:
        return self.kind == "word" and self.value.lower() in words

    @property
    def is_plain(self) -> bool:
        return self.kind == "word" and not self.is_keyword(*_KEYWORDS)

    @property
    def number(self) -> float | None:
        if self.kind == "word" and _NUMBER.fullmatch(self.value):
            return float(self.value)
        return None


def _tokens_of(words: str) -> list[_Token]:
    found = []
    for match in _TOKEN.finditer(words.strip()):
        kind = match.lastgroup
        value = match[kind or 0]
        if kind == "other":
            raise ConditionError(f"{value} does not belong here: a text with spaces or signs needs two quotes")
        found.append(_Token(kind if kind in ("sign", "word") else "text", value))
    return found


def _text_of(value: Any) -> str:
    if is_real(value):
        return number_text(value)
    return str(value)


class _Reader:
    """Reads tokens from the left: those before `at` are read."""

    def __init__(self, tokens: list[_Token], columns: Sequence[NamedColumn], rows: Sequence[Row]):
        self.tokens = tokens
        self.at = 0
        self.notes: list[str] = []
        self._columns = columns
        self._rows = rows

    @property
    def now(self) -> _Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def either(self) -> Test:
        # This method and the next two are the rules of the grammar with these names.
        tests = [self._both()]
        while self.now is not None and self.now.is_keyword("or"):
            self.at += 1
            tests.append(self._both())
        return lambda row: any(test(row) for test in tests)

    def _both(self) -> Test:
        tests = [self._single()]
        while True:
            token = self.now
            if token is not None and (token.is_keyword("and") or token.is_sign(",")):
                self.at += 1
            elif token is None or token.is_keyword("or") or token.is_sign(")"):
                break
            tests.append(self._single())
        return lambda row: all(test(row) for test in tests)

    def _single(self) -> Test:
        token = self.now
        if token is None:
            raise ConditionError(f"something is missing after {self.tokens[self.at - 1].value}")
        if token.is_sign("("):
            self.at += 1
            inner = self.either()
            if self.now is None or not self.now.is_sign(")"):
                raise ConditionError("a ) is missing")
            self.at += 1
            return inner
        if token.kind == "sign":
            raise ConditionError(f"{token.value} cannot stand here: a name or a word is missing before it")
        if token.is_keyword("not"):
            self.at += 1
            inner = self._single()
            return lambda row: not inner(row)
        if token.is_keyword("and", "or"):
            raise ConditionError(f"a condition is missing before {token.value}")
        name = self._name_before_sign()
        if name is None:
            return self._word(token)
        sign = self.tokens[self.at - 1]
        if sign.is_keyword("in"):
            return self._range(column_named(name.value, self._columns))
        if name.number is not None and find_column(name.value, self._columns) is None:
            return self._from_number(name, sign.value)
        return self._compare(column_named(name.value, self._columns), sign.value, name.value)

    def _name_before_sign(self) -> _Token | None:
        # The name that begins here if a sign or `in` follows it, which are read then; None: here is a word alone.
        count = self._plain_words() or 1
        after = self.at + count
        sign = self.tokens[after] if after < len(self.tokens) else None
        if sign is None or not (sign.is_sign(*_FLIPPED) or sign.is_keyword("in")):
            return None
        # Of several words, the longest end that names a column is the name.
        for begin in range(count):
            name = self._joined(begin, count)
            if find_column(name, self._columns) is not None:
                break
        if begin > 0:
            return None
        first = self.tokens[self.at]
        self.at = after + 1
        return _Token(first.kind, name)

    def _plain_words(self) -> int:
        return sum(1 for _ in itertools.takewhile(lambda token: token.is_plain, self.tokens[self.at :]))

    def _joined(self, begin: int, end: int) -> str:
        return " ".join(token.value for token in self.tokens[self.at + begin : self.at + end])

    def _word(self, token: _Token) -> Test:
        self.at += 1
        word = token.value.lower()
        columns = [column for column in self._columns if column.is_in_words]

        def has(column: NamedColumn, row: Row) -> bool:
            value = column.value(row)
            return value is not None and word in _text_of(value).lower()

        return lambda row: any(has(column, row) for column in columns)

    def _range(self, column: NamedColumn) -> Test:
        low = self._value(column, "in")
        if self.now is None or not self.now.is_sign(".."):
            raise ConditionError("a range has two numbers, such as 0.1..0.5")
        self.at += 1
        tests = [self._test(column, ">=", low), self._test(column, "<=", self._value(column, ".."))]
        return lambda row: all(test(row) for test in tests)

    def _from_number(self, token: _Token, sign: str) -> Test:
        # `0.1 < lr`, or `0.1 < lr < 0.2`
        self._need_value(f"{token.value} {sign}")
        for count in range(self._plain_words() or 1, 0, -1):
            name = self._joined(0, count)
            if find_column(name, self._columns) is not None:
                break
        column = column_named(name, self._columns)
        self.at += count
        first = self._test(column, _FLIPPED[sign], token)
        other = self.now
        if other is None or not other.is_sign(*_FLIPPED):
            return first
        self.at += 1
        second = self._compare(column, other.value, name)
        return lambda row: first(row) and second(row)

    def _compare(self, column: NamedColumn, sign: str, name: str) -> Test:
        return self._test(column, sign, self._value(column, f"{name} {sign}"))

    def _need_value(self, after: str) -> _Token:
        token = self.now
        if token is None or token.kind == "sign":
            raise ConditionError(f"a value is missing after {after}")
        return token

    def _value(self, column: NamedColumn, after: str) -> _Token:
        # The value that begins here: a text of several words if a row has it.
        token = self._need_value(after)
        count = sum(1 for _ in itertools.takewhile(lambda token: token.kind == "word", self.tokens[self.at :]))
        if token.number is None and count > 1:
            texts = {_text_of(value).lower() for value in map(column.value, self._rows) if value is not None}
            alone = 2 if token.is_keyword("not") else 1  # not started
            count = next((count for count in range(count, 1, -1) if self._joined(0, count).lower() in texts), alone)
            token = _Token("word", self._joined(0, count))
            self.at += count - 1
        self.at += 1
        return token

    def _test(self, column: NamedColumn, sign: str, token: _Token) -> Test:
        limit = token.number
        wanted = token.value.lower()
        there = [value for value in map(column.value, self._rows) if value is not None]
        # A text can only be compared with a column of numbers by mistake. An empty table would hide it.
        if limit is None and there and all(map(is_real, there)):
            raise ConditionError(f"{column.name} holds numbers, and {token.value} is none")
        has_numbers = any(number_or_flag(value) is not None for value in there)

        def equal(row: Row) -> bool:
            value = column.value(row)
            if value is None:  # a missing value is equal to nothing
                return False
            number = number_or_flag(value)
            if limit is not None and number is not None:
                return number == limit
            return _text_of(value).lower() == wanted

        def ordered(row: Row) -> bool:
            value = column.value(row)
            if has_numbers and limit is not None:
                number = number_or_flag(value)
                return number is not None and _ORDERS[sign](number, limit)
            return isinstance(value, str) and not has_numbers and _ORDERS[sign](value.lower(), wanted)

        if sign in _ORDERS:
            return ordered
        if limit is None and there and not any(map(equal, self._rows)):
            self._note_absent(column, token.value, there)
        if sign == "!=":
            return lambda row: not equal(row)
        return equal

    def _note_absent(self, column: NamedColumn, text: str, there: Sequence[Any]) -> None:
        # It may be misspelt.
        found = dict.fromkeys(map(_text_of, there))
        shown = [*itertools.islice(found, _VALUES_SHOWN)]
        more = f" and {len(found) - len(shown)} more" if len(found) > len(shown) else ""
        self.notes.append(
            f"no row has {column.name} == {text}{did_you_mean(text, found)}; there are {', '.join(shown)}{more}"
        )
