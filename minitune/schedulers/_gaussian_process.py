"""A Gaussian process in plain Python, for what changes with time: the model of PB2.

Source: Parker-Holder et al., "Provably Efficient Online Hyperparameter Optimization with Population-Based Bandits"
(arXiv 2002.02518): a squared exponential kernel over the inputs, times one that forgets with time. A point is a tuple
whose first coordinate is the time; all are expected within about [0, 1].
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

Point = Sequence[float]
Matrix = list[list[float]]

_JITTER = 1e-6
_LARGEST_JITTER = 1.0
_LEAST_VARIANCE = 0.1
_NOISE = 0.1
"""Variance of what is no signal, as a share of the kernel's variance."""
_FITTED_TO = 100
"""The kernel is fitted to so many of the newest points: it is the costly part, and more of them change it little."""
_LENGTHS = (0.3, 1.0, 3.0)
_FORGETTING = (0.01, 0.1, 0.5)


@dataclass(frozen=True)
class Kernel:
    """How alike the values at two points are expected to be: `variance * exp(-d^2 / length) * (1 - e)^(|dt| / 2)`.

    Attributes:
        variance: v.
        length: l, over all coordinates but the time.
        forgetting: e, between 0 and 1.
    """

    variance: float = 1.0
    length: float = 1.0
    forgetting: float = 0.1

    def of(self, distance_squared: float, time_apart: float) -> float:
        """The covariance of two points."""
        return self.variance * math.exp(
            -distance_squared / self.length + 0.5 * time_apart * math.log1p(-self.forgetting)
        )


class GaussianProcess:
    """A process that has seen some points. Making one costs O(n^3), a prediction O(n^2).

    Args:
        kernel: Its kernel.
        points: Where it was observed.
        values: What was observed there, with mean 0.
    """

    def __init__(self, kernel: Kernel, points: Sequence[Point], values: Sequence[float]):
        self._kernel = kernel
        self._points = [tuple(point) for point in points]
        self._factor = _factor(kernel, _apart(self._points))
        self._solved = _solve_lower(self._factor, values)
        self._weights = _solve_upper(self._factor, self._solved)

    @classmethod
    def fitted(cls, points: Sequence[Point], values: Sequence[float]) -> GaussianProcess:
        """The process whose kernel, of a small grid, makes what was observed most likely.

        Args:
            points: Where it was observed, the newest last.
            values: What was observed there, with mean 0 and standard deviation 1.
        """
        recent, recent_values = points[-_FITTED_TO:], values[-_FITTED_TO:]
        apart = _apart([tuple(point) for point in recent])
        grid = itertools.product(_LENGTHS, _FORGETTING)
        fits = [_best_variance(Kernel(1.0, length, forgetting), apart, recent_values) for length, forgetting in grid]
        _, kernel = max(fits, key=lambda fit: fit[0])
        return cls(kernel, points, values)

    @property
    def kernel(self) -> Kernel:
        """Its kernel."""
        return self._kernel

    def mean(self, point: Point) -> float:
        """The value to be expected at a point."""
        return math.fsum(map(mul, self._covariances(point), self._weights))

    def deviation(self, point: Point) -> float:
        """How uncertain that is: the standard deviation."""
        solved = _solve_lower(self._factor, self._covariances(point))
        return math.sqrt(max(0.0, self._kernel.variance - sum(map(mul, solved, solved))))

    def _covariances(self, point: Point) -> list[float]:
        time, *place = point
        return [self._kernel.of(math.dist(place, other[1:]) ** 2, abs(time - other[0])) for other in self._points]


_Apart = list[list[tuple[float, float]]]
"""The lower half of a matrix: squared distance and time between any two points."""


def _apart(points: Sequence[Point]) -> _Apart:
    return [
        [(math.dist(one[1:], other[1:]) ** 2, abs(one[0] - other[0])) for other in points[: row + 1]]
        for row, one in enumerate(points)
    ]


def _best_variance(unit: Kernel, apart: _Apart, values: Sequence[float]) -> tuple[float, Kernel]:
    """The variance that makes the values most likely under a kernel of variance 1, which it only scales.

    Returns:
        The logarithm of the marginal likelihood, but for a constant, and the kernel.
    """
    factor, n = _factor(unit, apart), len(values)
    solved = _solve_lower(factor, values)
    variance = min(max(sum(map(mul, solved, solved)) / n, _LEAST_VARIANCE), 1 / _LEAST_VARIANCE)
    likelihood = -0.5 * (sum(map(mul, solved, solved)) / variance + n * math.log(variance))
    likelihood -= sum(math.log(row[-1]) for row in factor)
    return likelihood, Kernel(variance, unit.length, unit.forgetting)


def _factor(kernel: Kernel, apart: _Apart) -> Matrix:
    """The lower Cholesky factor of the covariance matrix, with as much jitter as that takes."""
    matrix = [[kernel.of(*pair) for pair in row] for row in apart]
    for row in matrix:
        row[-1] += _NOISE * kernel.variance
    jitter = _JITTER
    while True:
        factor = _cholesky(matrix, jitter)
        if factor is not None or jitter >= _LARGEST_JITTER:
            break
        jitter *= 10
    if factor is None:
        raise ArithmeticError(f"a covariance matrix must be positive, but this one is not even with jitter {jitter}")
    return factor


def _cholesky(matrix: Matrix, jitter: float) -> Matrix | None:
    """The lower factor of a symmetric matrix, given by its lower half; None if it is not positive."""
    factor: Matrix = []
    for row in matrix:
        new: list[float] = []
        for column, value in enumerate(row[:-1]):
            other = factor[column]
            new.append((value - sum(map(mul, new, other))) / other[-1])
        rest = row[-1] + jitter - sum(map(mul, new, new))
        if not rest > 0:
            return None
        new.append(math.sqrt(rest))
        factor.append(new)
    return factor


def _solve_lower(factor: Matrix, values: Sequence[float]) -> list[float]:
    """X with factor * x = values."""
    solved: list[float] = []
    for row, value in zip(factor, values, strict=True):
        solved.append((value - sum(map(mul, row, solved))) / row[-1])
    return solved


def _solve_upper(factor: Matrix, values: Sequence[float]) -> list[float]:
    """X with transposed(factor) * x = values."""
    rest = list(values)
    for index in range(len(rest) - 1, -1, -1):
        row = factor[index]
        rest[index] /= row[-1]
        solved = rest[index]
        for column in range(index):
            rest[column] -= row[column] * solved
    return rest
