"""Short texts for people: lengths of time, dates, cut lines."""

import io
import logging
import math
import os
import sys

import pytest
from kit import Scalar

from minitune.base.text import (
    Console,
    colored,
    counted,
    cut,
    date,
    duration,
    echo,
    is_long,
    is_terminal,
    name_of_int,
    name_of_signal,
    number_text,
    one_line,
    plain_number,
    plain_numbers,
    plain_or_short,
    warn_once,
    width_of,
    without_codes,
    wrapped,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (0.4, "0 s"),
        (59, "59 s"),
        (59.6, "1 min"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h"),
        (200, "3 min 20 s"),
        (3660, "1 h 1 min"),
        (7200, "2 h"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d"),
        (90_061, "1 d 1 h"),
        (864_000 + 7200, "10 d 2 h"),
    ],
)
def test_a_length_of_time_has_at_most_two_units(seconds, text):
    assert duration(seconds) == text


def test_an_unknown_time_and_no_time_have_no_date():
    assert [date(at_s) for at_s in (0, math.nan, math.inf, 1e300)] == [""] * 4
    assert date(86_400 * 365).startswith("1971-01-01") or date(86_400 * 365).startswith("1970-12-31")


@pytest.mark.parametrize("columns", [3, 4, 5, 8, 11])
def test_a_line_of_wide_characters_is_cut_to_its_columns(columns):
    shown = cut("日本語日本語", columns)
    assert columns - 1 <= width_of(shown) <= columns
    assert shown.endswith("...")


def test_a_line_is_cut_only_if_it_is_too_long():
    assert [cut("0123456789", columns) for columns in (11, 10, 9, 4, 3, 2, 1, 0, -1)] == [
        "0123456789",
        "0123456789",
        "012345...",
        "0...",
        "...",
        "..",
        ".",
        "",
        "",
    ]
    assert cut("日本語", 6) == "日本語"
    assert cut("日本語", 5) == "日..."


@pytest.mark.parametrize(
    ("text", "columns"),
    [("", 0), ("abc", 3), ("日本", 4), ("e\u0301", 1), ("ｱ", 1), ("\uff21", 2), ("👍", 2), ("a\u200db", 2)],
)
def test_a_text_takes_the_columns_of_a_terminal(text, columns):
    assert width_of(text) == columns


def test_only_codes_are_removed_from_a_text():
    assert without_codes(colored("red", "31") + "\r\x07") == "red\r\x07"
    assert colored("red", "") == "red"


def test_one_line_has_single_spaces():
    assert one_line("  a\n\n b\t\x1b[1mc ") == "a b c"


def test_numbers_are_whole_or_have_six_digits():
    shown = {
        1: "1",
        2.0: "2",
        -3.0: "-3",
        0.1234567: "0.123457",
        1234567.5: "1.23457e+06",
        1e14: "100000000000000",
        1e15: "1e+15",
        -1e15: "-1e+15",
        10**20: "100000000000000000000",
        math.inf: "inf",
    }
    assert {value: number_text(value) for value in shown} == shown
    assert number_text(math.nan) == "nan"
    assert [counted(count, "trial") for count in (0, 1, 2)] == ["0 trials", "1 trial", "2 trials"]
    assert name_of_int(1 << 3000) == "<int of 3001 bits>"


def test_numbers_of_other_libraries_become_pythons_own_at_every_depth():
    strange = object()
    assert plain_number(Scalar(0.5)) == 0.5
    assert plain_number(Scalar("text")) == "text"
    assert plain_number(strange) is strange
    kept = Scalar(strange)
    assert plain_number(kept) is kept
    assert plain_numbers([Scalar(1), (Scalar(2.5),), {Scalar("k"): [Scalar(True)]}]) == [1, (2.5,), {"k": [True]}]
    assert type(plain_numbers((Scalar(1),))) is tuple


def test_a_value_is_long_from_a_thousand_members_or_ten_thousand_characters():
    assert [is_long("x" * size) for size in (10_000, 10_001)] == [False, True]
    assert [is_long([0] * size) for size in (1_000, 1_001)] == [False, True]
    assert is_long([[0] * 500, [0] * 500])
    assert is_long({"a": {"b": "x" * 10_001}})


def test_signals_have_their_names():
    assert [name_of_signal(number) for number in (9, 15, 0, 99)] == ["SIGKILL", "SIGTERM", "signal 0", "signal 99"]


def test_a_warning_is_given_once(caplog):
    for text, about in (("100 % of one", None), ("100 % of one", None), ("first", "key"), ("second", "key")):
        warn_once(text, about)
    assert caplog.messages == ["100 % of one", "first"]


def test_output_ends_with_the_first_write_that_fails(caplog):
    class Refusing(io.StringIO):
        def write(self, text):
            raise OSError("no space")

    console = Console(Refusing())
    for _ in range(2):
        console.write("text")
    assert console.is_off
    assert [text.count("no space") for text in caplog.messages] == [1]
    assert console.columns() is None


def test_a_console_writes_clean_texts_to_its_stream():
    class OnlyAscii(io.StringIO):
        def write(self, text):
            text.encode("ascii")
            return super().write(text)

    stream = OnlyAscii()
    console = Console(stream)
    console.write("\x1b[1mbold\x1b[0m é\n")
    console.write_codes("\x1b[1mbold\x1b[0m\n")
    assert stream.getvalue() == "bold ?\n\x1b[1mbold\x1b[0m\n"


def test_a_console_without_standard_output_is_off(monkeypatch, caplog):
    monkeypatch.setattr(sys, "stdout", None)
    console = Console()
    assert not console.is_terminal()
    console.write("text")
    assert console.is_off
    assert "there is no standard output" in caplog.text


def test_a_console_writes_all_of_a_text_to_a_file_in_its_encoding(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    with open(tmp_path / "out", "w", encoding="latin-1") as stream:
        stream.write("before ")
        Console(stream).write("äöü → done\n")
        echo("ä →", 2, file=stream)
    assert (tmp_path / "out").read_bytes() == "before äöü ? done\nä ? 2\n".encode("latin-1")


def test_only_an_open_terminal_is_one():
    closed = io.StringIO()
    closed.close()
    assert not any(map(is_terminal, (None, closed, io.StringIO(), object())))


def test_a_message_of_the_log_is_clean(caplog):
    logger = logging.getLogger("minitune")
    logger.warning("of %s", "\x1b[31mred\x1b[0m")
    logger.warning("100 %")
    try:
        raise ValueError("\x1b[31mred\x07")
    except ValueError:
        logger.warning("it failed", exc_info=True)
    assert caplog.messages == ["of red", "100 %", "it failed"]
    assert "ValueError: red?" in caplog.text
    assert "\x1b" not in caplog.text


def test_a_page_gets_short_texts_and_plain_values():
    values = [None, True, "x" * 200, -(2**53) + 1, 2**53 - 1, 0.5, Scalar(3)]
    assert [plain_or_short(value) for value in values] == [*values[:-1], 3]
    assert [plain_or_short(sign * 2**53) for sign in (1, -1)] == [str(2**53), str(-(2**53))], "browsers round these"
    assert len(plain_or_short("x" * 201)) <= 202
    assert plain_or_short([1, {"a": math.nan}]) == "[1, {'a': nan}]"
    assert plain_or_short(math.inf) == "inf"


@pytest.mark.parametrize(
    ("text", "columns", "lines"),
    [
        ("a few words", None, ["a few words"]),
        ("a few words", 11, ["a few words"]),
        ("a few words", 10, ["a few", "words"]),
        ("see `minitune resume /a b` for more", 20, ["see", "`minitune resume /a b`", "for more"]),
        ("results in /a/very/long/path", 12, ["results in", "/a/very/long/path"]),
        ("日本 日本 日本", 9, ["日本 日本", "日本"]),
        ("", 10, [""]),
    ],
)
def test_prose_is_wrapped_between_words_and_commands_and_paths_stay_whole(text, columns, lines):
    assert wrapped(text, columns) == lines
