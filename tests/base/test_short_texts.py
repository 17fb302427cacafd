"""Short texts of large values: their content, and that making them takes little memory."""

import tracemalloc

import pytest

from minitune import Result, TuneConfig, choice
from minitune.base import json_text
from minitune.base.checks import shown
from minitune.base.table import format_cell, short_repr
from minitune.base.text import ShortRepr, is_long
from minitune.record.codec import object_text

MB = 1_000_000
SHORT = (1, 1.5, "text", b"bytes", None, [1, 2], {"a": [b"x" * 100]}, {1, 2}, (), bytearray(5))
LONG = {
    "bytes": b"x" * (5 * MB),
    "bytearray": bytearray(5 * MB),
    "a text": "x" * (5 * MB),
    "a list": list(range(500_000)),
    "a dict": {n: n for n in range(200_000)},
    "a set": set(range(200_000)),
    "a frozenset": frozenset(range(200_000)),
    "bytes in a list in a dict": {"a": [1, b"x" * (5 * MB)]},
}
TEXTS = {
    "ShortRepr": ShortRepr().repr,
    "an error's": shown,
    "a table's cell": lambda value: format_cell(value, 20),
    "a short repr": short_repr,
    "a record's": object_text,
    "strict JSON's": json_text.short_text,
}


@pytest.mark.parametrize("make", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("value", LONG.values(), ids=LONG)
def test_to_show_a_large_value_takes_little(make, value):
    tracemalloc.start()
    try:
        text = make(value)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0 < len(text) < 3_000
    assert peak < MB


def test_numbers_in_a_long_list_are_rounded_as_in_a_short_one():
    third = [1 / 3]
    for make in (short_repr, lambda value: format_cell(value, 1_000)):
        assert make(third) == "[0.333333]"
        assert make(1_000 * third).startswith("[0.333333, 0.333333, ")


class Float64(float):
    """Like NumPy's number, which shows the name of its type."""

    shape = ()

    def item(self):
        return float(self)

    def __repr__(self):
        return f"np.float64({float(self)})"


def _repr_of_a_result(value):
    return repr(Result({"loss": value}, None, None, "/run/trial"))


REPRS = {
    "a result's repr": _repr_of_a_result,
    "a domain's repr": lambda value: repr(choice([value])),
}


@pytest.mark.parametrize("make", [*TEXTS.values(), *REPRS.values()], ids=[*TEXTS, *REPRS])
@pytest.mark.parametrize("wrap", [lambda number: number, lambda number: [number], lambda number: {"a": (number,)}])
def test_numbers_of_other_libraries_are_shown_as_numbers(make, wrap):
    assert make(wrap(Float64(0.27))) == make(wrap(0.27))
    assert repr(TuneConfig(time_budget_s=Float64(0.27))) == "TuneConfig(time_budget_s=0.27)"


def test_only_long_text_is_shortened():
    assert not any(map(is_long, SHORT))
    assert all(map(is_long, LONG.values()))
    assert not is_long(object())
    endless = []
    endless.append(endless)
    assert is_long(endless), "it ends"
    assert [ShortRepr().repr(value) for value in SHORT] == [repr(value) for value in SHORT]
    assert ShortRepr(10).repr(b"0123456789abc") == "b'01234'...<13 bytes>"
    containers = [value for value in SHORT if not isinstance(value, (int, float, type(None)))]
    assert [format_cell(value, 1_000) for value in containers] == [str(value) for value in containers]
