"""Evolution: a search for spaces of many numbers. It draws from a normal distribution that follows the best draws.

It is the separable evolution strategy with covariance matrix adaptation: Ros and Hansen, "A Simple Modification in
CMA-ES Achieving Linear Time and Space Complexity" (PPSN 2008), with the constants of Hansen, "The CMA Evolution
Strategy: A Tutorial" (2016, arXiv 1604.00772). The worse half of a generation drives the mean away (Arnold, "Weighted
multirecombination evolution strategies", 2006). The distribution depends only on the ended trials and their order, so
it is not saved.

Trials end in any order, and other searchers have drawn some of them, so a generation is a fixed number of trials that
end in a row. A trial far outside of the distribution counts as if it were nearer (Hansen, "Injecting External Solutions
Into CMA-ES", 2011).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from minitune.search.parzen import KernelSpace, Point

_POPULATION = 10
"""Draws in a generation. The usual 4 + 3 ln(n) is for budgets of many generations; here 200 trials are many.
Not measured.
"""
_FIRST_DEVIATION = 0.1
_LEAST_DEVIATION = 1e-6
"""The first width, a share of the domain (`benchmarks/FINDINGS.md`, *first step*). At the least, it starts again."""
_AVERSION = 0.5
"""The weight of the worse half of a generation, which drives the mean away; the better half has 1. Not measured."""
_LEAST_CELLS = 0.3
"""The least deviation of an integer, in steps between neighbours, so that it still changes at times. Not measured: with
more, it never settles.
"""


class Evolution:
    """A normal distribution over a space. It moves to where the objective is small, and adapts its widths."""

    def __init__(self, kernel_space: KernelSpace):
        self._kernel_space = kernel_space
        self._begin(_POPULATION)

    def _begin(self, population: int) -> None:
        count = len(self._kernel_space.axes)
        self._population = population
        self._generation: list[tuple[float, Point]] = []  # the ended trials of the present one, with their values
        self._mean = [0.5] * count
        # The deviation of an axis is the step times the root of its variance. Only the diagonal of a whole covariance
        # is learned: with n widths instead of n^2 / 2, it learns within a few generations.
        self._step = _FIRST_DEVIATION
        self._variances = [1.0] * count
        # Fading sums of the mean's moves. A long one shows that moves in the same direction follow each other.
        self._path = [0.0] * count
        self._step_path = [0.0] * count

    def draw(self, rng: random.Random) -> Point:
        """Draw a point to try."""
        coordinates = []
        for number, (axis, mean, variance) in enumerate(
            zip(self._kernel_space.axes, self._mean, self._variances, strict=True)
        ):
            deviation = max(self._step * math.sqrt(variance), _LEAST_CELLS * axis.width)
            coordinate = rng.gauss(mean, deviation)
            while not axis.low <= coordinate <= axis.high:
                coordinate = rng.gauss(mean, deviation)
            coordinates.append(self._kernel_space.snap(coordinate, number))
        return Point(tuple(coordinates), 0)

    def tell(self, point: Point, value: float) -> None:
        """Learn from an ended trial. Smaller values are better; NaN is a failure."""
        self._generation.append((math.inf if value != value else value, point))
        if len(self._generation) == self._population:
            ranked = sorted(self._generation, key=lambda each: each[0])
            self._generation = []
            if ranked[0][0] < math.inf:
                self._move([point for _, point in ranked])
            if self._step * math.sqrt(max(self._variances)) < _LEAST_DEVIATION:
                self._begin(2 * self._population)  # more draws find other optima

    def _move(self, ranked: Sequence[Point]) -> None:
        """Move the distribution after a generation, best point first. Names and constants are those of the tutorial."""
        n = len(self._mean)
        # Weights by rank: the better half pulls the mean, the worse half pushes it away.
        logs = [math.log((len(ranked) + 1) / 2) - math.log(rank) for rank in range(1, len(ranked) + 1)]
        total = sum(each for each in logs if each > 0)
        better = [max(0.0, each / total) for each in logs]
        total_worse = -sum(each for each in logs if each < 0)
        weights = []
        for each in logs:
            if each > 0:
                weights.append(each / total)
            else:
                weights.append(_AVERSION * each / total_worse)
        mu_eff = 1 / sum(each * each for each in weights)
        mu_better = 1 / sum(each * each for each in better)
        # How fast the step's path, the step, the path and the variances follow.
        c_sigma = (mu_eff + 2) / (n + mu_eff + 5)
        damping = 1 + 2 * max(0.0, math.sqrt((mu_eff - 1) / (n + 1)) - 1) + c_sigma
        c_c = (4 + mu_eff / n) / (n + 4 + 2 * mu_eff / n)
        faster = (n + 2) / 3  # than for a whole matrix
        c_1 = faster * 2 / ((n + 1.3) ** 2 + mu_eff)
        c_mu = min(1 - c_1, faster * 2 * (mu_better - 2 + 1 / mu_better) / ((n + 2) ** 2 + mu_eff))
        longest = math.sqrt(n) + 2 * n / (n + 2)  # no move counts as longer
        deviations = [self._step * math.sqrt(variance) for variance in self._variances]

        whitened = []
        for point in ranked:
            step = [(p - m) / d for p, m, d in zip(point.coordinates, self._mean, deviations, strict=True)]
            shrink = min(1.0, longest / max(math.hypot(*step), 1e-12))
            whitened.append([shrink * each for each in step])
        mean_step = []
        squares = []
        for column in zip(*whitened, strict=True):
            mean_step.append(sum(w * z for w, z in zip(weights, column, strict=True)))
            squares.append(sum(w * z * z for w, z in zip(better, column, strict=True)))
        means = []
        for axis, m, d, z in zip(self._kernel_space.axes, self._mean, deviations, mean_step, strict=True):
            means.append(min(axis.high, max(axis.low, m + d * z)))
        self._mean = means
        scale = math.sqrt(c_sigma * (2 - c_sigma) * mu_eff)
        self._step_path = [(1 - c_sigma) * p + scale * z for p, z in zip(self._step_path, mean_step, strict=True)]
        # 1 if the moves were random: the divisor is the expected length of such a path.
        length = math.hypot(*self._step_path) / (math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n)))
        is_long = length > 1.4 + 2 / (n + 1)
        if is_long:  # the step grows now; the variances must not grow with it
            scale = 0.0
        else:
            scale = math.sqrt(c_c * (2 - c_c) * mu_eff)
        self._path = [
            (1 - c_c) * p + scale * math.sqrt(v) * z
            for p, v, z in zip(self._path, self._variances, mean_step, strict=True)
        ]
        self._variances = [
            (1 - c_1 - c_mu) * v + c_1 * p * p + c_mu * v * square
            for v, p, square in zip(self._variances, self._path, squares, strict=True)
        ]
        self._step *= math.exp(min(1.0, c_sigma / damping * (length - 1)))
