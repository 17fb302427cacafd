"""Helpers that searchers written for Ray Tune import: checks of values, and nested lists."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from minitune.result import unflatten


def is_nan(value: Any) -> bool:
    """Whether a number is NaN."""
    return bool(value != value)


def is_nan_or_inf(value: Any) -> bool:
    """Whether a number is NaN or infinite.

    Raises:
        TypeError: If it is no number.
    """
    return is_nan(value) or bool(abs(value) == math.inf)


def unflatten_list_dict(dt: Mapping[str, Any], delimiter: str = "/") -> Any:
    """Undo `flatten_dict`, also for lists: `{"a/0": 1, "a/1": 2}` becomes `{"a": [1, 2]}`.

    Args:
        dt: A flat dict; it is not changed. All dicts of the result have its class. Keys that count from 0 are the
            positions of a list.
        delimiter: The text at which keys are split.

    Raises:
        TypeError: If the path of a key leads through the value of another key.
    """
    return _with_lists(unflatten(dt, delimiter), set(map(id, dt.values())))


def _with_lists(node: Any, values: set[int]) -> Any:
    if not isinstance(node, dict) or id(node) in values:  # a value may be a dict of the user
        return node
    for key, member in node.items():
        node[key] = _with_lists(member, values)
    positions = [str(position) for position in range(len(node))]
    if not node or set(node) != set(positions):
        return node
    return [node[position] for position in positions]
