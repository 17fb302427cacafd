"""`minitune help` shows the pages of the manual, which are Markdown files in the package.

A terminal shows a page in a pager.
"""

from __future__ import annotations

import argparse
import sys
from importlib.resources import files

from minitune.commands import Commands, set_command

INDEX = "index"


def add_parser(commands: Commands) -> None:
    """Add the parser of `minitune help`."""
    parser = commands.add_parser(
        "help",
        description="Show a page of the manual, or name the pages that contain all of the words.",
        epilog="The exit status is 1 if there is no such page or word, else 0.",
    )
    parser.add_argument("subject", nargs="*", help="a page, or words to find (default: the list of all pages)")
    set_command(parser, show_manual, "minitune help schedulers", "minitune help early stopping")


def show_manual(options: argparse.Namespace) -> int:
    """Run `minitune help`: show the page with this name, or name the pages that contain the words."""
    from minitune.base.text import echo  # it loads logging

    words = " ".join(options.subject)
    pages = {
        entry.name.removesuffix(".md"): entry.read_text(encoding="utf-8")
        for entry in (files("minitune") / "docs").iterdir()
        if entry.name.endswith(".md")
    }
    name = words.lower().replace(" ", "-") or INDEX
    # `minitune help check` is enough for "checkpoints", but `s` could mean many pages.
    named = [name] if name in pages else [page for page in pages if page.startswith(name)]
    if len(named) == 1:
        text = pages[named[0]]
        if sys.stdout.isatty():
            import pydoc  # it uses PAGER, and works on the simplest terminals

            pydoc.pager(text)
        else:
            echo(text, end="")
        return 0
    found = [page for page in sorted(pages) if all(word.lower() in pages[page].lower() for word in options.subject)]
    if not found:
        known = ", ".join(sorted(pages))
        echo(f"minitune: no page of the manual has {words!r}; the pages are {known}", file=sys.stderr)
        return 1
    echo(f"{words!r} is in these pages; `minitune help PAGE` shows one:", *found, sep="\n  ")
    return 0
