"""`minitune port` changes the imports of a script or notebook that uses Ray Tune, and lists what minitune lacks.

The lines with imports are changed one by one, as text. So lines for IPython, such as `!pip install x`, do not matter.

For the list, the command parses the changed code and does not run it. It looks up each name of Ray that the code
imports or reaches by attributes. It uses Python's own import system, so the list agrees with a run of the script. It
does not see names that the script creates while it runs.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import json
import os
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import open
from types import ModuleType
from typing import Any, NamedTuple

from minitune._alias import LeftOutError
from minitune.base.files import atomic_write
from minitune.base.text import echo, is_terminal, one_line, printable
from minitune.commands import Commands

_OLD = "ray"
_NEW = "minitune"
_NEW_RAY = "minitune.ray"

_FROM = re.compile(rf"(\s*from\s+){_OLD}(?=[.\s])")
_IMPORT = re.compile(r"\s*import\s")
_MODULE = re.compile(rf"(?<![\w.]){_OLD}((?:\.\w+)*)(\s+as\s+\w+)?(?=\s*(?:,|;|\\|$))")
_FOR_IPYTHON = re.compile(
    r"""\s*(?:
        [%!?]                         # a magic, a command of the shell, help
        | [\w.*]+\?{1,2}\s*$          # help: run?
        | [\w.,\s*\[\]'"]+=\s*[%!]    # files = !ls
    )""",
    re.VERBOSE,
)
_CELL_MAGIC = "%%"
_STAYS = "this import of ray stays, because it does not begin a line: change it yourself"


def add_parser(commands: Commands) -> None:
    """Add the parser of `minitune port`."""
    parser = commands.add_parser(
        "port",
        description="Change the imports of a Ray Tune script or Jupyter notebook to minitune: show the changes as a "
        "diff, and list the names that minitune does not have, with what to use instead. The script is not run.",
        epilog="The exit status is 0 if minitune has every name, 1 if some are missing. A package that a name needs "
        "and that cannot be imported here is listed, too, but does not count as missing. A position in a notebook is "
        "the number of the code cell and of the line in it.",
    )
    parser.add_argument("script", metavar="SCRIPT", help="a file that ends with .py or .ipynb")
    parser.add_argument("--write", action="store_true", help="change the file instead of showing the diff")
    parser.set_defaults(command=port)


class _Finding(NamedTuple):
    """A message about a line of a cell.

    Attributes:
        line: The number of the line, from 1.
        text: The message.
        is_missing: Whether minitune lacks something. If not, the code needs a package that cannot be imported here.
    """

    line: int
    text: str
    is_missing: bool = True


def port(options: argparse.Namespace) -> int:
    """Run `minitune port`: the diff goes to stdout, the list to stderr."""
    document = _read(options.script)
    changed = [[_ported(line) for line in cell.lines] for cell in document.cells]
    count = sum(
        new != old
        for cell, lines in zip(document.cells, changed, strict=True)
        for old, new in zip(cell.lines, lines, strict=True)
    )
    known: dict[str, Any] = {}
    found = [
        (cell.name, finding)
        for cell, lines in zip(document.cells, changed, strict=True)
        for finding in sorted(set(_findings(lines, known, is_notebook=document.is_notebook)))
    ]
    if options.write and count:
        atomic_write(os.path.realpath(options.script), document.encode(changed))
        echo(f"{options.script}: changed {count} line{'s' if count > 1 else ''}")
    else:
        has_terminal = is_terminal(sys.stdout)  # elsewhere `patch` may read it, so it stays as it is
        for cell, lines in zip(document.cells, changed, strict=True):
            for line in difflib.unified_diff(cell.lines, lines, cell.name, cell.name):
                shown = line
                if has_terminal:
                    shown = printable(line)
                sys.stdout.write(shown.removesuffix("\n") + "\n")
    for name, finding in found:
        echo(f"{name}:{finding.line}: {finding.text}", file=sys.stderr)
    if not (count or found):
        echo(f"{options.script} imports nothing of Ray: nothing to change", file=sys.stderr)
    if any(finding.is_missing for _, finding in found):
        return 1
    return 0


# -- the file ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Cell:
    """A piece of Python code.

    Attributes:
        name: What messages call it.
        lines: Its lines, each with its line end.
    """

    name: str
    lines: list[str]


@dataclass(frozen=True)
class _Document:
    """A file as a list of cells. A script is one cell.

    Attributes:
        cells: Its cells with code.
        encode: Returns the content of the file for other lines of the cells.
        is_notebook: Whether one cell may be wrong while the others are right.
    """

    cells: list[_Cell]
    encode: Callable[[Sequence[Sequence[str]]], bytes]
    is_notebook: bool = False


def _read(path: str) -> _Document:
    """Read a script, or a notebook if the name of the file ends with `.ipynb`.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If a notebook is not JSON, or older than version 4 of its format.
    """
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
        raise ValueError(f"{path}: {error}; a notebook must be JSON") from None
    found = None
    if isinstance(content, dict):
        found = content.get("cells")
    if not isinstance(found, list):
        raise ValueError(
            f"{path} must be a notebook of format 4, but has no list 'cells'; "
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
def _ported(line: str) -> str:
    """The line with `minitune` in place of `ray`, if it is an import."""
    found = _FROM.match(line)
    if found is not None:
        rest = line[found.end() :]
        new = _NEW
        if not rest.startswith(".") and "__version__" in rest:
            new = _NEW_RAY
        return f"{found[1]}{new}{rest}"
    if _IMPORT.match(line):
        code, sign, comment = line.partition("#")
        return _MODULE.sub(_module, code) + sign + comment
    return line


def _module(found: re.Match[str]) -> str:
    """The name for `ray` or a module below it in an import, after which the code's own names are as before."""
    path, alias = found.groups()
    if alias is None:
        return f"{_NEW_RAY} as {_OLD}"
    if path:
        return f"{_NEW}{path}{alias}"
    return f"{_NEW_RAY}{alias}"


# -- the list ----------------------------------------------------------------------------------------------------------
def _findings(lines: Sequence[str], known: dict[str, Any], *, is_notebook: bool) -> Iterator[_Finding]:
    """The names in a changed cell that this package lacks.

    Args:
        lines: The lines of the cell.
        known: The objects of the names that cells before it have imported. Those of this one are added.
        is_notebook: Whether the cell is one of a notebook.

    Raises:
        ValueError: If a script is not Python.
    """
    try:
        tree = _parsed(lines)
    except SyntaxError as error:
        if not is_notebook:
            text = f"line {error.lineno or 1}: {error.msg}; the file must be a Python script or a notebook"
            raise ValueError(text) from None
        if not lines[0].startswith(_CELL_MAGIC):  # which may be the head of another language
            yield _Finding(error.lineno or 1, f"{error.msg}: the cell is not Python, so its names are not looked up")
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _of_import(node.lineno, alias, known)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from _of_import_from(node, known)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            _, error_of_name = _resolve(node, known)
            if error_of_name is not None:
                yield _told(node.lineno, error_of_name)


def _parsed(lines: Sequence[str]) -> ast.Module:
    """The syntax tree of a cell. If it is not Python, it is tried again without lines for IPython.

    Raises:
        SyntaxError: If the rest is not Python either.
    """
    try:
        return ast.parse("".join(lines))
    except SyntaxError:
        kept = []
        goes_on = False
        for line in lines:
            is_left_out = goes_on or _FOR_IPYTHON.match(line) is not None
            if goes_on:
                kept.append("\n")
            elif is_left_out:
                kept.append(re.sub(r"\S.*", "pass", line))
            else:
                kept.append(line)
            goes_on = is_left_out and line.rstrip().endswith("\\")
        return ast.parse("".join(kept))


def _of_import(line: int, alias: ast.alias, known: dict[str, Any]) -> Iterator[_Finding]:
    root = alias.name.partition(".")[0]
    if root == _OLD:
        yield _Finding(line, _STAYS)
    elif root == _NEW:
        value, error = _imported(alias.name)
        if error is not None:
            yield _told(line, error)
        elif alias.asname:
            known[alias.asname] = value


def _of_import_from(node: ast.ImportFrom, known: dict[str, Any]) -> Iterator[_Finding]:
    path = str(node.module)
    root = path.partition(".")[0]
    if root == _OLD:
        yield _Finding(node.lineno, _STAYS)
    if root != _NEW:
        return
    module, error = _imported(path)
    if error is not None:
        yield _told(node.lineno, error)
        return
    for alias in node.names:
        if alias.name == "*":
            known.update({name: getattr(module, name) for name in getattr(module, "__all__", ())})
            continue
        value, error = _attribute(module, alias.name)
        if error is not None:
            yield _told(node.lineno, error)
        else:
            known[alias.asname or alias.name] = value


def _imported(path: str) -> tuple[Any, Exception | None]:
    """The module, or the error of its import."""
    try:
        return importlib.import_module(path), None
    except Exception as error:  # a package that a module needs may raise anything
        return None, error


def _attribute(owner: Any, name: str) -> tuple[Any, Exception | None]:
    """The attribute of a module or class, or the error that says best why it does not exist."""
    try:
        return getattr(owner, name), None
    except Exception as error:
        missing = error
    if isinstance(owner, ModuleType):
        # It may also be a submodule that was not imported yet.
        value, error_of_module = _imported(f"{owner.__name__}.{name}")
        says_more = isinstance(error_of_module, LeftOutError) and not hasattr(owner, "__getattr__")
        if error_of_module is None or says_more or _needs_package(error_of_module):
            return value, error_of_module
    return None, missing


def _resolve(node: ast.expr, known: dict[str, Any]) -> tuple[Any, Exception | None]:
    """Resolve an expression such as `tune.schedulers.ASHAScheduler` to a module, class or function.

    The second value is the error of a missing attribute. For an unknown expression, both are None.
    """
    if isinstance(node, ast.Name):
        return known.get(node.id), None
    if not isinstance(node, ast.Attribute):
        return None, None
    owner, _ = _resolve(node.value, known)
    if not isinstance(owner, ModuleType) and not (isinstance(owner, type) and owner.__module__.startswith(_NEW)):
        return None, None
    return _attribute(owner, node.attr)


def _needs_package(error: Exception) -> bool:
    """Whether an import has failed because of a package of somebody else."""
    if isinstance(error, ImportError):
        return (error.name or "").partition(".")[0] not in ("", _NEW)
    return not isinstance(error, AttributeError)


def _told(line: int, error: Exception) -> _Finding:
    """The message about a name that cannot be had."""
    if not _needs_package(error):
        return _Finding(line, str(error))
    package = "a package that is installed but"
    if isinstance(error, ImportError):
        package = f"the package {error.name}, which"
    what = one_line(f"{type(error).__name__}: {error}")
    return _Finding(line, f"this needs {package} cannot be imported here: {what}", is_missing=False)
