"""A script that a test starts is a file in a folder `scripts`, where a linter reads it, and not a string."""

import ast
import re
import textwrap
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent

DATA = {
    "extras/notebook/test_notebook_cells.py": "cells of a notebook",
    "test_layers.py": "imports that the checker of layers reads",
}
"""Files whose strings no interpreter runs as they are, and what these are."""

SHORT = 3
"""So many lines may be a string: they are easier to read beside their test."""


LIKELY = re.compile(r"""(?:^|['"]|\\n)\s*(?:import|from|def|async) """, flags=re.MULTILINE)


def may_have_scripts(source):
    """Whether a line of a string may begin as an import or a function does. Only then the source is parsed."""
    outside = re.sub(r"^ *(?:import|from|def|async) ", "", source, flags=re.MULTILINE)
    within = source.split('"""')[1::2] + source.split("'''")[1::2]
    return any(LIKELY.search(text) for text in (outside, *within))


def scripts_in(source):
    """The lines at which a string begins that is a longer script: it imports something or has a function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "0" for part in node.values)
        else:
            continue
        if sum(bool(line.strip()) for line in text.splitlines()) > SHORT and is_script(text):
            yield node.lineno


def is_script(text):
    try:
        tree = ast.parse(textwrap.dedent(text))
    except (SyntaxError, ValueError):
        return False
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef)
    return any(isinstance(node, kinds) for node in ast.walk(tree))


def test_no_string_of_a_test_is_a_script():
    files = [path for path in TESTS.rglob("*.py") if path.relative_to(TESTS).as_posix() not in DATA]
    sources = {path: path.read_text(encoding="utf-8") for path in files}
    found = [
        f"{path}:{line}" for path, source in sources.items() if may_have_scripts(source) for line in scripts_in(source)
    ]
    assert found == [], f"put them into files in {TESTS / '...' / 'scripts'}, or say in DATA why they are none"


def test_each_file_with_code_as_data_still_has_some():
    assert [name for name in DATA if not list(scripts_in((TESTS / name).read_text(encoding="utf-8")))] == []


@pytest.mark.parametrize(
    ("string", "is_found"),
    [
        ("'import os\\n\\nx = 1\\ny = 2\\nz = 3\\n'", True),
        ("f'import os\\nx = {1}\\ny = 2\\nz = 3'", True),
        ("'    def f():\\n        a = 1\\n        b = 2\\n        return a\\n'", True),
        ("'import os\\nx = 1\\ny = 2\\n'", False),
        ("'x = 1\\ny = 2\\nz = 3\\nw = 4\\n'", False),
        ("'a text that has\\nlines\\nand\\nno import os\\n'", False),
    ],
)
def test_a_string_is_a_script_if_it_has_four_lines_and_imports_or_defines(string, is_found):
    assert list(scripts_in(f"code = {string}")) == [1] * is_found
    assert may_have_scripts(f"code = {string}") >= is_found
