"""Facts that a command shows: as lines for people, and with `--json` as one object for programs.

The object has the number of its schema first, see `FACTS_SCHEMA`. `minitune help command-line` has its keys.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from minitune.base import json_text
from minitune.base.table import short_repr
from minitune.base.text import echo, one_line
from minitune.result import flatten

FACTS_SCHEMA = 1
"""The version of all objects that `--json` prints. It grows if a key goes, or gets another meaning."""

ABSENT = object()
"""The data or the text of a fact that is only for people, or only for programs."""

_WIDTH = 15
"""The width of the names of facts."""


@dataclass(frozen=True)
class Said:
    """A fact as data for programs, and as a text for people, or as lines or named values for them."""

    data: Any
    text: Any = ABSENT


Facts = dict[str, Any]
"""Facts by name: plain values, dicts, lists, and `Said` if people get something else. A program reads `a_b` for `a b`.
"""


def add_json(parser: argparse._ActionsContainer) -> None:
    """Add the option `--json`."""
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object; `minitune help command-line` has its keys"
    )


def tell(facts: Facts, *, as_json: bool) -> None:
    """Print facts."""
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        for line in _lines(name, text_of(value)):
            echo(line)


def print_json(facts: Facts) -> None:
    """Print the object for programs, with the objects of a list on lines of their own."""
    parts = []
    for name, value in _for_programs(facts).items():
        text = json_text.dumps(value)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            items = ",\n    ".join(map(json_text.dumps, value))
            text = f"[\n    {items}\n  ]"
        parts.append(f"  {json_text.dumps(name)}: {text}")
    echo("{\n" + ",\n".join(parts) + "\n}")


def text_of(value: Any) -> Any:
    """What people get of a fact; `ABSENT` for nothing."""
    return value.text if type(value) is Said else value


def data_of(facts: Facts) -> dict[str, Any]:
    """What programs get of facts."""
    found = {name.replace(" ", "_"): _data(value) for name, value in facts.items()}
    return {name: value for name, value in found.items() if value is not ABSENT}


def _for_programs(facts: Facts) -> dict[str, Any]:
    return {"schema": FACTS_SCHEMA, **data_of(facts)}


def _data(value: Any) -> Any:
    if isinstance(value, list):
        return [_data(part) for part in value]
    return value.data if type(value) is Said else value


def _text(value: Any) -> str:
    shown = text_of(value)
    return shown if isinstance(shown, str) else short_repr(shown)


def _lines(name: str, value: Any) -> Iterator[str]:
    """The lines of a fact: one line for a plain value, otherwise the name and a line for each part."""
    if value is None or value is ABSENT or value in ("", [], {}):
        return
    if isinstance(value, Mapping):
        parts = [f"{one_line(key)}: {short_repr(part)}" for key, part in flatten(value).items()]
    elif isinstance(value, list):
        parts = [_text(part) for part in value]
    else:
        yield f"{name:<{_WIDTH}} {_text(value)}"
        return
    yield name
    for part in parts:
        yield f"  {part}"
