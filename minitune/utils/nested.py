"""Nested dicts: flatten, unflatten, merge and look up."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
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
    original: dict[Any, Any],
    new_dict: Mapping[Any, Any],
    new_keys_allowed: bool = False,
    allow_new_subkey_list: Collection[Any] | None = None,
    override_all_if_type_changes: Collection[Any] | None = None,
    override_all_key_list: Collection[Any] | None = None,
) -> dict[Any, Any]:
    """Update `original` in place, level by level where both sides are dicts.

    Args:
        original: The dict to update.
        new_dict: The new values.
        new_keys_allowed: Whether new keys may be added, at any level.
        allow_new_subkey_list: Keys of the first level. New keys may be added below them in any case.
        override_all_if_type_changes: Keys of the first level whose dict is replaced as a whole if its `"type"` changes.
        override_all_key_list: Keys whose value is always replaced as a whole.

    Raises:
        KeyError: If a key is new and new keys are not allowed.
    """
    whole = override_all_key_list or ()
    for key, value in new_dict.items():
        if key not in original and not new_keys_allowed:
            raise KeyError(f"unknown key {key!r}: it must be one of {', '.join(map(repr, original)) or 'none'}")
        old: Any = original.get(key)
        goes_down = isinstance(old, dict) and isinstance(value, dict) and key not in whole
        if goes_down and key in (override_all_if_type_changes or ()):
            goes_down = "type" not in old or "type" not in value or old["type"] == value["type"]
        if goes_down:
            allowed = new_keys_allowed or key in (allow_new_subkey_list or ())
            deep_update(old, value, allowed, override_all_key_list=whole)
        else:
            original[key] = value
    return original


def unflattened_lookup(
    flat_key: str, lookup: Mapping[Any, Any] | Sequence[Any], delimiter: str = "/", **kwargs: Any
) -> Any:
    """The value at a path such as `"a/0/b"`, which is `lookup["a"][0]["b"]`, or `default`.

    Raises:
        KeyError: If there is nothing at the path, and no `default`.
        TypeError: If there is another keyword.
    """
    if unknown := set(kwargs) - {"default"}:
        raise TypeError(f"unflattened_lookup() does not know {', '.join(sorted(unknown))}")
    if isinstance(lookup, Mapping) and flat_key in lookup:
        return lookup[flat_key]
    found: Any = lookup
    for part in flat_key.split(delimiter):
        try:
            found = _member(found, part)
        except (KeyError, IndexError, ValueError):
            if "default" in kwargs:
                return kwargs["default"]
            raise KeyError(flat_key) from None
    return found


def _member(holder: Any, part: str) -> Any:
    if isinstance(holder, Mapping):
        return holder[part]
    if isinstance(holder, Sequence) and not isinstance(holder, str):
        return holder[int(part)]
    raise KeyError(part)
