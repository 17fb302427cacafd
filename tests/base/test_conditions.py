"""Conditions are read as the table of cases says, which the filter of the page is tested with, too."""

import json
from pathlib import Path

import pytest

from minitune.base.conditions import ConditionError, NamedColumn, condition_of

CASES = json.loads((Path(__file__).parents[1] / "filter_cases.json").read_text(encoding="utf-8"))
ROWS = CASES["rows"]


def column_of(name, also=(), isParam=False, isUntold=False):
    def value(row):
        return "None" if isParam and name in row and row[name] is None else row.get(name)

    return NamedColumn(name, value, also, not isUntold)


COLUMNS = [column_of(**column) for column in CASES["columns"]]


def kept(words):
    condition = condition_of(words, COLUMNS, ROWS)
    return "".join(str(row["trial"]) for row in ROWS if condition(row))


def test_conditions_keep_rows():
    assert {words: kept(words) for words in CASES["kept"]} == CASES["kept"]


def test_what_cannot_be_read_is_answered_with_a_sentence():
    told = {}
    for words in CASES["refused"]:
        with pytest.raises(ConditionError) as caught:
            condition_of(words, COLUMNS, ROWS)
        told[words] = str(caught.value)
    assert told == CASES["refused"]
