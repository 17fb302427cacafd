"""Parzen estimators: the two mixtures of kernels whose ratio says which values are worth trying.

Each observation is one kernel, a product over all parameters of a group: normal distributions truncated to the domain
for numbers, and for a choice a distribution that prefers the observed category. The domain itself is one more kernel.

Sources: Bergstra et al., "Algorithms for Hyper-Parameter Optimization" (NeurIPS 2011), for the estimator and the
bandwidth from neighbours; Watanabe, "Tree-structured Parzen estimator" (2023, arXiv 2304.11127), for kernels over all
parameters jointly and the bounds of bandwidths.

Two shortcuts keep it cheap without numpy. The mass of a kernel in a cell is taken as the cell's width times the density
of a normal distribution that is wider by the variance of the cell, so that cells need no distribution function. And the
many bad kernels share one bandwidth: in coordinates that are scaled by it, a kernel is the distance between two points.
Categories are bits of one number, so that those which two observations share are counted in one operation.
"""

from __future__ import annotations

import math
import random
from bisect import bisect
from collections.abc import Collection, Sequence
from itertools import accumulate, pairwise, repeat
from operator import mul, truediv
from typing import NamedTuple

from minitune.search._axes import Axis

_LOG_SQRT_2PI = math.log(2 * math.pi) / 2
_SQRT_2 = math.sqrt(2)
_FAR_SDS = 6.0
"""A border so many standard deviations away takes nothing from a kernel."""
_NEGLIGIBLE = 25.0
"""Kernels whose density lies below exp(-25) of the domain's are left out."""
_LOG_STEP = 0.05
"""The shared bandwidth moves on a grid with such steps, so that scaled coordinates can be kept."""
_NEWEST = 25
"""So many of the newest bad observations count in full."""


class Point(NamedTuple):
    """Values of a group's parameters.

    Attributes:
        places: On each axis.
        bits: One set bit for each choice, that of its category.
    """

    places: tuple[float, ...]
    bits: int


class Grounds:
    """What kernels are put over: axes and choices.

    Args:
        axes: The numeric parameters.
        sizes: How many categories each choice has.
    """

    def __init__(self, axes: Sequence[Axis], sizes: Sequence[int]):
        self.axes = tuple(axes)
        self.sizes = tuple(sizes)
        self.masks: list[int] = []
        offset = 0
        for size in sizes:
            self.masks.append(((1 << size) - 1) << offset)
            offset += size
        self._cell_variances = tuple(axis.width**2 / 12 for axis in axes)
        self._inverse_sds = tuple(1 / axis.prior_sd for axis in axes)
        self._centre = tuple(0.5 / axis.prior_sd for axis in axes)
        self._log_prior_norm = -sum(map(math.log, sizes)) - sum(
            math.log(axis.prior_sd * _mass(axis, 0.5, axis.prior_sd)) + _LOG_SQRT_2PI for axis in axes
        )

    def pack(self, places: Sequence[float], categories: Sequence[int]) -> Point:
        """Make a point of places and the indices of categories."""
        bits = offset = 0
        for index, size in zip(categories, self.sizes, strict=True):
            bits |= 1 << (offset + index)
            offset += size
        return Point(tuple(places), bits)

    def categories(self, bits: int) -> list[int]:
        """The indices in a point's bits."""
        found, offset = [], 0
        for mask, size in zip(self.masks, self.sizes, strict=True):
            found.append((bits & mask).bit_length() - 1 - offset)
            offset += size
        return found

    def draw_prior(self, rng: random.Random) -> Point:
        """Draw a point as the domains would."""
        places = [rng.random() if axis.high == 1.0 else rng.gauss(0.5, axis.prior_sd) for axis in self.axes]
        return self.pack(places, [rng.randrange(size) for size in self.sizes])

    def log_prior(self, point: Point) -> float:
        """Logarithm of the density of the kernel that stands for the domain."""
        distance = math.dist(tuple(map(mul, point.places, self._inverse_sds)), self._centre)
        return self._log_prior_norm - distance * distance / 2

    def widened(self, bandwidths: Sequence[float]) -> list[float]:
        """Standard deviations with the cells' own added."""
        return [
            math.sqrt(bandwidth * bandwidth + variance) if variance else bandwidth
            for bandwidth, variance in zip(bandwidths, self._cell_variances, strict=True)
        ]

    def log_mass(self, places: Sequence[float], deviations: Sequence[float]) -> float:
        """Logarithm of what truncation leaves of a kernel."""
        total = 0.0
        for axis, place, deviation in zip(self.axes, places, deviations, strict=True):
            if axis.high == 1.0 and not _FAR_SDS * deviation < place < 1 - _FAR_SDS * deviation:
                total += math.log(_mass(axis, place, deviation))
        return total

    def snap(self, place: float, number: int) -> float:
        """`place` on axis `number`, in the middle of the cell if there are any."""
        axis = self.axes[number]
        return axis.encode(axis.decode(place)) if axis.width else place


class GoodSide:
    """The mixture over the best observations: each kernel has a bandwidth of its own on each axis.

    A bandwidth is the larger gap to a neighbour on that axis, within bounds.

    Args:
        grounds: Axes and choices.
        points: The observations, best first.
    """

    def __init__(self, grounds: Grounds, points: Sequence[Point]):
        self.grounds = grounds
        self._points = points
        count = len(points) + 1
        by_axis = [_gaps(places) for places in zip(*(point.places for point in points), strict=True)]
        self._bandwidths = list(zip(*by_axis, strict=True)) if by_axis else [()] * len(points)
        weights = _weights_by_rank(len(points))
        self._cumulative = list(accumulate([*weights, 1.0]))
        self._kernels = []
        base = -len(grounds.axes) * _LOG_SQRT_2PI - sum(math.log(count + size) for size in grounds.sizes)
        for point, bandwidths, weight in zip(points, self._bandwidths, weights, strict=True):
            deviations = grounds.widened(bandwidths)
            log_norm = (
                base + math.log(weight) - sum(map(math.log, deviations)) - grounds.log_mass(point.places, deviations)
            )
            scaled = tuple(map(truediv, point.places, deviations))
            self._kernels.append((tuple(1 / each for each in deviations), scaled, point.bits, log_norm))
        self._log_odds = math.log(count + 1)

    def draw(self, rng: random.Random) -> Point:
        """Draw a point from the mixture."""
        number = bisect(self._cumulative, rng.random() * self._cumulative[-1], 0, len(self._points))
        grounds, count = self.grounds, len(self._points) + 1
        if number == len(self._points):
            return grounds.draw_prior(rng)
        point, bandwidths = self._points[number], self._bandwidths[number]
        places = []
        for index, axis in enumerate(grounds.axes):
            place = rng.gauss(point.places[index], bandwidths[index])
            while not axis.low <= place <= axis.high:
                place = rng.gauss(point.places[index], bandwidths[index])
            places.append(grounds.snap(place, index))
        if not grounds.sizes:
            return Point(tuple(places), 0)
        categories = [
            rng.randrange(size) if rng.random() * (count + size) < size else own
            for own, size in zip(grounds.categories(point.bits), grounds.sizes, strict=True)
        ]
        return grounds.pack(places, categories)

    def log_density(self, point: Point, log_prior: float) -> float:
        """Logarithm of the density, up to a constant; `log_prior` is that of the domain's kernel."""
        places, bits, odds, dist = point.places, point.bits, self._log_odds, math.dist
        terms = [log_prior]
        for factors, scaled, own, log_norm in self._kernels:
            distance = dist(tuple(map(mul, places, factors)), scaled)
            terms.append(log_norm + (own & bits).bit_count() * odds - distance * distance / 2)
        return _log_sum(terms)


class Kernels:
    """All observations of a group, in order of time, each with one bandwidth that all have.

    Args:
        grounds: Axes and choices.

    Attributes:
        points: By the observation's number.
        numbers: The keys of `points`.
        scaled: Their places in bandwidths.
        log_shares: What truncation adds to their densities, as logarithms.
    """

    def __init__(self, grounds: Grounds):
        self.grounds = grounds
        self.points: dict[int, Point] = {}
        self.numbers: list[int] = []
        self.scaled: list[tuple[float, ...]] = []
        self.log_shares: list[float] = []
        self.bandwidth = 0.0
        self.deviations: list[float] = []
        self.factors: list[float] = []

    def add(self, number: int, point: Point) -> None:
        """Take up an observation."""
        self.points[number] = point
        self.numbers.append(number)
        self._scale(point)

    def remove(self, number: int) -> None:
        """Forget an observation, if it is there."""
        if self.points.pop(number, None) is not None:
            self.numbers = list(self.points)
            self.bandwidth = 0.0  # so that the next use makes the lists anew

    def set_bandwidth(self, bandwidth: float) -> None:
        """Scale everything."""
        self.bandwidth = bandwidth
        self.deviations = self.grounds.widened([bandwidth] * len(self.grounds.axes))
        self.factors = [1 / each for each in self.deviations]
        self.scaled, self.log_shares = [], []
        for point in self.points.values():
            self._scale(point)

    def _scale(self, point: Point) -> None:
        if self.bandwidth:
            self.scaled.append(tuple(map(mul, point.places, self.factors)))
            self.log_shares.append(-self.grounds.log_mass(point.places, self.deviations))


class BadSide:
    """The mixture over all other observations.

    Args:
        kernels: All observations of the group; their bandwidth may be changed.
        good: Numbers of those that are left out.
        max_count: Use only the newest so many.
    """

    def __init__(self, kernels: Kernels, good: Collection[int], max_count: int | None):
        self._kernels, self._good = kernels, good
        grounds = kernels.grounds
        self._first = 0 if max_count is None else max(0, len(kernels.numbers) - max_count)
        self._count = len(kernels.numbers) - self._first
        bandwidth = shared_bandwidth(max(1, self._count - len(good)), len(grounds.axes) + len(grounds.sizes))
        if bandwidth != kernels.bandwidth:
            kernels.set_bandwidth(bandwidth)
        self._scaled = kernels.scaled[self._first :]
        components = self._count - len(good) + 1
        self._log_odds = math.log(components + 1)
        self._log_norm = (
            len(grounds.sizes) * self._log_odds
            - sum(map(math.log, kernels.deviations))
            - len(grounds.axes) * _LOG_SQRT_2PI
            - sum(math.log(components + size) for size in grounds.sizes)
        )

    def log_density(self, point: Point, log_prior: float) -> float:
        """Logarithm of the density, up to a constant; never below `log_prior`, that of the domain's kernel."""
        kernels, room = self._kernels, self._log_norm - log_prior + _NEGLIGIBLE
        if room <= 0:
            return log_prior
        reach, places = math.sqrt(2 * room), tuple(map(mul, point.places, kernels.factors))
        distances = list(map(math.dist, repeat(places), self._scaled))
        terms = [log_prior]
        for index in [index for index, distance in enumerate(distances) if distance < reach]:
            position = self._first + index
            number = kernels.numbers[position]
            if number not in self._good:
                differing = len(kernels.grounds.sizes) - (kernels.points[number].bits & point.bits).bit_count()
                density = kernels.log_shares[position] - differing * self._log_odds - distances[index] ** 2 / 2
                terms.append(self._log_norm + self._log_weight(index) + density)
        return _log_sum(terms)

    def _log_weight(self, index: int) -> float:
        """In order of time the oldest count for less, rising from 1 / count to 1; the newest count in full."""
        ramp = self._count - _NEWEST
        if index >= ramp:
            return 0.0
        return math.log((1 + (self._count - 1) * index / max(ramp - 1, 1)) / self._count)


def best_of(good: GoodSide, bad: BadSide, candidates: Sequence[Point]) -> Point:
    """The candidate with the largest ratio of the densities.

    The bad side's density is never below that of the domain's own kernel, so most candidates are ruled out without it.
    """
    bounds = []
    for number, point in enumerate(candidates):
        log_prior = good.grounds.log_prior(point)
        log_good = good.log_density(point, log_prior)
        bounds.append((log_good - log_prior, -number, log_good, log_prior))
    best, best_ratio = candidates[0], -math.inf
    for bound, number, log_good, log_prior in sorted(bounds, reverse=True):
        if bound <= best_ratio:
            break
        ratio = log_good - bad.log_density(candidates[-number], log_prior)
        if ratio > best_ratio:
            best, best_ratio = candidates[-number], ratio
    return best


def shared_bandwidth(count: int, dimensions: int) -> float:
    """The bad side's bandwidth for so many kernels."""
    bandwidth = 0.12 * count ** (-1 / (dimensions + 4))
    return math.exp(round(math.log(bandwidth) / _LOG_STEP) * _LOG_STEP)


def _weights_by_rank(count: int) -> list[float]:
    """Weights of the good observations, best first: falling with the logarithm of the rank, 1 in the mean."""
    weights = [math.log((count + 1) / rank) for rank in range(1, count + 1)]
    return [weight * count / sum(weights) for weight in weights]


def _gaps(places: Sequence[float]) -> list[float]:
    """Bandwidths on one axis: the larger gap to a neighbour, between 1 / min(100, n + 2) and 1."""
    count = len(places)
    if count == 1:
        return [1.0]
    least = 1 / min(100, count + 2)
    order = sorted(range(count), key=places.__getitem__)
    gaps = [places[right] - places[left] for left, right in pairwise(order)]
    found = [0.0] * count
    for rank, index in enumerate(order):
        widest = max(gaps[max(rank - 1, 0) : rank + 1])
        found[index] = min(max(widest, least), 1.0)
    return found


def _mass(axis: Axis, mean: float, deviation: float) -> float:
    """What lies within the axis of a normal distribution."""
    if axis.high != 1.0:
        return 1.0
    scale = deviation * _SQRT_2
    return (math.erf((1 - mean) / scale) + math.erf(mean / scale)) / 2


def _log_sum(terms: Sequence[float]) -> float:
    """Logarithm of the sum of exponentials."""
    top = max(terms)
    return top + math.log(sum([math.exp(term - top) for term in terms]))
