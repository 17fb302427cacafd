"""Repeater: each suggestion runs several times; the searcher hears the mean."""

from __future__ import annotations

import logging
import math
import numbers
from dataclasses import dataclass, field
from typing import Any

from minitune._checks import is_whole, require, require_flag
from minitune.search.searcher import Metric, Searcher, SearcherWrapper, Suggestion
from minitune.search.space_tree import copy_tree

logger = logging.getLogger("minitune")

TRIAL_INDEX = "__trial_index__"
"""Key of the configuration under which a trial finds its number within its group."""


@dataclass
class _Group:
    """The trials of one suggestion.

    Attributes:
        config: The suggestion.
        outcomes: Per trial, in order of suggestion, the values of the metrics; None while it has not ended.
        paused: Which of them are paused.
        error_count: How many have failed.
        is_paused: What the searcher was told last.
    """

    config: dict[str, Any]
    outcomes: dict[str, dict[str, float] | None] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    error_count: int = 0
    is_paused: bool = False

    @property
    def primary(self) -> str:
        """The id under which the searcher knows the suggestion."""
        return next(iter(self.outcomes))


class Repeater(SearcherWrapper):
    """Runs each suggestion `repeat` times and tells the searcher the mean of the metric, once, under the first id.

    Failed trials and those without a value take no part in the mean. `num_samples` counts trials; a group that they do
    not fill is ignored. Intermediate results are not passed on.

    Args:
        searcher: The inner searcher.
        repeat: How often each suggestion runs.
        set_index: Put 0 to `repeat` - 1 into the configuration as `__trial_index__`, for use as a seed. Without it all
            repeats are equal: with `TuneConfig(on_duplicate="reuse")` they get the result of the first.

    Raises:
        ValueError: If `repeat` is not positive.
        TypeError: If `searcher` is no `Searcher`.
    """

    def __init__(self, searcher: Searcher, repeat: int = 1, set_index: bool = True):
        super().__init__(searcher)
        require(is_whole(repeat) and repeat >= 1, "repeat: an int >= 1", repeat)
        require_flag("set_index", set_index)
        self.repeat = repeat
        self._set_index = set_index
        self._group_of: dict[str, _Group] = {}
        self._open: _Group | None = None

    def set_search_properties(self, metric: Metric, mode: str | list[str] | None, config: Any, **spec: Any) -> bool:
        """See `Searcher.set_search_properties`. Warns if the last group will not be full."""
        num_samples = spec.get("num_samples")
        if num_samples is not None and num_samples > 0 and num_samples % self.repeat:
            logger.warning(
                "num_samples counts trials, repeats included: the last %d of %d do not fill a group of %d and are "
                "ignored by the searcher",
                *(num_samples % self.repeat, num_samples, self.repeat),
            )
        return super().set_search_properties(metric, mode, config, **spec)

    def suggest(self, trial_id: str) -> Suggestion:
        """See `Searcher.suggest`."""
        if self._open is None:
            suggestion = self.searcher.suggest(trial_id)
            if not isinstance(suggestion, dict):
                return suggestion
            self._open = _Group(copy_tree(suggestion))
        group = self._open
        index = len(group.outcomes)
        group.outcomes[trial_id] = None
        self._group_of[trial_id] = group
        if len(group.outcomes) == self.repeat:
            self._open = None
        config: dict[str, Any] = copy_tree(group.config)
        return {**config, TRIAL_INDEX: index} if self._set_index else config

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Not passed on: the searcher hears of a suggestion once."""

    def on_trial_error(self, trial_id: str) -> None:
        """Not passed on: other trials of the suggestion may do well."""

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Passed on for the last trial of a group, with the mean."""
        group = self._group_of.pop(trial_id, None)
        if group is None:
            return
        group.outcomes[trial_id] = {} if error else self._values(result or {})
        group.error_count += error
        group.paused.discard(trial_id)
        if len(group.outcomes) == self.repeat and None not in group.outcomes.values():
            self.searcher.on_trial_complete(
                group.primary, result=self._mean(group), error=group.error_count == self.repeat
            )
        else:
            self._tell_pauses(group)

    def on_pause(self, trial_id: str) -> None:
        """Passed on, under the first id, once all unfinished trials of the group are paused."""
        group = self._group_of.get(trial_id)
        if group is not None:
            group.paused.add(trial_id)
            self._tell_pauses(group)

    def on_unpause(self, trial_id: str) -> None:
        """Passed on, under the first id, for the first trial of a paused group that goes on."""
        group = self._group_of.get(trial_id)
        if group is not None:
            group.paused.discard(trial_id)
            self._tell_pauses(group)

    def _tell_pauses(self, group: _Group) -> None:
        unfinished = {trial_id for trial_id, outcome in group.outcomes.items() if outcome is None}
        is_paused = bool(unfinished) and len(group.outcomes) == self.repeat and unfinished <= group.paused
        if is_paused != group.is_paused:
            group.is_paused = is_paused
            (self.searcher.on_pause if is_paused else self.searcher.on_unpause)(group.primary)

    def _values(self, result: dict[str, Any]) -> dict[str, float]:
        """The objectives in a result; all numbers if nobody has said what the objective is."""
        metric = self.metric
        names = list(result) if metric is None else [metric] if isinstance(metric, str) else metric
        values = {name: result[name] for name in names if isinstance(result.get(name), numbers.Real)}
        return {name: float(value) for name, value in values.items() if not math.isnan(value)}

    def _mean(self, group: _Group) -> dict[str, float]:
        metric = self.metric
        outcomes = [outcome for outcome in group.outcomes.values() if outcome]
        names = {name: None for outcome in outcomes for name in outcome}
        if metric is not None:
            names = dict.fromkeys([metric] if isinstance(metric, str) else metric)
        mean = {}
        for name in names:
            values = [outcome[name] for outcome in outcomes if name in outcome]
            mean[name] = math.fsum(values) / len(values) if values else math.nan
        return mean
