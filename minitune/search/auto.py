"""AutoSearch: a Gaussian process takes turns with Parzen estimators, or for many numbers with an evolution strategy."""

from __future__ import annotations

import importlib.util
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from minitune.base.text import warn_once
from minitune.search.evolution import Evolution
from minitune.search.groups import Group
from minitune.search.model import Model
from minitune.search.parzen import Point
from minitune.search.ranking import Observation, Ranking
from minitune.search.searcher import Metric, Repeated
from minitune.search.tpe import TPESearch

if TYPE_CHECKING:
    from minitune.search.improvement import Improvement

_MOST_POINTS = 100
_MOST_FAILED = 30
"""The maximum numbers of measured points and of failed ones. Not measured: the first costs its cube; fewer forget what
the region does not show.
"""
_FIRST_SIZE = 0.4
_LEAST_SIZE = 0.04
"""The size of a new region, and the minimum. Not measured: a larger one searches elsewhere, a smaller one sticks."""
_GROW_AFTER = 2
_SHRINK_AFTER = 6
"""A region grows after so many updates in a row with a new best trial, and shrinks after so many trials without one.
Not measured: with less, chance resizes it; with more, it stays small where it succeeds, and large where it fails.
"""
_MOST_PARAMETERS = 60
"""The most parameters for the process: `benchmarks/FINDINGS.md`, *many parameters*. With more, a suggestion is slow."""
_LARGE = 16
"""The least numbers for evolution: `benchmarks/FINDINGS.md`, *many numbers*."""
_MOST_LEFT = 150
"""If a finite space has at most so many untried configurations, the process compares all of them. Not measured: more
take longer.
"""
_FIRST_REPEAT = 14
_LEAST_SAMPLES = 20
"""After so many trials the best one is run again, in searches of at least so many: `benchmarks/FINDINGS.md`, *repeat*.
"""


class Region:
    """The region that the process searches: the space, contracted towards the best point.

    In the whole space, the expected improvement is often largest far from the best point, where the process knows
    least. The region grows with success and shrinks without it ("trust region": Eriksson et al., "Scalable global
    optimization via local Bayesian optimization", NeurIPS 2019). If the smallest region gives nothing better either,
    the next one is the whole space.
    """

    def __init__(self) -> None:
        self.size = _FIRST_SIZE
        self.best: int | None = None
        self.since = 0
        self.wins = 0

    def update(self, best: int, ended: int) -> None:
        """Resize the region before a suggestion: `best` is the number of the best trial, `ended` counts the ended
        ones.
        """
        if best != self.best:
            self.best = best
            self.since = ended
            self.wins = self.wins + 1
            if self.wins >= _GROW_AFTER:
                self.size = min(1.0, 2 * self.size)
                self.wins = 0
            return
        self.wins = 0
        if ended - self.since >= _SHRINK_AFTER:
            if self.size >= 2 * _LEAST_SIZE:
                self.size = self.size / 2
            else:
                self.size = 1.0
            self.since = ended


class AutoSearch(TPESearch):
    """Needs few trials: a Gaussian process takes turns with Parzen estimators, or with evolution.

    The first trial has the middle of each range. After half of `n_initial_points` trials, every other suggestion comes
    from the process, in a region around the best trial. The others are drawn from the space, later from the estimators
    (`TPESearch`); with 16 or more numbers and no choices, from the evolution strategy, which searches alone beyond 60.

    The estimators search alone without numpy, with several objectives, with choices among more than 60 parameters, and
    if trials are stopped early. The process avoids points where most trials have failed. Of 20 samples or more, about
    the fifteenth repeats the best one, to learn whether values are noisy. Else untried ones come first.

    The arguments are those of `TPESearch`.
    """

    _STATE = (*TPESearch._STATE, "_logs", "_region")

    _logs: Sequence[float] = ()  # the length scales of the last suggestion, from which the next one begins
    _region: Region | None = None
    _evolution: Evolution | None = None
    _heard = 0
    _samples = 0.0  # of the search; infinite if it has no end, 0 if no trial may repeat another one

    def set_search_properties(self, metric: Metric, mode: str | list[str] | None, config: Any, **spec: Any) -> bool:
        takes_space = super().set_search_properties(metric, mode, config, **spec)
        if spec.get("may_repeat"):
            self._samples = math.inf if spec["num_samples"] == -1 else spec["num_samples"]
        return takes_space

    def _propose(
        self, model: Model, ranking: Ranking, number: int, rng: random.Random
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        group = self._group(model)
        if group is None:
            return super()._propose(model, ranking, number, rng)
        axes = len(group.kernel_space.axes)
        choices = len(group.kernel_space.sizes)
        can_evolve = axes >= _LARGE and not choices
        can_improve = axes + choices <= _MOST_PARAMETERS
        points: Iterable[Point] = ()
        if can_improve and number == len(self._points):
            config, values = model.draw_prior(rng, group.middle())
            if not model.is_tried(values):
                return config, values
        if can_improve and number % 2:
            process = self._process(model, group, ranking, rng)
            if process is not None:
                points = self._improve(model, group, process)
        elif can_evolve and len(ranking) >= self.n_initial_points:
            points = [self._evolve(group, ranking, rng)]
        again = self._best_to_repeat(ranking, model.left)
        if again is not None:
            config, values = model.draw_prior(rng, again.values)
            return Repeated(config, again.trial_id), values
        found = filter(None, (model.configuration(group.decode(point)) for point in points))
        return next(found, None) or super()._propose(model, ranking, number, rng)

    def _best_to_repeat(self, ranking: Ranking, left: float) -> Observation | None:
        """The trial to run again now; None if it is not the time for that, or a finite space needs the trials left."""
        own = [each for each in (*self._ended, *self._live.values()) if each.trial_id]
        is_time = self._samples >= _LEAST_SAMPLES and len(own) >= _FIRST_REPEAT and not self._tries
        if not is_time or any(each.repeats for each in own) or left <= self._samples - len(own) < math.inf:
            return None
        able = {each.number: each for each in own if None not in each.values.values()}
        best = ranking.best(able, 1.0, 1)
        return able[best[0]] if best else None

    def _skip(self, number: int, rng: random.Random) -> None:
        """The process learns from the trials so far as for a proposal: it begins where it has ended the last time."""
        if self._model is None:
            return
        model, ranking = self._ready()
        group = self._group(model)
        if group is not None and number % 2:
            kernel_space = group.kernel_space
            if len(kernel_space.axes) + len(kernel_space.sizes) <= _MOST_PARAMETERS:
                self._process(model, group, ranking, rng)

    def _group(self, model: Model) -> Group | None:
        can_compare = not self._by_rung and isinstance(self._mode, str)
        group = model.whole
        if group is None or not group.is_free or not can_compare:
            return None
        if importlib.util.find_spec("numpy") is None:
            warn_once("numpy is not installed, so the search 'auto' is that of TPESearch: pip install numpy")
            return None
        return group

    def _process(self, model: Model, group: Group, ranking: Ranking, rng: random.Random) -> Improvement | None:
        """The process, which has learned from the trials so far; None if there are too few, or all have failed."""
        if 2 * len(ranking) < self.n_initial_points:
            return None
        points = group.points
        better = ranking.best(points, 0.5, _MOST_POINTS // 2)
        if not better:
            return None
        measured = list(better)
        failed: list[int] = []
        for number in (each.number for each in reversed(self._ended)):
            if len(measured) == _MOST_POINTS:
                break
            if number not in points or number in better:
                continue
            if not math.isnan(ranking.value(number)):
                measured.append(number)
            elif len(failed) < _MOST_FAILED:
                failed.append(number)
        live = [each.number for each in self._live.values()]
        self._region = self._region or Region()
        self._region.update(better[0], len(self._ended))
        from minitune.search.improvement import Improvement

        process = Improvement(
            group.kernel_space,
            [points[each] for each in measured],
            [ranking.value(each) for each in measured],
            [points[each] for each in live if each in points and each not in ranking],
            [points[each] for each in failed],
            self._logs,
            rng,
            model.is_near,
        )
        self._logs = process.logs
        return process

    def _improve(self, model: Model, group: Group, process: Improvement) -> Iterator[Point]:
        """The points with the largest expected improvement: that of the region, and that of the whole space.

        If few configurations are left, all of them are compared.
        """
        rest = []
        if model.left <= _MOST_LEFT:
            rest = model.untried()
        if rest:
            yield process.best_of([group.encode(values) for values in rest])
            return
        if self._region is not None:
            yield process.suggest(self._region.size)
        yield process.suggest()

    def _evolve(self, group: Group, ranking: Ranking, rng: random.Random) -> Point:
        if self._evolution is None:
            self._evolution = Evolution(group.kernel_space)
            self._heard = 0
        for each in islice(self._ended, self._heard, None):
            if each.number in group.points:
                self._evolution.tell(group.points[each.number], ranking.value(each.number))
        self._heard = len(self._ended)
        return self._evolution.draw(rng)

    def _set_space(self, space: dict[str, Any]) -> None:
        self._evolution = None
        super()._set_space(space)
