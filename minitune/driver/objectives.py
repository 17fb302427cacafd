"""Objectives: the metrics by which scheduler, searcher and user judge a trial, in each of its results."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from minitune.base.numbers import as_objective
from minitune.error import MissingMetricError
from minitune.experiment.trial import Trial
from minitune.result import DEFAULT_METRIC, MISSING, assign, flatten, own_metrics

logger = logging.getLogger("minitune")

_NO_ACCIDENT = 2
"""If so many trials lack a metric and no trial has it, its name is wrong."""


class Objectives:
    """Makes the objectives of each result plain numbers, and finds results without them.

    A wrong name of a metric ends the run before every trial fails.

    Args:
        names: The flattened names of the objectives; True for one that each result must have.
        is_bare: Whether there is a mode but no metric, so that the first result is looked at.

    Attributes:
        is_over: Whether there is nothing to look for in results.
    """

    def __init__(self, names: Mapping[str, bool], *, is_bare: bool = False):
        self._names = dict(names)
        self._is_bare = is_bare
        self.is_over = not (self._names or is_bare)
        self._num_failed: Counter[str] = Counter()
        self._reported: set[str] = set()

    def settle(self, result: dict[str, Any]) -> MissingMetricError | None:
        """Make the objectives plain numbers, in place; return an error if one is missing or no number. A result with
        automatic keys only is no error.
        """
        if not self._is_bare:
            for name in self._names:
                if type(result.get(name)) is not float:
                    break
            else:
                return None
        flat = flatten(result)
        for name, is_required in self._names.items():
            value = flat.get(name, MISSING)
            if value is MISSING or (value is None and not is_required):
                continue
            try:
                number = as_objective(value, name)
            except ValueError as error:
                self._reported.add(name)  # the name is right, so this is no reason to end the run
                return self._error(name, str(error))
            if number is not value:
                assign(result, name, number)
        metric = next((name for name, is_required in self._names.items() if is_required and name not in flat), None)
        if metric is None and not self._is_bare:
            return None
        reported = sorted(own_metrics(flat))
        if not reported:
            return None
        if metric is None:  # the first result tells what the trials report
            self._is_bare = False
            self.is_over = not self._names
            if DEFAULT_METRIC not in flat:
                logger.warning(
                    "there is a mode but no metric, so each trial must return a number; but reported were: %s. Name "
                    "the metric, such as metric=%r",
                    ", ".join(reported),
                    reported[0],
                )
            return None
        from difflib import get_close_matches

        self._reported.update(name for name in self._names if name in flat)
        close = get_close_matches(metric, reported, 1)
        hint = ". "
        if close:
            hint = f". Did you mean {close[0]!r}? "
        return self._error(
            metric,
            f"the metric {metric!r} must be in every reported result, but reported were: {', '.join(reported)}{hint}"
            "MINITUNE_DISABLE_STRICT_METRIC_CHECKING=1 allows results without it",
        )

    @staticmethod
    def _error(metric: str, text: str) -> MissingMetricError:
        error = MissingMetricError(text)
        error.metric = metric
        return error

    def has_failed(self, error: MissingMetricError, trials: Iterable[Trial]) -> None:
        """A trial has failed with an error of `settle`.

        Raises:
            MissingMetricError: If it is the second one for this metric, and no trial has ever reported it.
        """
        metric = error.metric
        self._num_failed[metric] += 1
        if self._num_failed[metric] < _NO_ACCIDENT or metric in self._reported:
            return
        if any(metric in trial.metric_analysis or metric in flatten(trial.progress.metrics) for trial in trials):
            self._reported.add(metric)
            return
        raised = MissingMetricError(
            f"the run has ended: {self._num_failed[metric]} trials have failed without a metric that no trial has "
            f"reported: {error}"
        )
        raised.metric = metric
        raise raised
