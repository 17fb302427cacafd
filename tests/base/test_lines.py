"""Lines of what programs print, as a terminal shows them."""

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
