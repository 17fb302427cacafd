"""Imports at the beginning of a function, which are done in advance."""

from __future__ import annotations

from typing import Any

from minitune.base.preload import first_imports


def function_of(*imports: str) -> Any:
    """A function that begins with these imports."""
    names: dict[str, Any] = {}
    exec("\n    ".join(("def train(config):", *imports)), names)
    return names["train"]


def test_what_comes_after_an_import_of_the_users_own_module_is_not_imported_in_advance() -> None:
    imports = ("import json", "from os import path, sep", "from . import own", "import csv")
    assert list(first_imports(function_of(*imports))) == [("json", ()), ("os", ("path", "sep"))]
    assert [name for name, _ in first_imports(function_of("import json", "json.dumps(1)", "import csv"))] == ["json"]
