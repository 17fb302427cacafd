"""Helpers that searchers written for Ray Tune import: checks of values and points, and nested lists."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from typing import Any

from minitune.base.checks import shown
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


def validate_warmstart(
    parameter_names: Sized,
    points_to_evaluate: Sequence[Any] | None,
    evaluated_rewards: Sequence[Any] | None,
    validate_point_name_lengths: bool = True,
) -> None:
    """Check the points that a searcher tries first, and a reward for each if they are known.
    `validate_point_name_lengths` requires a value for each name.

    Raises:
        TypeError: If the points, a point, or the rewards have another type.
        ValueError: If a number of values is wrong.
    """
    if points_to_evaluate and not isinstance(points_to_evaluate, list):
        raise TypeError(f"points_to_evaluate must be a list, but got {shown(points_to_evaluate)}")
    if evaluated_rewards and not isinstance(evaluated_rewards, list):
        raise TypeError(f"evaluated_rewards must be a list, but got {shown(evaluated_rewards)}")
    for point in points_to_evaluate or ():
        if not isinstance(point, (dict, list)):
            raise TypeError(f"each of points_to_evaluate must be a dict or a list, but got {shown(point)}")
        if validate_point_name_lengths and len(point) != len(parameter_names):
            raise ValueError(
                f"each of points_to_evaluate must have {len(parameter_names)} values, one for each parameter, but got "
                f"{shown(point)}"
            )
    if points_to_evaluate and evaluated_rewards and len(points_to_evaluate) != len(evaluated_rewards):
        raise ValueError(
            f"evaluated_rewards must have one value for each of the {len(points_to_evaluate)} points_to_evaluate, but "
            f"has {len(evaluated_rewards)}"
        )
