"""Nested dicts: flatten, unflatten and merge."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from minitune.result import unflatten


def flatten_dict(
    dt: Mapping[str, Any], delimiter: str = "/", prevent_delimiter: bool = False, flatten_list: bool = False
) -> dict[str, Any]:
    """Flatten nested dicts, level by level: `{"a": {"b": 1}}` becomes `{"a/b": 1}`.

    Unlike `minitune.result.flatten`, this leaves out empty dicts, and it can also flatten lists.

    Args:
        dt: A nested dict; it is not changed.
        delimiter: The text between the parts of a key.
        prevent_delimiter: Refuse keys that contain the delimiter, because `unflatten_dict` would split them.
        flatten_list: Flatten lists as well; positions become keys.

    Raises:
        ValueError: If `prevent_delimiter` is set and a key contains the delimiter.
    """
    flat: dict[str, Any] = {}
    level: list[tuple[str, Any]] = [("", dt)]
    while level:
        deeper: list[tuple[str, Any]] = []
        for prefix, node in level:
            for key, value in node.items() if isinstance(node, Mapping) else enumerate(node):
                if prevent_delimiter and delimiter in str(key):
                    raise ValueError(f"a key must not contain the delimiter {delimiter!r}, but got {key!r}")
                name = f"{prefix}{key}"
                if isinstance(value, dict) or (flatten_list and isinstance(value, list)):
                    deeper.append((f"{name}{delimiter}", value))
                else:
                    flat[name] = value
        level = deeper
    return flat


def unflatten_dict(dt: Mapping[str, Any], delimiter: str = "/") -> dict[str, Any]:
    """Undo `flatten_dict`, except for lists.

    Raises:
        TypeError: If the path of a key leads through the value of another key.
    """
    return unflatten(dt, delimiter)


def merge_dicts(d1: dict[Any, Any], d2: Mapping[Any, Any]) -> dict[Any, Any]:
    """A deep copy of `d1`, updated with `d2` at every level."""
    return deep_update(copy.deepcopy(d1), d2, new_keys_allowed=True)


def deep_update(
    original: dict[Any, Any], new_dict: Mapping[Any, Any], new_keys_allowed: bool = False
) -> dict[Any, Any]:
    """Update `original` in place, level by level where both sides are dicts.

    Args:
        original: The dict to update.
        new_dict: The new values.
        new_keys_allowed: Whether new keys may be added, at any level.

    Raises:
        KeyError: If a key is new and new keys are not allowed.
    """
    for key, value in new_dict.items():
        if key not in original and not new_keys_allowed:
            raise KeyError(f"unknown key {key!r}: it must be one of {', '.join(map(repr, original)) or 'none'}")
        old = original.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            deep_update(old, value, new_keys_allowed)
        else:
            original[key] = value
    return original
