"""The Gaussian process, against plain formulas and plain linear algebra."""

import itertools
import math
import random

import numpy
import pytest

from minitune.search.surface import Surface, likely_logs, loss_and_slopes, simplex

Matrix = list[list[float]]


def solved(matrix, right):
    """X with matrix * x = right, by Gauss-Jordan elimination. The pivots of a covariance need no search."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for place in range(len(rows)):
        rows[place] = [value / rows[place][place] for value in rows[place]]
        for other in range(len(rows)):
            if other != place:
                factor = rows[other][place]
                rows[other] = [a - factor * b for a, b in zip(rows[other], rows[place], strict=True)]
    return [row[-1] for row in rows]


def determinant(matrix):
    rows = [list(row) for row in matrix]
    found = 1.0
    for place in range(len(rows)):
        found *= rows[place][place]
        for other in range(place + 1, len(rows)):
            factor = rows[other][place] / rows[place][place]
            rows[other] = [a - factor * b for a, b in zip(rows[other], rows[place], strict=True)]
    return found


def dot(left, right):
    return sum(a * b for a, b in zip(left, right, strict=True))


def matern(distance):
    """The kernel for smoothness 5/2, at a distance that is not yet multiplied by the root of 5."""
    root = math.sqrt(5) * distance
    return (1 + root + root * root / 3) * math.exp(-root)


@pytest.mark.parametrize("known", [40, 33])
def test_predictions_are_those_of_plain_linear_algebra(known):
    """Of 40 points the last ones may have no value: they change no mean, but the variance. The second length scale is
    for two coordinates.
    """
    rng = random.Random(1)
    points = [tuple(rng.random() for _ in range(3)) for _ in range(40)]
    values = [rng.gauss(0, 1) for _ in range(known)]
    lengths = (0.4, 0.7, 0.7)
    surface = Surface(points, values, [math.log(length**-2) for length in lengths[:2]] + [math.log(0.01)], [1, 2])

    def kernel(a, b):
        return matern(math.hypot(*((x - y) / length for x, y, length in zip(a, b, lengths, strict=True))))

    matrix = [[kernel(a, b) + 0.01 * (a is b) for b in points] for a in points]
    of_known = [row[:known] for row in matrix[:known]]
    assert surface.variance == pytest.approx(dot(values, solved(of_known, values)) / known)
    assert surface.log_determinant == pytest.approx(math.log(determinant(matrix)) / 2)
    candidates = [(0.1, 0.2, 0.3), (2.5, 2.5, 0.1), points[0], points[-1]]
    for candidate, mean, share in zip(candidates, *surface.predict(candidates), strict=True):
        row = [kernel(candidate, each) for each in points]
        assert mean == pytest.approx(dot(row[:known], solved(of_known, values)))
        assert share == pytest.approx(1 - dot(row, solved(matrix, row)))


def test_the_loss_of_length_scales_is_the_negative_log_posterior_and_falls_along_its_gradient():
    rng = random.Random(0)
    points = [[rng.random(), rng.random()] for _ in range(12)]
    values = [math.sin(5 * x) for x, _ in points]
    squares = numpy.array([[[(a[axis] - b[axis]) ** 2 for b in points] for a in points] for axis in range(2)])
    logs = numpy.array([0.5, -1.0, math.log(0.05)])
    matrix = []
    for a in points:
        offs = [[(x - y) * math.exp(log / 2) for x, y, log in zip(a, b, logs, strict=False)] for b in points]
        matrix.append([matern(math.hypot(*off)) + 0.05 * (a is b) for off, b in zip(offs, points, strict=True)])
    variance = dot(values, solved(matrix, values)) / 12 + 1e-12
    expected = 6 * math.log(variance) + math.log(determinant(matrix)) / 2
    assert 0.05 * variance > math.exp(-4)
    expected += 0.2 * (math.cosh(0.5) + math.cosh(-1.0)) - 0.1 * logs[-1] + (math.log(0.05 * variance) + 4) ** 2 / 2

    loss, slopes = loss_and_slopes(logs, squares, numpy.array(values))

    assert loss == pytest.approx(expected)
    for index, slope in enumerate(slopes):
        step = numpy.zeros(3)
        step[index] = 1e-5
        above, below = (loss_and_slopes(logs + each, squares, numpy.array(values))[0] for each in (step, -step))
        assert slope == pytest.approx((above - below) / 2e-5, rel=1e-4)
    found = likely_logs(points, [1, 1], values, logs.tolist(), [(-6, 8)] * 2 + [(-14, 0)], 40)
    assert loss_and_slopes(numpy.array(found), squares, numpy.array(values))[0] < loss - 10
    assert found[0] > found[1] + 2, "the first parameter matters"


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_corners_of_asimplex_are_equally_far_from_each_other(count):
    corners = simplex(count)
    assert len(corners) == count
    assert all(math.dist(a, b) == pytest.approx(1) for a, b in itertools.combinations(corners, 2))
    assert all(sum(column) == pytest.approx(0) for column in zip(*corners, strict=True))
