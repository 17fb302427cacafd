"""MetricScheduler: what the schedulers have in common that compare trials by one metric along one measure of time."""

from __future__ import annotations

import math
from typing import Any

from minitune._checks import is_real, is_whole, require, require_metric, shown
from minitune._warnings import warn_once
from minitune.experiment.trial import Trial
from minitune.result import AUTO_RESULT_KEYS, DEFAULT_METRIC
from minitune.schedulers.trial_scheduler import WORST, FIFOScheduler, SchedulerContext, as_number, check_mode, score


class MetricScheduler(FIFOScheduler):
    """Knows how far a trial is, and how good.

    Args:
        time_attr: The result key that tells how far a trial is: any number that grows.
        metric: The result key to optimise; by default the run's.
        mode: `min` or `max`; by default the run's.

    Raises:
        ValueError: If an argument is of the wrong kind.
    """

    def __init__(self, time_attr: str, metric: str | None, mode: str | None):
        require(isinstance(time_attr, str), "time_attr: the name of a result that grows", time_attr)
        require_metric("metric", metric)
        check_mode(mode)
        self._time_attr = time_attr
        self._metric = metric
        self._mode = mode

    @property
    def time_attr(self) -> str:
        """See `TrialScheduler.time_attr`."""
        return self._time_attr

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """See `TrialScheduler.set_search_properties`.

        Raises:
            ValueError: If no mode is known afterwards.
        """
        if not super().set_search_properties(metric, mode, **spec):
            return False
        self._require_mode()
        return True

    def on_trial_add(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """See `TrialScheduler.on_trial_add`.

        Raises:
            ValueError: If nobody has said what is to be optimised, and in which direction.
        """
        self._require_mode()

    def _require_mode(self) -> None:
        if not self._metric or self._mode is None:
            named = None if self._metric == DEFAULT_METRIC else self._metric  # the default is no name of the user's
            raise ValueError(
                f"{type(self).__name__} needs a metric and a mode, but got metric={named!r}, mode={self._mode!r}: "
                "give metric='...' and mode='min' or mode='max' to it or to TuneConfig"
            )

    def _time_of(self, result: dict[str, Any]) -> float | None:
        """How far the trial is, or None if the result does not tell or lacks the metric."""
        if self._metric not in result:
            return None
        time = as_number(result.get(self._time_attr))
        if time is None:
            names = ", ".join(key for key in result if key not in AUTO_RESULT_KEYS)
            warn_once(
                f"{type(self).__name__} goes by time_attr={self._time_attr!r}, but a result has no such number, and "
                f"passes unjudged; reported were: {names}. 'training_iteration' is in every result"
            )
        return time

    def _score_of(self, result: dict[str, Any]) -> float:
        """How good the result is: larger is better, `WORST` for what is no number."""
        return score(result[self._metric or ""], self._mode or "max")

    def _value(self, scored: float) -> float | None:
        """A score as the user's metric; None for what is no number."""
        if scored == WORST:
            return None
        return scored if self._mode == "max" else -scored

    def _shown(self, scored: float) -> str:
        """A score as the user's metric, for people."""
        value = self._value(scored)
        return "no number" if value is None else number_text(value)


def has_failed_for_good(trial: Trial) -> bool:
    """Whether there will be no other attempt, as far as that is known while the scheduler hears of a failure."""
    return trial.is_finished() or trial.error is not None or 0 <= trial.max_failures < trial.num_failures


def supply_of(context: Any) -> str:
    """Whether more trials come; a stand-in in a user's test knows the methods of Ray Tune only, and does not tell."""
    return getattr(context, "supply", "OPEN")


def number_above(name: str, value: Any, least: float, *, or_equal: bool = False) -> float:
    """`value`, a finite number above `least`, as a plain int or float.

    Raises:
        ValueError: With the broken inequality and the value.
    """
    good = is_real(value) and math.isfinite(value) and (value >= least if or_equal else value > least)
    if not good:
        sign = "<=" if or_equal else "<"
        raise ValueError(f"{least:g} {sign} {name} < infinity must hold, but got {shown(value)}")
    return int(value) if is_whole(value) else float(value)


def number_text(number: float) -> str:
    """A number for people, whatever its size."""
    try:
        return f"{number:.6g}"
    except OverflowError:
        return "a number above 1e308" if number > 0 else "a number below -1e308"
