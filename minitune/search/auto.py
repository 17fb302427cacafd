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
from minitune.search.parzen import Group, Kernels, Model, Point, Ranking
from minitune.search.tpe import TPESearch

logger = logging.getLogger("minitune")

_MOST_PARAMETERS = 60
_LARGE = 16
"""The maximum number of parameters for the process, and the minimum number of numbers for the evolution strategy."""
_MOST_LEFT = 150
"""If a finite space has at most so many untried configurations, the process compares all of them."""


class AutoSearch(TPESearch):
    """Chooses between `TPESearch` and two other models, by the space and the trials; needs no other library.

    A Gaussian process finds the optimum of a smooth function in far fewer trials. Parzen estimators are better if the
    objective has many optima or is noisy. So the two take turns, and both learn from all trials. The first trial has
    the middle of each range. After half of `n_initial_points` trials, every other suggestion comes from the process;
    the others are drawn from the space, and after `n_initial_points` trials from the estimators. The process searches
    a region around the best trial. The region becomes larger while it yields better trials, smaller while it does not,
    and at last it is the whole space again.

    With 16 or more numeric parameters and no choices, an evolution strategy takes the place of the estimators, because
    it needs fewer trials. With more than 60, it searches alone.

    A crash says nothing about the values around it, so the process expects what it would expect without. But it avoids
    places where most trials have failed. No configuration is tried twice; in a finite space, while another is untried.

    The Parzen estimators search alone if neither of the others can: with several objectives, with choices among more
    than 60 parameters, and if trials are stopped early, since their values cannot be compared. Parameters below
    categories all count for these limits.

    We chose these parts on 60 random functions that are shaped like losses of models: noisy, with plateaus, categories
    and failing corners, two runs of each. The figures are shares of pairs won with 95 % intervals, after 20 and 40
    trials, against the search without the part:

    - in spaces with parameters below categories, one process for all branches: .57 [.48, .67] and .65 [.55, .75]; with
      the middle first and the process after five trials: .68 [.59, .76] and .65 [.57, .74];
    - in other spaces, the middle first and the process after five trials: .55 [.44, .65] and .57 [.47, .67].

    On 60 other functions with conditional parameters, which no decision was made by, all of this won .73 [.65, .80]
    after 10 trials and .68 [.60, .74] after 20, against the estimators alone (two runs of each). On two tasks of
    `CHOOSE` with conditional parameters, "nusvc wine" and "regressors diabetes", it won .55 [.34, .80] after 20
    trials and .54 [.28, .84] after 40. So on real models it is no clear gain.

    In many numbers, the process and the evolution strategy take turns. These are the mean differences of log10 of the
    best value to the strategy alone, after 100 trials, and the share of runs that are better:

    - with numpy, on four functions to choose by (sphere, Ackley, an ellipsoid, and one with five parameters that
      matter; two runs of each): 16 numbers: -1.26, all; 20: -0.66, all; 40: -0.29, .88; 60: -0.17, .75;
    - with numpy, on four to confirm by (Rosenbrock, a rotated ellipsoid, a noisy one with plateaus, and powers; three
      runs): 20: -0.53, all; 40: -0.09, .67, and -0.20, all, after 150 trials;
    - without numpy, on those to choose by: 20: -0.50, all; 40: -0.20, .88.

    The process with the estimators is a little behind that on the four to choose by (-1.22, -0.61, -0.27 and -0.12). A
    first step of 0.05 in place of 0.1 is level with it (-1.16 with 16 numbers, -0.17 with 60). A first step of 0.2
    alone is worse: +0.23 with 20 numbers, +0.16 with 40.

    In spaces of 24 and 45 parameters with choices, or below categories, the process and the estimators won .50 to .83
    of the runs after 20 trials, .83 to 1.00 after 50 and .67 to 1.00 after 100, against the estimators alone (six
    functions of each of three kinds, with numpy); on eight other functions of each kind, with 30 parameters, .50 to .75
    after 20 trials and .88 after 50.

    The following did not help clearly. On the 60 functions, without conditional parameters:

    - the first ten trials stratified on each axis, with all categories equally often: .42 [.32, .53] and .51 [.42,
      .62]; with the middle first: .47 [.37, .57] and .52 [.42, .61];
    - the estimators after five trials, too: .49 [.39, .59] and .50 [.40, .61];
    - without numpy, seven times as many tries for the length scales: .48 [.38, .57] and .49 [.40, .58].

    On 60 other functions of each kind (two runs of each, with numpy), after 20 trials, the expected improvement as the
    mean over six draws of the length scales: .50 [.42, .58] without conditional parameters.

    The process alone until 20 trials have ended is better for few trials, and rather worse for many:

    - on those functions, .62 [.53, .69] after 20 trials without conditional parameters and .58 [.50, .65] with them,
      and .54 [.47, .62] after 40 without;
    - on `SMALL` in `benchmarks/tasks/models.py`, .54 [.50, .57] after 20 trials (20 runs of each), .51 [.44, .57] after
      40 and .47 [.41, .53] after 80 (12 runs of the change against 8);
    - on the same 31 tasks with other rows of the data, .52 [.48, .58] after 20 trials (12 runs against 24), .51 [.44,
      .58] after 40 and .45 [.39, .53] after 80 (8 runs of each);
    - on `CHOOSE`, .50 of 32 pairs with the same seed after 20 trials, and .43 [.28, .58] on eleven smaller tasks.

    On the 31 tasks with other rows, these were no better:

    - the process after three trials: .49 [.44, .54] after 20 trials (12 runs against 24);
    - the process alone from five trials to ten: .49 [.43, .54] after 20 trials (8 runs against 24), .45 [.39, .52]
      after 80 (8 runs of each);
    - the process alone for all trials: .52 [.46, .57] after 20 trials (8 runs against 24), .53 [.47, .59] after 40 and
      .49 [.43, .56] after 80 (8 runs of each); with 8 at a time, .54 [.49, .59] after 20 and .52 [.47, .57] after 40
      (12 runs of each), and on `SMALL` .54 [.47, .60] and .54 [.46, .60] (8 runs of each).

    Turns that depend on the quality of the model cannot help much there. This quality is the rank correlation of the
    process's leave-one-out predictions with the values, in the better half of 50 trials. Where it is less than .3 (ten
    tasks), the process alone won .51 after 80 trials, and the estimators alone .53. Where it is more than .7 (twelve
    tasks), they won .51 and .25.

    After 40 trials with eight runs of each task `CHOOSE` of `benchmarks/tasks/models.py`:

    - in conditional spaces, an earlier form of the process, which began after ten trials: .35 [.17, .53] against the
      estimators alone, .39 if it stayed in the branches of the best trials;
    - in other spaces, five first points of an additive sequence of low discrepancy: .53 after 20 trials, .50 after 40;
    - a weaker prior against noise, and predicted means in place of the best value: .45 after 20 trials, .51 after 40;
    - failures at the weight of pending trials in the estimators, on `TASKS` in `benchmarks/tasks/functions.py`:
      .43 [.31, .56] with a fifth of crashes, .54 [.40, .68] with a failing half.

    The arguments are those of `TPESearch`.
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
        region = state.get("region")  # an earlier version had none
        self._region = region and Region(**region)

    def _propose(
        self, model: Model, ranking: Ranking, number: int, rng: random.Random
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Every other suggestion comes from the process. With many numbers, others come from the evolution strategy."""
        group = self._group(model)
        if group is None:
            return super()._propose(model, ranking, number, rng)
        axes = len(group.kernel_space.axes)
        choices = len(group.kernel_space.sizes)
        can_evolve = axes >= _LARGE and not choices
        can_improve = axes + choices <= _MOST_PARAMETERS
        points: Iterable[Point] = ()
        if can_improve and number == 0 and self._transfer is None:
            return model.draw_prior(rng, group.middle())
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
        super()._skip(number, rng)
        if self._model is None:
            return
        model, ranking = self._ready()
        group = self._group(model)
        if group is not None and number % 2:
            kernel_space = group.kernel_space
            if len(kernel_space.axes) + len(kernel_space.sizes) <= _MOST_PARAMETERS:
                self._process(model, group, ranking, rng)

    def _group(self, model: Model) -> Group | None:
        """The parameters that the process searches; None if it cannot."""
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
        """Tell the evolution strategy about all trials that have ended since its last draw, then draw a point."""
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
