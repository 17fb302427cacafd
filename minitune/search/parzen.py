"""The two mixtures of kernels of `TPESearch`: the ratio of their densities says which points are worth trying.

`GoodSide` is the density of the best observations, `BadSide` that of the others; a candidate is drawn from the good
side. Which observations are the best, `ranking` says; `groups` makes the points, and `model` asks for candidates.

An observation is one kernel, a product over the parameters: a normal distribution truncated to the domain, or one that
prefers the observed category. The domain is another one, the prior.

Sources: Bergstra et al., "Algorithms for Hyper-Parameter Optimization" (NeurIPS 2011); Watanabe, "Tree-structured
Parzen estimator" (2023, arXiv 2304.11127). Our own: better kernels weigh more, and the bad side's bandwidth follows
Scott's rule.

Two approximations make it fast: a kernel's mass in a cell is width times density, with the cell's variance added; and
all bad kernels share one bandwidth.
"""

from __future__ import annotations

import math
import random
from bisect import bisect, bisect_left
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from operator import mul, truediv
from typing import NamedTuple

from minitune.space.parameters import Axis

LOG_SQRT_2PI = math.log(2 * math.pi) / 2
_SQRT_2 = math.sqrt(2)

_FAR_SDS = 6.0
"""How many standard deviations a border must be away to be ignored."""

_BAD_WIDTH = 0.12
"""The bandwidth of the bad side with one observation. The rule is in `benchmarks/FINDINGS.md`, *TPE: weights*; the
number alone was not measured: smaller kernels leave gaps between bad trials, larger ones cover good points.
"""

_LOG_STEP = 0.05
"""The step of the shared bandwidth's logarithm. With steps, scaled coordinates can be reused. Not measured: smaller
steps cost time, larger ones make jumps.
"""

_FIRST_PART = 32
"""How many of the newest bad observations are used first; each further part is twice as large. Not measured."""

_MOST_BAD = 500
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
        self._cell_variances = tuple(axis.width**2 / 12 for axis in axes)  # of a uniform distribution over a cell
        # The prior is a wide kernel in the middle of each axis, cut at the bounds, and uniform over categories. Its
        # density is computed from distances, as those of the kernels are.
        self._inverse_sds = tuple(1 / axis.prior_sd for axis in axes)
        self._centre = tuple(0.5 / axis.prior_sd for axis in axes)
        log_norms = []
        for axis in axes:
            mass = _mass(axis, 0.5, axis.prior_sd)
            log_norms.append(math.log(axis.prior_sd * mass) + LOG_SQRT_2PI)
        self._log_prior_norm = -sum(map(math.log, sizes)) - sum(log_norms)

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

    def log_prior(self, point: Point) -> float:
        """The logarithm of the prior's density."""
        distance = math.dist(tuple(map(mul, point.coordinates, self._inverse_sds)), self._centre)
        return self._log_prior_norm - distance * distance / 2

    def widened(self, bandwidths: Sequence[float]) -> list[float]:
        """Standard deviations, increased by those of the cells."""
        deviations = []
        for bandwidth, variance in zip(bandwidths, self._cell_variances, strict=True):
            if variance:
                deviations.append(math.sqrt(bandwidth * bandwidth + variance))
            else:
                deviations.append(bandwidth)
        return deviations

    def log_mass(self, coordinates: Sequence[float], deviations: Sequence[float]) -> float:
        """The logarithm of a kernel's mass inside the domain."""
        total = 0.0
        for axis, coordinate, deviation in zip(self.axes, coordinates, deviations, strict=True):
            # Far from both bounds the whole kernel is inside. Most are, and the error function is slow.
            if axis.high == 1.0 and not _FAR_SDS * deviation < coordinate < 1 - _FAR_SDS * deviation:
                total += math.log(_mass(axis, coordinate, deviation))
        return total

    def snap(self, coordinate: float, number: int) -> float:
        """Move a position on axis `number` to the middle of its cell, if the axis has cells."""
        axis = self.axes[number]
        if axis.width:
            return axis.encode(axis.decode(coordinate))
        return coordinate


class GoodSide:
    """The mixture over the best observations. Each kernel has its own bandwidth on each axis.

    A bandwidth is the larger of the two gaps to the neighbours on that axis, within bounds.
    """

    def __init__(self, kernel_space: KernelSpace, points: Sequence[Point]):
        self.kernel_space = kernel_space
        self._points = points
        count = len(points) + 1
        by_axis = [_gaps(coordinates) for coordinates in zip(*(point.coordinates for point in points), strict=True)]
        if by_axis:
            self._bandwidths = list(zip(*by_axis, strict=True))
        else:
            self._bandwidths = [()] * len(points)
        # weights decrease with the logarithm of the rank, and their mean is 1
        weights = [math.log((len(points) + 1) / rank) for rank in range(1, len(points) + 1)]
        weights = [weight * len(points) / sum(weights) for weight in weights]
        self._cumulative = list(accumulate([*weights, 1.0]))
        self._kernels = []
        base = -len(kernel_space.axes) * LOG_SQRT_2PI - sum(math.log(count + size) for size in kernel_space.sizes)
        for point, bandwidths, weight in zip(points, self._bandwidths, weights, strict=True):
            deviations = kernel_space.widened(bandwidths)
            # The density counts only inside the bounds, so that kernels near them are not too low.
            log_norm = (
                base
                + math.log(weight)
                - sum(map(math.log, deviations))
                - kernel_space.log_mass(point.coordinates, deviations)
            )
            # A distance of scaled coordinates is one in standard deviations: `math.dist` does all axes in one call.
            factors = tuple(1 / each for each in deviations)
            scaled = tuple(map(truediv, point.coordinates, deviations))
            self._kernels.append((factors, scaled, point.bits, log_norm))
        # A kernel gives its own category (n + 1) times as much as any other one. So the categories of one point never
        # rule out the others.
        self._log_odds = math.log(count + 1)

    def draw(self, rng: random.Random) -> Point:
        """Draw a point from the mixture."""
        number = bisect(self._cumulative, rng.random() * self._cumulative[-1], 0, len(self._points))
        kernel_space = self.kernel_space
        count = len(self._points) + 1
        if number == len(self._points):
            return kernel_space.draw_prior(rng)
        point = self._points[number]
        bandwidths = self._bandwidths[number]
        coordinates = []
        for index, axis in enumerate(kernel_space.axes):
            # Drawn again outside of the bounds: to move it to a bound would crowd the points there.
            coordinate = rng.gauss(point.coordinates[index], bandwidths[index])
            while not axis.low <= coordinate <= axis.high:
                coordinate = rng.gauss(point.coordinates[index], bandwidths[index])
            coordinates.append(kernel_space.snap(coordinate, index))
        if not kernel_space.sizes:
            return Point(tuple(coordinates), 0)
        categories = []
        for own, size in zip(kernel_space.categories(point.bits), kernel_space.sizes, strict=True):
            if rng.random() * (count + size) < size:
                categories.append(rng.randrange(size))
            else:
                categories.append(own)
        return kernel_space.pack(coordinates, categories)

    def log_density(self, point: Point, log_prior: float) -> float:
        """The logarithm of the density, up to a constant. `log_prior` is the logarithm of the prior's density."""
        # This and `BadSide._sum` take nearly all of the time of a suggestion, so they are as short as they can be.
        inputs = point.coordinates
        bits = point.bits
        odds = self._log_odds
        dist = math.dist
        terms = [
            log_norm + (own & bits).bit_count() * odds - 0.5 * (d := dist(tuple(map(mul, inputs, factors)), scaled)) * d
            for factors, scaled, own, log_norm in self._kernels
        ]
        return _log_sum([*terms, log_prior])


class Kernels:
    """The kernels of all observations of a group, in order of time. All have the same bandwidth.

    Attributes:
        scaled: Their coordinates, divided by the deviations.
        corrections: What each density is multiplied by, since a part of the kernel is outside of the domain.
    """

    def __init__(self, kernel_space: KernelSpace):
        self.kernel_space = kernel_space
        self.points: dict[int, Point] = {}
        # Columns of the points: a whole column is processed by one call.
        self.numbers: list[int] = []
        self.bits: list[int] = []
        self.scaled: list[tuple[float, ...]] = []
        self.corrections: list[float] = []
        self.bandwidth = 0.0  # 0 until a suggestion sets it
        self.deviations: list[float] = []
        self.factors: list[float] = []

    def add(self, number: int, point: Point) -> None:
        """Add an observation."""
        self.points[number] = point
        self.numbers.append(number)
        self.bits.append(point.bits)
        if self.bandwidth:
            self._scale(point)

    def remove(self, number: int) -> None:
        """Remove an observation, if it exists."""
        if self.points.pop(number, None) is not None:
            index = bisect_left(self.numbers, number)
            del self.numbers[index], self.bits[index]
            if self.bandwidth:
                del self.scaled[index], self.corrections[index]

    def set_bandwidth(self, bandwidth: float) -> None:
        """Set the bandwidth, and scale all points."""
        if bandwidth == self.bandwidth:
            return
        self.bandwidth = bandwidth
        self.deviations = self.kernel_space.widened([bandwidth] * len(self.kernel_space.axes))
        self.factors = [1 / each for each in self.deviations]
        self.scaled = []
        self.corrections = []
        for point in self.points.values():
            self._scale(point)

    def _scale(self, point: Point) -> None:
        self.scaled.append(tuple(map(mul, point.coordinates, self.factors)))
        self.corrections.append(math.exp(-self.kernel_space.log_mass(point.coordinates, self.deviations)))


class BadSide:
    """The mixture over all other observations; its bandwidth may change `kernels`. Pending ones keep suggestions away,
    but less than a bad value. Only the newest are used.
    """

    def __init__(self, kernels: Kernels, good: Collection[int], pending: Collection[int]):
        kernel_space = kernels.kernel_space
        end = len(kernels.numbers)
        self._kernels = kernels
        self._first = max(0, end - _MOST_BAD)
        # The newest first, then older ones in parts that double in size.
        self._spans: list[range] = []
        size = _FIRST_PART
        while end > self._first:
            self._spans.append(range(max(self._first, end - size), end))
            end = end - size
            size = 2 * size
        # All observations share one set of kernels. Those of the good side get the weight 0 instead of being removed.
        weights = [(number, 0.0) for number in good] + [(number, _PENDING_WEIGHT) for number in pending]
        indices = ((bisect_left(kernels.numbers, number), weight) for number, weight in weights)
        self._special = [each for each in indices if each[0] >= self._first]
        count = sum(map(len, self._spans)) - sum(not weight for _, weight in self._special) + 1
        # A rule like Scott's: with many axes, kernels are wide. The bandwidth changes in steps: see `_LOG_STEP`.
        dimensions = len(kernel_space.axes) + len(kernel_space.sizes)
        bandwidth = _BAD_WIDTH * max(1, count - 1) ** (-1 / (dimensions + 4))
        kernels.set_bandwidth(math.exp(round(math.log(bandwidth) / _LOG_STEP) * _LOG_STEP))
        self._heights: list[list[float]] = []
        contrast = max(1, min(count, _MOST_CONTRAST))
        self._choices = len(kernel_space.sizes)
        self._log_odds = math.log(contrast + 1)
        self._log_norm = (
            self._choices * self._log_odds
            - sum(map(math.log, kernels.deviations))
            - len(kernel_space.axes) * LOG_SQRT_2PI
            - sum(math.log(contrast + size) for size in kernel_space.sizes)
        )

    def parts(self, point: Point) -> Iterator[float]:
        """The density that the observations add, in parts: first the newest, then ever larger groups of older ones."""
        for number, span in enumerate(self._spans):
            if number == len(self._heights):
                self._heights.append(self._heights_of(span))
            yield self._sum(point, span, self._heights[number])

    def log_density(self, log_prior: float, added: float) -> float:
        """The logarithm of the density (the prior's plus `added`), up to a constant."""
        if added:
            return _log_sum([log_prior, self._log_norm + math.log(added)])
        return log_prior

    def _heights_of(self, span: range) -> list[float]:
        """The heights of the kernels: from 1 / count for the oldest to full weight for the newest."""
        kernels = self._kernels
        first = self._first
        count = len(kernels.numbers) - first
        ramp = max(0, count - _NEWEST)  # how many are older than those with full weight
        rise = 0.0
        if count:
            rise = (1 - 1 / count) / max(ramp - 1, 1)
        weights = [1 / count + rise * (index - first) for index in span if index < first + ramp]
        weights += [1.0] * (len(span) - len(weights))
        heights = list(map(mul, kernels.corrections[span.start : span.stop], weights))
        for index, weight in self._special:
            if index in span:
                heights[index - span.start] *= weight
        return heights

    def _sum(self, point: Point, span: range, heights: Sequence[float]) -> float:
        kernels = self._kernels
        exp = math.exp
        part = slice(span.start, span.stop)
        coordinates = tuple(map(mul, point.coordinates, kernels.factors))
        distances = map(partial(math.dist, coordinates), kernels.scaled[part])
        if not self._choices:
            return float(sum([height * exp(-0.5 * d * d) for d, height in zip(distances, heights, strict=True)]))
        bits = point.bits
        odds = self._log_odds
        choices = self._choices
        return float(
            sum(
                [
                    height * exp(((own & bits).bit_count() - choices) * odds - 0.5 * d * d)
                    for d, height, own in zip(distances, heights, kernels.bits[part], strict=True)
                ]
            )
        )


def best_candidate(good: GoodSide, bad: BadSide, candidates: Sequence[Point]) -> Point:
    """The candidate with the largest ratio of the densities.

    The newest bad observations, in the region of the present search, rule out most candidates.
    """
    begun = []
    for number, point in enumerate(candidates):
        log_prior = good.kernel_space.log_prior(point)
        parts = bad.parts(point)
        log_good = good.log_density(point, log_prior)
        added = next(parts, 0.0)
        begun.append((log_good - bad.log_density(log_prior, added), -number, log_good, log_prior, added, parts))
    best = candidates[0]
    best_ratio = -math.inf
    for bound, number, log_good, log_prior, added, parts in sorted(begun, reverse=True, key=lambda row: row[:2]):
        ratio = bound
        total = added
        while ratio > best_ratio and (more := next(parts, None)) is not None:
            total += more
            ratio = log_good - bad.log_density(log_prior, total)
        if ratio > best_ratio:
            best = candidates[-number]
            best_ratio = ratio
    return best


def draw_by_ratio(good: GoodSide, bad: BadSide, candidates: Sequence[Point], rng: random.Random) -> Point:
    """One of the candidates, drawn in proportion to the ratio of the densities.

    For a choice on which other parameters depend: the best one would always be the same, and those below the others
    would remain unknown.
    """
    points = list(dict.fromkeys(candidates))  # each once, so that only the ratio decides
    log_ratios = []
    for point in points:
        log_prior = good.kernel_space.log_prior(point)
        log_ratios.append(good.log_density(point, log_prior) - bad.log_density(log_prior, sum(bad.parts(point))))
    top = max(log_ratios)  # so that the largest exponential is 1, and none overflows
    return rng.choices(points, [math.exp(ratio - top) for ratio in log_ratios])[0]


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


def _log_sum(terms: Sequence[float]) -> float:
    top = max(terms)  # so that the largest exponential is 1, and none overflows
    return top + math.log(sum([math.exp(term - top) for term in terms]))
