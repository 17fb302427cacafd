"""Lines of what programs print, as a terminal shows them."""

import tracemalloc

import pytest

from minitune.base import lines
from minitune.base.lines import LineSplitter, shown_lines

OUTPUT = (
    b"\r 10%|#   |\r100%|####|\r            \rafter a bar\n"
    b"1/2 [=> ]\r\r2/2 [==]\r\n"
    b"\x1b[32mgreen\x1b[0m, \x1b]8;;http://x\x07link\x1b]8;;\x07\n"
    b"50%\x1b[2K\rerased\n"
    b"\n"
    b"\xef\xbb\xbf{with a mark}\r\n"
    b"caf\xc3\xa9 \xff\x1e\n"
    b"100%\r"
)
SHOWN = ["after a bar", "2/2 [==]", "green, link", "erased", "", "{with a mark}", "café \ufffd\x1e", "100%"]


def split(splitter, pieces):
    """The lines of an output that comes in pieces."""
    found = []
    for piece in pieces:
        for _, line in splitter.feed(piece):
            if line is not None:
                found.append(line)
    last = splitter.end()
    return found if last is None else [*found, last]


def test_lines_are_what_a_terminal_shows():
    assert shown_lines(OUTPUT) == SHOWN
    assert shown_lines(b"") == []
    assert shown_lines(b"\n") == [""]


def test_lines_are_the_same_however_their_bytes_come():
    for length in range(1, len(OUTPUT) + 1):
        pieces = [OUTPUT[begin : begin + length] for begin in range(0, len(OUTPUT), length)]
        splitter = LineSplitter()

        assert split(splitter, pieces) == SHOWN
        assert b"".join(piece for data in pieces for piece, _ in LineSplitter().feed(data)) == OUTPUT


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_that_is_too_long_is_left_out(monkeypatch, end):
    monkeypatch.setattr(lines, "LONGEST_BYTES", 10)
    splitter = LineSplitter()

    assert split(splitter, [b"before\n", *[b"x"] * 30, end]) == ["before"]
    assert split(splitter, [b"0123456789"]) == ["0123456789"]
    assert split(splitter, [*[b"x"] * 30, b"\r", b"visible\n"]) == ["visible"]
    assert splitter.too_long == 1


def test_an_output_without_lines_takes_little_memory(monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_BYTES", 1_000_000)
    splitter = LineSplitter()
    tracemalloc.start()
    try:
        for end in (b"\r", b""):
            assert split(splitter, [b"x" * 50_000 + end] * 200) == ([] if not end else ["x" * 50_000])
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 4_000_000
