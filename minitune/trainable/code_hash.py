"""A hash of a user's code: of a trainable, and of the user's own functions and classes that it names.

It reads bytecode, so comments and installed packages do not count; of a program of `minitune run`, the script. A hash
names the version of Python, which decides the bytecode.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, FunctionType, ModuleType
from typing import Any
from zlib import crc32

from minitune.base.preload import INSTALLED, WRAPPED

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
# How many objects are looked at. No trainable that people write names so many.
_LIMIT = 2_000
# Python's own library, and this package.
_NOT_USERS = (os.path.dirname(os.__file__) + os.sep, os.path.dirname(os.path.dirname(__file__)) + os.sep)


def code_hash(trainable: Any) -> str:
    """The hash of a trainable's code, such as `3.11:0a1b2c3d`; empty if it has no code of the user's."""
    code = _Code()
    try:
        code.add(trainable)
    except Exception:  # an attribute of a user's object may raise anything
        return ""
    if not code.parts:
        return ""
    major, minor = sys.version_info[:2]
    return f"{major}.{minor}:{crc32(b'|'.join(sorted(code.parts))):08x}"


class _Code:
    """The parts of a hash: what `add` finds, from object to object."""

    def __init__(self) -> None:
        self.parts: set[bytes] = set()
        self._waiting: list[Any] = []
        self._seen: dict[int, Any] = {}  # with the objects, so that no other object gets the id of one of them

    def add(self, value: Any) -> None:
        self._waiting.append(value)
        while self._waiting and len(self._seen) < _LIMIT:
            value = self._waiting.pop()
            if id(value) not in self._seen:
                self._seen[id(value)] = value
                self._look_at(value)

    def _look_at(self, value: Any) -> None:
        program = sys.modules.get("minitune.trainable.program")  # it is only loaded if there are programs
        if isinstance(value, type):
            if _is_users_module(value.__module__):
                self._look_at_class(value)
        elif isinstance(value, FunctionType):
            if _is_users(value.__code__.co_filename):
                self._look_at_function(value)
        elif program is not None and isinstance(value, program.Program):
            self.parts.add(value.code())
        else:
            self._waiting += [getattr(value, name, None) for name in WRAPPED]
            self._waiting.append(type(value))

    def _look_at_class(self, kind: type) -> None:
        for name, member in vars(kind).items():
            if isinstance(member, _PLAIN) and not name.startswith("_"):
                self._add_constant(name, member)
            elif isinstance(member, property):
                self._waiting += [member.fget, member.fset]
            elif isinstance(member, (FunctionType, type, staticmethod, classmethod)):
                self._waiting.append(member)
        self._waiting += kind.__bases__

    def _look_at_function(self, function: FunctionType) -> None:
        names: set[str] = set()
        texts = _texts_of(function.__code__, names)
        texts += [repr(value) for value in function.__defaults__ or () if isinstance(value, _PLAIN)]
        self.parts.add("|".join(texts).encode("utf-8", "backslashreplace"))
        for cell in function.__closure__ or ():
            try:
                self._waiting.append(cell.cell_contents)
            except ValueError:  # it is not filled yet
                continue
        self._waiting.append(getattr(function, "__wrapped__", None))
        for name in names:
            value = function.__globals__.get(name)
            if isinstance(value, (FunctionType, type)):
                self._waiting.append(value)
            elif isinstance(value, _PLAIN) and name.isupper():  # other global values may change while trials run
                self._add_constant(name, value)
            elif isinstance(value, ModuleType) and _is_users(getattr(value, "__file__", None) or ""):
                members = [vars(value).get(member) for member in names]
                self._waiting += [member for member in members if isinstance(member, (FunctionType, type))]

    def _add_constant(self, name: str, value: Any) -> None:
        self.parts.add(f"{name}={value!r}".encode("utf-8", "backslashreplace"))


def _texts_of(code: CodeType, names: set[str]) -> list[str]:
    """The content of a code object, without its place in a file."""
    names.update(code.co_names)
    texts = [code.co_code.hex(), " ".join((*code.co_names, *code.co_varnames, *code.co_freevars))]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            texts += _texts_of(constant, names)
        elif isinstance(constant, frozenset):  # its order differs from process to process
            texts += sorted(map(repr, constant))
        else:
            texts.append(repr(constant))
    return texts


def _is_users_module(name: str) -> bool:
    module = sys.modules.get(name)
    return name == "__main__" or _is_users(getattr(module, "__file__", None) or "")


def _is_users(path: str) -> bool:
    """Whether a file is the user's own."""
    return bool(path) and not path.startswith(_NOT_USERS) and INSTALLED.isdisjoint(path.split(os.sep))
