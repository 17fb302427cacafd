"""Whether metrics can travel: checked where they are reported, so that the error rises in the user's frame."""

from __future__ import annotations

import pickle
import sys
from typing import Any

from minitune.pickling import PROTOCOL

_PLAIN = frozenset({float, int, str, bool, type(None), bytes, complex})
_NESTED_LIMIT = 2_000
"""Levels of nesting. What goes deeper contains itself, and would keep everything that walks over it for ever."""

_Path = tuple[Any, ...]


def check_metrics(metrics: dict[Any, Any]) -> None:
    """Refuse metrics that could not reach the driver. Plain numbers and text cost next to nothing.

    Args:
        metrics: What the user reports.

    Raises:
        TypeError: If a value, at whatever depth, cannot be pickled; the text names key, type and reason.
        ValueError: If a value is a torch tensor.
    """
    for key, value in metrics.items():
        if type(value) not in _PLAIN or type(key) not in _PLAIN:
            _check_nested(key, value)


def _check_nested(key: Any, value: Any) -> None:
    """Walk over plain containers by hand: it names the leaf, and no recursion limit stands in the way."""
    waiting: list[tuple[_Path, Any]] = [((key,), value)]
    if type(key) not in _PLAIN:
        waiting.append(((key,), key))
    while waiting:
        path, current = waiting.pop()
        kind = type(current)
        if kind in _PLAIN:
            continue
        if kind not in (dict, list, tuple):
            _check_leaf(path, current)
            continue
        if len(path) > _NESTED_LIMIT:
            raise TypeError(
                f"metric {key!r} is nested more than {_NESTED_LIMIT} levels deep, or contains itself; "
                "report flat values"
            )
        if kind is dict:
            for inner_key, part in current.items():
                waiting.append(((*path, inner_key), part))
                if type(inner_key) not in _PLAIN:
                    waiting.append(((*path, inner_key), inner_key))
        elif not set(map(type, current)) <= _PLAIN:
            waiting.extend(((*path, position), part) for position, part in enumerate(current))


def _check_leaf(path: _Path, value: Any) -> None:
    kind = type(value)
    if kind.__module__ == "numpy" and getattr(value, "shape", None) == () and value.dtype.kind in "biufc":
        return  # a numpy scalar: nothing in it could fail
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    if isinstance(tensor, type) and isinstance(value, tensor):
        raise ValueError(
            f"metric {_show(path)} is a torch tensor; report a number instead, such as tensor.item(): "
            "a tensor would need torch and its device wherever the result is read"
        )
    try:
        pickle.dumps(value, PROTOCOL)
    except Exception as error:
        raise TypeError(
            f"metric {_show(path)} of type {kind.__module__}.{kind.__qualname__} cannot be reported: "
            f"it cannot be pickled ({type(error).__name__}: {error}); report numbers, text, or containers of these"
        ) from error


def _show(path: _Path) -> str:
    return f"{path[0]!r:.80}" + "".join(f"[{part!r:.80}]" for part in path[1:])
