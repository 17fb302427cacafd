"""`minitune help` shows the pages of the manual, which are Markdown files in the package.

On a terminal, a pager shows a page in the terminal's width. A pipe gets the page as it is.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from importlib.resources import files
from itertools import groupby

from minitune.commands import Commands

INDEX = "index"
_PLACES_SHOWN = 20
_MAX_COLUMNS = 120


def add_parser(commands: Commands) -> None:
    """Add the parser of `minitune help`."""
    parser = commands.add_parser(
        "help",
        description="Show a page of the manual, or the sections that contain the words.",
        epilog="The exit status is 1 if there is no such page or word, else 0.",
    )
    parser.add_argument("subject", nargs="*", help="a page, or words to find (default: the list of all pages)")
    parser.set_defaults(command=show_manual)


def show_manual(options: argparse.Namespace) -> int:
    """Run `minitune help`: show the page with this name, or the sections that contain the words."""
    from minitune.base.text import echo  # it loads logging

    words = " ".join(options.subject)
    directory = files("minitune") / "docs"
    pages = {
        entry.name.removesuffix(".md"): entry.read_text(encoding="utf-8")
        for entry in directory.iterdir()
        if entry.name.endswith(".md")
    }
    name = _page_named(words, sorted(pages))
    if name is not None:
        if sys.stdout.isatty():
            import pydoc  # it uses PAGER, and works on the simplest terminals

            pydoc.pager(laid_out(pages[name], min(shutil.get_terminal_size().columns, _MAX_COLUMNS)))
        else:
            echo(pages[name], end="")
        return 0
    places = _places(words, pages)
    if not places:
        echo(f"no page of the manual has {words!r}; the pages are {', '.join(sorted(pages))}", file=sys.stderr)
        return 1
    echo(f"{words!r} is in these sections; `minitune help PAGE` shows a page:")
    width = max(len(page) for page, _ in places)
    for page, heading in places[:_PLACES_SHOWN]:
        echo(f"  {page:<{width}}  {heading}")
    if len(places) > _PLACES_SHOWN:
        echo(f"  and {len(places) - _PLACES_SHOWN} more")
    return 0


def _page_named(words: str, names: list[str]) -> str | None:
    """The page with this name, or the only one whose name begins like this; the index for an empty name."""
    name = words.lower().replace(" ", "-") or INDEX
    # `minitune help check` is enough for "checkpoints", but `s` could mean many pages.
    beginning = [page for page in names if page.startswith(name)]
    if name in names:
        return name
    return beginning[0] if len(beginning) == 1 else None


def _places(words: str, pages: dict[str, str]) -> list[tuple[str, str]]:
    """The page and heading of each section that contains all words. Matching headings come first.

    A word matches only the beginning of a word: "ci" must not find "scikit-learn". A name such as `get_dataframe` has
    several words.
    """
    # Letters and digits before a word rule it out; an underscore does not, because names in code have parts.
    wanted = [re.compile(rf"(?<![^\W_]){re.escape(word)}", re.IGNORECASE) for word in words.split()]
    found = []
    for page in sorted(pages):
        for heading, body in _sections(pages[page]):
            if all(word.search(heading) or word.search(body) for word in wanted):
                in_title = sum(word.search(heading) is not None for word in wanted)
                found.append((-in_title, -sum(len(word.findall(body)) for word in wanted), page, heading))
    return [(page, heading) for _, _, page, heading in sorted(found)]


def _sections(text: str) -> list[tuple[str, str]]:
    """The heading and body of each section. A comment in a block of code is not a heading."""
    sections: list[tuple[str, list[str]]] = []
    in_code = False
    for line in text.splitlines():
        # Opening and closing fences look alike.
        in_code ^= line.startswith("```")
        if line.startswith("#") and not in_code:
            sections.append((line.lstrip("# "), []))
        else:
            sections[-1][1].append(line)
    return [(heading, "\n".join(lines)) for heading, lines in sections]


def laid_out(text: str, columns: int) -> str:
    """A page of the manual for a terminal of this width. Blocks of code stay as they are."""
    lines: list[str] = []
    for number, part in enumerate(re.split(r"^```.*\n", text, flags=re.MULTILINE)):
        if number % 2:  # between two fences
            lines += ["    " + line for line in part.splitlines()]
        else:
            lines += _prose(part, columns)
    return "\n".join(lines) + "\n"


def _prose(text: str, columns: int) -> Iterator[str]:
    """The lines of a part without code. A table, a paragraph and an item of a list are each laid out as a whole."""
    # The files have lines of up to 120 characters, which a narrower terminal would break in the middle.
    joined = re.sub(r"(?<=\S)\n(?![|#*\n]|$)\s*", " ", _without_links(text))  # the lines of one paragraph or item
    for is_table, group in groupby(joined.splitlines(), lambda line: line.startswith("|")):
        if is_table:
            yield from _table(list(group), columns)
            continue
        for line in group:
            indent = ""
            if line.startswith("* "):
                indent = "  "
            yield from textwrap.wrap(line, columns, subsequent_indent=indent, break_on_hyphens=False) or [""]


def _table(rows: list[str], columns: int) -> Iterator[str]:
    """The lines of a table, with its last column wrapped. If that is too wide, each cell gets a separate line."""
    head, _, *body = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    shown = body
    if any(head):
        shown = [head, *body]
    widths = [max(len(row[column]) for row in shown) for column in range(len(head) - 1)]
    last = columns - sum(widths) - 2 * len(widths)
    # A last column of a few letters in each line could not be read.
    if last >= max(columns // 3, *(len(word) for row in shown for word in row[-1].split())):
        for row in shown:
            left = "".join(cell.ljust(width + 2) for cell, width in zip(row, widths, strict=False))
            wrapped = textwrap.wrap(row[-1], last, break_on_hyphens=False) or [""]
            yield (left + wrapped[0]).rstrip()
            yield from (" " * len(left) + line for line in wrapped[1:])
        return
    if len(head) > 2 and head[0]:
        yield from textwrap.wrap(f"{head[0]}:", columns)
    for row in shown if len(head) == 2 else body:
        yield from textwrap.wrap(row[0], columns, break_on_hyphens=False)
        for name, cell in zip(head[1:], row[1:], strict=True):
            told = cell
            if name and len(head) > 2:
                told = f"{name}: {cell}"
            if cell:
                yield from textwrap.wrap(told, columns - 4, initial_indent="    ", subsequent_indent="    ")


def _without_links(text: str) -> str:
    """The text with names of pages in place of links."""

    def named(link: re.Match[str]) -> str:
        page = re.match(r"([\w-]+)\.md", link[2])
        if page is None or page[1] in link[1].lower():
            return link[1]
        return f"{link[1]} (see {page[1]})"

    return re.sub(r"\[([^\]]*)\]\(([^)]*)\)", named, text)
