"""The imports at the beginning of a function, done in advance.

The driver reads them in the source. They are done once, in the process from which the workers are forked, which saves
time in each trial. This is safe only for installed packages. A user's own module may do work that belongs to one trial:
create a directory, draw a random number, open a log file. So the preload ends before the first import of such a module.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Any

# The attributes in which wrappers keep their function: ours, `functools.partial`, methods, decorators.
WRAPPED = ("function", "func", "__func__", "__wrapped__")
# The methods of a class trainable, in the order of their calls. The base class's own methods have no imports.
_METHODS = ("__init__", "setup", "step")
_DEPTH_LIMIT = 10
Import = tuple[str, tuple[str, ...]]
"""A module's name, and the names imported from it."""
_OURS = __name__.partition(".")[0]
# On all systems, the path of an installed package contains a directory with one of these names.
INSTALLED = {"site-packages", "dist-packages"}


def first_imports(value: Any) -> list[Import]:
    """The absolute imports at the beginning of a function or of a `Trainable` class's first method, up to the first
    relative one. None without its source. Blocks for the file.
    """
    import ast
    import inspect
    import textwrap

    if not callable(value):
        return []
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(_first_function(value))))
    except Exception:  # the source may be gone or damaged, and an attribute of a user's object may raise anything
        return []
    found: list[Import] = []
    body = getattr(tree.body[0], "body", [])
    for statement in body if isinstance(body, list) else []:  # the body of a lambda is an expression
        if isinstance(statement, ast.Import):
            found += [(each.name, ()) for each in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            found.append((str(statement.module), tuple(each.name for each in statement.names)))
        elif not _does_nothing(statement):
            break
    return found


def _does_nothing(statement: Any) -> bool:
    import ast

    if isinstance(statement, ast.Expr):  # a docstring
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, (ast.Global, ast.Nonlocal))


def import_ahead(imports: Iterable[Import]) -> None:
    """Import installed packages, up to the first module that is not installed. Blocks."""
    with contextlib.suppress(BaseException):  # an imported module may raise anything
        for name, members in imports:
            if not _is_installed(name.partition(".")[0]):
                return
            __import__(name, fromlist=members)


def _first_function(value: Any) -> Any:
    """The innermost function inside wrappers; for a class, the first method that the user has defined."""
    value = unwrapped(value)
    if isinstance(value, type):
        users = [vars(kind) for kind in value.__mro__ if kind.__module__.partition(".")[0] not in (_OURS, "builtins")]
        return next((methods[name] for name in _METHODS for methods in users if name in methods), None)
    return value


def unwrapped(value: Any) -> Any:
    """The user's own function or class inside wrappers."""
    if isinstance(value, type):
        return vars(value).get("_tune_base", value)  # from `with_parameters` and `with_resources`
    for _ in range(_DEPTH_LIMIT):
        inner = next((found for name in WRAPPED if (found := getattr(value, name, None)) is not None), None)
        if inner is None:
            break
        value = inner
    return value


def _is_installed(package: str) -> bool:
    """Whether a top-level package or module is installed, or part of Python or of minitune, judging by its path."""
    import importlib.util

    if package == _OURS:
        return True
    spec = importlib.util.find_spec(package)  # finds the package without running it
    if spec is None:
        return False
    if spec.origin in ("built-in", "frozen"):
        return True
    if spec.origin is not None:
        sources = [spec.origin]
    else:
        sources = list(spec.submodule_search_locations or ())
    library = os.path.join(os.path.dirname(os.path.realpath(os.__file__)), "")
    paths = map(os.path.realpath, sources)
    return bool(sources) and all(
        path.startswith(library) or not INSTALLED.isdisjoint(path.split(os.sep)) for path in paths
    )
