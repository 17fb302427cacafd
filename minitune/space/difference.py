"""Differences between two search spaces, as text: parts differ if their texts do.

A resume with another space would mix the two. The older one comes from a pickle, so it has other objects even if
nothing has changed. So an address in a text does not count: functions, and objects without a text of their own, are
the same if their names are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from minitune.base.shared_values import ObjectRef
from minitune.base.text import one_line
from minitune.space.domains import as_domain
from minitune.space.tree import Path, is_plain, path_text, without_addresses

_SHOWN = 10
"""The number of differences that are listed; the others are only counted."""
_LONGEST = 100
"""The number of characters of each value that are shown."""


def differences(before: Any, now: Any) -> list[str]:
    """The differences between two search spaces, as texts such as `lr: uniform(0.0, 1.0) -> uniform(0.0, 2.0)`. The
    last text says how many more.
    """
    was = dict(_texts(before, ()))
    is_now = dict(_texts(now, ()))
    found = []
    for path in dict.fromkeys([*was, *is_now]):
        left = was.get(path, "absent")
        right = is_now.get(path, "absent")
        if left != right:
            found.append(f"{path_text(path)}: {_shortened(left)} -> {_shortened(right)}")
    if len(found) > _SHOWN:
        return [*found[:_SHOWN], f"and {len(found) - _SHOWN} more"]
    return found


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """The text of each part of a space, by its path. A domain is one part, and so is a list of numbers or texts."""
    domain = as_domain(value)
    if domain is None and isinstance(value, dict):
        for key, member in dict.items(value):
            yield from _texts(member, (*path, key))
    elif type(value) in (list, tuple) and not is_plain(value):
        for index, member in enumerate(value):
            yield from _texts(member, (*path, index))
    elif isinstance(value, ObjectRef):  # it refers to an object of its process
        yield path, "ObjectRef"
    else:
        yield path, without_addresses(repr(value if domain is None else domain))


def _shortened(text: str) -> str:
    line = one_line(text)
    if len(line) > _LONGEST:
        return f"{line[:_LONGEST]}..."
    return line
