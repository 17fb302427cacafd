"""Arrays in metrics and configurations are written to the files as lists."""

import json
import math

import pytest

from minitune.base.json_text import dumps, dumps_pretty


class Array:
    """An object with the interface of numpy's arrays."""

    __array_interface__ = None
    shape = (2,)

    def __init__(self, items, size=2):
        self.items, self.size = items, size

    def item(self):
        raise ValueError("can only convert an array of size 1")

    def tolist(self):
        if isinstance(self.items, Exception):
            raise self.items
        return self.items

    def __str__(self):
        return "[as text]"


@pytest.mark.parametrize(
    ("items", "written"),
    [
        ([1.5, 2.0], [1.5, 2.0]),
        ([[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        ([], []),
        ([math.nan, math.inf], [None, "Infinity"]),
        ([[0]] * 200, [[0]] * 200),
        ([b"x"], ["b'x'"]),
        (RuntimeError("no memory"), "[as text]"),
        ("no list", "[as text]"),
    ],
)
def test_arrays_are_written_as_lists(items, written):
    value = {"confusion": Array(items), "nested": [Array(items)]}

    assert json.loads(dumps(value)) == json.loads(dumps_pretty(value)) == {"confusion": written, "nested": [written]}


def test_large_arrays_are_written_as_text():
    assert json.loads(dumps({"weights": Array([0.5] * 10_001, 10_001)})) == {"weights": "[as text]"}
