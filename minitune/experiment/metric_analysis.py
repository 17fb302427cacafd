"""Running statistics of a trial's metrics: `Trial.metric_analysis`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minitune.base.numbers import as_number
from minitune.result import DEBUG_METRICS

_EXCLUDED = frozenset(DEBUG_METRICS)
_NO_METRICS = frozenset((str, bool, type(None), bytes, dict, list, tuple))
"""Frequent types of values that are not metrics."""
_WINDOW = 10
_LARGEST_INT = 10**300
"""Larger ints become floats. It is a margin below the largest float, so that sums of ints can be added to floats."""


class MetricAnalysis:
    """Maximum, minimum, mean and last values of every numeric metric of one trial.

    Bools and the keys of `DEBUG_METRICS` are ignored. NaN becomes neither a maximum nor a minimum.
    """

    __slots__ = ("_metrics",)

    def __init__(self) -> None:
        # key -> [max, min, sum, count, last values (at most 10)]
        self._metrics: dict[str, list[Any]] = {}

    def update(self, flat_result: Mapping[str, Any]) -> None:
        """Add one flattened result. O(number of its keys). It ignores values that are no numbers."""
        metrics = self._metrics
        for key, value in flat_result.items():
            kind = type(value)
            if kind in _NO_METRICS or key in _EXCLUDED:
                continue
            if kind is not float and not (kind is int and -_LARGEST_INT < value < _LARGEST_INT):
                number = as_number(value)
                if number is None:
                    continue
                value = float(number)
            known = metrics.get(key)
            if known is None:
                metrics[key] = [value, value, value, 1, [value]]
                continue
            # The first value may be NaN, and any number takes its place. A later NaN is neither larger nor smaller.
            if value > known[0]:
                known[0] = value
            elif value < known[1]:
                known[1] = value
            elif known[0] != known[0]:
                known[:2] = value, value
            known[2] += value
            known[3] += 1
            last = known[4]
            last.append(value)
            if len(last) > _WINDOW:
                del last[0]

    def copy(self) -> MetricAnalysis:
        """An independent copy, for a later rollback."""
        other = MetricAnalysis()
        other._metrics = {key: [*known[:-1], known[-1].copy()] for key, known in self._metrics.items()}
        return other

    def get(self, key: str, scope: str) -> float | None:
        """One statistic.

        Args:
            key: The metric's flattened name.
            scope: `max`, `min`, `avg`, `last`, `last-5-avg` or `last-10-avg`.
        """
        known = self._metrics.get(key)
        if known is None:
            return None
        return _STATISTICS[scope](known)

    def mean_of_last(self, key: str, count: int) -> float:
        """The mean of so many of the last values, at most ten, of a metric that has one."""
        return _mean(self._metrics[key][4][-count:])

    def as_dict(self) -> dict[str, dict[str, float]]:
        """All statistics: `{metric: {"max": ..., "min": ..., "avg": ..., "last": ..., "last-5-avg": ..., ...}}`."""
        return {
            key: {scope: statistic(known) for scope, statistic in _STATISTICS.items()}
            for key, known in self._metrics.items()
        }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


_STATISTICS: Mapping[str, Callable[[list[Any]], float]] = {
    "max": lambda known: known[0],
    "min": lambda known: known[1],
    "avg": lambda known: known[2] / known[3],
    "last": lambda known: known[4][-1],
    "last-5-avg": lambda known: _mean(known[4][-5:]),
    "last-10-avg": lambda known: _mean(known[4]),
}
