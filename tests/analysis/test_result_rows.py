"""The reports of a trial as rows of plain values."""

import json
import math

from minitune.analysis.result_rows import make_plain
from minitune.record.codec import Pickled


class Odd:
    def __str__(self):
        return "odd"


def pickled(text):
    return Pickled(text, "3.11", 10)


def test_values_become_what_json_has_and_keys_become_texts():
    row = {
        "plain": 1.5,
        "nan": math.nan,
        "none": None,
        "pair": (1, (2, math.inf)),
        3: "number",
        "deep": {None: {"x": Odd()}, "list": [Odd()]},
        "set": {1},
    }
    make_plain(row, {})
    assert math.isnan(row.pop("nan"))
    assert row == {
        "plain": 1.5,
        "none": None,
        "pair": [1, [2, "Infinity"]],
        "3": "number",
        "deep": {"None": {"x": "odd"}, "list": ["odd"]},
        "set": row["set"],
    }
    json.dumps(row)


def test_what_is_still_pickled_comes_from_the_line_of_the_same_report():
    row = {"a": pickled("<A>"), "b": {"c": pickled("<C>"), "d": pickled("<D>")}, "e": pickled("<E>"), "f": {"g": 1}}
    make_plain(row, {"a": [1, 2], "b": {"c": None}, "f": 3, "more": 1})
    assert row == {"a": [1, 2], "b": {"c": None, "d": "<D>"}, "e": "<E>", "f": {"g": 1}}
    other = {"b": {"c": pickled("<C>")}}
    make_plain(other, {"b": 3})
    assert other == {"b": {"c": "<C>"}}, "the file has another value there"
