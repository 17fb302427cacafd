"""The reports of a trial as rows: from its own files, and as plain values."""

import json
import logging
import math

import pytest

from minitune.analysis.result_rows import logged_rows, make_plain, read_params, result_rows
from minitune.record.codec import Pickled


def written(directory, *rows, name="result.json"):
    (directory / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))


# -- a trial's own files -----------------------------------------------------------------------------------------------
def test_the_lines_of_a_trial_come_before_its_table(tmp_path):
    assert logged_rows(tmp_path) is None
    assert result_rows(str(tmp_path)) == []
    (tmp_path / "progress.csv").write_text("loss\n7\n")
    assert logged_rows(tmp_path) == [{"loss": 7}]
    written(tmp_path, {"loss": 1, "eval": {"acc": 2}}, {"loss": 3})
    assert logged_rows(tmp_path) == [{"loss": 1, "eval": {"acc": 2}}, {"loss": 3}]
    assert result_rows(str(tmp_path)) == [{"loss": 1, "eval/acc": 2}, {"loss": 3}]
    assert result_rows(str(tmp_path), last_only=True) == [{"loss": 3}]
    written(tmp_path)
    assert (logged_rows(tmp_path), result_rows(str(tmp_path), last_only=True)) == ([], [])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("+7", 7),
        ("0.5", 0.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("-1.5E-3", -0.0015),
        ("inf", math.inf),
        ("-Inf", -math.inf),
        ("True", True),
        ("False", False),
        ("true", "true"),
        ("1e", "1e"),
        ("1.2.3", "1.2.3"),
        ("0x10", "0x10"),
        (" 7", " 7"),
        ("infinity", "infinity"),
    ],
)
def test_a_cell_is_what_was_reported(tmp_path, text, value):
    (tmp_path / "progress.csv").write_text(f"x,date,empty\n{text},{text},\n")
    (row,) = logged_rows(tmp_path) or []
    assert (row["x"], type(row["x"])) == (value, type(value))
    assert row["date"] == text, "a column of texts"
    assert "empty" not in row


def test_a_table_may_be_cut_off_and_have_lines_of_other_lengths(tmp_path):
    table = tmp_path / "progress.csv"
    for content, rows in (
        ("", []),
        ("a,b\n", []),
        ("a,b\n1,2\n3", [{"a": 1, "b": 2}]),
        ("a,b\n1\n", [{"a": 1}]),
        ("a,b\n1,2,3\n", [{"a": 1, "b": 2}]),
        ('a\n"1,5"\n', [{"a": "1,5"}]),
    ):
        table.write_text(content)
        assert logged_rows(tmp_path) == rows


@pytest.mark.parametrize(
    ("values", "restored"),
    [
        ([1, None], [1, math.nan]),
        ([1.5, "Infinity", "-Infinity", None], [1.5, math.inf, -math.inf, math.nan]),
        (["Infinity", None], [math.inf, math.nan]),
        ([None, None], [None, None]),  # it may never have been a number
        (["text", None], ["text", None]),
        ([1, "text", None], [1, "text", None]),
        ([True, None], [True, None]),
        ([1, True, None], [1, True, None]),
        ([[1], None], [[1], None]),
        (["Infinity", "text"], ["Infinity", "text"]),
    ],
)
def test_numbers_that_json_lacks_come_back_where_all_others_are_numbers(tmp_path, values, restored):
    written(tmp_path, *({"x": value, "a": {"b": value}, "config": {"x": value}} for value in values))
    rows = logged_rows(tmp_path) or []
    for found in ([row["x"] for row in rows], [row["a"]["b"] for row in rows]):
        assert [repr(value) for value in found] == [repr(value) for value in restored]
    assert [row["config"]["x"] for row in rows] == values, "a configuration stays as it was written"


def test_lines_that_are_no_results_are_left_out_with_their_numbers(tmp_path, caplog):
    deep = "[" * 100_000
    (tmp_path / "result.json").write_text(f'{{"a": 1}}\n\n[1]\n{{"a": \n7\n{deep}\n{{"a": 2}}\n')
    with caplog.at_level(logging.WARNING, "minitune"):
        assert logged_rows(tmp_path) == [{"a": 1}, {"a": 2}]
    assert [message.split()[1] for message in caplog.messages] == ["3", "4", "5", "6"]


@pytest.mark.parametrize(
    ("content", "params"),
    [('{"x": {"y": 1}}', {"x": {"y": 1}}), ("[1]", {}), ("3", {}), ('{"x"', {}), ("[" * 100_000, {}), (None, {})],
)
def test_the_configuration_is_read_from_its_file_if_that_is_good(tmp_path, content, params):
    if content is not None:
        (tmp_path / "params.json").write_text(content)
    assert read_params(tmp_path) == params


# -- plain values ------------------------------------------------------------------------------------------------------
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
