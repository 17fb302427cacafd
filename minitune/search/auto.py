"""AutoSearch: a Gaussian process takes turns with Parzen estimators, or for many numbers with an evolution strategy."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from minitune.search.evolution import Evolution
from minitune.search.gaussian_process import (
    MOST_FAILED,
    MOST_POINTS,
    GaussianProcess,
    NumpyCovariance,
    Region,
    Scales,
    covariance_kind,
)
from minitune.search.groups import Group
from minitune.search.model import Model
from minitune.search.parzen import Kernels, Point
from minitune.search.ranking import Ranking
from minitune.search.tpe import TPESearch

logger = logging.getLogger("minitune")

_MOST_PARAMETERS = 60
"""The most parameters for the process: `benchmarks/FINDINGS.md`, *many parameters*. With more, a suggestion is slow."""
_LARGE = 16
"""The least numbers for evolution: `benchmarks/FINDINGS.md`, *many numbers*."""
_MOST_LEFT = 150
"""If a finite space has at most so many untried configurations, the process compares all of them. Not measured: more
take longer.
"""
_ROUNDING = 1e-9
"""Two points that are so near are one."""


class AutoSearch(TPESearch):
    """Needs few trials and no other library: a Gaussian process takes turns with Parzen estimators, or with evolution.

    All models learn from all trials. The first trial has the middle of each range. After half of `n_initial_points`
    trials, every other suggestion comes from the process, which searches a region around the best trial. The others are
    drawn from the space, and after `n_initial_points` trials come from the estimators (`TPESearch`); with 16 or more
    numbers and no choices, from the evolution strategy, which searches alone beyond 60.

    The estimators search alone with several objectives, with choices among more than 60 parameters, and if trials are
    stopped early. The process avoids points where most trials have failed. No configuration is tried twice, unless
    all of a finite space were tried.

    A suggestion costs 10 to 25 ms of CPU with ten parameters; about half with numpy. The arguments are those of
    `TPESearch`.
    """

    _scales: Scales | None = None
    _region: Region | None = None
    _evolution: Evolution | None = None
    _heard = 0

    def get_state(self) -> dict[str, Any]:
        learned = {"scales": self._scales, "region": self._region}
        return {**super().get_state(), **{name: each and dict(vars(each)) for name, each in learned.items()}}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._scales = state["scales"] and Scales(**state["scales"])
        has_numpy = covariance_kind() is NumpyCovariance
        if self._scales and self._scales.has_numpy not in (None, has_numpy):
            logger.warning(
                "the search began %s numpy and goes on %s it, so it suggests other values than it would have",
                "without" if has_numpy else "with",
                "with" if has_numpy else "without",
            )
        region = state["region"]
        self._region = region and Region(**region)

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
            if not _is_tried(model, group, values):
                return config, values
        if can_improve and number % 2:
            process = self._process(model, group, ranking, rng)
            if process is not None:
                points = self._improve(model, group, process)
        elif can_evolve and len(ranking) >= self.n_initial_points:
            points = [self._evolve(group.kernels, ranking, rng)]
        found = filter(None, (model.configuration(group.decode(point)) for point in points))
        return next(found, None) or super()._propose(model, ranking, number, rng)

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
        can_compare = self._policy == "last" and isinstance(self._mode, str)
        group = model.whole
        if group is None or not group.is_free or not can_compare:
            return None
        return group

    def _process(self, model: Model, group: Group, ranking: Ranking, rng: random.Random) -> GaussianProcess | None:
        """The process, which has learned from the trials so far; None if there are too few, or all have failed."""
        if 2 * len(ranking) < self.n_initial_points:
            return None
        points = group.kernels.points
        better = ranking.best(points, 0.5, MOST_POINTS // 2)
        if not better:
            return None
        measured = list(better)
        failed: list[int] = []
        for number in (each.number for each in reversed(self._ended)):
            if len(measured) == MOST_POINTS:
                break
            if number not in points or number in better:
                continue
            if not math.isnan(ranking.value(number)):
                measured.append(number)
            elif len(failed) < MOST_FAILED:
                failed.append(number)
        live = [each.number for each in self._live.values()]
        self._scales = self._scales or Scales()
        self._region = self._region or Region()
        self._region.update(better[0], len(self._ended))
        return GaussianProcess(
            group.kernel_space,
            [points[each] for each in measured],
            [ranking.value(each) for each in measured],
            [points[each] for each in live if each in points and each not in ranking],
            [points[each] for each in failed],
            self._scales,
            rng,
            model.tried_points,
        )

    def _improve(self, model: Model, group: Group, process: GaussianProcess) -> Iterator[Point]:
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

    def _evolve(self, kernels: Kernels, ranking: Ranking, rng: random.Random) -> Point:
        if self._evolution is None:
            self._evolution = Evolution(kernels.kernel_space)
            self._heard = 0
        for each in islice(self._ended, self._heard, None):
            if each.number in kernels.points:
                self._evolution.tell(kernels.points[each.number], ranking.value(each.number))
        self._heard = len(self._ended)
        return self._evolution.draw(rng)

    def _set_space(self, space: dict[str, Any]) -> None:
        self._evolution = None
        super()._set_space(space)


def _is_tried(model: Model, group: Group, values: dict[str, Any]) -> bool:
    """Whether a configuration, or one that differs by rounding alone, was tried."""
    if model.is_tried(values):
        return True
    own = group.encode(values)
    alike = (each.coordinates for each in model.tried_points if each.bits == own.bits)
    return any(math.dist(other, own.coordinates) < _ROUNDING for other in alike)
