"""The median stopping rule: a trial whose best is worse than the median of the others' running means ends.

Source: Golovin et al., "Google Vizier: A Service for Black-Box Optimization" (KDD 2017), section 3.2.2.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from typing import Any

from minitune import decision
from minitune.base.checks import is_whole, require, require_flag
from minitune.decision import Decision
from minitune.experiment.lifecycle import PENDING, RUNNING
from minitune.experiment.trial import Trial
from minitune.schedulers.trial_scheduler import (
    CONTINUE,
    WORST,
    MetricScheduler,
    SchedulerContext,
    has_failed_for_good,
    number_above,
    number_text,
    supply_of,
)

_ROUNDING = 1e-12
"""No trial ends for a smaller relative difference: it may be that of two sums of the same numbers."""

_LARGEST = 1e300

_EXACT_TIMES = 50
_EXACT_BELOW = 1000
_RESOLUTION = 0.05
"""Comparisons are made at the very time of the result for the first 50 distinct times, and for whole ones below 1000;
any other time is served by one that was met before, if that is at most 5 % earlier. So seconds, of which no two results
have the same, cost no more than iterations."""


class _Curve:
    """The reports of one trial, and from them its mean at any time.

    Attributes:
        times: When it reported, ascending.
        sums: The sums of the finite scores that count, up to each time.
        counts: How many those are.
        best: Its best finite score so far; the worst there is if it has none.
    """

    __slots__ = ("best", "counts", "sums", "times")

    def __init__(self) -> None:
        self.times: list[float] = []
        self.sums: list[float] = []
        self.counts: list[int] = []
        self.best = WORST

    def mean(self, time: float) -> float | None:
        """The mean of what counts up to `time`; None if it has none, or has not come so far. O(log n)."""
        if not self.times or self.times[-1] < time:
            return None
        place = bisect_right(self.times, time) - 1
        return self.sums[place] / self.counts[place] if place >= 0 and self.counts[place] else None


class MedianStoppingRule(MetricScheduler):
    """Ends a trial whose best value is worse than the median, over the other trials, of their means up to this time.

    The others are those that have come as far, whether they still run or not. Values that are NaN, infinite or no
    numbers are left out of means; a trial that has nothing else is worse than any median. A difference that is only
    rounding ends no trial.

    Args:
        time_attr: The result key that tells how far a trial is: any number that grows.
        metric: The result key to optimise; by default the run's.
        mode: `min` or `max`; by default the run's.
        grace_period: No trial ends earlier, and nothing earlier counts in a mean; in units of `time_attr`.
        min_samples_required: With fewer others than that no trial ends.
        min_time_slice: If positive, a trial that has too few others to be compared with makes room for those that wait,
            each time that it has run so long since it was started; in units of `time_attr`. Trials have to save
            checkpoints for that.
        hard_stop: If False, trials are paused instead of ended. When no others wait, they go on unchecked.
        reward_attr: Old name of `metric`; `mode` is then `max`.

    Raises:
        ValueError: If an argument is out of range.
    """

    _short_name = "median rule"

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
        self._grace_period = number_above("grace_period", grace_period, 0, or_equal=True)
        self._min_samples_required = min_samples_required
        self._min_time_slice = number_above("min_time_slice", min_time_slice, 0, or_equal=True)
        self._hard_stop = bool(hard_stop)
        self._num_stopped = 0
        self._curves: dict[str, _Curve] = {}
        # The times at which trials were compared, and per time the means of all that came so far, both ascending.
        self._moments: list[float] = []
        self._means: list[list[float]] = []
        # Only of live trials: those that were paused for good, and when their slices of time began.
        self._spared: set[str] = set()
        self._slices: dict[str, float] = {}

    # -- hooks ---------------------------------------------------------------------------------------------------

    def on_trial_result(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> str:
        """Record the result and compare the trial. O(log n) for each time of comparison that it passes.

        Args:
            tune_controller: The context.
            trial: The trial that reported.
            result: Its result, flattened.

        Returns:
            The decision.
        """
        at = self._time_of(result)
        if at is None:
            return CONTINUE
        curve = self._record(trial.trial_id, at, result)
        if at < self._grace_period or trial.trial_id in self._spared:
            return CONTINUE
        place = self._place_of(at)
        means, own = self._means[place], curve.mean(self._moments[place])
        if len(means) - (own is not None) < self._min_samples_required:
            return self._yield_time(tune_controller, trial, at)
        median = _median_without(means, own)
        if curve.best >= median - _ROUNDING * max(1.0, abs(median)):
            return CONTINUE
        return self._reject(trial, at, curve, median, len(means) - (own is not None))

    def on_trial_complete(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> None:
        """Let the last result count, if it has not been heard of, and forget what belongs to the trial alone."""
        at = self._time_of(result or {})
        if at is not None:
            self._record(trial.trial_id, at, result)
        self._forget(trial)

    def on_trial_remove(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """Forget what belongs to the trial alone; what it has reported stays."""
        self._forget(trial)

    def on_trial_error(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """Forget what belongs to the trial alone if it has failed for good; what it has reported stays."""
        if has_failed_for_good(trial):
            self._forget(trial)

    def choose_trial_to_run(self, tune_controller: SchedulerContext) -> Trial | None:
        """New trials first; those that were put aside go on when no more come, or none while nothing runs."""
        if supply_of(tune_controller) == "ENDED" or not hasattr(tune_controller, "first_pending"):
            return super().choose_trial_to_run(tune_controller)
        pending, paused = tune_controller.first_pending(), tune_controller.first_paused()
        if pending is not None or paused is None or supply_of(tune_controller) == "OPEN":
            return pending
        live = tune_controller.get_live_trials()
        return None if any(trial.status in (PENDING, RUNNING) for trial in live) else paused

    def debug_string(self) -> str:
        """How many were ended, or paused for good."""
        return f"Using MedianStoppingRule: num_stopped={self._num_stopped}."

    # -- state ---------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """See `TrialScheduler.get_state`; the arguments are no part of it."""
        return {
            "curves": {
                trial_id: (list(curve.times), list(curve.sums), list(curve.counts), curve.best)
                for trial_id, curve in self._curves.items()
            },
            "moments": list(self._moments),
            "spared": sorted(self._spared),
            "slices": dict(self._slices),
            "num_stopped": self._num_stopped,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """See `TrialScheduler.set_state`."""
        self._curves = {}
        for trial_id, (times, sums, counts, best) in state["curves"].items():
            curve = self._curves[trial_id] = _Curve()
            curve.times, curve.sums, curve.counts, curve.best = list(times), list(sums), list(counts), best
        self._moments = list(state["moments"])
        self._means = [self._means_at(moment) for moment in self._moments]
        self._spared, self._slices = set(state["spared"]), dict(state["slices"])
        self._num_stopped = state["num_stopped"]

    # -- the rule ------------------------------------------------------------------------------------------------

    def _record(self, trial_id: str, at: float, result: dict[str, Any]) -> _Curve:
        """Take in a result, unless the trial was as far before: it may have been started again."""
        curve = self._curves.get(trial_id)
        if curve is None:
            curve = self._curves[trial_id] = _Curve()
        before = curve.times[-1] if curve.times else -math.inf
        if at <= before:
            return curve
        value = self._score_of(result)
        total, count = (curve.sums[-1], curve.counts[-1]) if curve.times else (0.0, 0)
        first = bisect_right(self._moments, before)
        last = bisect_left(self._moments, at, first)
        if count and first < last:
            mean = total / count
            for means in self._means[first:last]:
                insort(means, mean)
        if abs(value) < _LARGEST:  # sums of larger ones might be infinite
            value = float(value)
            curve.best = max(curve.best, value)
            if at >= self._grace_period:
                total, count = total + value, count + 1
        curve.times.append(at)
        curve.sums.append(total)
        curve.counts.append(count)
        if count and last < len(self._moments) and self._moments[last] == at:
            insort(self._means[last], total / count)
        return curve

    def _place_of(self, at: float) -> int:
        """The index of the moment that stands for the time `at`; a new one is made if there is none."""
        place = bisect_right(self._moments, at) - 1
        if place >= 0:
            late = at - self._moments[place]
            is_exact = len(self._moments) < _EXACT_TIMES or (at < _EXACT_BELOW and at == int(at))
            if not late or (not is_exact and late <= _RESOLUTION * at):
                return place
        self._moments.insert(place + 1, at)
        self._means.insert(place + 1, self._means_at(at))
        return place + 1

    def _means_at(self, time: float) -> list[float]:
        """The means of all who have come as far, ascending. O(n log n), once for each moment."""
        means = (curve.mean(time) for curve in self._curves.values())
        return sorted(mean for mean in means if mean is not None)

    def _reject(self, trial: Trial, at: float, curve: _Curve, median: float, others: int) -> Decision:
        self._num_stopped += 1
        facts = {
            "rule": "median",
            "metric": self._metric,
            "value": self._value(curve.best),
            "time": at,
            "cutoff": self._value(median),
            "of": others,
        }
        reason = (
            f"its best {self._metric} so far, {self._shown(curve.best)}, is worse than the median of the means of "
            f"{others} others at {self._time_attr} {number_text(at)}, {self._shown(median)}"
        )
        if self._hard_stop:
            return Decision(decision.STOP, reason, facts=facts)
        self._spared.add(trial.trial_id)
        return Decision(decision.PAUSE, reason, facts=facts)

    def _yield_time(self, context: SchedulerContext, trial: Trial, at: float) -> Decision:
        """With too few others the trial goes on, unless others wait and its slice of time is over."""
        if not self._min_time_slice or at - self._slices.get(trial.trial_id, 0) < self._min_time_slice:
            return CONTINUE
        if context.first_pending() is None and context.first_paused() is None:
            return CONTINUE
        self._slices[trial.trial_id] = at
        return Decision(
            decision.PAUSE,
            f"at {self._time_attr} {number_text(at)} it makes room for other trials: there are too few to compare it "
            "with",
            facts={"rule": "median", "metric": self._metric, "time": at},
        )

    def _forget(self, trial: Trial) -> None:
        self._spared.discard(trial.trial_id)
        self._slices.pop(trial.trial_id, None)


def _median_without(ordered: list[float], own: float | None) -> float:
    """The median of ascending numbers, one of them left out. O(log n).

    Args:
        ordered: The numbers; at least one is left.
        own: Which to leave out, if any.
    """
    hole = len(ordered) if own is None else bisect_left(ordered, own)
    count = len(ordered) - (own is not None)
    low, high = (count - 1) // 2, count // 2
    return (ordered[low + (low >= hole)] + ordered[high + (high >= hole)]) / 2
