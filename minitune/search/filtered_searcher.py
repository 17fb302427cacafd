"""FilteredSearcher: a searcher is asked again where what it suggests is refused."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from typing import Any

from minitune._checks import is_real
from minitune.search.filters import Filter, Rules, Verdict
from minitune.search.searcher import (
    Metric,
    Searcher,
    SearcherWrapper,
    Suggestion,
    TriedConfig,
    call_set_search_properties,
)
from minitune.search.space_tree import copy_tree, has_unresolved_values, overlay
from minitune.search.variant_generator import complete

_ASKS = 20
"""How often a searcher is asked again before values are drawn at random: one that has found its optimum may propose
that for ever, and to ask costs a thousand times what a draw does."""

_ASKS_ALONE = 1_000
"""The same where nothing can be drawn, since the searcher has a space of its own: the end of the search."""


class FilteredSearcher(SearcherWrapper):
    """Asks a searcher again where its suggestion is refused, and draws at random where that does not help.

    The searcher hears of a refused suggestion at once, see `Searcher.on_suggestion_refused`. To it, each suggestion has
    a name of its own. A configuration that was drawn at random is told to it, when it is known what became of it, as a
    point that was evaluated elsewhere, if it can learn from such.

    Args:
        searcher: The searcher.
        rules: What is wanted of configurations.
    """

    def __init__(self, searcher: Searcher, rules: Rules):
        super().__init__(searcher)
        self._rules = rules
        self._space: Any = {}
        self._can_draw = False
        self._filter = Filter(rules, None, -1)
        self._seed = random.SystemRandom().getrandbits(63)
        self._count = 0
        self._names: dict[str, str] = {}  # by id of a trial, the searcher's name for it where that is another
        self._drawn: dict[str, dict[str, Any]] = {}  # by id, trials that the searcher does not know

    @property
    def end_reason(self) -> str:
        """Why the search has ended before its time; empty if it has not."""
        return self._filter.end_reason

    def set_seed(self, seed: int) -> None:
        """See `Searcher.set_seed`."""
        self._seed = seed
        super().set_seed(seed)

    def set_search_properties(self, metric: Metric, mode: str | list[str] | None, config: Any, **spec: Any) -> bool:
        """See `Searcher.set_search_properties`."""
        self._space = config
        is_taken = call_set_search_properties(self.searcher.set_search_properties, metric, mode, config, spec)
        if not is_taken and self.searcher.own_space is not None:
            self._space = overlay(config, self.searcher.own_space)[0]
        # else the searcher has a space of its own, of which nothing is known here
        self._can_draw = has_unresolved_values(self._space)
        self._filter = Filter(self._rules, self._space if self._can_draw else None, spec.get("num_samples", -1))
        self._filter.check_points(overlay(self._space, point)[0] for point in self.searcher.first_points())
        return is_taken

    def suggest(self, trial_id: str) -> Suggestion:
        """See `Searcher.suggest`; the whole configuration.

        Raises:
            ConstraintError: If nothing fulfils the constraints, or one of them fails.
        """
        refused: Counter[Verdict] = Counter()
        while refused.total() < (_ASKS if self._can_draw else _ASKS_ALONE):
            name = f"{trial_id}_{refused.total() + 1}" if refused else trial_id
            suggestion = self.searcher.suggest(name)
            if not isinstance(suggestion, dict):
                return suggestion
            self._can_draw = self._can_draw and suggestion.keys() <= self._space.keys()
            config = self._admit(suggestion, refused, name)
            if config is not None:
                if name != trial_id:
                    self._names[trial_id] = name
                return config
            if self._filter.is_exhausted:
                break
        while self._can_draw and refused.total() < self._filter.max_tries and not self._filter.is_exhausted:
            config = self._admit({}, refused)
            if config is not None:
                self._drawn[trial_id] = config
                return config
        self._filter.end(refused)
        return self.FINISHED

    def _admit(
        self, suggestion: dict[str, Any], refused: Counter[Verdict], name: str | None = None
    ) -> dict[str, Any] | None:
        """The whole configuration of a suggestion, or None if it is refused; `name` is the searcher's for it."""
        verdict = Verdict.VIOLATES
        try:
            merged, _ = overlay(self._space, suggestion)
            config = complete(merged, random.Random(f"{self._seed}/{self._count}"))
            self._count += 1
            verdict = self._filter.judge(config)
        finally:
            if verdict is not Verdict.ADMITTED and name is not None:
                self.searcher.on_suggestion_refused(name)
        if verdict is Verdict.ADMITTED:
            return config
        refused[verdict] += 1
        return None

    # -- what becomes of them ------------------------------------------------------------------------------------

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """See `Searcher.on_trial_result`."""
        if trial_id not in self._drawn:
            self.searcher.on_trial_result(self._names.get(trial_id, trial_id), result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """See `Searcher.on_trial_complete`."""
        if trial_id in self._drawn:
            config, metric = self._drawn.pop(trial_id), self.metric
            value = result.get(metric) if result and isinstance(metric, str) else None
            if not error and is_real(value):
                with contextlib.suppress(NotImplementedError):
                    self.searcher.add_evaluated_point(TriedConfig(config), float(value))
        else:
            self.searcher.on_trial_complete(self._names.pop(trial_id, trial_id), result=result, error=error)

    def on_trial_error(self, trial_id: str) -> None:
        """See `Searcher.on_trial_error`."""
        if trial_id not in self._drawn:
            self.searcher.on_trial_error(self._names.get(trial_id, trial_id))

    def on_pause(self, trial_id: str) -> None:
        """See `Searcher.on_pause`."""
        if trial_id not in self._drawn:
            self.searcher.on_pause(self._names.get(trial_id, trial_id))

    def on_unpause(self, trial_id: str) -> None:
        """See `Searcher.on_unpause`."""
        if trial_id not in self._drawn:
            self.searcher.on_unpause(self._names.get(trial_id, trial_id))

    def get_state(self) -> dict[str, Any]:
        """What it knows beside the searcher; not the constraints, which the next one gets from its run."""
        own = {"seed": self._seed, "count": self._count, "names": dict(self._names), "drawn": copy_tree(self._drawn)}
        return {**own, "filter": self._filter.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what `get_state` returned."""
        self._seed, self._count = state["seed"], state["count"]
        self._names, self._drawn = dict(state["names"]), dict(state["drawn"])
        self._filter.set_state(state["filter"])
