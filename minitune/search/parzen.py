"""The model of `TPESearch`: the ratio of two mixtures of kernels says which values are worth trying.

A `Ranking` sorts the observations. For each group of parameters that exist together, `Model` fits a `GoodSide` to the
first ones and a `BadSide` to the others, and chooses among draws from the good side by the ratio of the densities.

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
from bisect import bisect, bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from itertools import accumulate, islice, pairwise, product, repeat
from operator import mul, truediv
from typing import Any, NamedTuple

from minitune.base.checks import shown
from minitune.base.numbers import known_number
from minitune.experiment.goal import non_dominated
from minitune.space.domains import Categorical, Float, Integer
from minitune.space.parameters import Axis, Parameter, Searchable, draw, parameters

Parent = tuple[str, int] | None
"""The category below which a group of parameters exists: the choice and the index. None: the group always exists."""

Curve = list[tuple[float, Any]]
"""Pairs of step and value, in order."""

EarlyStop = str | Callable[[Curve], Any] | None

Key = tuple[float, ...]
"""The sort key of an observation; smaller is better."""

Rank = tuple[Key, float, int]
"""Key, arrival (infinite while the trial runs) and number. Smaller is better, and no two ranks are equal."""

WORST: Key = (math.inf,)
"""The key of a failed trial, and of a trial whose value is not a number or infinitely bad."""

_POLICIES = ("last", "depth", "rung")

_REFERENCE = 1.1
"""Volumes end a tenth beyond the worst value of each objective, so that the ends of a front also add volume. As
in Optuna; not measured.
"""

_LEAST_ON_RUNG = 10
"""How many trials must reach a rung before it is used. Not measured: with fewer, kernels follow chance."""

_MOST_GOOD = 25
"""The maximum number of kernels of the good side, as in HyperOpt and Optuna. Not measured: more widen the search."""

_ATTEMPTS = 10
"""How many times a configuration that was already tried is redrawn. The second half of the draws is from the space.
Not measured: more repeats less and takes longer.
"""

_MOST_ATTEMPTS = 1_000
"""The same for an infinite space, where so many draws in vain mean that few configurations have most of its mass."""

_MOST_LISTED = 10_000
"""Of finite spaces that have more configurations than this, the untried ones are not listed. Not measured: a list
takes memory and time; without one, the last configurations are found by chance.
"""

_LOG_SQRT_2PI = math.log(2 * math.pi) / 2
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
_LARGEST_PART = 128
"""How many of the newest bad observations are used first; further parts go back twice as far, with a sample.
Not measured: more cost time in long runs, fewer leave places of old failures unknown.
"""

_MOST_CONTRAST = 25
"""A bad observation makes its categories at most 1 + this many times as likely on the bad side as others.
Not measured: with more, a category with one bad trial is hardly drawn again.
"""

_PENDING_WEIGHT = 0.3
"""The weight of a pending trial on the bad side; others have 1 (`benchmarks/FINDINGS.md`, *16 at a time*)."""

_NEWEST = 25
"""How many of the newest bad observations have full weight, as in HyperOpt. Not measured: more forgets later."""


# -- estimators -------------------------------------------------------------------------------------------------------


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
            log_norms.append(math.log(axis.prior_sd * mass) + _LOG_SQRT_2PI)
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
        base = -len(kernel_space.axes) * _LOG_SQRT_2PI - sum(math.log(count + size) for size in kernel_space.sizes)
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
    but less than a bad value. `max_count` limits it to the newest; with None, old ones are sampled.
    """

    def __init__(self, kernels: Kernels, good: Collection[int], pending: Collection[int], max_count: int | None):
        kernel_space = kernels.kernel_space
        end = len(kernels.numbers)
        self._kernels = kernels
        if max_count is None:
            self._first = 0
        else:
            self._first = max(0, end - max_count)
        # The newest observations all, older ones in parts that double in size, of which an ever smaller share is used.
        self._spans: list[range] = []
        size = _FIRST_PART
        while end > self._first:
            # Odd steps: if two searchers take turns, even steps would find the points of only one of them.
            step = max(1, size // _LARGEST_PART - 1)
            begin = max(self._first, end - size)
            self._spans.append(range(begin + -begin % step, end, step))  # an observation stays in the sample or out
            end = end - size
            size = 2 * size
        # All observations share one set of kernels. Those of the good side get the weight 0 instead of being removed.
        weights = [(number, 0.0) for number in good] + [(number, _PENDING_WEIGHT) for number in pending]
        indices = ((bisect_left(kernels.numbers, number), weight) for number, weight in weights)
        self._special = [each for each in indices if any(each[0] in span for span in self._spans)]
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
            - len(kernel_space.axes) * _LOG_SQRT_2PI
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
        first = self._first
        kernels = self._kernels
        step = span.step  # one of so many is used, and stands for all of them
        count = len(kernels.numbers) - first
        ramp = max(0, count - _NEWEST)  # how many are older than those with full weight
        rise = 0.0
        if count:
            rise = (1 - 1 / count) / max(ramp - 1, 1)
        weights = [step / count + step * rise * (index - first) for index in span if index < first + ramp]
        weights += [float(step)] * (len(span) - len(weights))
        heights = list(map(mul, kernels.corrections[span.start : span.stop : step], weights))
        for index, weight in self._special:
            if index in span:
                heights[span.index(index)] *= weight
        return heights

    def _sum(self, point: Point, span: range, heights: Sequence[float]) -> float:
        kernels = self._kernels
        exp = math.exp
        part = slice(span.start, span.stop, span.step)
        coordinates = tuple(map(mul, point.coordinates, kernels.factors))
        distances = map(math.dist, repeat(coordinates), kernels.scaled[part])
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


def best_of(good: GoodSide, bad: BadSide, candidates: Sequence[Point]) -> Point:
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


# -- observations -----------------------------------------------------------------------------------------------------


@dataclass
class Observation:
    """A trial, or a point that was evaluated elsewhere.

    Attributes:
        values: The parameter values by name (for a choice, the index); None for a value outside the space.
        config: The configuration, as long as the space is unknown.
        rows: The value at each step, if the policy needs them.
        has_failed: Whether the trial has failed and will not be retried.
    """

    number: int
    values: dict[str, Any] = field(default_factory=dict)
    config: Any = None
    value: Any = None
    step: float = 0
    rows: dict[float, Any] = field(default_factory=dict)
    arrival: int | None = None
    is_paused: bool = False
    has_failed: bool = False

    def state(self) -> dict[str, Any]:
        """The arguments for an equal observation."""
        return {**vars(self), "rows": dict(self.rows)}


def check_early_stop(early_stop: Any, has_several_objectives: bool) -> None:
    """Check the argument."""
    if not (early_stop is None or callable(early_stop) or early_stop in _POLICIES):
        raise ValueError(
            f"early_stop must be one of {', '.join(_POLICIES)}, None, or a function of a trial's list of (step, value) "
            f"that returns the value that counts, but got {shown(early_stop)}"
        )
    if has_several_objectives and early_stop not in (None, "last"):
        raise ValueError(f"early_stop must be None or 'last' for several objectives, but got {shown(early_stop)}")


class Ranking:
    """Keeps observations in order, best first.

    Call `update` after each change of an observation.

    Invariant: `_order` is the sorted list of all ranks, and `_ranks` has them by the observation's number.
    """

    def __init__(self, modes: Sequence[str], early_stop: EarlyStop, observations: Iterable[Observation] = ()):
        self._signs = [{"min": 1.0, "max": -1.0, "obs": 0.0}[mode] for mode in modes]
        self._early_stop = early_stop
        self._order: list[Rank] = []
        self._ranks: dict[int, Rank] = {}
        self._rungs = None
        if early_stop == "rung":
            self._rungs = _Rungs()
        for observation in observations:
            self.update(observation)

    def __contains__(self, number: int) -> bool:
        return number in self._ranks

    def __len__(self) -> int:
        """The number of observations with a rank: ended ones, paused ones with a value, and those at the rung."""
        return len(self._order)

    def update(self, observation: Observation) -> None:
        """Insert a new observation, or move a changed one."""
        # All are compared at another step now. That is rare: a search has few rungs.
        if self._rungs is not None and self._rungs.has_moved(observation):
            for each in self._rungs.observations.values():
                self._insert(each)
        self._insert(observation)

    def best(self, among: Collection[int], share: float, most: int) -> list[int]:
        """The numbers of the best observations of `among`, best first: a `share`, rounded up, at most `most`, without
        the worst.

        Several objectives are sorted by front, then by the volume that each adds (Ozaki et al., "Multiobjective
        tree-structured Parzen estimator", JAIR 2022).
        """
        found = (rank for rank in self._order if rank[2] in among)
        if sum(map(bool, self._signs)) > 1:
            own = list(found)
            return _pareto_best([rank for rank in own if rank[0] != WORST], min(math.ceil(share * len(own)), most))
        own = list(islice(found, math.ceil(most / share)))  # with more observations, `most` is the limit
        return [number for key, _, number in own[: min(math.ceil(share * len(own)), most)] if key != WORST]

    def value(self, number: int) -> float:
        """The loss of a ranked observation with one objective. Smaller is better; NaN is the worst."""
        key = self._ranks[number][0]
        if key == WORST:
            return math.nan
        return key[0]

    def _insert(self, observation: Observation) -> None:
        old = self._ranks.get(observation.number)
        new = self._rank(observation)
        if new == old:
            return
        if old is not None:
            del self._order[bisect_left(self._order, old)]
            del self._ranks[observation.number]
        if new is not None:
            insort(self._order, new)
            self._ranks[observation.number] = new

    def _rank(self, observation: Observation) -> Rank | None:
        if self._rungs is not None and not observation.has_failed:
            if self._rungs.highest not in observation.rows:
                return None
            key = self._value_key(observation.rows[self._rungs.highest])
        elif observation.arrival is None and not (observation.is_paused and observation.value is not None):
            return None
        elif observation.has_failed:
            key = WORST
        elif callable(self._early_stop):
            rows = [(step, value) for step, value in observation.rows.items() if known_number(value) is not None]
            key = WORST
            if rows:
                key = self._value_key(self._early_stop(rows))
        else:
            key = self._value_key(observation.value)
            if self._early_stop == "depth" and key != WORST:
                key = (-observation.step, *key)
        arrival: float = math.inf
        if observation.arrival is not None:
            arrival = observation.arrival
        return key, arrival, observation.number

    def _value_key(self, value: Any) -> Key:
        if isinstance(value, tuple):
            values = value
        else:
            values = (value,)
        key = []
        for each, sign in zip(values, self._signs, strict=False):
            if sign:
                number = known_number(each)
                if number is None or sign * number == math.inf:
                    return WORST
                key.append(sign * float(number))
        return tuple(key)


class _Rungs:
    """Finds the step at which trials are compared."""

    def __init__(self) -> None:
        self.highest: float | None = None
        self.observations: dict[int, Observation] = {}
        self._counts: dict[float, int] = {}
        self._rows_seen: dict[int, int] = {}

    def has_moved(self, observation: Observation) -> bool:
        """Count an observation's new steps. Return whether the highest rung has changed."""
        before = self.highest
        rows = observation.rows
        new = len(rows) - self._rows_seen.get(observation.number, 0)
        if new:
            self._rows_seen[observation.number] = len(rows)
            self.observations[observation.number] = observation
        for step in islice(reversed(rows), new):
            self._counts[step] = self._counts.get(step, 0) + 1
            if self.highest is None or self._weight(step) > self._weight(self.highest):
                self.highest = step
        return self.highest != before

    def _weight(self, step: float) -> tuple[int, float]:
        """The rung is the step with the largest key."""
        return min(self._counts.get(step, 0), _LEAST_ON_RUNG), step


def _pareto_best(ranks: Sequence[Rank], count: int) -> list[int]:
    """The best ranks: by front, and within a front those first that add most to the volume."""
    spans = [(min(values), max(values)) for values in zip(*(key for key, _, _ in ranks), strict=True)]
    # Of points that add as much, the earlier one comes first.
    left = sorted(ranks, key=lambda rank: (rank[1], rank[0], rank[2]))
    chosen: list[int] = []
    while left and len(chosen) < count:
        front = non_dominated([([-loss for loss in rank[0]], rank) for rank in left])
        points = [tuple(map(_share_of, key, spans)) for key, _, _ in front]
        chosen += [front[index][2] for index in _by_volume(points, count - len(chosen))]
        in_front = {number for _, _, number in front}
        left = [rank for rank in left if rank[2] not in in_front]
    return chosen


def _share_of(value: float, span: tuple[float, float]) -> float:
    """A value scaled to the span of all values. 0 is the best; also 0 if the span is not finite."""
    low, high = span
    if 0 < high - low < math.inf:
        return (value - low) / (high - low)
    return 0.0


def _by_volume(points: Sequence[Key], count: int) -> list[int]:
    """The indices of `count` points, chosen greedily: each adds most to the volume that the ones before dominate.

    That volume decreases with each chosen point, so it is computed again only for the largest old values (Minoux 1978,
    "Accelerated greedy algorithms for maximizing submodular set functions").
    """
    chosen: list[int] = []
    seeming = [(-_volume_added(point, ()), index, 0) for index, point in enumerate(points)]
    heapify(seeming)
    while seeming and len(chosen) < count:
        _, index, known = seeming[0]
        if known == len(chosen):
            chosen.append(index)
            heappop(seeming)
        else:
            added = _volume_added(points[index], [points[other] for other in chosen])
            heapreplace(seeming, (-added, index, len(chosen)))
    return chosen


def _volume_added(point: Key, others: Iterable[Key]) -> float:
    """The volume, up to `_REFERENCE`, that a point dominates and `others` do not.

    See While, Bradstreet and Barone, "A fast way of calculating exact hypervolumes" (2012).
    """
    front: list[Key] = []
    for limited in sorted({tuple(map(max, point, other)) for other in others}):
        if not any(all(a <= b for a, b in zip(known, limited, strict=True)) for known in front):
            front.append(limited)
    whole = math.prod(_REFERENCE - each for each in point)
    return whole - sum(_volume_added(each, front[index + 1 :]) for index, each in enumerate(front))


# -- model ------------------------------------------------------------------------------------------------------------

_Sides = tuple[GoodSide, BadSide]


class Model:
    """Draws configurations from the space or from the fitted mixtures; `gamma` is the share that counts as good.

    Attributes:
        whole: The group of all parameters, also of those below categories; None if there are none.
        count: The number of configurations of a finite space; None if there is no end of them.

    Raises:
        ValueError: If there is a grid.
    """

    def __init__(self, space: Any, gamma: float, n_candidates: int, max_bad: int | None):
        self._space = space
        self._gamma = gamma
        self._n_candidates = n_candidates
        self._max_bad = max_bad
        members: dict[Parent, list[Parameter]] = {}
        for parameter in parameters(space):
            members.setdefault(parameter.parent, []).append(parameter)
        choices = {parent[0] for parent in members if parent is not None}
        self._groups = {parent: Group(parent, found, choices) for parent, found in members.items()}
        # Parameters learn together only if they exist together. So each category has a group of its own.
        self._learning = [*self._groups.values()]
        self.whole = self._groups.get(None)
        if len(self._groups) > 1:
            self.whole = Group(None, parameters(space), choices)
            self._learning.append(self.whole)
        self.count = self._count_configurations(None)
        # How often each configuration was tried: by its values in a finite space, else by its point in `whole`.
        self._tried: Counter[Any] = Counter()
        self._avoided: set[Point] = set()
        self._untried: list[dict[str, Any]] | None = None

    def add(self, observation: Observation, is_own: bool = True) -> None:
        """Add an observation, which need not have a value yet. Another run's configuration may be suggested again."""
        for group in self._learning:
            group.add(observation)
        if not is_own or self.whole is None:
            return
        key: Any = self.whole.kernels.points.get(observation.number)
        if self.count is not None:
            key = self._key(observation)
        if key is not None:
            self._tried[key] += 1

    def remove(self, observation: Observation) -> None:
        """Remove an observation. A configuration of a finite space still counts as tried."""
        if self.count is None and self.whole is not None:
            point = self.whole.kernels.points.get(observation.number)
            if point is not None:
                self._tried[point] -= 1
                if not self._tried[point]:
                    del self._tried[point]
        for group in self._learning:
            group.kernels.remove(observation.number)

    @property
    def only_group(self) -> Group | None:
        """The group of all parameters, if all always exist and there is something to choose; else None."""
        group = self._groups.get(None)
        if group is not None and len(self._groups) == 1 and group.is_free:
            return group
        return None

    @property
    def left(self) -> float:
        """How many configurations were not tried; infinite if there is no end of them."""
        if self.count is None:
            return math.inf
        return self.count - len(self._tried)

    @property
    def tried_points(self) -> Set[Point]:
        """The points of an infinite space that were tried; empty for a finite one."""
        if self.count is not None:
            return frozenset()
        if self._avoided:
            return self._tried.keys() | self._avoided
        return self._tried.keys()

    def avoid(self, observation: Observation | None) -> None:
        """Count a removed observation's configuration as tried, until this is called with None."""
        if observation is None:
            self._avoided.clear()
        elif self.whole is not None and observation.number in self.whole.kernels.points:
            self._avoided.add(self.whole.kernels.points[observation.number])

    def is_tried(self, values: Mapping[str, Any]) -> bool:
        """Whether the configuration with these values was tried."""
        if self.count is not None:
            return frozenset(values.items()) in self._tried
        if self.whole is None:
            return False
        point = self.whole.encode(values)
        return point in self._tried or point in self._avoided

    def configuration(self, drawn: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The configuration with these values; None if it was tried."""
        config, values = self._draw(lambda group: drawn, {})
        if self.is_tried(values):
            return None
        return config, values

    def untried(self) -> list[dict[str, Any]]:
        """The values of all configurations of a finite space that were not tried; none if the space is too large."""
        if self.count is None or self.count > _MOST_LISTED:
            return []
        # A configuration that was tried is never untried again, so the list only becomes shorter.
        if self._untried is None:
            self._untried = list(self._every(None))
        self._untried = [values for values in self._untried if frozenset(values.items()) not in self._tried]
        return self._untried

    def draw_prior(self, rng: random.Random, fixed: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """A configuration and its values, drawn from the space except for the `fixed` values."""
        return self._draw(lambda group: group.draw_prior(rng), fixed)

    def propose(
        self, rng: random.Random, ranking: Ranking | None, pending: Collection[int] = ()
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Draw a promising configuration, and return it with its values. It was not tried, as long as any was not.
        Without a ranking, it is drawn from the space.
        """
        sides: dict[Parent, _Sides] = {}
        for attempt in range(_MOST_ATTEMPTS if self.count is None else _ATTEMPTS):
            # If the mixtures draw only what was tried, the rest is elsewhere: the space itself finds it sooner.
            if ranking is not None and attempt < _ATTEMPTS / 2:
                config, values = self._draw(lambda group: self._sample(group, rng, ranking, pending, sides), {})
            else:
                config, values = self.draw_prior(rng, {})
            if self.left == 0 or not self.is_tried(values):
                return config, values
        # So many draws in vain mean that few are left. If the space was too large to list them, a repetition is rare.
        rest = self.untried()
        if not rest:
            return config, values
        group = self.only_group
        if ranking is None or group is None:
            chosen = rng.choice(rest)
        else:
            some = rng.sample(rest, min(len(rest), self._n_candidates))
            good, bad = self._fitted(group, ranking, pending, sides)
            chosen = group.decode(best_of(good, bad, [group.encode(values) for values in some]))
        return self._draw(lambda group: chosen, {})

    def _sample(
        self,
        group: Group,
        rng: random.Random,
        ranking: Ranking,
        pending: Collection[int],
        sides: dict[Parent, _Sides],
    ) -> dict[str, Any]:
        if not group.is_free:
            return dict(group.single)
        good, bad = self._fitted(group, ranking, pending, sides)
        candidates = [good.draw(rng) for _ in range(self._n_candidates)]
        if group.is_branch:
            return group.decode(draw_by_ratio(good, bad, candidates, rng))
        return group.decode(best_of(good, bad, candidates))

    def _fitted(self, group: Group, ranking: Ranking, pending: Collection[int], sides: dict[Parent, _Sides]) -> _Sides:
        if group.parent not in sides:
            kernels = group.kernels
            best = ranking.best(kernels.points, self._gamma, _MOST_GOOD)
            good = GoodSide(kernels.kernel_space, [kernels.points[number] for number in best])
            waiting = [number for number in pending if number in kernels.points]
            sides[group.parent] = good, BadSide(kernels, best, waiting, self._max_bad)
        return sides[group.parent]

    def _draw(
        self, sample: Callable[[Group], dict[str, Any]], fixed: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        # The categories above decide which groups exist, so a group is sampled when its first parameter is needed.
        values: dict[str, Any] = {}
        drawn: dict[str, Any] = {}

        def choose(parameter: Parameter) -> Any:
            name = parameter.name
            if name in fixed:
                values[name] = fixed[name]
            else:
                if name not in drawn:
                    drawn.update(sample(self._groups[parameter.parent]))
                values[name] = drawn[name]
            return values[name]

        return draw(self._space, choose), values

    def _count_configurations(self, parent: Parent) -> int | None:
        """The number of configurations below a category; None if they cannot be counted."""
        total = 1
        for name, domain in self._groups[parent].domains.items() if parent in self._groups else ():
            if isinstance(domain, Categorical) and not isinstance(domain.categories, range):
                below = [self._count_configurations((name, index)) for index in range(len(domain))]
                if None in below:
                    count = None
                else:
                    count = sum(each or 0 for each in below)
            else:
                count = Axis(numbers_of(domain)).count
            if count is None:
                return None
            total *= count
        return total

    def _every(self, parent: Parent) -> Iterator[dict[str, Any]]:
        columns: list[list[dict[str, Any]]] = []
        for name, domain in self._groups[parent].domains.items() if parent in self._groups else ():
            if isinstance(domain, Categorical) and not isinstance(domain.categories, range):
                column = [{name: i, **below} for i in range(len(domain)) for below in self._every((name, i))]
            else:
                column = [{name: value} for value in Axis(numbers_of(domain)).values()]
            columns.append(column)
        for row in product(*columns):
            yield {name: value for values in row for name, value in values.items()}

    def _key(self, observation: Observation) -> frozenset[tuple[str, Any]] | None:
        """What makes a configuration of a finite space equal to another one; None if it is only a part of one."""
        found: dict[str, Any] = {}
        for group in self._groups.values():
            if group.exists_in(observation.values):
                values = group.values_of(observation)
                if values is None:
                    return None
                found.update(values)
        return frozenset(found.items())


class Group:
    """Parameters that exist together; or all parameters of a space.

    A number that does not exist is in the middle of its axis, and a choice has its first category.
    """

    def __init__(self, parent: Parent, members: Sequence[Parameter], choices: Collection[str]):
        self.parent = parent
        self._parents = {each.name: each.parent for each in members}
        self.domains = {each.name: each.domain for each in members}
        self.single: dict[str, Any] = {}
        self._axes: dict[str, Axis] = {}
        self._sizes: dict[str, int] = {}
        for name, domain in self.domains.items():
            if isinstance(domain, Categorical) and not isinstance(domain.categories, range):
                if len(domain) > 1:
                    self._sizes[name] = len(domain)
                else:
                    self.single[name] = 0
            else:
                axis = Axis(numbers_of(domain))
                if axis.count == 1:
                    self.single[name] = axis.decode(0.5)
                else:
                    self._axes[name] = axis
        first_bits = dict(zip(self._sizes, accumulate(self._sizes.values(), initial=0), strict=False))
        needs: dict[str, int] = {}
        for name, above in self._parents.items():
            needs[name] = 0
            if above != parent and above is not None:
                choice, index = above
                needs[name] = needs[choice]
                if choice in first_bits:
                    needs[name] |= 1 << first_bits[choice] + index
        self.kernel_space = KernelSpace(
            list(self._axes.values()),
            list(self._sizes.values()),
            [needs[name] for name in (*self._axes, *self._sizes)],
        )
        self.kernels = Kernels(self.kernel_space)
        self.is_free = bool(self._axes or self._sizes)
        self.is_branch = not self._axes and len(self._sizes) == 1 and next(iter(self._sizes)) in choices

    def add(self, observation: Observation) -> None:
        """Add an observation if it has these parameters. Missing ones are drawn."""
        values = observation.values
        if not self.exists_in(values):
            return
        known = []  # a saved value may come from another space, so it must be in this one
        existing = [name for name in (*self._axes, *self._sizes) if self._exists(name, values)]
        for name in existing:
            if (value := values.get(name)) is None:
                continue
            if name in self._sizes:
                is_valid = 0 <= value < self._sizes[name]
            else:
                is_valid = numbers_of(self.domains[name]).is_valid(value) and abs(value) < math.inf
            if is_valid:
                known.append(name)
        if not known or any(name in values and name not in known for name in existing):
            return
        if len(known) < len(existing):
            drawn = self.draw_prior(random.Random(observation.number))
            values = {**{name: drawn[name] for name in existing}, **{name: values[name] for name in known}}
        self.kernels.add(observation.number, self.encode(values))

    def _exists(self, name: str, values: Mapping[str, Any]) -> bool:
        parent = self._parents[name]
        return parent == self.parent or parent is None or values.get(parent[0]) == parent[1]

    def exists_in(self, values: Mapping[str, Any]) -> bool:
        """Whether a configuration with these values has this group."""
        return self.parent is None or values.get(self.parent[0]) == self.parent[1]

    def values_of(self, observation: Observation) -> dict[str, Any] | None:
        """The values that an observation has for all of these parameters; None if it lacks some."""
        if not self.is_free:
            return self.single
        point = self.kernels.points.get(observation.number)
        if point is None or not all(name in observation.values for name in (*self._axes, *self._sizes)):
            return None
        return self.decode(point)

    def encode(self, values: Mapping[str, Any]) -> Point:
        """The point of these values."""
        coordinates = [axis.encode(values[name]) if name in values else 0.5 for name, axis in self._axes.items()]
        return self.kernel_space.pack(coordinates, [values.get(name, 0) for name in self._sizes])

    def draw_prior(self, rng: random.Random) -> dict[str, Any]:
        """Values drawn from the domains."""
        return self.decode(self.kernel_space.draw_prior(rng))

    def middle(self) -> dict[str, Any]:
        """The middle of each number's domain."""
        return {name: axis.decode(0.5) for name, axis in self._axes.items()}

    def decode(self, point: Point) -> dict[str, Any]:
        """The values of a point."""
        values = dict(self.single)
        for (name, axis), coordinate in zip(self._axes.items(), point.coordinates, strict=True):
            values[name] = axis.decode(coordinate)
        values.update(zip(self._sizes, self.kernel_space.categories(point.bits), strict=True))
        return values


def numbers_of(domain: Searchable) -> Float | Integer:
    """A domain of numbers; for a choice from a `range` that is too long to expand, its indices."""
    if isinstance(domain, Categorical):
        return Integer(0, len(domain)).uniform()
    return domain
