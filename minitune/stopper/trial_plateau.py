"""TrialPlateauStopper: a trial that no longer moves."""

from __future__ import annotations

from typing import Any

from minitune._checks import shown
from minitune.stopper.stopper import Stopper, check_metric, check_std, check_whole, lookup, number_of, spread


class TrialPlateauStopper(Stopper):
    """Ends a trial when the standard deviation of its last values falls below a limit.

    Args:
        metric: The metric's name; `a/b` for nested ones. A result without it counts for `grace_period` only.
        std: The limit.
        num_results: How many values to look at.
        grace_period: Results before which no trial ends.
        metric_threshold: Only end a trial whose value is past this one: at most it for `min`, at least it for `max`.
        mode: `min` or `max`; needed with a threshold.

    Raises:
        ValueError: If an argument is out of range.
    """

    def __init__(
        self,
        metric: str,
        std: float = 0.01,
        num_results: int = 4,
        grace_period: int = 4,
        metric_threshold: float | None = None,
        mode: str | None = None,
    ):
        check_metric(metric)
        check_std(std)
        if mode not in (None, "min", "max") or (metric_threshold is not None and mode is None):
            raise ValueError(f"mode must be 'min' or 'max' (None without a metric_threshold), but got {shown(mode)}")
        if metric_threshold is not None and number_of(metric_threshold) is None:
            raise ValueError(f"metric_threshold must be a number, but got {shown(metric_threshold)}")
        self._metric = metric
        self._std = std
        self._num_results = check_whole("num_results", num_results, 1)
        self._grace_period = check_whole("grace_period", grace_period, 0)
        self._threshold = metric_threshold
        self._mode = mode
        self._counts: dict[str, int] = {}
        self._last: dict[str, list[float]] = {}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """See `Stopper.__call__`."""
        count = self._counts[trial_id] = self._counts.get(trial_id, 0) + 1
        value = number_of(lookup(result, self._metric))
        if value is None:
            return False
        last = self._last.setdefault(trial_id, [])
        last.append(value)
        del last[: -self._num_results]
        if count < self._grace_period or len(last) < self._num_results or not self._is_past(value):
            return False
        return spread(last) < self._std

    def _is_past(self, value: float) -> bool:
        if self._threshold is None:
            return True
        return value <= self._threshold if self._mode == "min" else value >= self._threshold

    def get_state(self) -> dict[str, Any]:
        """Counts and last values by trial."""
        return {"counts": dict(self._counts), "last": {trial: list(last) for trial, last in self._last.items()}}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over counts and last values."""
        self._counts = dict(state["counts"])
        self._last = {trial: list(last) for trial, last in state["last"].items()}
