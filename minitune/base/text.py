"""Short texts of values, made in a time that does not depend on how large they are."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from itertools import islice
from typing import Any

_LONG = 10_000
"""Characters, or bytes, of which a text takes a while, if there are many such values."""
_MANY = 1_000
"""Members of containers, likewise."""


class ShortRepr(reprlib.Repr):
    """Shows the beginning of large values, and survives a failing `__repr__`.

    Args:
        length: Characters of a text, of bytes, or of anything else without members.
        members: How many members of a list, a tuple or a dict are shown; by default what `reprlib` shows.
        level: How deep containers are shown.
    """

    def __init__(self, length: int = 200, members: int | None = None, level: int | None = None):
        super().__init__()
        self.maxother = self.maxstring = length
        if members is not None:
            self.maxdict = self.maxlist = self.maxtuple = members
        if level is not None:
            self.maxlevel = level

    def repr_bytes(self, value: bytes, level: int) -> str:
        """What `reprlib` calls for bytes, of which it would make the whole text first."""
        if len(value) <= self.maxstring:
            return self.repr_instance(value, level)
        return f"{value[: self.maxstring // 2]!r}...<{len(value)} bytes>"

    repr_bytearray = repr_bytes

    def repr_dict(self, value: dict[Any, Any], level: int) -> str:
        """What `reprlib` calls for a dict, all of which it would sort."""
        return super().repr_dict(value if len(value) <= _MANY else dict(islice(value.items(), _MANY)), level)

    def repr_set(self, value: set[Any], level: int) -> str:
        """What `reprlib` calls for a set, all of which it would sort."""
        return super().repr_set(value if len(value) <= _MANY else set(islice(value, _MANY)), level)

    def repr_frozenset(self, value: frozenset[Any], level: int) -> str:
        """What `reprlib` calls for a frozenset, all of which it would sort."""
        return super().repr_frozenset(value if len(value) <= _MANY else frozenset(islice(value, _MANY)), level)


def is_long(value: Any) -> bool:
    """Whether the text of a value of built-in types would be long: then there is `ShortRepr` for it."""
    left, waiting = _MANY, [value]
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if kind in (str, bytes, bytearray):
            if len(one) > _LONG:
                return True
        elif kind in (list, tuple, dict, set, frozenset):
            left -= len(one)
            if left < 0:
                return True
            members: Iterable[Any] = one.values() if kind is dict else one
            waiting.extend(members)
    return False
