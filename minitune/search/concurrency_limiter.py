"""ConcurrencyLimiter: so many suggestions out at once, and no more."""

from __future__ import annotations

from typing import Any

from minitune._checks import is_whole, require, require_flag
from minitune.search.searcher import Metric, Searcher, SearcherWrapper, Suggestion

_Outcome = tuple[dict[str, Any] | None, bool]


class ConcurrencyLimiter(SearcherWrapper):
    """Withholds suggestions while `max_concurrent` trials are live. Paused trials do not count.

    With `batch=True` a batch of that many suggestions is made; what becomes of them is told to the searcher when the
    batch closes: in the order of suggestion, once it is full and each member is finished or paused. (If a batch waited
    for paused members too, it and a scheduler's bracket could wait for each other.) A member that is paused then is
    told of when it ends, and counts as live whenever it runs. A batch that cannot be filled, because the searcher has
    no suggestion now or the run makes no more trials, counts as full.

    Args:
        searcher: The inner searcher. If its `set_max_concurrency` returns True it keeps to the limit by itself and all
            is passed through.
        max_concurrent: The limit.
        batch: See above.

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
        self._running: set[str] = set()
        self._paused: set[str] = set()
        # Members of the open batch in order of suggestion, with their outcome once they have one.
        self._members: dict[str, _Outcome | None] = {}
        self._is_fed = True
        self._limits = not searcher.set_max_concurrency(max_concurrent)

    @property
    def live_trials(self) -> set[str]:
        """Trials that have not ended, paused ones included."""
        return self._running | self._paused

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Take over another limit.

        Returns:
            True: this object keeps to it.
        """
        self.max_concurrent = max_concurrent
        self._limits = not self.searcher.set_max_concurrency(max_concurrent)
        return True

    def set_search_properties(self, metric: Metric, mode: str | list[str] | None, config: Any, **spec: Any) -> bool:
        """See `Searcher.set_search_properties`."""
        self._limits = not self.searcher.set_max_concurrency(self.max_concurrent)
        return super().set_search_properties(metric, mode, config, **spec)

    def suggest(self, trial_id: str) -> Suggestion:
        """See `Searcher.suggest`; None while the limit is reached."""
        if not self._limits:
            return self.searcher.suggest(trial_id)
        # Members of the open batch hold their place until it closes, whatever became of them.
        if len(self._running | self._members.keys()) >= self.max_concurrent:
            return None
        suggestion = self.searcher.suggest(trial_id)
        self._is_fed = isinstance(suggestion, dict)
        if self._is_fed:
            self._running.add(trial_id)
            if self.batch:
                self._members[trial_id] = None
        else:
            self._close_batch()
        return suggestion

    def on_search_end(self) -> None:
        """The open batch will not become larger."""
        self._is_fed = False
        self._close_batch()
        self.searcher.on_search_end()

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Passed on once, at the latest when the batch closes."""
        if not self._limits:
            self.searcher.on_trial_complete(trial_id, result=result, error=error)
        elif trial_id in self._running or trial_id in self._paused:
            self._running.discard(trial_id)
            self._paused.discard(trial_id)
            if trial_id in self._members:
                self._members[trial_id] = (result, error)
                self._close_batch()
            else:
                self.searcher.on_trial_complete(trial_id, result=result, error=error)

    def on_pause(self, trial_id: str) -> None:
        """The trial does not count for now."""
        if trial_id in self._running:
            self._running.discard(trial_id)
            self._paused.add(trial_id)
        self.searcher.on_pause(trial_id)
        self._close_batch()

    def on_unpause(self, trial_id: str) -> None:
        """The trial counts again."""
        if trial_id in self._paused:
            self._paused.discard(trial_id)
            self._running.add(trial_id)
        self.searcher.on_unpause(trial_id)

    def _close_batch(self) -> None:
        """Tell the searcher of the batch if it is full, or will not be, and no member runs."""
        if self._is_fed and len(self._members) < self.max_concurrent:
            return
        if not self._running.isdisjoint(self._members):
            return
        members, self._members = self._members, {}
        for trial_id, outcome in members.items():
            if outcome is not None:
                self.searcher.on_trial_complete(trial_id, result=outcome[0], error=outcome[1])
