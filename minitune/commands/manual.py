"""`minitune help` shows the pages of the manual, which are Markdown files in the package.

A terminal shows a page in a pager.
"""

from __future__ import annotations

import argparse
import re
import sys
from importlib.resources import files

from minitune.commands import Commands, set_command

INDEX = "index"
_SECTIONS_SHOWN = 20


def add_parser(commands: Commands) -> None:
    """Add the parser of `minitune help`."""
    parser = commands.add_parser(
        "help",
        description="Show a page of the manual, or the sections that contain the words.",
        epilog="The exit status is 1 if there is no such page or word, else 0.",
    )
    parser.add_argument("subject", nargs="*", help="a page, or words to find (default: the list of all pages)")
    set_command(parser, show_manual, "minitune help schedulers", "minitune help early stopping")


def show_manual(options: argparse.Namespace) -> int:
    """Run `minitune help`: show the page with this name, or the sections that contain the words."""
    from minitune.base.text import echo  # it loads logging

    words = " ".join(options.subject)
    pages = read_pages()
    name = _page_named(words, sorted(pages))
    if name is not None:
        if sys.stdout.isatty():
            import pydoc  # it uses PAGER, and works on the simplest terminals

            pydoc.pager(pages[name])
        else:
            echo(pages[name], end="")
        return 0
    sections = _sections_with(words, pages)
    if not sections:
        echo(
            f"minitune: no page of the manual has {words!r}; the pages are {', '.join(sorted(pages))}", file=sys.stderr
        )
        return 1
    echo(f"{words!r} is in these sections; `minitune help PAGE` shows a page:")
    width = max(len(page) for page, _ in sections)
    for page, heading in sections[:_SECTIONS_SHOWN]:
        echo(f"  {page:<{width}}  {heading}")
    if len(sections) > _SECTIONS_SHOWN:
        echo(f"  and {len(sections) - _SECTIONS_SHOWN} more")
    return 0


def read_pages() -> dict[str, str]:
    """The texts of all pages by their names."""
    return {
        entry.name.removesuffix(".md"): entry.read_text(encoding="utf-8")
        for entry in (files("minitune") / "docs").iterdir()
        if entry.name.endswith(".md")
    }


def _page_named(words: str, names: list[str]) -> str | None:
    """The page with this name, or the only one whose name begins like this; the index for an empty name."""
    name = words.lower().replace(" ", "-") or INDEX
    # `minitune help check` is enough for "checkpoints", but `s` could mean many pages.
    beginning = [page for page in names if page.startswith(name)]
    if name in names:
        return name
    return beginning[0] if len(beginning) == 1 else None


def _sections_with(words: str, pages: dict[str, str]) -> list[tuple[str, str]]:
    """The page and heading of each section that contains all words.

    A word matches only the beginning of a word: "ci" must not find "scikit-learn".
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
