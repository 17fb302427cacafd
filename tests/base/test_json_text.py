"""Strict JSON from any value, and which values JSON keeps."""

import json
import math
from collections import OrderedDict
from enum import IntEnum
from types import MappingProxyType

import pytest
from kit import Scalar

from minitune.base import json_text
from minitune.base.json_text import clean, dumps, keeps_types, short_text


class Level(IntEnum):
    LOW = 3


class Array:
    """Like an array of another library."""

    __array_interface__ = None

    def __init__(self, items, size=2):
        self.size = size
        self._items = items

    def tolist(self):
        if isinstance(self._items, Exception):
            raise self._items
        return self._items

    def __str__(self):
        return "an array"


class Broken:
    def __str__(self):
        raise RuntimeError

    @property
    def shape(self):
        raise RuntimeError


def nested(depth, kind):
    value = 1
    for _ in range(depth):
        value = {"d": value} if kind is dict else [value]
    return value


VALUES = [
    ({"a": 1, "b": [True, None, "é\ud800"]}, {"a": 1, "b": [True, None, "é\ud800"]}),
    (math.nan, None),
    ([math.inf, -math.inf, 0.5], ["Infinity", "-Infinity", 0.5]),
    ((1, (2,)), [1, [2]]),
    ({1: "a", 1.5: "b", None: "d"}, {"1": "a", "1.5": "b", "null": "d"}),
    ({True: "c", None: math.nan}, {"true": "c", "null": None}),
    ({False: 1, ("a", 1): 2}, {"false": 1, "('a', 1)": 2}),
    (Level.LOW, 3),
    (Scalar(0.5), 0.5),
    (Scalar(True), True),
    (Scalar(math.nan), None),
    (Scalar("text"), str),
    (Array([1, [2]]), [1, [2]]),
    (Array([1], size=10_001), "an array"),
    (Array(3), "an array"),
    (Array([math.nan, [math.inf], b"x"]), [None, ["Infinity"], "b'x'"]),
    (Array(RuntimeError("no memory")), "an array"),
    (MappingProxyType({"a": (1,)}), {"a": [1]}),
    (OrderedDict(a=math.nan), {"a": None}),
    (b"bytes", "b'bytes'"),
    ({1, 2}, "{1, 2}"),
    (Broken(), "<Broken>"),
    ({"a": Broken()}, {"a": "<Broken>"}),
    (10**5_000, "<int of 16610 bits>"),
    (10**600, 10**600),
    ("x" * 1_000, "x" * 1_000),
    (object, "<class 'object'>"),
]


@pytest.mark.parametrize(("value", "expected"), VALUES, ids=range(len(VALUES)))
def test_any_value_becomes_strict_json(value, expected):
    def refuse(constant):
        raise AssertionError(f"{constant} is no strict JSON")

    line = dumps(value)
    assert line.isascii()
    assert "\n" not in line
    found = json.loads(line, parse_constant=refuse)
    if expected is str:
        assert isinstance(found, str)
    else:
        assert found == expected
        assert type(found) is type(expected)
    assert json.loads(json.dumps(clean(value), allow_nan=False)) == found
    assert json.loads(json_text.dumps_pretty(value), parse_constant=refuse) == found


@pytest.mark.parametrize("kind", [dict, list])
def test_a_value_is_kept_up_to_a_hundred_levels(kind):
    deep = nested(100, kind)
    assert json.loads(dumps(deep)) == deep
    for depth in (101, 5_000):
        assert "more than 100 deep" in dumps(nested(depth, kind))
    wide = [nested(2, kind)] * 200
    assert json.loads(dumps(wide)) == wide


def test_a_value_that_contains_itself_has_an_end():
    endless = {"loss": 1}
    endless["again"] = [endless]
    assert json.loads(dumps(endless)) == {
        "loss": 1,
        "again": ["<dict, nested in itself or more than 100 deep>"],
    }
    twice = [1]
    assert json.loads(dumps({"a": twice, "b": twice, "c": math.nan})) == {"a": [1], "b": [1], "c": None}


def test_a_text_of_an_object_has_at_most_two_hundred_characters():
    class Long:
        def __init__(self, length):
            self.length = length

        def __str__(self):
            return "x" * self.length

    assert short_text(Long(200)) == "x" * 200
    assert short_text(Long(201)) == "x" * 197 + "..."
    assert short_text("x" * 20_000) == "x" * 197 + "..."
    assert len(short_text(list(range(5_000)))) <= 200


# -- for people --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": "é"}, '{\n  "a": "\\u00e9",\n  "b": 1\n}'),
        ({}, "{}"),
        ({"a": {}}, '{\n  "a": {}\n}'),
        ({"a": {"c": [1], "b": 2}}, '{\n  "a": {\n    "b": 2,\n    "c": [\n      1\n    ]\n  }\n}'),
        ({"a": math.nan}, '{\n  "a": null\n}'),
        ({"a": (1,)}, '{\n  "a": [\n    1\n  ]\n}'),
        ({"a": Level.LOW}, '{\n  "a": 3\n}'),
        ({1: 2}, '{\n  "1": 2\n}'),
        ({"a": "\ud83d\ude00"}, '{\n  "a": "\\ud83d\\ude00"\n}'),
        ({"a": "\ud83d"}, '{\n  "a": "\\ud83d"\n}'),
        ({"a": 10**5_000}, '{\n  "a": "<int of 16610 bits>"\n}'),
        ([1], "[\n  1\n]"),
        (OrderedDict(a=1), '{\n  "a": 1\n}'),
    ],
)
def test_json_for_people_is_indented_and_sorted(value, text):
    assert json_text.dumps_pretty(value) == text


@pytest.mark.parametrize(
    ("tree", "keeps"),
    [
        ({}, True),
        ({"a": [1, 2.5, "x", True, None, {"b": []}]}, True),
        ({"a": (1,)}, False),
        ({"a": [{1: 2}]}, False),
        ({"a": Level.LOW}, False),
        ({"a": [Level.LOW]}, False),
        ({"a": nested(18, list)}, True),
        ({"a": nested(30, list)}, False),
        ({"a": [0] * 50_000}, True),
        ({"a": [0] * 50_001}, False),
        ({"a": [[]] * 10_000}, True),
        ({"a": [[]] * 10_001}, False),
    ],
)
def test_json_keeps_the_types_of_plain_values_only(tree, keeps):
    assert keeps_types(tree) is keeps
