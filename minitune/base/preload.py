"""The imports with which a function begins: what each call of it does before anything else.

They may be done once, ahead of the fork, for all trials, because a process that begins anyway with an import cannot
tell who has done it. That holds for installed packages only. A module of the user's own may do at its import whatever
belongs to one trial: make a temporary directory, draw a number, open a log in the working directory. So the first
import of such a module ends what is done ahead; it may also prepare what the imports after it find.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from types import CodeType
from typing import Any

_WRAPPED = ("function", "func", "__func__", "__wrapped__")
"""Where functions that carry another one keep it: ours, `functools.partial`, methods, decorators."""
_METHODS = ("__init__", "setup", "step")
"""The methods of a class, in the order in which they are called; those of ours begin with no imports."""
_OF_IMPORTS = frozenset(
    [
        "RESUME",
        "GEN_START",
        "RETURN_GENERATOR",
        "NOP",
        "CACHE",
        "EXTENDED_ARG",
        "MAKE_CELL",
        "COPY_FREE_VARS",
        "LOAD_CONST",
        "LOAD_SMALL_INT",
        "IMPORT_NAME",
        "IMPORT_FROM",
        "STORE_FAST",
        "STORE_DEREF",
        "STORE_GLOBAL",
        "POP_TOP",
        "ROT_TWO",
        "SWAP",
        "NOT_TAKEN",
    ]
)
"""The instructions of imports, and those at the beginning of every function, of all versions of Python."""
_DEPTH_LIMIT = 10
_OURS = __name__.partition(".")[0]
_INSTALLED = {"site-packages", "dist-packages"}
"""A directory on the way to an installed package has one of these names, in each system and environment."""


def import_ahead(value: Any) -> None:
    """Import the installed packages with which a function, or a `Trainable` class, begins; blocks.

    An error is dropped: the function will meet it, too.

    Args:
        value: Any object; nothing happens for one that does not begin with imports.
    """
    if not callable(value):
        return
    with contextlib.suppress(BaseException):  # whatever foreign code does at its import
        for name, members in first_imports(_first_function(value)):
            if not _is_installed(name.partition(".")[0]):
                return
            __import__(name, fromlist=members)


def first_imports(function: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The absolute imports with which a function begins; a relative one ends them.

    Args:
        function: A function of Python.

    Yields:
        (name of the module, names that are taken from it).
    """
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return
    import dis  # takes a while to load, but cloudpickle has done that already

    constants: list[Any] = [None, None]
    for instruction in dis.get_instructions(code):
        if instruction.opname not in _OF_IMPORTS:
            return
        if instruction.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            constants.append(instruction.argval)
        elif instruction.opname == "IMPORT_NAME":
            level, members = constants[-2:]
            if level:
                return
            yield instruction.argval, members or ()


def _first_function(value: Any) -> Any:
    """The function in a value, without what is wrapped around it; of a class the first method that is the user's."""
    value = getattr(value, "_tune_function", value)  # of `wrap_function`
    if isinstance(value, type):
        value = vars(value).get("_tune_base", value)  # of `with_parameters` and `with_resources`
        users = [vars(kind) for kind in value.__mro__ if kind.__module__.partition(".")[0] not in (_OURS, "builtins")]
        return next((methods[name] for name in _METHODS for methods in users if name in methods), None)
    for _ in range(_DEPTH_LIMIT):
        inner = next((found for name in _WRAPPED if (found := getattr(value, name, None)) is not None), None)
        if inner is None:
            break
        value = inner
    return value


def _is_installed(package: str) -> bool:
    """Whether a top-level package or module is ours, Python's or installed, as far as its place shows.

    A link, and a package that is installed as a link to its sources ("editable"), leads to the user's own files.
    """
    import importlib.util

    if package == _OURS:
        return True
    spec = importlib.util.find_spec(package)  # looks for it, and runs nothing of it
    if spec is None:
        return False
    if spec.origin in ("built-in", "frozen"):
        return True
    places = [spec.origin] if spec.origin is not None else list(spec.submodule_search_locations or ())
    return bool(places) and all(map(_is_place_of_packages, places))


def _is_place_of_packages(path: str) -> bool:
    path = os.path.realpath(path)
    library = os.path.dirname(os.path.realpath(os.__file__))
    return path.startswith(library + os.sep) or not _INSTALLED.isdisjoint(path.split(os.sep))
