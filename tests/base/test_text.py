"""Short texts for people: lengths of time, dates, cut lines."""

from __future__ import annotations

import math

import pytest

from minitune.base.text import cut, date, duration, plain_or_short, width_of


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (3660, "1 h 1 min"),
        (7200, "2 h"),
        (90_061, "1 d 1 h"),
        (864_000 + 7200, "10 d 2 h"),
    ],
)
def test_a_length_of_time_has_at_most_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_an_unknown_time_and_no_time_have_no_date() -> None:
    assert [date(at_s) for at_s in (0, math.nan, math.inf, 1e300)] == [""] * 4
    assert date(86_400 * 365).startswith("1971-01-01") or date(86_400 * 365).startswith("1970-12-31")


@pytest.mark.parametrize("columns", [3, 4, 5, 8, 11])
def test_a_line_of_wide_characters_is_cut_to_its_columns(columns: int) -> None:
    shown = cut("日本語日本語", columns)
    assert columns - 1 <= width_of(shown) <= columns
    assert shown.endswith("...")


def test_a_page_gets_whole_numbers_that_browsers_round_as_texts() -> None:
    assert plain_or_short(2**53 - 1) == 2**53 - 1
    assert plain_or_short(2**53) == str(2**53)
    assert plain_or_short(math.inf) == "inf"
