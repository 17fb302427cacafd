"""Whether metrics can be sent to the driver: they can be pickled and loaded again, and are not too large.

Most reports are a few numbers, and each is checked in the trial's time. So only what is no plain number is pickled to
see whether it can be, and only after a failure is the value found that is to blame.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from typing import Any

from minitune.base.checks import shown
from minitune.base.pickling import PROTOCOL
from minitune.result import DONE, with_text_keys

LIMIT_BYTES = 64_000_000
"""The largest size of a pickled report; that of a message is higher."""
_NUMBERS = frozenset({float, int, bool, type(None)})
_PLAIN = _NUMBERS | {str, bytes, complex}
# The largest number of nested levels. A deeper value probably contains itself, so that a walk over it never ends.
_NESTED_LIMIT = 2_000
_Path = tuple[Any, ...]


def checked_metrics(metrics: dict[Any, Any]) -> dict[str, Any]:
    """Metrics whose keys are texts, after a check that they can be sent to the driver. Fast for numbers.

    Raises:
        TypeError: If a key has no text, or a value cannot be pickled and loaded again, with key, type and reason.
        ValueError: If a value is a torch tensor, `done` is a text, or all together are larger than `LIMIT_BYTES`.
    """
    metrics = with_text_keys(metrics)
    if _NUMBERS.issuperset(map(type, metrics.values())):
        return metrics
    if isinstance(metrics.get(DONE), str):  # each text but the empty one would end the trial
        raise ValueError(f"done must be True or False, but got {metrics[DONE]!r}")
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    for path, leaf in _leaves(metrics):
        if isinstance(tensor, type) and isinstance(leaf, tensor):
            raise ValueError(
                f"metric {_show(path)} is a torch tensor; report a number instead, such as tensor.item(): "
                "a tensor would need torch and its device wherever the result is read"
            )
    try:
        size_bytes = _size_bytes(metrics)
    except (RecursionError, MemoryError):  # the worker pickles what is nested deeper, and says what memory it lacks
        return metrics
    except Exception:
        for path, leaf in _leaves(metrics):
            _refuse(path, leaf)
        raise
    if size_bytes > LIMIT_BYTES:
        largest = max(metrics, key=lambda key: _size_bytes(metrics[key]))
        raise ValueError(
            f"one report may hold at most {LIMIT_BYTES // 10**6} MB, but this one holds {size_bytes / 10**6:.1f} MB, "
            f"most of it in metric {largest!r:.80}: write large data to a file and report it as a checkpoint, "
            "Checkpoint.from_directory(path)"
        )
    return metrics


def _size_bytes(value: Any) -> int:
    pickled = pickle.dumps(value, PROTOCOL)
    pickle.loads(pickled)  # not every value that can be pickled can be loaded
    return len(pickled)


def _leaves(metrics: dict[str, Any]) -> Iterator[tuple[_Path, Any]]:
    """The values that are neither plain nor containers, with their paths; without recursion, which Python limits."""
    waiting: list[tuple[_Path, Any]] = [((key,), value) for key, value in metrics.items()]
    while waiting:
        path, current = waiting.pop()
        kind = type(current)
        if kind in _PLAIN:
            continue
        if len(path) > _NESTED_LIMIT:
            raise TypeError(
                f"metric {path[0]!r} is nested more than {_NESTED_LIMIT} levels deep, or contains itself; "
                "report flat values"
            )
        if kind is dict:
            for inner_key, part in current.items():
                waiting += (((*path, inner_key), part), ((*path, inner_key), inner_key))
        elif kind not in (list, tuple):
            yield path, current
        elif not _PLAIN.issuperset(map(type, current)):
            waiting += (((*path, position), part) for position, part in enumerate(current))


def _refuse(path: _Path, value: Any) -> None:
    """Raise a TypeError if a value is what cannot be sent."""
    try:
        _size_bytes(value)
    except Exception as error:
        kind = type(value)
        raise TypeError(
            f"metric {_show(path)} of type {kind.__module__}.{kind.__qualname__} cannot be reported: "
            f"{type(error).__name__}: {error}; report numbers, text, or containers of these"
        ) from None


def _show(path: _Path) -> str:
    return "".join([shown(path[0]), *(f"[{shown(part)}]" for part in path[1:])])
