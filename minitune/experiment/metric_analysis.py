"""Running statistics of a trial's metrics: `Trial.metric_analysis`."""

from __future__ import annotations

import functools
import math
import operator
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
_ROWS = 32
"""The number of results that are processed together: `benchmarks/FINDINGS.md`, *rows*."""
_SHAPES_KEPT = 256
# The statistics of a metric without a value.
_UNKNOWN = [-math.inf, math.inf, 0, 0, []]


class MetricAnalysis:
    """Maximum, minimum, mean and last values of every numeric metric of one trial.

    Bools and the keys of `DEBUG_METRICS` are ignored. NaN becomes neither a maximum nor a minimum.
    """

    __slots__ = ("_metrics", "_rows", "_shape")

    def __init__(self) -> None:
        # key -> [max, min, sum, count, last values (at most 10)], without the rows. The list of last values is replaced
        # and never changed, so that copies may share it.
        self._metrics: dict[str, list[Any]] = {}
        self._shape = _NO_SHAPE
        self._rows: list[Sequence[Any]] = []

    def update(self, flat_result: Mapping[str, Any]) -> None:
        """Add one flattened result. O(number of its keys)."""
        names = tuple(flat_result)
        kinds = tuple(map(type, flat_result.values()))
        shape = self._shape
        if kinds != shape.kinds or names != shape.names:
            if self._rows:  # they have the present shape
                self._take_in()
            shape = _shape_of(names, kinds)
            self._shape = shape
        self._rows.append(shape.pick(flat_result))
        if len(self._rows) >= _ROWS:
            self._take_in()

    def get_state(self) -> dict[str, list[Any]]:
        """The whole state as plain data, for `set_state`."""
        self._take_in()
        return {key: known.copy() for key, known in self._metrics.items()}

    def set_state(self, state: Mapping[str, list[Any]]) -> None:
        """Restore a state from `get_state`."""
        self._rows = []
        self._metrics = {key: known.copy() for key, known in state.items()}

    def copy(self) -> MetricAnalysis:
        """An independent copy, for a later rollback."""
        other = MetricAnalysis()
        other.set_state(self.get_state())
        return other

    def get(self, key: str, scope: str) -> float | None:
        """One statistic.

        Args:
            key: The metric's flattened name.
            scope: `max`, `min`, `avg`, `last`, `last-5-avg` or `last-10-avg`.
        """
        self._take_in()
        known = self._metrics.get(key)
        if known is None:
            return None
        return _STATISTICS[scope](known)

    def mean_of_last(self, key: str, count: int) -> float:
        """The mean of so many of the last values, at most ten, of a metric that has one."""
        self._take_in()
        return _mean(self._metrics[key][4][-count:])

    def as_dict(self) -> dict[str, dict[str, float]]:
        """All statistics: `{metric: {"max": ..., "min": ..., "avg": ..., "last": ..., "last-5-avg": ..., ...}}`."""
        self._take_in()
        return {key: _statistics(known) for key, known in self._metrics.items()}

    def _take_in(self) -> None:
        if self._rows:
            for key, is_plain, column in zip(
                self._shape.metrics, self._shape.are_plain, zip(*self._rows, strict=True), strict=True
            ):
                if not (is_plain and self._take_in_plain(key, column)):
                    self._take_in_one_by_one(key, column)
            self._rows = []

    def _take_in_plain(self, key: str, column: Sequence[Any]) -> bool:
        """Add a column of floats, or of ints. Return False, without a change, for NaN or a very large number. Adds in
        order, so that the sum does not depend on how rows are grouped.
        """
        # With a NaN in the column, `max` and `min` may miss it, but the sum below does not.
        highest = max(column)
        lowest = min(column)
        if not -_LARGEST_INT < lowest <= highest < _LARGEST_INT:
            return False
        known = self._metrics.get(key, _UNKNOWN)
        total = functools.reduce(operator.add, column, known[2])
        if total != total:
            return False
        last = [*known[4], *column][-_WINDOW:]
        self._metrics[key] = [max(known[0], highest), min(known[1], lowest), total, known[3] + len(column), last]
        return True

    def _take_in_one_by_one(self, key: str, column: Sequence[Any]) -> None:
        """Add a column of values of any type. What is no number is ignored."""
        for value in column:
            if type(value) is not float and not (type(value) is int and -_LARGEST_INT < value < _LARGEST_INT):
                number = as_number(value)
                if number is None:
                    continue
                value = float(number)
            known = self._metrics.get(key)
            if known is None:
                self._metrics[key] = [value, value, value, 1, [value]]
                continue
            # The first value may be NaN, and any number takes its place. A later NaN is neither larger nor smaller.
            if value > known[0] or known[0] != known[0]:
                known[0] = value
            if value < known[1] or known[1] != known[1]:
                known[1] = value
            known[2] += value
            known[3] += 1
            known[4] = [*known[4], value][-_WINDOW:]


class _Shape:
    """The keys and types of a result, which equal ones share."""

    __slots__ = ("are_plain", "kinds", "metrics", "names", "pick")

    def __init__(self, names: tuple[str, ...], kinds: tuple[type, ...]):
        self.names = names
        self.kinds = kinds
        self.metrics: list[str] = []
        self.are_plain: list[bool] = []
        for name, kind in zip(names, kinds, strict=True):
            if name not in _EXCLUDED and kind not in _NO_METRICS:
                self.metrics.append(name)
                self.are_plain.append(kind in (float, int))
        self.pick = _picker(self.metrics)

    def __reduce__(self) -> tuple[Any, ...]:
        return _shape_of, (self.names, self.kinds)


def _picker(names: list[str]) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    if len(names) > 1:
        return operator.itemgetter(*names)
    return lambda result: tuple(result[name] for name in names)  # an itemgetter of one key returns no tuple


_NO_SHAPE = _Shape((), ())


@functools.lru_cache(_SHAPES_KEPT)
def _shape_of(names: tuple[str, ...], kinds: tuple[type, ...]) -> _Shape:
    return _Shape(names, kinds)


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


def _statistics(known: list[Any]) -> dict[str, float]:
    return {scope: statistic(known) for scope, statistic in _STATISTICS.items()}
