"""`minitune help`: the pages of the manual, which come with the package as Markdown, in the terminal.

A page is shown as it is written: Markdown reads well as text, and what is shown can be piped and searched.
"""

from __future__ import annotations

import argparse
import sys
from importlib.resources import files

INDEX = "index"
_FOUND, _NOT_FOUND = 0, 1
_PLACES_SHOWN = 20


def main(arguments: list[str], prog: str) -> int:
    """Run the command.

    Args:
        arguments: What follows its name.
        prog: Its name, for the help.

    Returns:
        The exit status: 0 if there is such a page or word, else 1.
    """
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Show a page of the manual, through a pager on a terminal. A word that names no page is looked up "
        "in all of them.",
        epilog="The exit status is 1 if there is no such page or word, else 0.",
    )
    parser.add_argument("subject", nargs="*", help="a page, or words to find (default: the list of all pages)")
    words = " ".join(parser.parse_args(arguments).subject)
    pages = _pages()
    name = _page_named(words, sorted(pages))
    if name is not None:
        _show(pages[name])
        return _FOUND
    places = _places(words, pages)
    if not places:
        print(f"no page of the manual has {words!r}; the pages are {', '.join(sorted(pages))}", file=sys.stderr)
        return _NOT_FOUND
    print(f"{words!r} is in these sections; `{prog} PAGE` shows a page:")
    width = max(len(page) for page, _ in places)
    for page, heading in places[:_PLACES_SHOWN]:
        print(f"  {page:<{width}}  {heading}")
    if len(places) > _PLACES_SHOWN:
        print(f"  and {len(places) - _PLACES_SHOWN} more")
    return _FOUND


def _pages() -> dict[str, str]:
    """The text of each page by its name."""
    directory = files("minitune") / "docs"
    return {
        entry.name.removesuffix(".md"): entry.read_text(encoding="utf-8")
        for entry in directory.iterdir()
        if entry.name.endswith(".md")
    }


def _page_named(words: str, names: list[str]) -> str | None:
    """The page of that name, or the only one that begins so; the index for no name."""
    name = words.lower().replace(" ", "-") or INDEX
    beginning = [page for page in names if page.startswith(name)]
    return name if name in names else beginning[0] if len(beginning) == 1 else None


def _places(words: str, pages: dict[str, str]) -> list[tuple[str, str]]:
    """Page and heading of each section that has the words: those with the words in their headings first."""
    wanted = words.lower()
    found = []
    for page in sorted(pages):
        for heading, body in _sections(pages[page]):
            count = body.lower().count(wanted)
            if count or wanted in heading.lower():
                found.append((wanted not in heading.lower(), -count, page, heading))
    return [(page, heading) for _, _, page, heading in sorted(found)]


def _sections(text: str) -> list[tuple[str, str]]:
    """Heading and body of each section; a comment in a block of code is no heading."""
    sections: list[tuple[str, list[str]]] = []
    in_code = False
    for line in text.splitlines():
        in_code ^= line.startswith("```")
        if line.startswith("#") and not in_code:
            sections.append((line.lstrip("# "), []))
        else:
            sections[-1][1].append(line)
    return [(heading, "\n".join(lines)) for heading, lines in sections]


def _show(text: str) -> None:
    if sys.stdout.isatty():
        import pydoc  # it honours PAGER, and copes with terminals that can do nothing

        pydoc.pager(text)
    else:
        sys.stdout.write(text)
