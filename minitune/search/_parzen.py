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
from collections.abc import Sequence
from itertools import pairwise, repeat
from operator import mul, truediv
from typing import NamedTuple

from minitune.search._axes import Axis

_LOG_SQRT_2PI = math.log(2 * math.pi) / 2
_SQRT_2 = math.sqrt(2)
_FAR_SDS = 6.0
"""A border so many standard deviations away takes nothing from a kernel."""
_NEGLIGIBLE = 25.0
"""Kernels whose density lies below exp(-25) of the domain's are left out."""
_MAX_LOG_STEP = 0.05
"""The shared bandwidth moves on a grid with such steps, so that scaled coordinates can be kept."""


class Point(NamedTuple):
    """Values of a group's parameters.

    Attributes:
        places: On each axis.
        bits: One set bit for each choice, that of its category.
    """

    places: tuple[float, ...]
    bits: int


class Kernel:
    """An observation in the mixtures.

    Args:
        point: What was observed.
    """

    __slots__ = ("log_share", "point", "scaled", "version")

    def __init__(self, point: Point):
        self.point = point
        self.version = -1
        self.scaled: tuple[float, ...] = ()
        self.log_share = 0.0


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
        total = -sum(map(math.log, self.sizes))
        for axis, place in zip(self.axes, point.places, strict=True):
            distance = (place - 0.5) / axis.prior_sd
            total -= distance * distance / 2 + math.log(axis.prior_sd * _mass(axis, 0.5, axis.prior_sd)) + _LOG_SQRT_2PI
        return total

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
        points: The observations.
    """

    def __init__(self, grounds: Grounds, points: Sequence[Point]):
        self._grounds = grounds
        self._points = points
        count = len(points) + 1
        by_axis = [_gaps(places) for places in zip(*(point.places for point in points), strict=True)]
        self._bandwidths = list(zip(*by_axis, strict=True)) if by_axis else [()] * len(points)
        self._kernels = []
        base = -len(grounds.axes) * _LOG_SQRT_2PI - sum(math.log(count + size) for size in grounds.sizes)
        for point, bandwidths in zip(points, self._bandwidths, strict=True):
            deviations = grounds.widened(bandwidths)
            log_norm = base - sum(map(math.log, deviations)) - grounds.log_mass(point.places, deviations)
            scaled = tuple(map(truediv, point.places, deviations))
            self._kernels.append((tuple(1 / each for each in deviations), scaled, point.bits, log_norm))
        self._log_odds = math.log(count + 1)

    def draw(self, rng: random.Random) -> Point:
        """Draw a point from the mixture."""
        number = rng.randrange(len(self._points) + 1)
        grounds, count = self._grounds, len(self._points) + 1
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

    def log_density(self, point: Point) -> float:
        """Logarithm of the density, up to a constant."""
        places, bits, odds, dist = point.places, point.bits, self._log_odds, math.dist
        terms = [self._grounds.log_prior(point)]
        for factors, scaled, own, log_norm in self._kernels:
            distance = dist(tuple(map(mul, places, factors)), scaled)
            terms.append(log_norm + (own & bits).bit_count() * odds - distance * distance / 2)
        return _log_sum(terms)


class BadSide:
    """The mixture over all other observations, with one bandwidth for all.

    Args:
        grounds: Axes and choices.
        kernels: The observations.
        log_weights: Logarithms of their weights.
    """

    def __init__(self, grounds: Grounds, kernels: Sequence[Kernel], log_weights: Sequence[float]):
        self._grounds = grounds
        count = len(kernels)
        version = shared_bandwidth(count)
        bandwidth = math.exp(-version * _MAX_LOG_STEP)
        deviations = grounds.widened([bandwidth] * len(grounds.axes))
        self._factors = [1 / each for each in deviations]
        for kernel in kernels:
            if kernel.version != version:
                kernel.version = version
                kernel.scaled = tuple(map(mul, kernel.point.places, self._factors))
                kernel.log_share = -grounds.log_mass(kernel.point.places, deviations)
        self._kernels = kernels
        self._scaled = [kernel.scaled for kernel in kernels]
        self._log_weights = log_weights
        self._log_odds = math.log(count + 2)
        self._log_norm = (
            len(grounds.sizes) * self._log_odds
            - sum(map(math.log, deviations))
            - len(grounds.axes) * _LOG_SQRT_2PI
            - sum(math.log(count + 1 + size) for size in grounds.sizes)
        )

    def log_density(self, point: Point, log_prior: float) -> float:
        """Logarithm of the density, up to a constant; never below `log_prior`, that of the domain's kernel."""
        room = self._log_norm - log_prior + _NEGLIGIBLE
        if room <= 0:
            return log_prior
        reach, places = math.sqrt(2 * room), tuple(map(mul, point.places, self._factors))
        distances = list(map(math.dist, repeat(places), self._scaled))
        bits, odds, choices = point.bits, self._log_odds, len(self._grounds.sizes)
        terms = [log_prior]
        for index, distance in enumerate(distances):
            if distance < reach:
                kernel = self._kernels[index]
                differing = choices - (kernel.point.bits & bits).bit_count()
                terms.append(
                    self._log_norm
                    + self._log_weights[index]
                    + kernel.log_share
                    - differing * odds
                    - distance * distance / 2
                )
        return _log_sum(terms)


def best_of(good: GoodSide, bad: BadSide, grounds: Grounds, candidates: Sequence[Point]) -> Point:
    """The candidate with the largest ratio of the densities.

    The bad side's density is never below the domain's own kernel, so most candidates are ruled out without it.
    """
    ranked = sorted(
        ((good.log_density(point), number) for number, point in enumerate(candidates)), key=lambda pair: -pair[0]
    )
    best, best_ratio = candidates[ranked[0][1]], -math.inf
    bounds = []
    for log_good, number in ranked:
        log_prior = grounds.log_prior(candidates[number])
        bounds.append((log_good - log_prior, -number, log_good, log_prior))
    for bound, number, log_good, log_prior in sorted(bounds, reverse=True):
        if bound <= best_ratio:
            break
        ratio = log_good - bad.log_density(candidates[-number], log_prior)
        if ratio > best_ratio:
            best, best_ratio = candidates[-number], ratio
    return best


def shared_bandwidth(count: int) -> int:
    """The bad side's bandwidth for so many kernels, as steps of its grid downwards from 1."""
    bandwidth = max(1.5 / max(count, 1.5), 1 / min(100, count + 1))
    return round(-math.log(bandwidth) / _MAX_LOG_STEP) if count else 0


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
