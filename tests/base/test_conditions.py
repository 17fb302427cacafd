"""Conditions are read as the table of cases says, which the filter of the page is tested with, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from minitune.base.conditions import ConditionError, NamedColumn, condition_of

CASES = json.loads((Path(__file__).parents[1] / "filter_cases.json").read_text(encoding="utf-8"))
ROWS = CASES["rows"]


def column_of(name: str, also: tuple[str, ...] = (), isParam: bool = False, isUntold: bool = False) -> NamedColumn:
    def value(row: dict[str, Any]) -> Any:
        return "None" if isParam and name in row and row[name] is None else row.get(name)

    return NamedColumn(name, value, also, not isUntold)


COLUMNS = [column_of(**column) for column in CASES["columns"]]


def kept(words: str) -> str:
    condition = condition_of(words, COLUMNS, ROWS)
    return "".join(str(row["trial"]) for row in ROWS if condition.holds(row))


def test_conditions_keep_rows() -> None:
    assert {words: kept(words) for words in CASES["kept"]} == CASES["kept"]


def test_what_cannot_be_read_is_answered_with_a_sentence() -> None:
    told = {}
    for words in CASES["refused"]:
        with pytest.raises(ConditionError) as caught:
            condition_of(words, COLUMNS, ROWS)
        told[words] = str(caught.value)
    assert told == CASES["refused"]


def test_a_text_that_no_row_has_is_answered_with_those_that_exist() -> None:
    notes = {words: "; ".join(condition_of(words, COLUMNS, ROWS).notes) for words in CASES["notes"]}
    assert notes == CASES["notes"]


MIXED = [NamedColumn(name, lambda row, name=name: row.get(name)) for name in ("value", "sign", "empty", "number")]
MIXED_ROWS: list[dict[str, Any]] = [
    {"value": 1, "sign": "(", "number": 0.5},
    {"value": "adam", "sign": "<=", "number": 1},
    {"value": "not", "sign": "in", "number": None},
]


@pytest.mark.parametrize(
    ("words", "positions"),
    [
        ("value = adam", [1]),
        ("value = 1", [0]),
        ("value != adam", [0, 2]),
        ("value < 2", [0]),
        ("sign = '('", [0]),
        ('sign = "<="', [1]),
        ("sign = 'in'", [2]),
        ("(value = not)", [2]),
        ("number != 1", [0, 2]),
        ("not number = 1", [0, 2]),
        ("number >= 0.5 number < 1", [0]),
        ("1 > number", [0]),
        ("0.5 <= number < 1", [0]),
        ("0.5 < number <= 1", [1]),
        ("", [0, 1, 2]),
    ],
)
def test_texts_that_look_like_signs_or_stand_beside_numbers_are_compared(words: str, positions: list[int]) -> None:
    condition = condition_of(words, MIXED, MIXED_ROWS)
    assert [position for position, row in enumerate(MIXED_ROWS) if condition.holds(row)] == positions


def test_a_number_in_quotes_is_a_text() -> None:
    with pytest.raises(ConditionError, match=r"number holds numbers, and 0\.5 is none"):
        condition_of("number = '0.5'", MIXED, MIXED_ROWS)
    condition = condition_of("value = '1'", MIXED, MIXED_ROWS)
    assert condition.holds(MIXED_ROWS[0])


def test_nothing_is_noted_of_a_column_without_values() -> None:
    assert condition_of("empty = text", MIXED, MIXED_ROWS).notes == []
    assert condition_of("sign = text", MIXED, MIXED_ROWS).notes != []
    assert condition_of("value = 7", MIXED, MIXED_ROWS).notes == []
