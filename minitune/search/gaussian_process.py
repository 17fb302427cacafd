"""GaussianProcess: finds the most promising next point; needs no other library.

A Matérn-5/2 kernel with a length scale for each parameter (Rasmussen and Williams, "Gaussian Processes for Machine
Learning", 2006, sections 4.2 and 5.1); two categories have the distance 0 or 1. The logarithm of the expected
improvement (Jones, Schonlau and Welch, 1998; Ament et al., NeurIPS 2023) orders candidates also where the improvement
underflows.

Pending and failed trials count as if their means had been observed (Ginsbourger, Le Riche and Carraro, 2010). The
improvement is multiplied by the probability of success (Gardner et al., ICML 2014), from the nearest trials.

`NumpyCovariance` is used wherever numpy can be imported, so a resumed run goes on as it would have; its length scales
come from gradients. Without numpy, speed comes from `MOST_POINTS`, a short search for length scales, and variances
computed only while an upper bound can still win.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence, Set
from functools import cache, cached_property, lru_cache
from heapq import heapify, heappop, heapreplace, nsmallest
from itertools import islice, repeat
from operator import mul
from typing import Any

from minitune.search.length_scales import FIRST_ROUNDS, ROUNDS, USUAL_LOG_NOISE, inverse_of_triangle, likely_logs
from minitune.search.parzen import LOG_SQRT_2PI, KernelSpace, Point

MOST_POINTS = 100
MOST_FAILED = 30
_MOST_FITTED = 50
"""The maximum numbers of measured points and of failed ones, and on how many points length scales are learned. Not
measured: the first and the third cost their cube; fewer forget what the region does not show.
"""
_FITS = 6
_FIRST_FITS = 30
"""How many length scales are tried for a suggestion, and for the first one. Seven times as many gained nothing:
`benchmarks/FINDINGS.md`, *other starts*.
"""
LENGTH_BOUNDS = (-6.0, 8.0)
"""The bounds of the logarithm of an inverse squared length scale: from 20 ranges down to a fiftieth of one. Not
measured: with longer ones a parameter has no effect, with shorter ones no trial says anything about another.
"""
_NOISE = 1e-3
_LEAST_NOISE = 1e-6
"""The share of the variance that is noise: the initial value and the minimum."""
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
_FIRST_SIZE = 0.4
_LEAST_SIZE = 0.04
"""The size of a new region, and the minimum. Not measured: a larger one searches elsewhere, a smaller one sticks."""
_GROW_AFTER = 2
_SHRINK_AFTER = 6
"""A region grows after so many updates in a row with a new best trial, and shrinks after so many trials without one.
Not measured.
"""
_NEAREST = 5
"""From how many trials the probability of a success is estimated: `benchmarks/FINDINGS.md`, *probability of success*.
"""
_BLOCK = 16
"""After how many points of the variance's computation the bound of a candidate is checked again."""
SQRT_5 = math.sqrt(5)
_SQRT_HALF = math.sqrt(0.5)

Vector = tuple[float, ...]


class Scales:
    """The length scales so far: each suggestion starts from those of the one before.

    Attributes:
        has_numpy: Whether they were found with numpy; None before the first ones.
    """

    def __init__(self, logs: Sequence[float] = (), step: float = 1.0, has_numpy: bool | None = None):
        self.logs = list(logs)
        self.step = step
        self.has_numpy = has_numpy


class Region:
    """The region that the process searches: the space, contracted towards the best point.

    In the whole space, the expected improvement is often largest far from the best point, where the process knows
    least. The region grows with success and shrinks without it ("trust region": Eriksson et al., "Scalable global
    optimization via local Bayesian optimization", NeurIPS 2019). If the smallest region gives nothing better either,
    the next one is the whole space.
    """

    def __init__(self, size: float = _FIRST_SIZE, best: int | None = None, since: int = 0, wins: int = 0):
        self.size = size
        self.best = best
        self.since = since
        self.wins = wins

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


class GaussianProcess:
    """The model of the objective for one suggestion.

    Args:
        points: The measured points: first the better half, the best one first, then the others, the newest first.
        values: Their values. Smaller is better.
        taken: Points that are not suggested, as long as others are found. With noise, the best point itself often has
            the largest expected improvement, above all at an edge of the space.
    """

    def __init__(
        self,
        kernel_space: KernelSpace,
        points: Sequence[Point],
        values: Sequence[float],
        pending: Sequence[Point],
        failed: Sequence[Point],
        scales: Scales,
        rng: random.Random,
        taken: Set[Point] = frozenset(),
    ):
        self._kernel_space = kernel_space
        self._taken = taken
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
        # A fit costs O(n^3). In plain Python only some points can be afforded: the best, and the newest of the others.
        few = [*range(len(points))]
        scales.has_numpy = covariance_kind() is NumpyCovariance
        if len(few) > _MOST_FITTED and not scales.has_numpy:
            middle = len(few) // 2
            half = _MOST_FITTED // 2
            few = [*few[:half], *few[middle : middle + half]]
        self._learn(scales, [coordinates[i] for i in few], [self._values[i] for i in few])
        self._weights = self._weights_of(scales.logs)
        inputs = self._scaled(points)
        # Pending and failed points have no values, so they change no mean. But the process counts as certain there, and
        # so it keeps away.
        waiting = self._scaled([*pending, *failed])
        self._covariance = covariance_kind()([*inputs, *waiting], math.exp(scales.logs[-1]))
        self._outcomes = [(each, 1.0) for each in coordinates]
        self._outcomes += [(self._coordinates(point), 0.0) for point in failed]
        self._succeeding = len(points) / len(self._outcomes)
        squares = self._covariance.solve(self._values)
        self._variance = squares / len(points) + 1e-12  # not 0, even if all values are equal
        # With noise, the best value is a lucky one: no other could improve on it, and its point is a poor centre.
        front = points[:_FRONT]
        means = [mean for mean, _ in self._covariance.predict(inputs[:_FRONT])]
        order = sorted(range(len(front)), key=means.__getitem__)
        self._best = [front[number] for number in order[:_CENTRES]]
        self._least = min([*means, *(mean for mean, _ in self._covariance.predict(waiting))])

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
            corners = _simplex(len(seen) + bool(unseen))
            if bits & unseen:
                flags += corners[-1]
                continue
            corner = next((corners[rank] for rank, position in enumerate(seen) if bits >> position & 1), None)
            flags += corner or [0.0] * (len(corners) - 1)
        return tuple(flags)

    def _weights_of(self, logs: Sequence[float]) -> Vector:
        """The inverse length scale of each coordinate, times √5; the coordinates of a choice share one."""
        inverse = [SQRT_5 * math.exp(0.5 * each) for each in logs[:-1]]
        axes = len(self._kernel_space.axes)
        weights = inverse[:axes]
        for width, weight in zip(self._widths(), inverse[axes:], strict=True):
            weights += [weight] * width
        return tuple(weights)

    def _widths(self) -> list[int]:
        return [len(seen) + bool(unseen) - 1 for seen, unseen in zip(self._seen, self._unseen, strict=True)]

    def _scaled(self, points: Sequence[Point]) -> list[Vector]:
        return [tuple(map(mul, self._coordinates(point), self._weights)) for point in points]

    # -- length scales -------------------------------------------------------------------------------------------------

    def _learn(self, scales: Scales, inputs: Sequence[Vector], values: Sequence[float]) -> None:
        """Search for more likely length scales, by a (1+1) evolution strategy whose steps grow with success."""
        rng = self._rng
        low, high = LENGTH_BOUNDS
        count = self._parameters
        is_first = len(scales.logs) != count + 1
        if is_first:
            scales.logs = [*[0.0] * count, math.log(_NOISE)]
            scales.step = 1.0
        if scales.has_numpy:
            widths = [*[1] * len(self._kernel_space.axes), *self._widths()]
            bounds = [*[LENGTH_BOUNDS] * count, (math.log(_LEAST_NOISE), 0.0)]
            rounds = FIRST_ROUNDS if is_first else ROUNDS
            scales.logs = likely_logs(inputs, widths, values, scales.logs, bounds, rounds)
            return
        least = self._loss(scales.logs, inputs, values)
        share = min(1.0, 3 / count)  # about three move at a time: a joint move of many hardly ever helps
        num_fits = _FIRST_FITS if is_first else _FITS
        for _ in range(num_fits):
            moved = []
            for each in scales.logs[:-1]:
                if rng.random() < share:
                    each = min(high, max(low, each + rng.gauss(0, scales.step)))
                moved.append(each)
            noise = scales.logs[-1]
            if rng.random() < 0.3:
                noise = noise + rng.gauss(0, scales.step)
            moved.append(min(0.0, max(math.log(_LEAST_NOISE), noise)))
            loss = self._loss(moved, inputs, values)
            # The factors balance at about one success in five (Rechenberg's rule).
            if loss < least:
                least = loss
                scales.logs = moved
                scales.step = min(2.0, scales.step * 1.6)
            else:
                scales.step = max(0.15, scales.step * 0.88)

    def _loss(self, logs: Sequence[float], inputs: Sequence[Vector], values: Sequence[float]) -> float:
        """The negative logarithm of the posterior density of the length scales, for the most likely variance.

        The prior keeps length scales between a third and three ranges. The noise has a log-normal prior, flat below its
        median, 1.8 % of the values' variance.
        """
        weights = self._weights_of(logs)
        noise = math.exp(logs[-1])
        covariance = covariance_kind()([tuple(map(mul, each, weights)) for each in inputs], noise)
        variance = covariance.solve(values) / len(values) + 1e-12
        excess = max(0.0, math.log(noise * variance) - USUAL_LOG_NOISE)
        prior = sum(0.2 * math.cosh(each) for each in logs[:-1]) + 0.5 * excess * excess - 0.1 * logs[-1]
        return 0.5 * len(values) * math.log(variance) + covariance.log_determinant + prior

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
        return [point for point in points if point not in self._taken]

    def best_of(self, points: Sequence[Point]) -> Point:
        """Of these points, the one with the largest expected improvement."""
        return self._best_of(points, 1)[0][1]

    def _best_of(self, points: Sequence[Point], count: int, least: float = -math.inf) -> list[tuple[float, Point]]:
        """The best points, each with the logarithm of its expected improvement, if that is more than `least`.

        The largest upper bound comes first, and is lowered until another one is larger.
        """
        queue: list[tuple[float, int, float, Iterator[float] | None]] = []
        for number, (mean, bounds) in enumerate(self._covariance.predict(self._scaled(points))):
            queue.append((-self._log_improvement(mean, next(bounds)), number, mean, bounds))
        heapify(queue)
        found: list[tuple[float, Point]] = []
        while queue and len(found) < count and -queue[0][0] > least:
            loss, number, mean, shares = queue[0]
            if shares is None:  # the value is exact, and no other is larger
                heappop(queue)
                found.append((-loss, points[number]))
                continue
            share = next(shares, None)
            if share is not None:
                heapreplace(queue, (-self._log_improvement(mean, share), number, mean, shares))
            else:
                heapreplace(queue, (loss - self._log_success(points[number]), number, mean, None))
        return found

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
        deviation = math.sqrt(self._variance * max(1e-10, share))
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


@lru_cache(maxsize=32)
def _simplex(count: int) -> list[Vector]:
    """So many points at the distance 1 from each other, around the origin."""
    heights = [math.sqrt(1 - (size - 2) / (2 * (size - 1))) for size in range(2, count + 1)]
    corners: list[Vector] = []
    for number in range(count):
        corner = []
        for size, height in enumerate(heights, 2):
            down = -height / size
            if number < size - 1:
                corner.append(down)
            elif number == size - 1:
                corner.append(height + down)
            else:
                corner.append(0.0)
        corners.append(tuple(corner))
    return corners


def cut_off(values: Sequence[float]) -> tuple[list[float], float, float]:
    """Scale values to mean 0 and variance 1. Large values, which say little about the best region, are cut off. Returns
    also their mean and standard deviation.
    """
    largest = max(map(abs, values)) or 1.0  # squares must not overflow
    known = sorted(value / largest for value in values)
    median = known[len(known) // 2]
    top = median + 3 * (median - known[0])  # smaller is better, so nothing is cut off below
    cut = [min(value / largest, top) for value in values]
    mean = math.fsum(cut) / len(cut)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in cut) / len(cut)) or 1.0
    return [(value - mean) / deviation for value in cut], mean * largest, deviation * largest


class Covariance:
    """The covariance of points, as the lower triangle of Cholesky's factor."""

    def __init__(self, inputs: Sequence[Vector], noise: float):
        self._inputs = inputs
        self._solved: list[float] = []
        self._rows: list[Vector] = []  # without the diagonal
        self._norms: list[float] = []  # their squared lengths
        self._inverses: list[float] = []  # of the diagonal
        for number, each in enumerate(inputs):
            *_, (row, norm) = self._forward(_kernel(each, inputs[:number]))
            self._rows.append(row)
            self._norms.append(norm)
            self._inverses.append(1 / math.sqrt(1 + noise - norm))
        self.log_determinant = -sum(map(math.log, self._inverses))

    def _forward(self, values: Sequence[float]) -> Iterator[tuple[Vector, float]]:
        """Solve the triangular system. Every `_BLOCK` values and at the end, yield the solution and its squared length.
        `math.dist` of two tuples is three times as fast as a sum of products.
        """
        dist = math.dist
        solved: Vector = ()
        norm = 0.0
        steps = zip(values, self._rows, self._norms, self._inverses, strict=True)
        for _ in range(0, max(1, len(values)), _BLOCK):
            for value, row, row_norm, inverse in islice(steps, _BLOCK):
                apart = dist(solved, row)
                found = (value - 0.5 * (norm + row_norm - apart * apart)) * inverse
                solved += (found,)
                norm += found * found
            yield solved, norm

    def solve(self, values: Sequence[float]) -> float:
        """Set the values of the first points, and return their quadratic form with the inverse."""
        self._solved = []
        squares = 0.0
        for value, row, inverse in zip(values, self._rows, self._inverses, strict=False):
            self._solved.append((value - sum(map(mul, row, self._solved))) * inverse)
            squares += self._solved[-1] ** 2
        return squares

    @cached_property
    def _alpha(self) -> list[float]:
        rest = self._solved
        found = []
        for number in range(len(rest) - 1, -1, -1):
            weight = rest[number] * self._inverses[number]
            found.append(weight)
            rest = [value - each * weight for value, each in zip(rest[:number], self._rows[number], strict=True)]
        return found[::-1]

    def predict(self, inputs: Sequence[Vector]) -> Iterator[tuple[float, Iterator[float]]]:
        """The mean of each point, and the remaining share of its variance: decreasing upper bounds, then the share.

        The best ones lower it first, because most candidates are near them.
        """
        for each in inputs:
            row = _kernel(each, self._inputs)
            yield sum(map(mul, row, self._alpha)), (1 - norm for _, norm in self._forward(row))


class NumpyCovariance:
    """`Covariance`, computed by numpy.

    All products are so small that each takes one thread.
    """

    def __init__(self, inputs: Sequence[Vector], noise: float):
        import numpy

        self._numpy = numpy
        self._inputs = numpy.array(inputs).T.copy()
        covariance = self._kernel(self._inputs)
        covariance.flat[:: len(inputs) + 1] += noise
        factor = numpy.linalg.cholesky(covariance)
        self.log_determinant = float(numpy.log(factor.diagonal()).sum())
        self._inverse = inverse_of_triangle(factor)

    def solve(self, values: Sequence[float]) -> float:
        """See `Covariance.solve`."""
        count = len(values)
        self._solved = self._inverse[:count, :count] @ self._numpy.array(values)
        return float(self._solved @ self._solved)

    def predict(self, inputs: Sequence[Vector]) -> Iterator[tuple[float, Iterator[float]]]:
        """See `Covariance.predict`."""
        for begin in range(0, len(inputs), _BLOCK):
            block = self._numpy.array(inputs[begin : begin + _BLOCK]).T
            solved = self._inverse @ self._kernel(block)
            means = self._solved @ solved[: len(self._solved)]
            shares = 1 - (solved * solved).sum(axis=0)
            yield from zip(means.tolist(), map(iter, shares[:, None].tolist()), strict=True)

    def _kernel(self, inputs: Any) -> Any:
        differences = self._inputs[:, :, None] - inputs[:, None, :]
        distances = self._numpy.sqrt((differences * differences).sum(axis=0))
        return (1 + distances + distances * distances / 3) * self._numpy.exp(-distances)


@cache
def covariance_kind() -> type[Covariance] | type[NumpyCovariance]:
    """The class to use. The first call may import numpy, which takes about 0.2 s."""
    try:
        import numpy  # noqa: F401 - only to see whether it can be imported
    except ImportError:
        return Covariance
    return NumpyCovariance


def _kernel(point: Vector, others: Sequence[Vector]) -> list[float]:
    """The Matérn-5/2 kernel of a point with others. Coordinates are divided by the length scales."""
    exp = math.exp
    return [(1.0 + r * (1.0 + r * (1 / 3))) * exp(-r) for r in map(math.dist, repeat(point), others)]
