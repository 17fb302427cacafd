"""GaussianProcess: a model of the objective that says where the next trial improves most, in plain Python.

The process has a Matérn-5/2 kernel with a length scale for each parameter (Rasmussen and Williams, "Gaussian Processes
for Machine Learning", 2006, sections 4.2 and 5.1). For a choice the distance is 0 or 1: categories are alike or not.
The acquisition is the logarithm of the expected improvement (Jones, Schonlau and Welch, 1998). Far from the best value
the improvement is 0 in floating point, and its logarithm still tells candidates apart (Ament et al., "Unexpected
improvements to expected improvement", NeurIPS 2023).

Where trials are pending, their points count as if their means had been observed (the "kriging believer" of Ginsbourger,
Le Riche and Carraro, 2010). This leaves all means as they are, and takes the uncertainty around the points away, so
that parallel suggestions keep away from each other.

What keeps it cheap without numpy: at most `MOST_POINTS` points; length scales are found by a short random search that
goes on from those of the suggestion before, on some of the points; and the variance of a candidate, which costs most,
is computed only as far as a bound of its improvement is promising.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from operator import mul

from minitune.search.parzen import Grounds, Point

MOST_POINTS, _MOST_FITTED = 100, 50
"""So many points the model should have at most, and so many its length scales are found on."""
_FITS, _FIRST_FITS = 6, 30
"""How many length scales are tried for a suggestion, and for the first one."""
_NOISE, _LEAST_NOISE = 1e-3, 1e-6
"""Share of the variance that is noise: what the search begins with, and the least."""
_RANDOM, _NEAR, _STARTS, _STEPS = 80, 5, 3, 6
"""Candidates from the space, near each of the best points and scale, those that are refined, and draws in a step."""
_SCALES = (0.2, 0.05, 0.01)
_REFINEMENTS = (0.1, 0.05, 0.02, 0.008, 0.003, 0.001)
_BLOCK = 16
"""So many points take their share from the variance of a candidate before it is looked at whether it can still win."""
_SQRT_5, _SQRT_HALF = math.sqrt(5), math.sqrt(0.5)
_LOG_SQRT_2PI = math.log(2 * math.pi) / 2

Vector = tuple[float, ...]


class Scales:
    """The length scales that the process has learned. Each suggestion starts from those of the one before.

    Attributes:
        logs: For each parameter the logarithm of the inverse squared length scale, at last that of the noise.
        step: The standard deviation of the random search.
    """

    def __init__(self, logs: Sequence[float] = (), step: float = 1.0):
        self.logs, self.step = list(logs), step


class GaussianProcess:
    """The objective as far as it is known.

    Args:
        grounds: The space.
        points: Where it was measured, the better half first and best first, then the others, newest first.
        values: The values; smaller is better. The first is not NaN; NaN stands for a failure.
        pending: Where it is being measured.
        scales: Those of the suggestion before; they are moved on.
        rng: For all draws.
    """

    def __init__(
        self,
        grounds: Grounds,
        points: Sequence[Point],
        values: Sequence[float],
        pending: Sequence[Point],
        scales: Scales,
        rng: random.Random,
    ):
        self._grounds = grounds
        self._rng = rng
        self._parameters = len(grounds.axes) + len(grounds.sizes)
        self._best = points[:4]
        self._values = _standardised(values)
        self._least = min(self._values)
        inputs = [self._coordinates(point) for point in points]
        few = [*range(len(inputs))]
        if len(few) > _MOST_FITTED:
            middle, half = len(few) // 2, _MOST_FITTED // 2
            few = [*few[:half], *few[middle : middle + half]]
        self._learn(scales, [inputs[i] for i in few], [self._values[i] for i in few])
        self._weights = self._weights_of(scales.logs)
        self._noise = math.exp(scales.logs[-1])
        self._inputs = [tuple(map(mul, each, self._weights)) for each in inputs]
        self._rows: list[list[float]] = []  # of the lower triangle of Cholesky's factor
        solved: list[float] = []
        for row, value in _factor_rows(self._inputs, self._noise, self._rows, self._values):
            self._rows.append(row)
            solved.append(value)
        self._variance = sum(map(mul, solved, solved)) / len(solved) + 1e-12  # equal values have none
        self._alpha = _back_substituted(self._rows, solved)
        for point in pending:
            self._believe(point)

    def _coordinates(self, point: Point) -> Vector:
        """A point's places, and a coordinate for each category: two categories are as far apart as 0 and 1."""
        bits = point.bits
        flags = []
        for mask in self._grounds.masks:
            first = (mask & -mask).bit_length() - 1
            flags += [_SQRT_HALF * (bits >> i & 1) for i in range(first, mask.bit_length())]
        return (*point.places, *flags)

    def _weights_of(self, logs: Sequence[float]) -> Vector:
        """The inverse length scale of each coordinate; the coordinates of a choice share one."""
        inverse = [math.exp(0.5 * each) for each in logs[:-1]]
        weights = inverse[: len(self._grounds.axes)]
        for size, weight in zip(self._grounds.sizes, inverse[len(self._grounds.axes) :], strict=True):
            weights += [weight] * size
        return tuple(weights)

    def _believe(self, point: Point) -> None:
        """Take the mean at a point for its value: all means stay, the variance and the best value move."""
        scaled = tuple(map(mul, self._coordinates(point), self._weights))
        self._least = min(self._least, sum(map(mul, _kernel(scaled, self._inputs), self._alpha)))
        for row, _ in _factor_rows([*self._inputs, scaled], self._noise, self._rows, None):
            self._rows.append(row)
        self._inputs.append(scaled)

    # -- length scales -------------------------------------------------------------------------------------------------

    def _learn(self, scales: Scales, inputs: Sequence[Vector], values: Sequence[float]) -> None:
        """Look for more likely length scales: a (1+1) evolution strategy whose steps grow with success."""
        rng, count = self._rng, self._parameters
        is_first = len(scales.logs) != count + 1
        if is_first:
            scales.logs, scales.step = [*[0.0] * count, math.log(_NOISE)], 1.0
        least = self._loss(scales.logs, inputs, values)
        share = min(1.0, 3 / count)
        for _ in range(_FIRST_FITS if is_first else _FITS):
            moved = [
                min(8.0, max(-6.0, each + rng.gauss(0, scales.step))) if rng.random() < share else each
                for each in scales.logs[:-1]
            ]
            noise = scales.logs[-1] + (rng.gauss(0, scales.step) if rng.random() < 0.3 else 0.0)
            moved.append(min(0.0, max(math.log(_LEAST_NOISE), noise)))
            loss = self._loss(moved, inputs, values)
            if loss < least:
                least, scales.logs, scales.step = loss, moved, min(2.0, scales.step * 1.6)
            else:
                scales.step = max(0.15, scales.step * 0.88)

    def _loss(self, logs: Sequence[float], inputs: Sequence[Vector], values: Sequence[float]) -> float:
        """The negative logarithm of the posterior density of the length scales; the variance is the most likely one.

        The prior keeps length scales between a third and three ranges, and prefers little noise.
        """
        weights = self._weights_of(logs)
        scaled = [tuple(map(mul, each, weights)) for each in inputs]
        rows: list[list[float]] = []
        squares = log_determinant = 0.0
        for row, value in _factor_rows(scaled, math.exp(logs[-1]), rows, values):
            rows.append(row)
            squares += value * value
            log_determinant += math.log(row[-1])
        variance = squares / len(values) + 1e-12
        prior = sum(0.2 * math.cosh(each) for each in logs[:-1]) + 30 * math.exp(logs[-1]) * variance - 0.1 * logs[-1]
        return 0.5 * len(values) * math.log(variance) + log_determinant + prior

    # -- what to try next ----------------------------------------------------------------------------------------------

    def suggest(self) -> Point:
        """The point with the largest expected improvement that a random search finds, refined step by step."""
        grounds, rng = self._grounds, self._rng
        candidates = [grounds.draw_prior(rng) for _ in range(_RANDOM)]
        candidates += [self._near(point, scale) for point in self._best for scale in _SCALES for _ in range(_NEAR)]
        found: list[tuple[float, int, Point]] = []
        for number, point in enumerate(candidates):
            least = found[-1][0] if len(found) == _STARTS else -math.inf
            gain = self._log_improvement(point, least)
            if gain > least:
                found = sorted([*found, (gain, -number, point)], reverse=True)[:_STARTS]
        for scale in _REFINEMENTS:
            for start, (gain, number, point) in enumerate(found):
                for _ in range(_STEPS):
                    moved = self._near(point, scale)
                    if (moved_gain := self._log_improvement(moved, gain)) > gain:
                        gain, point = moved_gain, moved
                found[start] = (gain, number, point)
        return max(found)[2] if found else candidates[0]

    def _near(self, point: Point, scale: float) -> Point:
        """A point nearby: some of its coordinates are moved."""
        grounds, rng = self._grounds, self._rng
        share = 0.5 if self._parameters < 8 else 4 / self._parameters
        places = [
            grounds.snap(min(axis.high, max(axis.low, place + rng.gauss(0, scale))), number)
            if rng.random() < share
            else place
            for number, (axis, place) in enumerate(zip(grounds.axes, point.places, strict=True))
        ]
        categories = [
            rng.randrange(size) if rng.random() < 0.3 * share else own
            for own, size in zip(grounds.categories(point.bits), grounds.sizes, strict=True)
        ]
        return grounds.pack(places, categories)

    def _log_improvement(self, point: Point, least: float) -> float:
        """The logarithm of the expected improvement; where it cannot be more than `least`, minus infinity."""
        row = _kernel(tuple(map(mul, self._coordinates(point), self._weights)), self._inputs)
        mean = sum(map(mul, row, self._alpha))
        gain = self._least - mean
        nearest = max(row, default=0.0)
        most = self._variance * max(1e-10, 1 - nearest * nearest / (1 + self._noise))  # from the nearest point alone
        if _log_expected(gain, math.sqrt(most)) <= least:
            return -math.inf
        # What is left of the variance falls with each point, and the best points, near which one looks, come first.
        solved: list[float] = []
        for begin in range(0, len(row), _BLOCK):
            for value, known in zip(row[begin : begin + _BLOCK], self._rows[begin : begin + _BLOCK], strict=True):
                solved.append((value - sum(map(mul, solved, known))) / known[-1])
            left = self._variance * max(1e-10, 1 - sum(map(mul, solved, solved)))
            if (gain_left := _log_expected(gain, math.sqrt(left))) <= least:
                return -math.inf
        return gain_left


def _standardised(values: Sequence[float]) -> list[float]:
    """Mean 0 and variance 1. Large values are cut off, since they say little about where the best ones lie.

    A failure counts as a value that three quarters of the others are better than.
    """
    largest = max(abs(value) for value in values if value == value) or 1.0  # squares must not overflow
    values = [value / largest for value in values]
    known = sorted(value for value in values if value == value)
    median = known[len(known) // 2]
    top = median + 3 * (median - known[0])
    bad = min(top, known[3 * (len(known) - 1) // 4])
    cut = [bad if value != value else min(value, top) for value in values]
    mean = math.fsum(cut) / len(cut)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in cut) / len(cut)) or 1.0
    return [(value - mean) / deviation for value in cut]


def _kernel(point: Vector, others: Sequence[Vector]) -> list[float]:
    """The Matérn-5/2 kernel of a point with others, in length scales."""
    exp, dist = math.exp, math.dist
    return [(1 + (r := _SQRT_5 * dist(point, other)) + r * r / 3) * exp(-r) for other in others]


def _factor_rows(
    inputs: Sequence[Vector], noise: float, rows: list[list[float]], values: Sequence[float] | None
) -> Iterator[tuple[list[float], float]]:
    """Go on with a Cholesky factor whose rows the caller collects.

    Args:
        inputs: All points, in length scales.
        noise: The share of the variance that is noise.
        rows: The rows so far; the caller appends each row that it gets.
        values: Those at the points, or None.

    Yields:
        The next row, and the next element of the factor's inverse times the values.
    """
    solved: list[float] = []
    for number in range(len(rows), len(inputs)):
        row: list[float] = []
        for value, known in zip(_kernel(inputs[number], inputs[:number]), rows, strict=True):
            row.append((value - sum(map(mul, row, known))) / known[-1])
        pivot = math.sqrt(max(1 + noise - sum(map(mul, row, row)), 1e-10))
        if values is not None:
            solved.append((values[number] - sum(map(mul, row, solved))) / pivot)
        row.append(pivot)
        yield row, solved[-1] if solved else 0.0


def _back_substituted(rows: Sequence[Sequence[float]], solved: Sequence[float]) -> list[float]:
    """The transposed factor's inverse times a vector."""
    rest, found = list(solved), [0.0] * len(rows)
    for number in range(len(rows) - 1, -1, -1):
        row = rows[number]
        found[number] = weight = rest[number] / row[number]
        for below in range(number):
            rest[below] -= row[below] * weight
    return found


def _log_expected(gain: float, deviation: float) -> float:
    """The logarithm of the expectation of max(0, N(gain, deviation²))."""
    z = gain / deviation
    if z < -6:  # there the terms cancel out; the first of the asymptotic series
        return -0.5 * z * z - _LOG_SQRT_2PI - 2 * math.log(-z) + math.log(deviation)
    density = math.exp(-0.5 * z * z - _LOG_SQRT_2PI)
    return math.log(max(density + 0.5 * z * math.erfc(-z * _SQRT_HALF), 1e-300)) + math.log(deviation)
