"""The length scales of a Gaussian process, found by gradients; needs numpy.

The gradient of the likelihood is that of Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006),
section 5.4.1. The steps are those of Rprop, which needs only its signs (Blum and Riedmiller, "Optimization of Gaussian
process hyperparameters using Rprop", ESANN 2013).

While all cores train, the threads of numpy's libraries wait for each other (`benchmarks/FINDINGS.md`, *threads*). So
matrices are small here, and sums over many parameters use `einsum`, which has no threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ROUNDS = 12
FIRST_ROUNDS = 40
"""How many gradients are computed for a suggestion, and for the first one. Not measured: more take longer, fewer stop
before the most likely scales. For gradients at all, see `benchmarks/FINDINGS.md`, *gradients*.
"""
USUAL_LOG_NOISE = -4.0
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


def likely_logs(
    inputs: Sequence[Sequence[float]],
    widths: Sequence[int],
    values: Sequence[float],
    logs: Sequence[float],
    bounds: Sequence[tuple[float, float]],
    rounds: int,
) -> list[float]:
    """Improve length scales: minimise the loss of `GaussianProcess`, from the present ones."""
    import numpy

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
    """The loss of `GaussianProcess` and its gradient."""
    import numpy

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
    excess = max(0.0, numpy.log(noise * variance) - USUAL_LOG_NOISE)
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
    import numpy

    columns = max(1, _SMALL // left.size)
    if columns >= right.shape[1]:
        return left @ right
    return numpy.hstack([left @ right[:, begin : begin + columns] for begin in range(0, right.shape[1], columns)])


def inverse_of_triangle(lower: Any) -> Any:
    """The inverse of a lower triangle, from those of its halves."""
    import numpy

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
