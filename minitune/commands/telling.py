"""How commands tell facts: as lines for people, and with `--json` as one object for programs.

The object has the number of its schema first. `minitune help command-line` has its keys.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from minitune.base import json_text
from minitune.base.table import short_repr
from minitune.base.text import echo, one_line, wrapped
from minitune.result import flatten

FACTS_SCHEMA = 1
"""The version of all objects that `--json` prints. It grows if a key goes, or gets another meaning."""

_WIDTH = 15
"""The width of the names of facts."""


def add_json(parser: argparse._ActionsContainer) -> None:
    """Add the option `--json`."""
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object; `minitune help command-line` has its keys"
    )


def terminal_width() -> int | None:
    """The width of the terminal; None for a pipe, whose reader must not depend on it."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def echo_prose(text: str, begin: str = "", indent: int | None = None) -> None:
    """Print a text behind `begin`, wrapped at words on a terminal. Its other lines are indented, by default as much."""
    columns = terminal_width()
    indent = len(begin) if indent is None else indent
    for line in wrapped(text, None if columns is None else columns - max(indent, len(begin))):
        echo(f"{begin}{line}")
        begin = " " * indent


def tell(texts: Mapping[str, Any]) -> None:
    """Print facts by name: a line for a text or a number; the name and a line for each part of a list or a dict. What
    is None, False or empty is left out.
    """
    for name, value in texts.items():
        if value is None or value is False or value in ("", [], {}):
            continue
        if isinstance(value, Mapping):  # such as a configuration: its values are the user's
            value = [f"{one_line(key)}: {short_repr(part)}" for key, part in flatten(value).items()]
        if isinstance(value, list):
            echo(name)
            for part in value:
                if isinstance(part, Verbatim):
                    echo(f"  {part}")
                else:
                    echo_prose(part, "  ", 4)
        else:
            echo_prose(str(value), f"{name:<{_WIDTH}} ")


class Verbatim(str):
    """A line that is not wrapped, since it can be copied."""

    __slots__ = ()


def print_json(facts: Mapping[str, Any]) -> None:
    """Print the object for programs, with the objects of a list on lines of their own."""
    parts = []
    for name, value in {"schema": FACTS_SCHEMA, **facts}.items():
        text = json_text.dumps(value)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            items = ",\n    ".join(map(json_text.dumps, value))
            text = f"[\n    {items}\n  ]"
        parts.append(f"  {json_text.dumps(name)}: {text}")
    echo("{\n" + ",\n".join(parts) + "\n}")
