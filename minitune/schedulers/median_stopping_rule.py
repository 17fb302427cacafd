"""The median stopping rule stops a trial whose best value is worse than the median of the others' running means.

Source: Golovin et al., "Google Vizier: A Service for Black-Box Optimization" (KDD 2017), section 3.2.2.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field
from typing import Any

from minitune.base.calls import explains_calls
from minitune.base.checks import is_whole, require, require_flag
from minitune.base.text import number_text, warn_once
from minitune.experiment import decision
from minitune.experiment.decision import Decision
from minitune.experiment.trial import Trial
from minitune.schedulers.trial_scheduler import (
    WORST,
    MetricScheduler,
    SchedulerContext,
    number_above,
)

_ROUNDING = 1e-12
"""No trial is stopped for a smaller relative difference: two sums of the same numbers may differ by so much."""

_LARGEST = 1e300


@dataclass(slots=True)
class _Curve:
    """The reports of one trial, which give its mean at any time.

    Attributes:
        means: The mean of the scores up to each of the times; None without one.
    """

    times: list[float] = field(default_factory=list)
    means: list[float | None] = field(default_factory=list)
    total: float = 0.0
    count: int = 0
    best: float = WORST

    def mean(self, time: float) -> float | None:
        """The mean of the scores up to `time`, in O(log n); None without a score, or before that time."""
        index = bisect_right(self.times, time) - 1
        if index < 0 or self.times[-1] < time:
            return None
        return self.means[index]


@explains_calls
class MedianStoppingRule(MetricScheduler):
    """Stops a trial whose best value is worse than the median of the other trials' means up to the same time.

    Trials are compared at whole times: at 2.7 by what was reported up to 2. Values that are NaN, infinite or no numbers
    are left out.

    Args:
        time_attr, metric, mode, reward_attr: See `MetricScheduler`.
        grace_period: No trial is stopped before this time, in units of `time_attr`, and no earlier value counts.
        min_samples_required: No trial is stopped if it is compared with fewer other trials.
        min_time_slice, hard_stop: Arguments of Ray Tune without an effect here: no trial makes room for others, and
            those that are worse are stopped.

    Raises:
        ValueError: If an argument is out of range.
    """

    _short_name = "median rule"
    _rule = "median"
    _STATE = ("_curves", "_moments", "_means", "_num_stopped")

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        grace_period: float = 60.0,
        min_samples_required: int = 3,
        min_time_slice: float = 0,
        hard_stop: bool = True,
        reward_attr: str | None = None,
    ):
        super().__init__(time_attr, metric, mode, reward_attr)
        good = is_whole(min_samples_required) and min_samples_required >= 1
        require(good, "min_samples_required: an int >= 1", min_samples_required)
        require_flag("hard_stop", hard_stop)
        if min_time_slice:
            warn_once("MedianStoppingRule(min_time_slice=...) has no effect: a trial makes no room for others")
        if not hard_stop:
            warn_once("MedianStoppingRule(hard_stop=False) has no effect: worse trials are stopped, and none is paused")
        self._grace_period = number_above("grace_period", grace_period, 0, or_equal=True)
        self._min_samples_required = min_samples_required
        self._num_stopped = 0
        self._curves: dict[str, _Curve] = {}
        # The whole times at which trials were compared, and for each the means of the trials that reached it. Both
        # ascend.
        self._moments: list[int] = []
        self._means: list[list[float]] = []

    @property
    def first_turn(self) -> float | None:
        return self._grace_period

    # -- hooks ---------------------------------------------------------------------------------------------------

    def on_trial_result(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> str:
        """Record the result and compare the trial. O(log n) for each time of comparison that the trial passes."""
        at = self._time_of(result)
        if at is None:
            return decision.GO_ON
        curve = self._record(trial.trial_id, at, result)
        if at < self._grace_period:
            return decision.GO_ON
        index = self._index_of(at)
        means = self._means[index]
        own = curve.mean(self._moments[index])
        num_others = len(means)
        if own is not None:
            num_others -= 1
        if num_others < self._min_samples_required:
            return decision.GO_ON
        median = _median_without(means, own)
        # Its best value, not its mean: a trial that has just become good must not pay for its slow start.
        tolerance = _ROUNDING * max(1.0, abs(median))
        if curve.best >= median - tolerance:
            return decision.GO_ON
        return self._reject(trial, at, curve, median, num_others)

    def on_trial_complete(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> None:
        at = self._time_of(result or {})
        if at is not None:
            self._record(trial.trial_id, at, result)

    def debug_string(self) -> str:
        return f"Using MedianStoppingRule: num_stopped={self._num_stopped}."

    # -- the rule ------------------------------------------------------------------------------------------------

    def _record(self, trial_id: str, at: float, result: dict[str, Any]) -> _Curve:
        """Record a result, unless the trial, which may have started again, has been as far before."""
        curve = self._curves.setdefault(trial_id, _Curve())
        before = curve.times[-1] if curve.times else -math.inf
        if at <= before:
            return curve
        value = self._score_of(result)
        # The trial has reached the times of comparison since its last result. Its mean there is that up to then.
        first = bisect_right(self._moments, before)
        last = bisect_left(self._moments, at, first)
        if curve.count:
            for means in self._means[first:last]:
                insort(means, curve.total / curve.count)
        if abs(value) < _LARGEST:  # sums of larger ones might be infinite
            curve.best = max(curve.best, float(value))
            if at >= self._grace_period:
                curve.total += float(value)
                curve.count += 1
        mean = curve.total / curve.count if curve.count else None
        curve.times.append(at)
        curve.means.append(mean)
        if mean is not None and last < len(self._moments) and self._moments[last] == at:
            insort(self._means[last], mean)
        return curve

    def _index_of(self, at: float) -> int:
        moment = math.floor(at)
        index = bisect_left(self._moments, moment)
        if index == len(self._moments) or self._moments[index] != moment:
            self._moments.insert(index, moment)
            self._means.insert(index, self._means_at(moment))
        return index

    def _means_at(self, time: float) -> list[float]:
        """The ascending means of all trials that have reached the time: O(n log n), once for each time."""
        means = (curve.mean(time) for curve in self._curves.values())
        return sorted(mean for mean in means if mean is not None)

    def _reject(self, trial: Trial, at: float, curve: _Curve, median: float, others: int) -> Decision:
        self._num_stopped += 1
        facts = self._facts(curve.best, at, cutoff=self._value(median), of=others)
        reason = (
            f"its best {self._metric} so far, {self._shown(curve.best)}, is worse than the median of the means of "
            f"{others} others at {self._time_attr} {number_text(at)}, {self._shown(median)}"
        )
        return Decision(decision.STOP, reason, facts=facts)


def _median_without(ordered: list[float], own: float | None) -> float:
    """The median of ascending numbers without one of them, in O(log n)."""
    if own is None:
        hole = len(ordered)
    else:
        hole = bisect_left(ordered, own)
    count = len(ordered) - (own is not None)
    low = (count - 1) // 2
    high = count // 2
    return (ordered[low + (low >= hole)] + ordered[high + (high >= hole)]) / 2
