"""Reports as lines on the standard output of a program: how Python code in it prints one, and how lines are read.

A report of `print_report` begins with a mark, so it is found behind a text without a newline, and `--pattern` does not
hide it. It goes to descriptor 1, past Python's buffer and a replaced `sys.stdout`: at once, and also from a child.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from typing import Any

from minitune.base.numbers import as_number
from minitune.base.text import plain_numbers
from minitune.result import AUTO_RESULT_KEYS, TIMESTEPS_THIS_ITER

MARK = "\x1e"
"""The record separator of ASCII, before a report of `print_report`."""
RESERVED = frozenset((*AUTO_RESULT_KEYS, TIMESTEPS_THIS_ITER))
"""Keys of a result with a meaning of their own."""
_PAIRS = re.compile(r"report((?:\s+[^\s=]+=\S.*)+)")


def print_report(metrics: dict[str, Any]) -> None:
    """Print a report for `minitune run`. Blocks while the pipe is full.

    Raises:
        TypeError: If `metrics` is not a dict.
    """
    if not isinstance(metrics, dict):
        raise TypeError(f"metrics must be a dict such as {{'loss': 0.1}}, but got {type(metrics).__name__}")
    line = f"{MARK}{json.dumps(plain_numbers(metrics), default=_as_json)}\n".encode()
    if sys.stdout is not None:
        sys.stdout.flush()  # what was printed before stays before
    while line:
        line = line[os.write(1, line) :]


def report_in(line: str, pattern: re.Pattern[str] | None = None) -> dict[str, Any] | None:
    """The metrics in a line of a program's output; None if it is no report. They are the named groups of a match of
    `pattern`; without it, those of a JSON object, or pairs `name=value` after the word `report`. A name that minitune
    uses in results gets an underscore (`own_name`).

    In a line of `print_report`, `done`, `config` and the like mean what they mean in any report.
    """
    _, mark, marked = line.partition(MARK)
    if mark:
        return _json_object(marked)
    if pattern is None:
        found = _unmarked(line.strip())
    else:
        match = pattern.search(f"{line}\n")  # a pattern may ask for the end of the line
        groups = match.groupdict() if match else {}
        found = {name: _value(text) for name, text in groups.items() if text is not None}
    if not found:
        return None
    return {own_name(name): value for name, value in found.items()}


def own_name(name: str) -> str:
    """The name in a result of a metric that a program calls `name`: a name in `RESERVED` gets an underscore."""
    # `config/lr` would become a part of `config`.
    first, slash, rest = name.partition("/")
    if first in RESERVED:
        return f"{first}_{slash}{rest}"
    return name


def _unmarked(line: str) -> dict[str, Any] | None:
    if line.startswith("{"):
        return _json_object(line)
    if not _PAIRS.fullmatch(line):
        return None
    try:
        pairs = [word.partition("=") for word in shlex.split(line)[1:]]
    except ValueError:  # a quotation mark without its partner
        return None
    if all(sign for _, sign, _ in pairs):
        return {name: _value(text) for name, sign, text in pairs}
    return None


def _as_json(value: Any) -> Any:
    number = as_number(value)
    if number is None:
        return str(value)
    return number


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found else None


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
