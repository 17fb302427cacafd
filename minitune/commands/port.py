"""`minitune port` changes the imports of scripts and notebooks that use Ray Tune, and lists what is left to do.

What the command cannot change is in `minitune.commands.unported`.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from minitune.base.files import atomic_write
from minitune.base.text import counted, echo, is_terminal, printable
from minitune.commands import Commands, set_command
from minitune.commands.unported import NEW, OLD, PATH, findings, of_path, parsed

_NEW_RAY = f"{NEW}.{OLD}"
_WHOLE_RAY = f"{_NEW_RAY} as {OLD}"

_FROM = re.compile(rf"(\s*from\s+){OLD}(?=[.\s])")
_IMPORT = re.compile(r"\s*import\s")
_MODULE = re.compile(rf"(?<![\w.]){OLD}((?:\.\w+)*)(\s+as\s+\w+)?(?=\s*(?:,|;|\\|$))")

_MENTION = re.compile(rf"""(?:from|import)\s[^\n]*\b{OLD}\b|['"]{OLD}[.'"\\]|\buse_ray\b""")
"""What a script, or the JSON of a notebook, contains if it uses Ray."""

_CODE = (".py", ".ipynb")
_SETTINGS = (".cfg", ".ini", ".json", ".toml", ".yaml", ".yml")
_MOST_BYTES = 1_000_000
"""A longer file of settings is data."""
_OTHERS = {"__pycache__", "node_modules", "site-packages"}
"""Directories with code of others."""


def add_parser(commands: Commands) -> None:
    """Add the parser of `minitune port`."""
    parser = commands.add_parser(
        "port",
        description="Change the imports of Ray Tune scripts or Jupyter notebooks to minitune: show the changes as a "
        "diff, and list the names that minitune does not have, with what to use instead, and the uses of Ray that are "
        "no import lines. No script is run.",
        epilog="The exit status is 0 if nothing is left to change, 1 otherwise. These messages do not count: about a "
        "package that a name needs and that cannot be imported here, a private attribute of a result, a library that "
        "can import Ray itself. A position in a notebook is the number of the code cell and of the line in it.",
    )
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help="a file that ends with .py or .ipynb, or a directory: all such files in it that use Ray, and its files of "
        "settings with paths such as ray.tune.search.optuna.OptunaSearch",
    )
    parser.add_argument("--write", action="store_true", help="change the files instead of showing the diff")
    set_command(parser, port, "minitune port train.py", "minitune port --write src notebooks")


def port(options: argparse.Namespace) -> int:
    """Run `minitune port`: the diff goes to stdout, the list to stderr."""
    is_done = True
    for path in options.paths:
        files = [path]
        if os.path.isdir(path):
            files = list(_files_with_ray(path))
        uses_ray = False
        for file in files:
            try:
                found = _port_file(file, write=options.write)
            except (OSError, SyntaxError, ValueError, RecursionError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                echo(f"{file}: {why}", file=sys.stderr)
                found = _Ported(1, is_done=False)
            uses_ray = uses_ray or found.count > 0
            is_done = is_done and found.is_done
        if not uses_ray:
            echo(f"{path} imports nothing of Ray: nothing to change", file=sys.stderr)
    return 0 if is_done else 1


@dataclass(frozen=True)
class _Ported:
    """What was found in a file."""

    count: int
    is_done: bool


def _port_file(path: str, *, write: bool) -> _Ported:
    """Show or write the changes of a file, and its messages."""
    if path.lower().endswith(_SETTINGS):
        return _look_at_settings(path)
    document = _read(path)
    changed = [_changed(cell.lines) for cell in document.cells]
    known: dict[str, Any] = {}
    found = [
        (cell, lines, finding)
        for cell, lines in zip(document.cells, changed, strict=True)
        # An empty text is a line that goes. The numbers are those of the lines before.
        for finding in sorted(set(findings([line or "\n" for line in lines], known, is_notebook=document.is_notebook)))
    ]
    pairs = [(cell, lines) for cell, lines in zip(document.cells, changed, strict=True) if cell.lines != lines]
    count = sum(old != new for cell, lines in pairs for old, new in zip(cell.lines, lines, strict=True))
    if write and count:
        atomic_write(os.path.realpath(path), document.encode(changed))
        echo(f"{path}: changed {counted(count, 'line')}")
    elif not write:
        _show(pairs)
    for cell, lines, finding in found:
        line = finding.line
        if write:
            line -= lines[: line - 1].count("")
        echo(f"{cell.name}:{line}: {finding.text}", file=sys.stderr)
    return _Ported(count + len(found), not any(finding.is_missing for _, _, finding in found))


def _show(pairs: Sequence[tuple[_Cell, Sequence[str]]]) -> None:
    """Print the changes as a diff."""
    has_terminal = is_terminal(sys.stdout)  # elsewhere `patch` may read it, so it stays as it is
    for cell, lines in pairs:
        kept = [line for line in lines if line]
        for line in difflib.unified_diff(cell.lines, kept, cell.name, cell.name):
            shown = line
            if has_terminal:
                shown = printable(line)
            sys.stdout.write(shown.removesuffix("\n") + "\n")


def _look_at_settings(path: str) -> _Ported:
    """List the paths of Ray in a file that is no code."""
    with open(path, encoding="utf-8", errors="replace") as file:
        paths = [(number, match[0]) for number, line in enumerate(file, 1) for match in PATH.finditer(line)]
    for number, found in paths:
        echo(f"{path}:{number}: {of_path(number, found).text}", file=sys.stderr)
    return _Ported(len(paths), not paths)


# -- the files ---------------------------------------------------------------------------------------------------------
def _files_with_ray(directory: str) -> Iterator[str]:
    """The files below a directory that seem to use Ray, and what cannot be read; no hidden files, no code of others."""
    unread: list[OSError] = []
    for parent, directories, names in os.walk(directory, onerror=unread.append):
        yield from (str(error.filename) for error in unread)
        unread.clear()
        directories[:] = sorted(name for name in directories if _is_of_the_user(parent, name))
        for name in sorted(names):
            path = os.path.join(parent, name)
            if not name.startswith(".") and os.path.isfile(path) and _seems_to_use_ray(path):
                yield path


def _is_of_the_user(parent: str, name: str) -> bool:
    is_environment = os.path.exists(os.path.join(parent, name, "pyvenv.cfg"))
    return not (name.startswith(".") or name in _OTHERS or is_environment)


def _seems_to_use_ray(path: str) -> bool:
    """Whether a file is code or settings, and mentions Ray where `_port_file` looks."""
    kind = os.path.splitext(path)[1].lower()
    if kind not in (*_CODE, *_SETTINGS) or (kind in _SETTINGS and os.path.getsize(path) > _MOST_BYTES):
        return False
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return True
    return (_MENTION if kind in _CODE else PATH).search(text) is not None


@dataclass(frozen=True)
class _Cell:
    """A piece of Python code.

    Attributes:
        lines: Its lines, each with its line end.
    """

    name: str
    lines: list[str]


@dataclass(frozen=True)
class _Document:
    """A file as a list of cells. A script is one cell."""

    cells: list[_Cell]
    encode: Callable[[Sequence[Sequence[str]]], bytes]
    is_notebook: bool = False


def _read(path: str) -> _Document:
    """Read a script, or a notebook if the name of the file ends with `.ipynb`."""
    if path.lower().endswith(".ipynb"):
        return _read_notebook(path)
    with open(path, "rb") as file:
        encoding, _ = tokenize.detect_encoding(file.readline)
    with open(path, encoding=encoding, newline="") as source:
        lines = list(source)
    return _Document([_Cell(path, lines)], lambda changed: "".join(changed[0]).encode(encoding))


def _read_notebook(path: str) -> _Document:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{error}; a notebook must be JSON") from None
    found = None
    if isinstance(content, dict):
        found = content.get("cells")
    if not isinstance(found, list):
        raise ValueError(
            "it must be a notebook of format 4, but has no list 'cells'; "
            "`jupyter nbconvert --to notebook` converts older formats"
        )
    code = [each for each in found if isinstance(each, dict) and each.get("cell_type") == "code"]
    sources = ["".join(each.get("source") or "") for each in code]  # it is a text or a list of lines
    cells = [_Cell(f"{path}:cell {number}", source.splitlines(True)) for number, source in enumerate(sources, 1)]

    def encode(changed: Sequence[Sequence[str]]) -> bytes:
        for each, lines in zip(code, changed, strict=True):
            each["source"] = list(lines) if isinstance(each.get("source"), list) else "".join(lines)
        # Editors indent notebooks by one space, `json.dumps` by none. In the old layout, a difference shows the changed
        # lines alone.
        indent = re.match(r"\{\r?\n( *)", text)
        end = text[len(text.rstrip()) :]
        spaces = len(indent[1]) if indent else None
        return (json.dumps(content, indent=spaces, ensure_ascii=text.isascii()) + end).encode()

    return _Document(cells, encode, is_notebook=True)


# -- the changes -------------------------------------------------------------------------------------------------------
def _changed(lines: Sequence[str]) -> list[str]:
    """The lines with the imports changed."""
    changed = [_ported(line) for line in lines]
    try:
        tree, _ = parsed(changed)
    except SyntaxError:
        return changed
    for node in ast.walk(tree):
        for block in ("body", "orelse", "finalbody"):
            statements = getattr(node, block, None)
            if isinstance(statements, list):
                _drop_repeated(statements, lines, changed)
    return changed


def _drop_repeated(statements: Sequence[ast.stmt], lines: Sequence[str], changed: list[str]) -> None:
    """Empty the changed lines of a block that only import `minitune.ray` once more."""
    is_imported = False
    for statement in statements:
        if not isinstance(statement, ast.Import):
            continue
        index = statement.lineno - 1
        if is_imported and changed[index] != lines[index] and changed[index].strip() == f"import {_WHOLE_RAY}":
            changed[index] = ""
        is_imported = is_imported or any((each.name, each.asname) == (_NEW_RAY, OLD) for each in statement.names)


def _ported(line: str) -> str:
    """The line with `minitune` in place of `ray`, if it is an import."""
    found = _FROM.match(line)
    if found is not None:
        rest = line[found.end() :]
        new = NEW
        if not rest.startswith(".") and "__version__" in rest:
            new = _NEW_RAY
        return f"{found[1]}{new}{rest}"
    if _IMPORT.match(line):
        code, sign, comment = line.partition("#")
        return _once(_MODULE.sub(_module, code)) + sign + comment
    return line


def _module(found: re.Match[str]) -> str:
    """The name for `ray` or a module below it in an import, after which the code's own names are as before."""
    path, alias = found.groups()
    if alias is None:
        return _WHOLE_RAY
    if path:
        return f"{NEW}{path}{alias}"
    return f"{_NEW_RAY}{alias}"


def _once(code: str) -> str:
    """An import line that has `minitune.ray` only once."""
    kept: list[str] = []
    for name in code.split(","):
        if name.strip() == _WHOLE_RAY and any(each.strip().endswith(_WHOLE_RAY) for each in kept):
            end = name[len(name.rstrip()) :]
            kept[-1] = kept[-1].rstrip() + end
        else:
            kept.append(name)
    return ",".join(kept)
