"""Running statistics of a trial's metrics: `Trial.metric_analysis`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from minitune.result import DEBUG_METRICS

_EXCLUDED = frozenset(DEBUG_METRICS)
_WINDOW = 10
_LARGEST_INT = 10**300
"""Ints up to here can be added to floats; larger ones count as infinite."""


class MetricAnalysis:
    """Maximum, minimum, mean and last values of every numeric metric of one trial.

    Bools are no metrics, and the keys of `DEBUG_METRICS` take no part. NaN neither becomes a maximum nor a minimum.
    """

    __slots__ = ("_metrics",)

    def __init__(self) -> None:
        # key -> [max, min, sum, count, last values (at most 10)]
        self._metrics: dict[str, list[Any]] = {}

    def update(self, flat_result: Mapping[str, Any]) -> None:
        """Take in one flattened result. O(number of its keys)."""
        for key, value in flat_result.items():
            if key in _EXCLUDED:
                continue
            if type(value) is not float and not (type(value) is int and -_LARGEST_INT < value < _LARGEST_INT):
                if not _is_number(value):
                    continue
                value = _as_float(value)
            known = self._metrics.get(key)
            if known is None:
                self._metrics[key] = [value, value, value, 1, [value]]
                continue
            if value > known[0] or known[0] != known[0]:
                known[0] = value
            if value < known[1] or known[1] != known[1]:
                known[1] = value
            known[2] += value
            known[3] += 1
            last = known[4]
            last.append(value)
            if len(last) > _WINDOW:
                del last[0]

    def copy(self) -> MetricAnalysis:
        """An independent copy, to roll back to."""
        other = MetricAnalysis()
        other._metrics = {key: [*known[:4], known[4].copy()] for key, known in self._metrics.items()}
        return other

    def get(self, key: str, scope: str) -> float | None:
        """One statistic.

        Args:
            key: The metric's flattened name.
            scope: `max`, `min`, `avg`, `last`, `last-5-avg` or `last-10-avg`.

        Returns:
            The value, or None if the metric was never reported.
        """
        known = self._metrics.get(key)
        return None if known is None else _statistics(known)[scope]

    def as_dict(self) -> dict[str, dict[str, float]]:
        """All statistics: `{metric: {"max": ..., "min": ..., "avg": ..., "last": ..., "last-5-avg": ..., ...}}`."""
        return {key: _statistics(known) for key, known in self._metrics.items()}


_NO_NUMBERS = frozenset("bcmM")
"""Kinds of numpy scalars that `float` takes, but of which none is better than another: bool, complex, and times."""


def _is_number(value: Any) -> bool:
    """Whether a value of another type, such as a numpy scalar, is a single number."""
    if isinstance(value, (float, int)):
        return not isinstance(value, bool)
    try:
        if value.shape != () or getattr(value.dtype, "kind", "") in _NO_NUMBERS:
            return False
        float(value)
    except Exception:  # it has no such attributes, or whatever an object of the user's raises
        return False
    return True


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _statistics(known: list[Any]) -> dict[str, float]:
    highest, lowest, total, count, last = known
    recent = last[-5:]
    return {
        "max": highest,
        "min": lowest,
        "avg": total / count,
        "last": last[-1],
        "last-5-avg": sum(recent) / len(recent),
        "last-10-avg": sum(last) / len(last),
    }
