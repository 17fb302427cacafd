"""Improvement: the point whose trial promises the largest improvement, by the surface through the trials so far.

The logarithm of the expected improvement (Jones, Schonlau and Welch, 1998; Ament et al., NeurIPS 2023) orders
candidates also where the improvement underflows. Pending and failed trials count as if their means had been observed
(Ginsbourger, Le Riche and Carraro, 2010). The improvement is multiplied by the probability of success (Gardner et al.,
ICML 2014), from the nearest trials.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from heapq import nsmallest

from minitune.search.parzen import LOG_SQRT_2PI, KernelSpace, Point
from minitune.search.surface import (
    FIRST_ROUNDS,
    LENGTH_BOUNDS,
    NOISE_BOUNDS,
    ROUNDS,
    Surface,
    Vector,
    cut_off,
    likely_logs,
    simplex,
)

_NOISE = 1e-3
"""The share of the variance that is noise, before anything is learned."""
_RANDOM = 80
_NEAR = 5
_STARTS = 3
_STEPS = 6
"""Numbers: candidates from the region, candidates near each best point and scale, refined ones, and draws in a step.
Not measured, as are the scales below: more find a slightly better point and take longer.
"""
_MANY = 20
_RANDOM_OF_MANY = 40
_REFINEMENTS_OF_MANY = 4
"""With more than `_MANY` parameters a draw costs more and random ones are rarely good, so there are fewer."""
_FRONT = 12
_CENTRES = 4
"""Of so many trials with the best values, those with the best means are centres of the search: see *noise* in
`benchmarks/FINDINGS.md`.
"""
_SCALES = (0.2, 0.05, 0.01)
_REFINEMENTS = (0.1, 0.05, 0.02, 0.008, 0.003, 0.001)
_NEAREST = 5
"""From how many trials the probability of a success is estimated: `benchmarks/FINDINGS.md`, *probability of success*.
"""
_SQRT_HALF = math.sqrt(0.5)


class Improvement:
    """The model of the objective for one suggestion.

    Args:
        points: The measured points: first the better half, the best one first, then the others, the newest first.
        values: Their values. Smaller is better.
        logs: The length scales and the noise of the suggestion before, or empty: see `likely_logs`.
        is_taken: Tells points that are not suggested, as long as others are found. With noise, the best point itself
            often has the largest expected improvement, above all at an edge of the space.
    """

    def __init__(
        self,
        kernel_space: KernelSpace,
        points: Sequence[Point],
        values: Sequence[float],
        pending: Sequence[Point],
        failed: Sequence[Point],
        logs: Sequence[float],
        rng: random.Random,
        is_taken: Callable[[Point], bool] = lambda point: False,
    ):
        self._kernel_space = kernel_space
        self._is_taken = is_taken
        self._rng = rng
        self._parameters = len(kernel_space.axes) + len(kernel_space.sizes)
        self._values, _, _ = cut_off(values)
        seen = 0
        for point in [*points, *pending, *failed]:
            seen |= point.bits
        self._seen = [_positions_of(mask & seen) for mask in kernel_space.masks]
        self._unseen = [mask & ~seen for mask in kernel_space.masks]
        self._flags: dict[int, Vector] = {}  # the coordinates of categories, which many candidates share
        coordinates = [self._coordinates(point) for point in points]
        self.logs = self._learned(logs, coordinates)
        # Pending and failed points have no values, so they change no mean. But the process counts as certain there, and
        # so it keeps away.
        waiting = [self._coordinates(point) for point in [*pending, *failed]]
        self._surface = Surface([*coordinates, *waiting], self._values, self.logs, self._widths())
        self._outcomes = [(each, 1.0) for each in coordinates]
        self._outcomes += [(self._coordinates(point), 0.0) for point in failed]
        self._succeeding = len(points) / len(self._outcomes)
        # With noise, the best value is a lucky one: no other could improve on it, and its point is a poor centre.
        front = points[:_FRONT]
        means, _ = self._surface.predict(coordinates[:_FRONT])
        order = sorted(range(len(front)), key=means.__getitem__)
        self._best = [front[number] for number in order[:_CENTRES]]
        self._least = min([*means, *self._surface.predict(waiting)[0]])

    def _coordinates(self, point: Point) -> Vector:
        """A point's positions, and for each choice the corner of a simplex, so that two categories have the distance 1.

        A parameter that does not exist has those of the middle. Categories that no trial has had share a corner, so a
        choice among hundreds costs little.
        """
        kernel_space = self._kernel_space
        coordinates, bits = point
        if kernel_space.is_conditional:
            exist = [bits & need == need for need in kernel_space.needs]
            known = zip(coordinates, exist, strict=False)
            coordinates = tuple([coordinate if exists else 0.5 for coordinate, exists in known])
            for mask, exists in zip(kernel_space.masks, exist[len(coordinates) :], strict=True):
                if not exists:
                    bits &= ~mask
        flags = self._flags.get(bits)
        if flags is None:
            flags = self._flags[bits] = self._flags_of(bits)
        return coordinates + flags

    def _flags_of(self, bits: int) -> Vector:
        flags: list[float] = []
        for seen, unseen in zip(self._seen, self._unseen, strict=True):
            corners = simplex(len(seen) + bool(unseen))
            if bits & unseen:
                flags += corners[-1]
                continue
            corner = next((corners[rank] for rank, position in enumerate(seen) if bits >> position & 1), None)
            flags += corner or [0.0] * (len(corners) - 1)
        return tuple(flags)

    def _widths(self) -> list[int]:
        """How many coordinates each parameter has."""
        of_choices = [len(seen) + bool(unseen) - 1 for seen, unseen in zip(self._seen, self._unseen, strict=True)]
        return [*[1] * len(self._kernel_space.axes), *of_choices]

    def _learned(self, logs: Sequence[float], inputs: Sequence[Vector]) -> list[float]:
        count = self._parameters
        rounds = ROUNDS
        if len(logs) != count + 1:
            logs = [*[0.0] * count, math.log(_NOISE)]
            rounds = FIRST_ROUNDS
        bounds = [*[LENGTH_BOUNDS] * count, NOISE_BOUNDS]
        return likely_logs(inputs, self._widths(), self._values, logs, bounds, rounds)

    # -- the suggestion ------------------------------------------------------------------------------------------------

    def suggest(self, size: float = 1.0) -> Point:
        """The point with the largest expected improvement that a random search finds, refined step by step.

        It starts from draws in the region (`size` of the space's side), and from neighbours of the best points.
        """
        centre = self._best[0]
        # The next cells of an axis must be in the region.
        sizes = [min(1.0, max(size, 2 * axis.width)) for axis in self._kernel_space.axes]
        bounds = []
        for axis, coordinate, share in zip(self._kernel_space.axes, centre.coordinates, sizes, strict=True):
            low = coordinate + share * (axis.low - coordinate)
            high = coordinate + share * (axis.high - coordinate)
            bounds.append((low, high))
        draws = _RANDOM
        refinements: Sequence[float] = _REFINEMENTS
        if self._parameters > _MANY:
            draws = _RANDOM_OF_MANY
            refinements = _REFINEMENTS[:_REFINEMENTS_OF_MANY]
        candidates = [self._from_region(size, sizes) for _ in range(draws)]
        for point in self._best:
            for scale in _SCALES:
                for _ in range(_NEAR):
                    candidates.append(self._near(point, scale, bounds))
        candidates = self._free(candidates) or candidates[:1]
        starts = self._best_of(candidates, _STARTS)
        for scale in refinements:
            for number, (gain, start) in enumerate(starts):
                steps = [self._near(start, scale, bounds) for _ in range(_STEPS)]
                better = self._best_of(self._free(steps), 1, gain)
                starts[number : number + 1] = better or [(gain, start)]
        if starts:
            return max(starts, key=lambda each: each[0])[1]
        return candidates[0]

    def _free(self, points: list[Point]) -> list[Point]:
        return [point for point in points if not self._is_taken(point)]

    def best_of(self, points: Sequence[Point]) -> Point:
        """Of these points, the one with the largest expected improvement."""
        return self._best_of(points, 1)[0][1]

    def _best_of(self, points: Sequence[Point], count: int, least: float = -math.inf) -> list[tuple[float, Point]]:
        """The best points, each with the logarithm of its expected improvement, if that is more than `least`."""
        means, shares = self._surface.predict([self._coordinates(point) for point in points])
        losses = []
        for number, (point, mean, share) in enumerate(zip(points, means, shares, strict=True)):
            gain = self._log_improvement(mean, share) + self._log_success(point)
            if gain > least:
                losses.append((-gain, number))
        return [(-loss, points[number]) for loss, number in nsmallest(count, losses)]

    def _log_success(self, point: Point) -> float:
        """The logarithm of the estimated probability that a trial does not fail, from the nearest trials."""
        if self._succeeding == 1.0:
            return 0.0
        own = self._coordinates(point)
        nearest = nsmallest(_NEAREST, [(math.dist(own, other), success) for other, success in self._outcomes])
        successes = sum(success for _, success in nearest)
        return math.log((successes + self._succeeding) / (len(nearest) + 1))

    def _log_improvement(self, mean: float, share: float) -> float:
        """The logarithm of the expectation of max(0, improvement), for this mean and this share of the variance."""
        deviation = math.sqrt(self._surface.variance * max(1e-10, share))
        z = (self._least - mean) / deviation
        log_density = -0.5 * z * z - LOG_SQRT_2PI
        if z < -30:  # the terms below would cancel out; these are the first two of the asymptotic series
            return log_density - 2 * math.log(-z) + math.log1p(-3 / (z * z)) + math.log(deviation)
        return math.log(deviation * (math.exp(log_density) + 0.5 * z * math.erfc(-z * _SQRT_HALF)))

    def _from_region(self, size: float, sizes: Sequence[float]) -> Point:
        kernel_space = self._kernel_space
        rng = self._rng
        centre = self._best[0]
        drawn = kernel_space.draw_prior(rng)
        coordinates = []
        for number, (own, new, share) in enumerate(zip(centre.coordinates, drawn.coordinates, sizes, strict=True)):
            coordinates.append(kernel_space.snap(own + share * (new - own), number))
        bits = centre.bits
        for mask in kernel_space.masks:  # categories cannot be contracted: some of them change instead
            if rng.random() < size:
                bits = bits & ~mask | drawn.bits & mask
        return Point(tuple(coordinates), bits)

    def _near(self, point: Point, scale: float, bounds: Sequence[tuple[float, float]]) -> Point:
        """A point nearby: some of its coordinates are moved."""
        kernel_space = self._kernel_space
        rng = self._rng
        # Half of the coordinates, but about four of many: a step along all of them hardly ever helps.
        if self._parameters < 8:
            share = 0.5
        else:
            share = 4 / self._parameters
        coordinates = list(point.coordinates)
        for number in self._some(len(coordinates), share):
            low, high = bounds[number]
            moved = coordinates[number] + rng.gauss(0, scale)
            coordinates[number] = kernel_space.snap(min(high, max(low, moved)), number)
        bits = point.bits
        for number in self._some(len(kernel_space.sizes), 0.3 * share):
            mask = kernel_space.masks[number]
            first = mask & -mask
            bits = bits & ~mask | first << rng.randrange(kernel_space.sizes[number])
        return Point(tuple(coordinates), bits)

    def _some(self, count: int, share: float) -> Iterator[int]:
        """Each of the numbers below `count` with this probability, by draws of the gaps."""
        log_rest = math.log1p(-share)
        number = -1
        while True:
            number += 1 + int(math.log(1 - self._rng.random()) / log_rest)
            if number >= count:
                return
            yield number


def _positions_of(bits: int) -> list[int]:
    return [position for position in range(bits.bit_length()) if bits >> position & 1]
