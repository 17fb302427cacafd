"""The Python code of a script or of a Jupyter notebook, as a list of cells, for commands that change it.

A script is one cell. Cells may contain lines for IPython, such as `!pip install x` or `%matplotlib inline`, which are
not Python. `Document.parse` leaves them out and keeps the numbers of the other lines, so a position in the syntax tree
is a position in the file.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import tokenize
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from minitune.base.files import atomic_write

LineMessage = tuple[int, str]
"""The number of a line in all cells together, from 1, and a message about it."""

# Only lines at which Python has found an error are compared with these forms.
_FOR_IPYTHON = re.compile(
    r"""\s*(?:
        [%!?]                         # a magic, a command of the shell, help
        | [\w.*]+\?{1,2}\s*$          # help: run?
        | [\w.,\s*\[\]'"]+=\s*[%!]    # files = !ls
    )""",
    re.VERBOSE,
)
_CELL_MAGIC = re.compile(r"%%\w")
_NEXT_CELL = re.compile(r"%%\w|#\s*%%|#\s*In\[[\d ]*\]")
"""The first line of a cell in a script: a magic, or a comment of an editor or of `nbconvert`."""


@dataclass(frozen=True)
class CodeCell:
    """A piece of Python code.

    Attributes:
        name: What messages call it.
        lines: Its lines, each with its line end.
    """

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Document:
    """The cells of a file.

    Attributes:
        path: The file.
        cells: Its cells. A cell whose lines have changed keeps the number of its lines.
        encode: Returns the content of the file for other cells of the same number.
        is_notebook: Whether one cell may be wrong while the others are right.
    """

    path: str
    cells: tuple[CodeCell, ...]
    encode: Callable[[Sequence[CodeCell]], bytes]
    is_notebook: bool = False

    @property
    def lines(self) -> list[str]:
        """The lines of all cells."""
        return [line for cell in self.cells for line in cell.lines]

    def with_lines(self, lines: Sequence[str]) -> Document:
        """The document with other lines, as many as it has."""
        rest = iter(lines)
        cells = tuple(CodeCell(cell.name, tuple(next(rest) for _ in cell.lines)) for cell in self.cells)
        return Document(self.path, cells, self.encode, self.is_notebook)

    def write(self) -> None:
        """Replace the content of the file."""
        atomic_write(os.path.realpath(self.path), self.encode(self.cells))

    def position(self, number: int) -> str:
        """The name of a line in messages: the cell and the line's number in it."""
        firsts = self._first_numbers()
        index = bisect_right(firsts, number) - 1
        return f"{self.cells[index].name}:{number - firsts[index] + 1}"

    def parse(self) -> tuple[ast.Module, list[tuple[int, str]], list[LineMessage]]:
        """Parse all cells.

        Returns:
            One syntax tree of all cells; the lines that are not in it; a message for each cell of a notebook that is
            not Python.

        Raises:
            ValueError: If a script is not Python.
        """
        tree = ast.Module(body=[], type_ignores=[])
        left_out: list[tuple[int, str]] = []
        problems: list[LineMessage] = []
        for cell, first in zip(self.cells, self._first_numbers(), strict=True):
            try:
                module, omitted = _parse(cell.lines)
            except SyntaxError as error:
                number = min(error.lineno or 1, len(cell.lines))
                if not self.is_notebook:
                    text = f"{self.path}, line {number}: {error.msg}; it must be a Python script or a notebook"
                    raise ValueError(text) from None
                problems.append((first + number - 1, f"{error.msg}: the cell is not Python, and is left as it is"))
                continue
            ast.increment_lineno(module, first - 1)
            tree.body += module.body
            left_out += [(first + index, cell.lines[index]) for index in omitted]
        return tree, left_out, problems

    def _first_numbers(self) -> list[int]:
        firsts = []
        number = 1
        for cell in self.cells:
            firsts.append(number)
            number += len(cell.lines)
        return firsts


def read_document(path: str) -> Document:
    """Read a script, or a notebook if the name of the file ends with `.ipynb`.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If a notebook is not JSON, or older than version 4 of its format.
    """
    if path.lower().endswith(".ipynb"):
        return _read_notebook(path)
    with tokenize.open(path) as file:
        source = file.read()
        encoding = file.encoding
    with open(path, "rb") as raw:
        line_end = "\n"
        if b"\r\n" in raw.read():
            line_end = "\r\n"

    def encode(cells: Sequence[CodeCell]) -> bytes:
        return "".join(cells[0].lines).replace("\n", line_end).encode(encoding)

    return Document(path, (CodeCell(path, _lines_of(source)),), encode)


def _read_notebook(path: str) -> Document:
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
    cells = []
    for number, each in enumerate(code, 1):
        source = each.get("source") or ""
        if not isinstance(source, str):
            source = "".join(map(str, source))
        cells.append(CodeCell(f"{path}:cell {number}", _lines_of(source)))

    def encode(cells: Sequence[CodeCell]) -> bytes:
        for each, cell in zip(code, cells, strict=True):
            each["source"] = list(cell.lines) if isinstance(each.get("source"), list) else "".join(cell.lines)
        return _as_before(content, text).encode()

    return Document(path, tuple(cells), encode, is_notebook=True)


def _as_before(content: Any, text: str) -> str:
    """JSON in the layout of the earlier `text`, so that a difference shows the changed lines alone."""
    # Editors indent notebooks by one space, `json.dumps` by none.
    indent = re.match(r"\{\r?\n( *)", text)
    end = text[len(text.rstrip()) :]
    return json.dumps(content, indent=len(indent[1]) if indent else None, ensure_ascii=text.isascii()) + end


def _lines_of(source: str) -> tuple[str, ...]:
    """The lines as `ast` counts them: `splitlines()` also splits at form feeds."""
    return tuple(io.StringIO(source).readlines())


def _parse(source: Sequence[str]) -> tuple[ast.Module, list[int]]:
    """Parse a cell without its lines for IPython.

    Python's own parser finds these lines: `% b` may also continue an expression, and `!ls` be part of a text. A cell
    magic such as `%%capture` leaves a cell of Python; below `%%bash`, it is another language.

    Returns:
        The syntax tree, and the indices of the lines that were left out.

    Raises:
        SyntaxError: If the rest is not Python either.
    """
    lines = [line if line.endswith("\n") else f"{line}\n" for line in source]
    left_out: set[int] = set()
    while True:
        try:
            return ast.parse("".join(lines)), sorted(left_out)
        except SyntaxError as error:
            index = min((error.lineno or 1) - 1, len(lines) - 1)
            omitted = None
            if index not in left_out and _FOR_IPYTHON.match(lines[index]):
                omitted = _escaped(source, index)
            omitted = omitted or _other_language(source, index)
            if omitted is None or left_out.issuperset(omitted):
                raise
            for each in omitted:
                lines[each] = "\n"
            first = source[omitted[0]]
            indent = first[: len(first) - len(first.lstrip())]
            lines[omitted[0]] = f"{indent}pass\n"
            left_out.update(omitted)


def _escaped(lines: Sequence[str], first: int) -> range:
    """A line for IPython with the lines that continue it after a backslash."""
    end = first + 1
    while end < len(lines) and lines[end - 1].rstrip().endswith("\\"):
        end += 1
    return range(first, end)


def _other_language(lines: Sequence[str], index: int) -> range | None:
    """The cell with the line at `index`, if a cell magic begins it; else None."""
    first = index
    while first > 0 and not _NEXT_CELL.match(lines[first]):
        first -= 1
    if not _CELL_MAGIC.match(lines[first]):
        return None
    end = first + 1
    while end < len(lines) and not _NEXT_CELL.match(lines[end]):
        end += 1
    return range(first, end)
