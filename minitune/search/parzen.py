"""The two mixtures of kernels of `TPESearch`: the ratio of their densities says which points are worth trying.

`good_side` is the density of the best observations, `bad_side` that of the others; a candidate is drawn from the good
one. Which observations are the best, `ranking` says; `groups` makes the points, and `model` asks for candidates.

An observation is one kernel, a product over the parameters: a normal distribution truncated to the domain, or one that
prefers the observed category. The domain is another one, the prior.

Sources: Bergstra et al., "Algorithms for Hyper-Parameter Optimization" (NeurIPS 2011); Watanabe, "Tree-structured
Parzen estimator" (2023, arXiv 2304.11127). Our own: better kernels weigh more, and the bad side's widths follow Scott's
rule. Two approximations make it fast: a kernel's mass in a cell is width times density, with the cell's variance added;
and all bad kernels have the same width.
"""

from __future__ import annotations

import math
import random
from bisect import bisect
from collections.abc import Collection, Sequence
from itertools import accumulate, islice, pairwise
from operator import truediv
from typing import NamedTuple

from minitune.space.parameters import Axis

LOG_SQRT_2PI = math.log(2 * math.pi) / 2
_SQRT_2 = math.sqrt(2)
_SQRT_12 = math.sqrt(12)

_BAD_WIDTH = 0.12
"""The width of the bad side with one observation. The rule is in `benchmarks/FINDINGS.md`, *TPE: weights*; the
number alone was not measured: smaller kernels leave gaps between bad trials, larger ones cover good points.
"""

_MOST_BAD = 200
"""So many bad observations are used, the newest: `benchmarks/FINDINGS.md`, *newest*."""

_MOST_CONTRAST = 25
"""A bad observation makes its categories at most 1 + this many times as likely on the bad side as others.
Not measured: with more, a category with one bad trial is hardly drawn again.
"""

_PENDING_WEIGHT = 0.3
"""The weight of a pending trial on the bad side; others have 1 (`benchmarks/FINDINGS.md`, *16 at a time*)."""

_NEWEST = 25
"""How many of the newest bad observations have full weight, as in HyperOpt. Not measured: more forgets later."""


class Point(NamedTuple):
    """The values of a group's parameters.

    Attributes:
        coordinates: The position on each axis.
        bits: For each choice, the bit of its category is set.
    """

    coordinates: tuple[float, ...]
    bits: int


class KernelSpace:
    """The space of the kernels: axes and choices. `needs` has, for each axis and choice, the bits of the categories
    below which it exists; 0: always.

    Attributes:
        masks: For each choice, the bits of all its categories.
        is_conditional: Whether an axis or a choice exists only below some category.
    """

    def __init__(self, axes: Sequence[Axis], sizes: Sequence[int], needs: Sequence[int] = ()):
        self.axes = tuple(axes)
        self.sizes = tuple(sizes)
        self.needs = tuple(needs)
        self.is_conditional = any(needs)
        self.masks: list[int] = []
        offset = 0
        for size in sizes:
            self.masks.append(((1 << size) - 1) << offset)
            offset += size

    def pack(self, coordinates: Sequence[float], categories: Sequence[int]) -> Point:
        """Make a point from positions and indices of categories."""
        bits = 0
        offset = 0
        for index, size in zip(categories, self.sizes, strict=True):
            bits |= 1 << (offset + index)
            offset += size
        return Point(tuple(coordinates), bits)

    def categories(self, bits: int) -> list[int]:
        """The indices of the categories in a point's bits."""
        found = []
        offset = 0
        for mask, size in zip(self.masks, self.sizes, strict=True):
            found.append((bits & mask).bit_length() - 1 - offset)
            offset += size
        return found

    def draw_prior(self, rng: random.Random) -> Point:
        """Draw a point from the domains."""
        coordinates = []
        for axis in self.axes:
            if axis.high == 1.0:
                coordinates.append(rng.random())
            else:
                coordinates.append(rng.gauss(0.5, axis.prior_sd))
        return self.pack(coordinates, [rng.randrange(size) for size in self.sizes])

    def snap(self, coordinate: float, number: int) -> float:
        """Move a position on axis `number` to the middle of its cell, if the axis has cells."""
        axis = self.axes[number]
        if axis.width:
            return axis.encode(axis.decode(coordinate))
        return coordinate


class Mixture:
    """A density: a kernel for each point, and the prior with the weight 1.

    Args:
        widths: For each point, the standard deviation on each axis.
        weights: One for each point.
        contrast: A kernel gives its own category 1 + this many times as much as any other one. So the categories of one
            point never rule out the others.
    """

    def __init__(
        self,
        kernel_space: KernelSpace,
        points: Sequence[Point],
        widths: Sequence[tuple[float, ...]],
        weights: Sequence[float],
        contrast: int,
    ):
        self._kernel_space = kernel_space
        self._points = points
        self._widths = widths
        self._cumulative = list(accumulate([*weights, 1.0]))
        self._contrast = contrast
        self._log_odds = math.log(contrast + 1)
        # Kernels with the same widths are together, so that a candidate is scaled once for all of them. The prior is a
        # wide kernel in the middle of each axis, cut at the bounds, and uniform over categories.
        centre = (0.5,) * len(kernel_space.axes)
        prior_sds = tuple(axis.prior_sd for axis in kernel_space.axes)
        log_prior = -sum(map(math.log, kernel_space.sizes))
        self._kernels = {prior_sds: [self._kernel(Point(centre, 0), prior_sds, log_prior)]}
        log_share = -sum(math.log(contrast + size) for size in kernel_space.sizes)
        widened: dict[tuple[float, ...], tuple[float, ...]] = {}
        for point, own, weight in zip(points, widths, weights, strict=True):
            if own not in widened:
                # increased by the variances of uniform distributions over cells
                pairs = zip(own, kernel_space.axes, strict=True)
                widened[own] = tuple(math.hypot(width, axis.width / _SQRT_12) for width, axis in pairs)
            kernel = self._kernel(point, widened[own], log_share + math.log(weight))
            self._kernels.setdefault(widened[own], []).append(kernel)

    def _kernel(
        self, point: Point, deviations: tuple[float, ...], log_height: float
    ) -> tuple[tuple[float, ...], int, float]:
        """A kernel's scaled centre, its categories, and the logarithm of its height there."""
        # The density counts only inside the bounds, so that kernels near them are not too low.
        for axis, coordinate, deviation in zip(self._kernel_space.axes, point.coordinates, deviations, strict=True):
            log_height -= math.log(deviation * _mass(axis, coordinate, deviation)) + LOG_SQRT_2PI
        return tuple(map(truediv, point.coordinates, deviations)), point.bits, log_height

    def draw(self, rng: random.Random) -> Point:
        """Draw a point from the mixture."""
        number = bisect(self._cumulative, rng.random() * self._cumulative[-1], 0, len(self._points))
        kernel_space = self._kernel_space
        if number == len(self._points):
            return kernel_space.draw_prior(rng)
        point = self._points[number]
        coordinates = []
        for index, (axis, own, width) in enumerate(
            zip(kernel_space.axes, point.coordinates, self._widths[number], strict=True)
        ):
            # Drawn again outside of the bounds: to move it to a bound would crowd the points there.
            coordinate = rng.gauss(own, width)
            while not axis.low <= coordinate <= axis.high:
                coordinate = rng.gauss(own, width)
            coordinates.append(kernel_space.snap(coordinate, index))
        categories = []
        for own_category, size in zip(kernel_space.categories(point.bits), kernel_space.sizes, strict=True):
            if rng.random() * (self._contrast + size) < size:
                categories.append(rng.randrange(size))
            else:
                categories.append(own_category)
        return kernel_space.pack(coordinates, categories)

    def log_density(self, point: Point) -> float:
        """The logarithm of the density, up to a constant."""
        # This takes nearly all of the time of a suggestion, so it is as short as it can be.
        bits = point.bits
        odds = self._log_odds
        dist = math.dist
        terms: list[float] = []
        for deviations, kernels in self._kernels.items():
            # A distance of scaled coordinates is one in standard deviations: `math.dist` does all axes in one call.
            scaled = tuple(map(truediv, point.coordinates, deviations))
            terms += [
                height + (own & bits).bit_count() * odds - 0.5 * (d := dist(scaled, centre)) * d
                for centre, own, height in kernels
            ]
        top = max(terms)  # so that the largest exponential is 1, and none overflows
        return top + math.log(sum([math.exp(term - top) for term in terms]))


def good_side(kernel_space: KernelSpace, points: Sequence[Point]) -> Mixture:
    """The density of the best observations, the best one first.

    Their weights decrease with the logarithm of the rank, and their mean is 1. A width is the larger of the two gaps to
    the neighbours on that axis, within bounds.
    """
    count = len(points)
    by_axis = [_gaps(coordinates) for coordinates in zip(*(point.coordinates for point in points), strict=True)]
    widths = list(zip(*by_axis, strict=True)) if by_axis else [()] * count
    weights = [math.log((count + 1) / rank) for rank in range(1, count + 1)]
    weights = [weight * count / sum(weights) for weight in weights]
    return Mixture(kernel_space, points, widths, weights, count + 1)


def bad_side(
    kernel_space: KernelSpace, points: dict[int, Point], good: Collection[int], pending: Collection[int]
) -> Mixture:
    """The density of the newest other observations; `points` has all by their numbers, the oldest one first.

    The newest ones have full weight, older ones less. Pending ones keep suggestions away, but less than a bad value. A
    rule like Scott's gives all the same width: with many axes, kernels are wide.
    """
    newest = [*islice(reversed(points.items()), _MOST_BAD)][::-1]
    older = max(1, len(newest) - _NEWEST)
    found = []
    weights = []
    for age, (number, point) in enumerate(newest, 1):
        if number not in good:
            found.append(point)
            weights.append(min(1.0, age / older) * (_PENDING_WEIGHT if number in pending else 1.0))
    dimensions = len(kernel_space.axes) + len(kernel_space.sizes)
    width = _BAD_WIDTH * max(1, len(found)) ** (-1 / (dimensions + 4))
    widths = [(width,) * len(kernel_space.axes)] * len(found)
    return Mixture(kernel_space, found, widths, weights, min(len(found) + 1, _MOST_CONTRAST))


def best_candidate(good: Mixture, bad: Mixture, candidates: Sequence[Point]) -> Point:
    """The candidate with the largest ratio of the densities."""
    return max(candidates, key=lambda point: good.log_density(point) - bad.log_density(point))


def draw_by_ratio(good: Mixture, bad: Mixture, candidates: Sequence[Point], rng: random.Random) -> Point:
    """One of the candidates, drawn in proportion to the ratio of the densities.

    For a choice on which other parameters depend: the best one would always be the same, and those below the others
    would remain unknown.
    """
    points = list(dict.fromkeys(candidates))  # each once, so that only the ratio decides
    return rng.choices(points, [math.exp(good.log_density(point) - bad.log_density(point)) for point in points])[0]


def _gaps(coordinates: Sequence[float]) -> list[float]:
    """The bandwidths on one axis: the larger gap to a neighbour, from 1 / min(100, n + 2), as in HyperOpt, to 1."""
    count = len(coordinates)
    if count == 1:
        return [1.0]
    least = 1 / min(100, count + 2)  # two equal points must not become a spike
    order = sorted(range(count), key=coordinates.__getitem__)
    gaps = [coordinates[right] - coordinates[left] for left, right in pairwise(order)]
    found = [0.0] * count
    for rank, index in enumerate(order):
        widest = max(gaps[max(rank - 1, 0) : rank + 1])
        found[index] = min(max(widest, least), 1.0)
    return found


def _mass(axis: Axis, mean: float, deviation: float) -> float:
    """The mass of a normal distribution within the axis."""
    if axis.high != 1.0:
        return 1.0
    scale = deviation * _SQRT_2
    return (math.erf((1 - mean) / scale) + math.erf(mean / scale)) / 2
