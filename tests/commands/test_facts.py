"""Facts that a command shows: lines for people, and one object for programs."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from minitune.commands.facts import ABSENT, Facts, Said, data_of, tell

FACTS: Facts = {
    "trial": Said(3, "3 (t3)"),
    "a b": 1 / 3,
    "none": None,
    "only people": Said(ABSENT, "hello"),
    "only programs": Said([1]),
    "no text": Said(2, ABSENT),
    "config": {"lr": 0.5, "deep": {"x": None}, "empty": {}},
    "list": [Said({"n": 1}, "one"), Said({"n": 2}, "two"), 3],
    "rows": [{"a": 1}, {"a": 2}],
    "no list": [],
    "no dict": {},
    "empty": "",
    "zero": 0,
    "no": False,
    "text": "a  b",
}


def test_people_get_a_line_for_a_value_and_lines_for_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    tell(FACTS, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "trial           3 (t3)",
        "a b             0.333333",
        "only people     hello",
        "config",
        "  lr: 0.5",
        "  empty: {}",
        "  deep/x: None",
        "list",
        "  one",
        "  two",
        "  3",
        "rows",
        "  {'a': 1}",
        "  {'a': 2}",
        "zero            0",
        "no              False",
        "text            a  b",
    ]


PROGRAMS: dict[str, Any] = {
    "schema": 1,
    "trial": 3,
    "a_b": 1 / 3,
    "none": None,
    "only_programs": [1],
    "no_text": 2,
    "config": {"lr": 0.5, "deep": {"x": None}, "empty": {}},
    "list": [{"n": 1}, {"n": 2}, 3],
    "rows": [{"a": 1}, {"a": 2}],
    "no_list": [],
    "no_dict": {},
    "empty": "",
    "zero": 0,
    "no": False,
    "text": "a  b",
}


def test_programs_get_one_object_with_all_data_and_the_schema_first(capsys: pytest.CaptureFixture[str]) -> None:
    tell(FACTS, as_json=True)
    text = capsys.readouterr().out
    assert list(json.loads(text).items()) == list(PROGRAMS.items())
    lines = text.splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("{", '  "schema": 1,', "}")
    begin = lines.index('  "rows": [')
    assert lines[begin + 1 : begin + 4] == ['    {"a": 1},', '    {"a": 2}', "  ],"], "a row is a line"
    assert data_of(FACTS) == {name: value for name, value in PROGRAMS.items() if name != "schema"}


def test_names_and_values_for_people_stay_on_their_lines(capsys: pytest.CaptureFixture[str]) -> None:
    tell({"config": {"a\nb": "c\nd"}, "text": Said(1, {"x": math.nan})}, as_json=False)
    assert capsys.readouterr().out.splitlines() == ["config", "  a b: 'c\\nd'", "text", "  x: nan"]
