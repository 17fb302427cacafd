"""Docstrings that no rule of a linter covers: those of methods, which a method that overrides another one inherits."""

import ast
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import minitune

PACKAGE = Path(minitune.__file__).parent

NEEDS_A_PACKAGE = (
    "minitune.examples.",
    "minitune.integration.",
    "minitune.ray.",
    "minitune.sklearn",
    "minitune.search.",
)
"""Modules that may need an optional package. They are left out only if it is missing."""


def classes():
    for found in pkgutil.walk_packages(minitune.__path__, "minitune.", onerror=lambda name: None):
        if found.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(found.name)
        except ImportError:
            assert found.name.startswith(NEEDS_A_PACKAGE), found.name
            continue
        for value in list(vars(module).values()):
            if inspect.isclass(value) and value.__module__ == found.name:
                yield value


@pytest.fixture(autouse=True)
def switch_off():
    """The walk imports `minitune.as_ray`, too, which is a switch."""
    yield
    from minitune import as_ray

    as_ray.undo()


def undocumented(kind):
    for name, member in vars(kind).items():
        if name.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
            continue
        if not any(vars(base)[name].__doc__ for base in kind.__mro__ if name in vars(base)):
            yield f"{kind.__module__}.{kind.__qualname__}.{name}"


def test_every_public_method_has_a_docstring_or_inherits_one(monkeypatch):
    monkeypatch.setenv("RAY_CLIENT_MODE", "0")  # Ray's import sets it, where Ray is installed
    kinds = [kind for kind in classes() if not kind.__name__.startswith("_")]
    assert len(kinds) > 300
    assert [name for kind in kinds for name in undocumented(kind)] == []


MOST_WORDS = 150
"""A longer text is not read where it is shown, such as in an editor; the manual has the rest.

A folder's map has no limit."""


def docstrings(file):
    """The docstrings of a file, and of its classes and functions, by the name and the line."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Module):
            yield str(file), ast.get_docstring(node) or ""
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{file}:{node.lineno} {node.name}", ast.get_docstring(node) or ""


def test_no_docstring_is_longer_than_its_readers_are_patient():
    maps = {str(PACKAGE / folder / "__init__.py") for folder in MAPPED.split()}
    found = dict(text for file in PACKAGE.rglob("*.py") for text in docstrings(file) if text[0] not in maps)
    assert len(found) > 3000
    assert {name: len(text.split()) for name, text in found.items() if len(text.split()) > MOST_WORDS} == {}


MAPPED = (
    "actor base commands driver executors output ray record schedulers search space testing trainable visualization"
)
"""Folders whose `__init__.py` says what is where."""


@pytest.mark.parametrize("folder", MAPPED.split())
def test_a_map_of_a_folder_has_all_its_modules(folder):
    text = ast.get_docstring(ast.parse((PACKAGE / folder / "__init__.py").read_text("utf-8"))) or ""
    modules = {path.stem for path in (PACKAGE / folder).glob("[a-z]*.py")}
    assert modules - set(re.findall(r"\w+", text)) == set()
