"""Searchers that hold results back, until a batch is full or a group has its mean. These results are in their state: a
resumed run would lose them otherwise.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from minitune.base.calls import explains_calls
from minitune.base.checks import is_whole, require, require_flag
from minitune.base.numbers import known_number, mean_of
from minitune.result import DEFAULT_METRIC
from minitune.search.searcher import Metric, Searcher, SearcherWrapper, Suggestion
from minitune.space.tree import copy_tree

logger = logging.getLogger("minitune")

TRIAL_INDEX = "__trial_index__"
"""The key of a configuration with the number of the trial within its group."""

_Outcome = tuple[dict[str, Any] | None, bool]
"""The last result of an ended trial, if it has one, and whether it failed."""


@explains_calls
class ConcurrencyLimiter(SearcherWrapper):
    """Withholds suggestions while `max_concurrent` trials are live. Paused trials do not count.

    With `batch=True`, so many suggestions make a batch, which closes once it is full and each member is finished or
    paused. Then the searcher is told their results in the order of suggestion; that of a paused member when it ends. A
    batch that cannot be filled counts as full.

    Args:
        searcher: The inner searcher.
        max_concurrent: The limit.

    Raises:
        ValueError: If `max_concurrent` is not positive.
        TypeError: If `searcher` is no `Searcher`.
    """

    def __init__(self, searcher: Searcher, max_concurrent: int, batch: bool = False):
        super().__init__(searcher)
        require(is_whole(max_concurrent) and max_concurrent >= 1, "max_concurrent: an int >= 1", max_concurrent)
        require_flag("batch", batch)
        self.max_concurrent = max_concurrent
        self.batch = batch
        # Both, because a paused trial leaves its slot to another one, but has not ended for the searcher.
        self._running: set[str] = set()
        self._paused: set[str] = set()
        # The members of the open batch in order of suggestion, with their outcomes once they have ended.
        self._members: dict[str, _Outcome | None] = {}
        self._is_fed = True  # whether the searcher had a suggestion when it was last asked

    def suggest(self, trial_id: str) -> Suggestion:
        # Members of the open batch keep their slots until it closes, even if they have ended.
        if len(self._running | self._members.keys()) >= self.max_concurrent:
            return None
        suggestion = self.searcher.suggest(trial_id)
        self._is_fed = isinstance(suggestion, dict)
        if self._is_fed:
            self._add(trial_id)
        else:
            self._close_batch()
        return suggestion

    def adopt(self, trial_id: str, config: Mapping[str, Any]) -> None:
        """See `Searcher.adopt`. The trial counts as one that was suggested, whatever the limit."""
        self.searcher.adopt(trial_id, config)
        self._add(trial_id)

    def _add(self, trial_id: str) -> None:
        self._running.add(trial_id)
        if self.batch:
            self._members[trial_id] = None

    def on_search_end(self) -> None:
        """The open batch gets no more members."""
        self._is_fed = False
        self._close_batch()
        self.searcher.on_search_end()

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Passed on once, at the latest when the batch closes."""
        if trial_id in self._running or trial_id in self._paused:
            self._running.discard(trial_id)
            self._paused.discard(trial_id)
            if trial_id in self._members:
                self._members[trial_id] = (result, error)
                self._close_batch()
            else:
                self.searcher.on_trial_complete(trial_id, result=result, error=error)

    def on_pause(self, trial_id: str) -> None:
        if trial_id in self._running:
            self._running.discard(trial_id)
            self._paused.add(trial_id)
        self.searcher.on_pause(trial_id)
        self._close_batch()

    def on_unpause(self, trial_id: str) -> None:
        if trial_id in self._paused:
            self._paused.discard(trial_id)
            self._running.add(trial_id)
        self.searcher.on_unpause(trial_id)

    def _close_batch(self) -> None:
        """Close the batch if it gets no more members and none of them runs."""
        if self._is_fed and len(self._members) < self.max_concurrent:
            return
        if not self._running.isdisjoint(self._members):
            return
        members = self._members
        self._members = {}
        for trial_id, outcome in members.items():
            if outcome is not None:
                self.searcher.on_trial_complete(trial_id, result=outcome[0], error=outcome[1])


@dataclass
class _Group:
    """The trials of one suggestion."""

    config: dict[str, Any]
    outcomes: dict[str, dict[str, float] | None] = field(default_factory=dict)
    error_count: int = 0

    @property
    def primary(self) -> str:
        """The searcher's id of the suggestion."""
        return next(iter(self.outcomes))


@explains_calls
class Repeater(SearcherWrapper):
    """Runs each suggestion `repeat` times and tells the searcher the mean of the metric, once, under the first id.

    The mean leaves out failed trials and those without a value. `num_samples` counts trials. If they do not fill the
    last group, that group is ignored.

    Args:
        searcher: The inner searcher.
        repeat: How often each suggestion runs.
        set_index: Add 0 to `repeat` - 1 to the configuration as `__trial_index__`, which can serve as a seed. Without
            it all repeats are equal.

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
        return super().set_search_properties(metric, mode, config, **{**spec, "may_repeat": False})

    def suggest(self, trial_id: str) -> Suggestion:
        if self._open is None:
            suggestion = self.searcher.suggest(trial_id)
            if not isinstance(suggestion, dict):
                return suggestion
            self._open = _Group(copy_tree(suggestion))
        config: dict[str, Any] = copy_tree(self._open.config)
        index = self._add(trial_id, self._open)
        if self._set_index:
            return {**config, TRIAL_INDEX: index}
        return config

    def adopt(self, trial_id: str, config: Mapping[str, Any]) -> None:
        """See `Searcher.adopt`. The searcher gets the first trial of a group."""
        if self._open is None:
            repeated = {name: value for name, value in config.items() if name != TRIAL_INDEX}
            self.searcher.adopt(trial_id, repeated)
            self._open = _Group(copy_tree(repeated))
        self._add(trial_id, self._open)

    def _add(self, trial_id: str, group: _Group) -> int:
        """Add a trial to the open group, and return its number in it."""
        index = len(group.outcomes)
        group.outcomes[trial_id] = None
        self._group_of[trial_id] = group
        if len(group.outcomes) == self.repeat:
            self._open = None
        return index

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Not passed on: the searcher is told of a suggestion once."""

    def on_trial_error(self, trial_id: str) -> None:
        pass

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Passed on for the last trial of a group, with the mean."""
        group = self._group_of.pop(trial_id, None)
        if group is None:
            return
        numbers = {} if error else {name: known_number((result or {}).get(name)) for name in self._names}
        group.outcomes[trial_id] = {name: float(number) for name, number in numbers.items() if number is not None}
        group.error_count += error
        if len(group.outcomes) == self.repeat and None not in group.outcomes.values():
            mean = {}
            for name in self._names:
                known = [outcome[name] for outcome in group.outcomes.values() if outcome and name in outcome]
                mean[name] = mean_of(known) if known else math.nan
            self.searcher.on_trial_complete(group.primary, result=mean, error=group.error_count == self.repeat)

    def on_pause(self, trial_id: str) -> None:
        pass

    def on_unpause(self, trial_id: str) -> None:
        pass

    @property
    def _names(self) -> list[str]:
        """The names of the objectives."""
        metric = self.metric or DEFAULT_METRIC
        return [metric] if isinstance(metric, str) else metric
