"""The reports of a trial as rows of plain values."""

from minitune.analysis.result_rows import make_plain
from minitune.record.codec import Pickled


def pickled(text):
    return Pickled(text, "3.11", 10)


def test_what_is_still_pickled_comes_from_the_line_of_the_same_report():
    row = {"a": pickled("<A>"), "b": {"c": pickled("<C>"), "d": pickled("<D>")}, "e": pickled("<E>"), "f": {"g": 1}}
    make_plain(row, {"a": [1, 2], "b": {"c": None}, "f": 3, "more": 1})
    assert row == {"a": [1, 2], "b": {"c": None, "d": "<D>"}, "e": "<E>", "f": {"g": 1}}
    other = {"b": {"c": pickled("<C>")}}
    make_plain(other, {"b": 3})
    assert other == {"b": {"c": "<C>"}}, "the file has another value there"
