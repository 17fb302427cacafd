"""BasicVariantGenerator: grid and random search, the default search algorithm."""

from __future__ import annotations

import logging
import math
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from minitune.base.checks import is_whole, require, shown
from minitune.base.seeds import random_generator
from minitune.error import ConstraintError
from minitune.experiment.trial import Trial
from minitune.search.filters import MAX_TRIES, Filter, Rules, Verdict
from minitune.search.search_algorithm import Experiments, SearchAlgorithm, SearchedExperiment, only_experiment
from minitune.search.searcher import checked_points
from minitune.space.tree import format_tag
from minitune.space.variants import Variant, VariantTable

logger = logging.getLogger("minitune")

_TRIES_AT_GRID_POINT = 500
"""A point of a grid is left out after so many refused draws: other points may be better. Not measured: more
draws let an impossible point hold up the run longer.
"""


class BasicVariantGenerator(SearchAlgorithm):
    """Grid search over `grid_search` variables, random search over the other ones.

    Args:
        points_to_evaluate: Values for some parameters, tried first. Each uses one of `num_samples`. The grid of that
            sample lacks the grid variables that the point has.
        max_concurrent: How many trials may be live and not paused at once; 0 for no limit.
        random_state: A seed or generator; see `random_generator`. It has precedence over the run's.

    Raises:
        ValueError: If `max_concurrent` is no int >= 0.
        TypeError: If `points_to_evaluate` is no list of dicts, or `random_state` no seed.
    """

    _STATE = ("_finished", "_seed", "_live", "_paused", "_left_out")

    def __init__(
        self,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        max_concurrent: int = 0,
        random_state: Any = None,
    ):
        self._points = checked_points(points_to_evaluate)
        good = is_whole(max_concurrent) and max_concurrent >= 0
        require(good, "max_concurrent: an int >= 0 (0: no limit)", max_concurrent)
        self.max_concurrent = max_concurrent
        self._is_seeded_by_user = random_state is not None
        # An unseeded generator takes its seed once from the system: no global generator is used.
        generator: random.Random = random.SystemRandom()
        if random_state is not None:
            generator = random_generator(random_state)
        self._seed = generator.getrandbits(63)
        self._experiment: SearchedExperiment | None = None
        self._table = VariantTable({}, 0)  # of the experiment
        self._rules = Rules()
        self._filter: Filter | None = None  # None if the rules refuse nothing
        self._left_out = 0  # points of grids that no value fulfils
        self._live: set[str] = set()
        self._paused: set[str] = set()

    @property
    def max_running(self) -> int | None:
        return self.max_concurrent or None

    @property
    def total_samples(self) -> int:
        if math.isinf(self._table.total):
            return sys.maxsize
        return int(self._table.total) - self._left_out

    @property
    def end_reason(self) -> str:
        return "" if self._filter is None else self._filter.end_reason

    def set_rules(self, rules: Rules) -> None:
        self._rules = rules

    def set_seed(self, seed: int) -> None:
        if not self._is_seeded_by_user:
            self._seed = seed
            self._table.reseed(_draws_of(seed))

    def add_configurations(self, experiments: Experiments) -> None:
        """See `SearchAlgorithm.add_configurations`.

        Raises:
            ValueError: If there are several, or one was given before, the number of samples is out of range, or a point
                does not belong to the space or violates a constraint.
        """
        experiment = only_experiment(experiments, self._experiment)
        space = experiment.param_space
        num_samples = experiment.num_samples
        table = VariantTable(space, num_samples, self._points, _draws_of(self._seed))
        if self._rules.refuse:
            self._filter = Filter(self._rules, space, num_samples)
            self._filter.check_points(table.points)
        self._table = table
        self._experiment = experiment

    def next_trial(self) -> Trial | None:
        num_running = len(self._live) - len(self._paused)
        if self._finished or 0 < self.max_concurrent <= num_running:
            return None
        variant = self._next_variant()
        if self._experiment is None or variant is None:
            return None
        maker = self._experiment.maker
        tag = format_tag(maker.count, variant.resolved_vars)
        trial = maker.make(variant.config, variant.evaluated_params, tag)
        self._live.add(trial.trial_id)
        return trial

    def adopt(self, trial_id: str, config: Mapping[str, Any]) -> None:
        """See `SearchAlgorithm.adopt`. The trial takes the place of the next configuration."""
        self._next_variant()
        self._live.add(trial_id)
        if self._filter is not None:
            self._filter.note(dict(config))

    def _next_variant(self) -> Variant | None:
        if self._filter is None:
            return self._table.next()
        return self._next_admitted(self._table, self._filter)

    def _next_admitted(self, table: VariantTable, one: Filter) -> Variant | None:
        """The next variant that the filter admits; None ends the table.

        A refused variant is drawn again; if that does not help, the grid's next point follows.
        """
        if table.is_exhausted():
            return None
        refused: Counter[Verdict] = Counter()
        points = 0
        while points < table.round_size and not one.is_exhausted:
            variant = table.next()
            admitted = None
            if variant is not None:
                admitted = self._admit_at_point(table, variant, one, refused)
            if variant is None or admitted is not None:
                if self._left_out and table.is_exhausted():
                    why = one.violated() or "they had been tried before"
                    logger.warning("%d points of the grid were left out: %s", self._left_out, why)
                return admitted
            if table.point_at_hand is not None and not refused[Verdict.DUPLICATE]:
                raise ConstraintError(
                    f"a point to evaluate must leave values that fulfil the constraints, but got "
                    f"{shown(table.point_at_hand)}, for which {refused.total()} draws in a row violate one (so far: "
                    f"{one.violated()}); correct the point, or leave it out"
                )
            points += 1
            self._left_out += 1
        one.end(refused)
        table.finish()
        return None

    def _admit_at_point(
        self, table: VariantTable, variant: Variant, one: Filter, refused: Counter[Verdict]
    ) -> Variant | None:
        tries = MAX_TRIES if table.round_size == 1 else _TRIES_AT_GRID_POINT
        drawn: Variant | None = variant
        for attempt in range(tries):
            if drawn is None:
                return None
            verdict = one.judge(drawn.config)
            if verdict is Verdict.ADMITTED:
                return drawn
            refused[verdict] += 1
            if one.is_exhausted:
                return None
            drawn = table.redraw(attempt)
        return None

    def is_finished(self) -> bool:
        return self._finished or self._table.is_exhausted()

    def add_samples(self, samples: int) -> None:
        self._table.extend(samples)
        self._finished = False

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self._live.discard(trial_id)
        self._paused.discard(trial_id)

    def on_pause(self, trial_id: str) -> None:
        if trial_id in self._live:
            self._paused.add(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        self._paused.discard(trial_id)

    def get_state(self) -> dict[str, Any]:
        judged = self._filter and self._filter.get_state()
        return {**super().get_state(), "position": self._table.position, "filter": judged}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._table.reseed(_draws_of(self._seed))
        self._table.seek(state["position"])
        if self._filter is not None and state["filter"] is not None:
            self._filter.set_state(state["filter"])


def _draws_of(seed: int) -> str:
    """The seed of a table."""
    return f"{seed}/0"  # not the seed itself, so that a search draws what it has always drawn with it
