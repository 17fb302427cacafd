"""Whether metrics can be sent to the driver: they can be pickled and loaded again, and are not too large.

Most reports are a few numbers, and each is checked in the trial's time. So a plain value costs a look at its type, and
only what could be too large is pickled to measure it.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

from minitune.base.checks import shown
from minitune.base.pickling import PROTOCOL, ByteCounter
from minitune.result import with_plain_keys

LIMIT_BYTES = 64_000_000
"""The largest size of a pickled report; that of a message is higher."""
_PLAIN = frozenset({float, int, str, bool, type(None), bytes, complex})
_SIZED = frozenset({str, bytes, int})
# An upper bound for the size of any other plain value.
_PLAIN_BYTES = 16
# The largest number of nested levels. A deeper value probably contains itself, so that a walk over it never ends.
_NESTED_LIMIT = 2_000
_Path = tuple[Any, ...]


def checked_metrics(metrics: dict[Any, Any]) -> dict[str, Any]:
    """Metrics with plain keys, after a check that they can be sent to the driver. Fast for plain numbers and texts.

    Raises:
        TypeError: If a key has no text, or a value cannot be pickled and loaded again, with key, type and reason.
        ValueError: If a value is a torch tensor, or all values together are larger than `LIMIT_BYTES`.
    """
    metrics = with_plain_keys(metrics)
    sizes: dict[Any, int] = {}
    for key, value in metrics.items():
        if type(value) not in _PLAIN:
            sizes[key] = _check_nested(key, value)
        elif type(value) in _SIZED:
            sizes[key] = _plain_bytes(value)
    if sum(sizes.values()) > LIMIT_BYTES:
        _check_size(metrics, sizes)
    return metrics


def _plain_bytes(value: Any) -> int:
    """About the largest size of a plain value in bytes."""
    kind = type(value)
    if kind not in _SIZED:
        return _PLAIN_BYTES
    if kind is int:
        size_bytes: int = value.bit_length() // 8
        return size_bytes
    if kind is str and not value.isascii():
        return 4 * len(value)
    return len(value)


def _check_size(metrics: dict[Any, Any], sizes: dict[Any, int]) -> None:
    """Measure metrics that may be too large, without a whole pickle in memory; raise if they are."""
    counter = ByteCounter()
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
    """Check a value and its members, without recursion, which Python limits. Raises like `checked_metrics`."""
    size_bytes = 0
    waiting: list[tuple[_Path, Any]] = [((key,), value)]
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
        return _PLAIN_BYTES  # a numpy scalar can always be pickled
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
    return "".join([shown(path[0]), *(f"[{shown(part)}]" for part in path[1:])])
