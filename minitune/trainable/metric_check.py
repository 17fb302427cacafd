"""Whether metrics can travel: checked where they are reported, so that the error rises in the user's frame."""

from __future__ import annotations

import pickle
import sys
from typing import Any

from minitune.pickling import PROTOCOL

LIMIT_BYTES = 64_000_000
"""How much one report may hold, pickled: less than a message to the driver may, so that there is room for the rest."""

_PLAIN = frozenset({float, int, str, bool, type(None), bytes, complex})
_SIZED = frozenset({str, bytes, int})
_PLAIN_BYTES = 16
"""What any other plain value takes at most."""
_NESTED_LIMIT = 2_000
"""Levels of nesting. What goes deeper contains itself, and would keep everything that walks over it for ever."""

_Path = tuple[Any, ...]


def check_metrics(metrics: dict[Any, Any]) -> None:
    """Refuse metrics that could not reach the driver. Plain numbers and text cost next to nothing.

    Args:
        metrics: What the user reports.

    Raises:
        TypeError: If a value, at whatever depth, cannot be pickled and loaded again; the text names key, type and
            reason.
        ValueError: If a value is a torch tensor, or all of them together are larger than `LIMIT_BYTES`.
    """
    sizes: dict[Any, int] = {}
    for key, value in metrics.items():
        if type(value) not in _PLAIN or type(key) not in _PLAIN:
            sizes[key] = _check_nested(key, value)
        elif type(value) in _SIZED:
            sizes[key] = _plain_bytes(value)
    if sum(sizes.values()) > LIMIT_BYTES:
        _check_size(metrics, sizes)


def _plain_bytes(value: Any) -> int:
    """How much a plain value takes at most, about; a text may be longer in UTF-8 than in characters."""
    kind = type(value)
    if kind not in _SIZED:
        return _PLAIN_BYTES
    return value.bit_length() // 8 if kind is int else len(value) * (4 if kind is str and not value.isascii() else 1)


class _Counter:
    """A file that keeps nothing of what is written to it, but its size."""

    def __init__(self) -> None:
        self.size_bytes = 0

    def write(self, data: Any) -> int:
        self.size_bytes += memoryview(data).nbytes
        return memoryview(data).nbytes


def _check_size(metrics: dict[Any, Any], sizes: dict[Any, int]) -> None:
    """Count exactly what seems to be too much: to pickle it as a whole could take more memory than there is."""
    counter = _Counter()
    try:
        pickle.Pickler(counter, PROTOCOL).dump(metrics)
        size_bytes = counter.size_bytes
    except RecursionError:
        size_bytes = sum(sizes.values())
    if size_bytes > LIMIT_BYTES:
        largest = max(sizes, key=lambda key: sizes[key])
        raise ValueError(
            f"one report may hold at most {LIMIT_BYTES // 10**6} MB, but this one holds {size_bytes / 10**6:.1f} MB, "
            f"most of it in metric {largest!r:.80}: write large data to a file and report it as a checkpoint, "
            "Checkpoint.from_directory(path)"
        )


def _check_nested(key: Any, value: Any) -> int:
    """Walk over plain containers by hand: it names the leaf, and no recursion limit stands in the way.

    Returns:
        How much it takes, about.
    """
    size_bytes = 0
    waiting: list[tuple[_Path, Any]] = [((key,), value)]
    if type(key) not in _PLAIN:
        waiting.append(((key,), key))
    while waiting:
        path, current = waiting.pop()
        kind = type(current)
        if kind in _PLAIN:
            size_bytes += _plain_bytes(current)
            continue
        if kind not in (dict, list, tuple):
            size_bytes += _check_leaf(path, current)
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
        elif (kinds := set(map(type, current))) <= _PLAIN:
            size_bytes += sum(map(_plain_bytes, current)) if kinds & _SIZED else len(current) * _PLAIN_BYTES
        else:
            waiting.extend(((*path, position), part) for position, part in enumerate(current))
    return size_bytes


def _check_leaf(path: _Path, value: Any) -> int:
    kind = type(value)
    if kind.__module__ == "numpy" and getattr(value, "shape", None) == () and value.dtype.kind in "biufc":
        return _PLAIN_BYTES  # a numpy scalar: nothing in it could fail
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    if isinstance(tensor, type) and isinstance(value, tensor):
        raise ValueError(
            f"metric {_show(path)} is a torch tensor; report a number instead, such as tensor.item(): "
            "a tensor would need torch and its device wherever the result is read"
        )
    verb = "pickled"
    try:
        data = pickle.dumps(value, PROTOCOL)
        verb = "loaded again"
        pickle.loads(data)
    except Exception as error:
        raise TypeError(
            f"metric {_show(path)} of type {kind.__module__}.{kind.__qualname__} cannot be reported: "
            f"it cannot be {verb} ({type(error).__name__}: {error}); report numbers, text, or containers of these"
        ) from None
    return len(data)


def _show(path: _Path) -> str:
    return f"{path[0]!r:.80}" + "".join(f"[{part!r:.80}]" for part in path[1:])
