"""The imports at the beginning of a function, done in advance.

A run does them once, before it forks the workers, which saves time in each trial. This is safe only for installed
packages. A user's own module may do work that belongs to one trial: create a directory, draw a random number, open a
log file. So the preload ends before the first import of such a module.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from types import CodeType
from typing import Any

# The attributes in which wrappers keep their function: ours, `functools.partial`, methods, decorators.
WRAPPED = ("function", "func", "__func__", "__wrapped__")
# The methods of a class trainable, in the order of their calls. The base class's own methods have no imports.
_METHODS = ("__init__", "setup", "step")
# The bytecode instructions of imports and of a function's beginning, in all supported versions of Python.
_OF_IMPORTS = re.compile(
    "RESUME|GEN_START|RETURN_GENERATOR|NOP|CACHE|EXTENDED_ARG|MAKE_CELL|COPY_FREE_VARS|"
    "LOAD_CONST|LOAD_SMALL_INT|LOAD_COMMON_CONSTANT|IMPORT_NAME|IMPORT_FROM|STORE_FAST|STORE_DEREF|STORE_GLOBAL|POP_TOP|ROT_TWO|SWAP|NOT_TAKEN"
)
_DEPTH_LIMIT = 10
_OURS = __name__.partition(".")[0]
# On all systems, the path of an installed package contains a directory with one of these names.
INSTALLED = {"site-packages", "dist-packages"}


def import_ahead(value: Any) -> None:
    """Import the installed packages that a function or a `Trainable` class imports first. Blocks."""
    if not callable(value):
        return
    with contextlib.suppress(BaseException):  # an imported module may raise anything
        for name, members in first_imports(_first_function(value)):
            if not _is_installed(name.partition(".")[0]):
                return
            __import__(name, fromlist=members)


def first_imports(function: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the absolute imports at the beginning of a Python function, up to the first relative one: a module's name,
    and the names imported from it.
    """
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return
    import dis  # slow to load, but cloudpickle has already loaded it

    constants: list[Any] = [None, None]
    for instruction in dis.get_instructions(code):
        if not _OF_IMPORTS.fullmatch(instruction.opname):
            return
        if instruction.opname in ("LOAD_CONST", "LOAD_SMALL_INT", "LOAD_COMMON_CONSTANT"):
            constants.append(instruction.argval)
        elif instruction.opname == "IMPORT_NAME":
            level, members = constants[-2:]
            if level:
                return
            yield instruction.argval, members or ()


def _first_function(value: Any) -> Any:
    """The innermost function inside wrappers; for a class, the first method that the user has defined."""
    value = unwrapped(value)
    if isinstance(value, type):
        users = [vars(kind) for kind in value.__mro__ if kind.__module__.partition(".")[0] not in (_OURS, "builtins")]
        return next((methods[name] for name in _METHODS for methods in users if name in methods), None)
    return value


def unwrapped(value: Any) -> Any:
    """The user's own function or class inside wrappers."""
    value = getattr(value, "_tune_function", value)  # from `wrap_function`
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
