"""The imports with which a function begins: what each call of it does before anything else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import CodeType
from typing import Any

_WRAPPED = ("function", "func", "__func__", "__wrapped__")
"""Where functions that carry another one keep it: ours, `functools.partial`, methods, decorators."""
_METHODS = ("__init__", "setup", "step")
"""What of a class is called first."""
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
"""What imports, and what every function begins with, are made of, in any version: the first other one ends them."""
_DEPTH_LIMIT = 10


def import_ahead(value: Any) -> None:
    """Import what a function, or a class of ours, would import first; blocks. What raises is left for it to find out.

    Args:
        value: Any object; nothing happens for one that does not begin with imports.
    """
    if not callable(value):
        return
    with contextlib.suppress(BaseException):  # whatever foreign code does at its import
        for function in _functions(value):
            for name, members in first_imports(function):
                __import__(name, fromlist=members)


def first_imports(function: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The absolute imports with which a function begins.

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
            if level == 0:
                yield instruction.argval, members or ()


def _functions(value: Any) -> Iterator[Any]:
    """The function in a value, without what is wrapped around it; of a class the methods that are called first."""
    if isinstance(value, type):
        yield from (vars(value).get(name) for name in _METHODS)
        return
    for _ in range(_DEPTH_LIMIT):
        inner = next((found for name in _WRAPPED if (found := getattr(value, name, None)) is not None), None)
        if inner is None:
            break
        value = inner
    yield value
