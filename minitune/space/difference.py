"""Differences between two search spaces, as text.

A resume with another space would mix the two. The older one comes from a pickle, so it has other objects even if
nothing has changed. Only values that can be compared count: numbers, strings, containers, domains, classes (by name),
arrays, and objects whose class defines `==`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from enum import Enum
from numbers import Real
from typing import Any

from minitune.base.shared_values import ObjectRef
from minitune.base.text import ShortRepr, one_line
from minitune.space.domains import Sampler, as_domain, sampler_kind
from minitune.space.tree import Path, is_plain, path_text

_SHOWN = 10
"""The number of differences that are listed; the others are only counted."""

_ABSENT = object()
"""Represents the value of a key that one of the spaces lacks."""
_FUNCTION = object()
"""Stands for all functions: two of them cannot be compared."""


def differences(before: Any, now: Any) -> list[str]:
    """The differences between two search spaces, as texts such as `lr: uniform(0.0, 1.0) -> uniform(0.0, 2.0)`. The
    last text says how many more.
    """
    found = list(_differing(before, now, ()))
    texts = []
    for path, was, is_now in found[:_SHOWN]:
        left = _text(was)
        right = _text(is_now)
        change = f"{left} -> {right}"
        if left == right:
            change = f"{left}, in a part that is not shown"
        texts.append(f"{path_text(path)}: {change}")
    if len(found) > _SHOWN:
        texts.append(f"and {len(found) - _SHOWN} more")
    return texts


def _differing(before: Any, now: Any, path: Path) -> Iterator[tuple[Path, Any, Any]]:
    """The smallest parts that differ, with their paths; a domain is one part."""
    if before is now:
        return
    is_fixed = as_domain(before) is None and as_domain(now) is None
    if is_fixed and isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*before, *now]):
            yield from _differing(dict.get(before, key, _ABSENT), dict.get(now, key, _ABSENT), (*path, key))
    elif is_fixed and isinstance(before, (list, tuple)) and isinstance(now, (list, tuple)) and len(before) == len(now):
        if is_plain(before) and is_plain(now) and list(before) == list(now):  # the comparison runs in C
            return
        for index, (was, is_now) in enumerate(zip(before, now, strict=True)):
            yield from _differing(was, is_now, (*path, index))
    elif _comparable(before) != _comparable(now):
        yield path, before, now


# -- whether two parts are the same --------------------------------------------------------------------------------


def _comparable(value: Any) -> Any:
    """A plain value that equals that of another part if the two parts are equal or cannot be compared."""
    domain = as_domain(value)
    if domain is not None and domain.is_function():
        return _FUNCTION
    if domain is not None:
        # A domain without a sampler and one whose default sampler was set are the same.
        return type(domain).__qualname__, _comparable({**vars(domain), "sampler": domain.get_sampler()})
    if isinstance(value, Sampler):
        return sampler_kind(value).__qualname__, _comparable(vars(value))
    if isinstance(value, bool):
        return bool, value  # because True equals 1
    if isinstance(value, Real) and value != value:
        return float, "NaN"  # because NaN does not equal itself
    if isinstance(value, dict):
        return {key: _comparable(member) for key, member in dict.items(value)}
    if isinstance(value, (list, tuple)):
        return list(map(_comparable, value))
    if isinstance(value, type):
        return type, value.__qualname__
    if isinstance(value, Enum):
        return type(value).__qualname__, value.name
    if isinstance(value, ObjectRef):  # it refers to an object of its process
        return ObjectRef
    if isinstance(value, (Real, str)):
        return value
    if callable(value):
        return _FUNCTION
    return _Object(value)


class _Object:
    def __init__(self, value: Any):
        self._value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Object):
            return False
        before = self._value
        now = other._value
        if type(before) is not type(now):  # a class from a function of the script is another object in each process
            return type(before).__qualname__ == type(now).__qualname__
        equality: Any = type(before).__eq__
        if equality is object.__eq__:  # the default: an object equals only itself
            return True
        try:
            if not hasattr(before, "shape"):
                return bool(before == now)
            if before.shape != now.shape:
                return False
            is_equal = (before == now) | ((before != before) & (now != now))  # of an array, NaN equals NaN here
            return bool(functools.reduce(lambda whole, _: whole.all(), before.shape, is_equal))
        except Exception:  # a user's class may raise anything; the objects cannot be compared
            return True


# -- as text -------------------------------------------------------------------------------------------------------


_REPR = ShortRepr(length=100, members=12, level=3)


def _text(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    domain = as_domain(value)
    if domain is not None:
        value = domain
    return one_line(_REPR.repr(value))
