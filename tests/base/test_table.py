"""Tables and other parts of views, as text and as HTML."""

import math
import re

import pytest

from minitune.base.table import (
    Column,
    Table,
    as_html,
    as_text,
    bar,
    curve,
    format_cell,
    left_out_line,
    line_as_html,
    short_repr,
)


class Broken:
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "length", "text"),
    [
        (None, 5, ""),
        (0.123456789, 20, "0.123457"),
        (2.0, 20, "2"),
        (True, 20, "True"),
        ("a\n b\t c", 20, "a b c"),
        ("0123456789", 10, "0123456789"),
        ("0123456789", 9, "...456789"),
        (12345678901234567890, 5, "12345678901234567890"),
        ([0.123456789, "a"], 20, "[0.123457, 'a']"),
        ({"lr": (0.1, 2.0)}, 30, "{'lr': (0.1, 2)}"),
        (Broken(), 20, "<Broken>"),
        (b"ab", 20, "b'ab'"),
    ],
)
def test_a_cell_is_one_short_line(value, length, text):
    assert format_cell(value, length) == text


def test_a_short_repr_has_rounded_numbers_and_at_most_twenty_members():
    assert short_repr({"lr": 0.123456789, "text": "a\n  b"}) == "{'lr': 0.123457, 'text': 'a\\n b'}"
    assert short_repr(list(range(20))) == str(list(range(20)))
    assert short_repr(list(range(30))) == f"{str(list(range(20)))[:-1]}, ...]"


# -- tables ------------------------------------------------------------------------------------------------------------

FRAMED = Table([Column("name", ["a", "日本"]), Column("loss", [0.5, None]), Column("n", [1, 10])])


def test_a_framed_table_aligns_numbers_to_the_right():
    assert FRAMED.lines() == [
        "+------+------+----+",
        "| name | loss |  n |",
        "|------+------+----|",
        "| a    |  0.5 |  1 |",
        "| 日本 |      | 10 |",
        "+------+------+----+",
    ]


def test_an_open_table_has_titles_and_colours_if_they_are_wanted():
    columns = [Column("state", ["running", "failed"], colors=["32", ""]), Column("n", [1, 10], least=4)]
    table = Table(columns, titles={0: "first", 1: "second"}, is_framed=False)
    assert table.lines() == ["state    n", "first", "running  1", "second", "failed   10"]
    coloured = table.lines(has_color=True)
    assert coloured[2] == "\x1b[32mrunning\x1b[0m  1"
    assert coloured[4] == "failed   10"


def test_a_column_is_as_wide_as_its_longest_text_but_no_cell_is_longer_than_its_limit():
    assert Column("a header", ["0123456789"], max_length=5).texts == ["a header", "...56789"]
    assert Column("h", ["0123456789"], max_length=5).texts == ["h", "...89"]
    assert [Column("h", ["012"], least=least).width for least in (0, 3, 7)] == [3, 3, 7]
    assert [Column("h", values).is_number for values in ([1, None], [1, "a"], [True], [])] == [True, False, False, True]


WIDE = Table(
    [Column("first", ["a" * 10]), Column("second", ["b" * 10]), Column("third", ["c" * 10])],
    ranking=[1, 2, 0],
    is_framed=False,
)


@pytest.mark.parametrize(
    ("width", "line", "left_out"),
    [
        (None, f"{'a' * 10}  {'b' * 10}  {'c' * 10}", []),
        (34, f"{'a' * 10}  {'b' * 10}  {'c' * 10}", []),
        (33, f"{'b' * 10}  {'c' * 10}", ["first"]),
        (22, f"{'b' * 10}  {'c' * 10}", ["first"]),
        (21, f"{'b' * 10}", ["first", "third"]),
        (0, f"{'b' * 10}", ["first", "third"]),
    ],
)
def test_a_narrow_terminal_lacks_the_least_important_columns(width, line, left_out):
    table, found = WIDE.narrowed(width)
    assert (table.lines()[1], found) == (line, left_out)
    text = as_text(["before", WIDE, "after \x1b[1m"], width)
    more = [f"(no space for: {', '.join(left_out)})"] if left_out else []
    assert text.splitlines()[2:] == [line, *more, "after "]


def test_a_table_without_a_ranking_keeps_all_columns():
    assert FRAMED.narrowed(5) == (FRAMED, [])


def test_a_framed_table_is_narrowed_with_its_frame():
    table = Table(FRAMED.columns, ranking=[2, 1, 0])
    assert table.narrowed(20) == (table, [])
    narrowed, left_out = table.narrowed(19)
    assert (narrowed.lines()[1], left_out) == ("| loss |  n |", ["name"])
    assert narrowed.narrowed(3) == (narrowed, []), "it is narrowed once"


def test_the_html_of_a_table_has_all_cells_escaped():
    table = Table([Column("a<b", ["<i>"]), Column("n", [1])], titles={0: "t&t"})
    assert table.html() == (
        '<table><thead><tr><th>a&lt;b</th><th class="number">n</th></tr></thead><tbody>'
        '<tr><th class="title" colspan="2">t&amp;t</th></tr>'
        '<tr><td>&lt;i&gt;</td><td class="number">1</td></tr></tbody></table>'
    )


def test_rows_that_are_left_out_are_counted_with_their_place():
    assert left_out_line(0) == left_out_line(-1) == []
    assert left_out_line(1) == ["... 1 more"]
    assert left_out_line(1234, "see there") == ["... 1,234 more: see there"]


# -- HTML --------------------------------------------------------------------------------------------------------------


def test_a_view_as_html_keeps_lines_and_what_is_html_already():
    assert line_as_html("a < b", "error") == '<div class="error">a &lt; b</div>'
    found = as_html(["a < b", FRAMED], "<b>more</b>", "<i>most</i>")
    assert found.startswith("<style>")
    assert found.endswith(
        f'<div class="minitune"><div class="line">a &lt; b</div>{FRAMED.html()}<b>more</b><i>most</i></div>'
    )


@pytest.mark.parametrize(
    ("done", "begun", "widths"),
    [
        (0.0, 0.0, ["0.0", "0.0"]),
        (0.25, 0.75, ["25.0", "50.0"]),
        (0.25, 0.1, ["25.0", "0.0"]),
        (0.5, 1.5, ["50.0", "50.0"]),
        (1.5, 2.0, ["100.0", "0.0"]),
        (-1.0, 0.5, ["0.0", "50.0"]),
    ],
)
def test_a_bar_shows_what_is_done_and_what_has_begun(done, begun, widths):
    assert re.findall(r"width:([\d.]+)%", bar(done, begun)) == widths


def dots(picture):
    return [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', picture)]


def scale(picture):
    return re.findall(r"<text [^>]*>([^<]*)</text>", picture)


def test_a_curve_has_a_dot_for_each_value_and_a_line_for_the_best():
    picture = curve([(1, 4.0), (2, 2.0), (3, math.nan), (4, 3.0), (5, 1.0)], "loss", "min")
    found = dots(picture)
    assert len(found) == 4
    assert found[0][1] < found[2][1] < found[1][1] < found[3][1], "less is lower"
    assert found[0][1] == 8.0
    assert found[3][1] == 124.0
    assert found[0][0] == 76.0
    assert found[3][0] == 514.0
    assert scale(picture) == ["4", "1", "1", "5"]
    path = re.findall(r'<path d="([^"]*)" fill="none" stroke="#2a9d5c"', picture)[0]
    assert path == f"M76.0 8.0H{found[1][0]}V{found[1][1]}H514.0V124.0H514.0"
    assert "loss of each trial, and the best so far" in picture
    assert "l&lt;ss of each trial, and" in curve([(1, 1.0), (2, 2.0)], "l<ss", "min")


def test_where_more_is_better_the_line_goes_up():
    picture = curve([(0, 1.0), (1, 3.0), (2, 2.0)], "reward", "max")
    path = re.findall(r'<path d="([^"]*)" fill="none" stroke="#2a9d5c"', picture)[0]
    assert path == "M76.0 124.0H295.0V8.0H514.0"


def test_a_curve_needs_two_values_and_may_be_flat():
    assert curve([], "loss", "min") == curve([(1, 1.0), (2, math.inf)], "loss", "min") == ""
    assert {y for _, y in dots(curve([(1, 1.0), (2, 1.0)], "loss", "min"))} == {8.0}
    assert [x for x, _ in dots(curve([(3, 1.0), (3, 2.0)], "loss", "min"))] == [76.0, 76.0]


def test_values_much_worse_than_most_are_drawn_at_the_edge():
    usual = [(number, float(number)) for number in range(10)]
    picture = curve([*usual, (10, 1_000.0)], "loss", "min")
    assert scale(picture)[:2] == ["25", "0"]
    assert dots(picture)[-1][1] == 8.0
    assert scale(curve([*usual, (10, 20.0)], "loss", "min"))[:2] == ["20", "0"]


def test_a_long_curve_has_at_most_five_hundred_dots():
    assert len(dots(curve([(number, 1.0) for number in range(500)], "loss", "min"))) == 500
    assert len(dots(curve([(number, 1.0) for number in range(1_001)], "loss", "min"))) == 334
