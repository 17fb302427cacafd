"""Surface: the Gaussian process through the values of trials; needs numpy.

A Matérn-5/2 kernel with a length scale for each parameter (Rasmussen and Williams, "Gaussian Processes for Machine
Learning", 2006, sections 4.2 and 5.1); two categories have the distance 0 or 1. The gradient of the likelihood is that
of section 5.4.1. The steps are those of Rprop, which needs only its signs (Blum and Riedmiller, "Optimization of
Gaussian process hyperparameters using Rprop", ESANN 2013).

While all cores train, the threads of numpy's libraries wait for each other (`benchmarks/FINDINGS.md`, *threads*). So
matrices are small here, and sums over many parameters use `einsum`, which has no threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

try:
    import numpy
except ImportError as error:
    raise ImportError(
        f"estimates and the models of 'auto' and PB2 need numpy ({error}); install it with: pip install numpy"
    ) from error

LENGTH_BOUNDS = (-6.0, 8.0)
"""The bounds of the logarithm of an inverse squared length scale: from 20 ranges down to a fiftieth of one. Not
measured: with longer ones a parameter has no effect, with shorter ones no trial says anything about another.
"""
NOISE_BOUNDS = (math.log(1e-6), 0.0)
"""The same of the noise's variance, as a share of the surface's."""
ROUNDS = 12
FIRST_ROUNDS = 40
"""How many gradients are computed for a suggestion, and for the first one. Not measured: more take longer, fewer stop
before the most likely scales. For gradients at all, see `benchmarks/FINDINGS.md`, *gradients*.
"""
_USUAL_LOG_NOISE = -4.0
"""The logarithm of a usual noise, as a share of the variance of the values: less is as likely, more is not: see
*noise* there.
"""
_FIRST_STEP = 0.3
_LEAST_STEP = 0.01
_LARGEST_STEP = 1.0
_SMALL = 2**18
"""A product of so many multiplications starts no threads (OpenBLAS; others start them later)."""
_FEW = 16
"""The inverse of less than twice as many rows starts no threads."""
_BLOCK = 16
"""Values are predicted at so many points together, so that no product starts threads."""
Vector = tuple[float, ...]


class Surface:
    """The process with these values at the first of the points. The other points have no value, but are certain.

    Args:
        logs: The logarithms of the inverse squared length scales, and of the variance of the noise, as a share of the
            surface's.
        widths: How many coordinates each length scale is for, one by default.

    Attributes:
        variance: The most likely variance of the values.
    """

    def __init__(
        self,
        points: Sequence[Vector],
        values: Sequence[float],
        logs: Sequence[float],
        widths: Sequence[int] | None = None,
    ):
        weights = numpy.sqrt(5 * numpy.exp(logs[:-1]))
        if widths is not None:
            weights = weights.repeat(widths)
        self._weights = weights[:, None]
        self._points = self._scaled(points)
        covariance = self._kernel(self._points)
        covariance.flat[:: len(points) + 1] += math.exp(logs[-1])
        factor = numpy.linalg.cholesky(covariance)
        self.log_determinant = float(numpy.log(factor.diagonal()).sum())
        self._inverse = inverse_of_triangle(factor)
        count = len(values)
        self._solved = self._inverse[:count, :count] @ numpy.array(values)
        self.variance = float(self._solved @ self._solved) / count + 1e-12  # not 0, even if all values are equal

    def predict(self, points: Sequence[Vector]) -> tuple[list[float], list[float]]:
        """The mean at each point, and the share of the variance that remains there."""
        means: list[float] = []
        shares: list[float] = []
        for begin in range(0, len(points), _BLOCK):
            solved = self._inverse @ self._kernel(self._scaled(points[begin : begin + _BLOCK]))
            means += (self._solved @ solved[: len(self._solved)]).tolist()
            shares += (1 - (solved * solved).sum(axis=0)).tolist()
        return means, shares

    def _scaled(self, points: Sequence[Vector]) -> Any:
        return numpy.array(points).T * self._weights

    def _kernel(self, points: Any) -> Any:
        differences = self._points[:, :, None] - points[:, None, :]
        distances = numpy.sqrt((differences * differences).sum(axis=0))
        return (1 + distances + distances * distances / 3) * numpy.exp(-distances)


@lru_cache(maxsize=32)
def simplex(count: int) -> list[Vector]:
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


# -- length scales -----------------------------------------------------------------------------------------------------


def likely_logs(
    inputs: Sequence[Sequence[float]],
    widths: Sequence[int],
    values: Sequence[float],
    logs: Sequence[float],
    bounds: Sequence[tuple[float, float]],
    rounds: int,
) -> list[float]:
    """Improve length scales: minimise `loss_and_slopes`, from the present ones."""
    points = numpy.array(inputs)
    differences = points[:, None, :] - points[None, :, :]
    starts = numpy.cumsum([0, *widths[:-1]])
    squares = numpy.add.reduceat(differences * differences, starts, axis=2)
    squares = numpy.ascontiguousarray(numpy.moveaxis(squares, 2, 0))
    targets = numpy.array(values)
    low, high = numpy.array(bounds).T
    point = numpy.array(logs)
    steps = numpy.full(len(point), _FIRST_STEP)
    before = numpy.zeros(len(point))
    best = point
    least = numpy.inf
    for _ in range(rounds):
        loss, slopes = loss_and_slopes(point, squares, targets)
        if loss < least:
            least = loss
            best = point
        turn = slopes * before
        steps = numpy.where(turn > 0, 1.2 * steps, steps)
        steps = numpy.where(turn < 0, 0.5 * steps, steps)
        steps = numpy.clip(steps, _LEAST_STEP, _LARGEST_STEP)
        before = numpy.where(turn < 0, 0.0, slopes)  # after a turn, the parameter rests for a round
        point = numpy.clip(point - numpy.sign(before) * steps, low, high)
    return [float(each) for each in best]


def loss_and_slopes(logs: Any, squares: Any, values: Any) -> tuple[float, Any]:
    """The negative logarithm of the posterior density of the length scales, for the most likely variance, and its
    gradient.

    The prior keeps length scales between a third and three ranges. The noise has a log-normal prior, flat below its
    median, 1.8 % of the values' variance.
    """
    count = len(values)
    noise = numpy.exp(logs[-1])
    factors = 5 * numpy.exp(logs[:-1])
    squared = numpy.einsum("k,kij->ij", factors, squares)
    distances = numpy.sqrt(squared)
    decay = numpy.exp(-distances)
    covariance = (1 + distances + squared / 3) * decay
    covariance.flat[:: count + 1] += noise
    factor = numpy.linalg.cholesky(covariance)
    root = inverse_of_triangle(factor)
    inverse = product(root.T, root)
    weights = inverse @ values
    variance = values @ weights / count + 1e-12
    log_determinant = numpy.log(factor.diagonal()).sum()
    excess = max(0.0, numpy.log(noise * variance) - _USUAL_LOG_NOISE)
    prior = 0.2 * numpy.cosh(logs[:-1]).sum() + 0.5 * excess * excess - 0.1 * logs[-1]
    loss = 0.5 * count * numpy.log(variance) + log_determinant + prior

    # the derivative by each element of the covariance, and that of the kernel by a squared distance
    by_covariance = 0.5 * inverse - (0.5 + excess / count) / variance * numpy.outer(weights, weights)
    by_squared = by_covariance * (1 + distances) * decay / -6
    slopes = numpy.empty(len(logs))
    slopes[:-1] = factors * numpy.einsum("kij,ij->k", squares, by_squared) + 0.2 * numpy.sinh(logs[:-1])
    slopes[-1] = noise * numpy.trace(by_covariance) + excess - 0.1
    return float(loss), slopes


# -- in one thread -----------------------------------------------------------------------------------------------------


def product(left: Any, right: Any) -> Any:
    """The product of two matrices, some columns at a time."""
    columns = max(1, _SMALL // left.size)
    if columns >= right.shape[1]:
        return left @ right
    return numpy.hstack([left @ right[:, begin : begin + columns] for begin in range(0, right.shape[1], columns)])


def inverse_of_triangle(lower: Any) -> Any:
    """The inverse of a lower triangle, from those of its halves."""
    half = len(lower) // 2
    if half < _FEW:
        return numpy.linalg.inv(lower)
    top = inverse_of_triangle(lower[:half, :half])
    rest = inverse_of_triangle(lower[half:, half:])
    found = numpy.zeros_like(lower)
    found[:half, :half] = top
    found[half:, half:] = rest
    found[half:, :half] = -product(product(rest, lower[half:, :half]), top)
    return found
