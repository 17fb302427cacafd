"""The mixtures of `TPESearch`, against plain formulas: kernels, bandwidths, weights, draws, and the choice of the best.

The plain formulas walk over all observations and all axes. They use neither logarithms nor shared bandwidths.
"""

import math
import random
from collections import Counter
from statistics import NormalDist

import pytest

from minitune.search import parzen
from minitune.search.parzen import KernelSpace, Point, bad_side, best_candidate, draw_by_ratio, good_side
from minitune.space.domains import lograndint, loguniform, qrandn, quniform, randint, randn, uniform
from minitune.space.parameters import Axis

SPACES = {
    "a number": ([uniform(2, 5)], []),
    "numbers": ([uniform(0, 1), loguniform(1e-3, 1)], []),
    "cells": ([randint(0, 4), quniform(0, 1, 0.25)], []),
    "cells on a logarithmic scale": ([lograndint(1, 9)], []),
    "without bounds": ([randn(0, 1), qrandn(0, 3, 0.5)], []),
    "choices": ([], [2, 3]),
    "mixed": ([uniform(0, 1), randint(0, 9), randn(0, 1)], [4]),
}
each_space = pytest.mark.parametrize(("domains", "sizes"), SPACES.values(), ids=SPACES)


def kernel_space(domains, sizes):
    return KernelSpace([Axis(each) for each in domains], sizes)


def drawn(space, count, seed=0):
    rng = random.Random(seed)
    return [space.draw_prior(rng) for _ in range(count)]


# -- plain formulas ----------------------------------------------------------------------------------------------------


def prior(space, point):
    density = 1.0
    for axis, place in zip(space.axes, point.coordinates, strict=True):
        density *= truncated(axis, 0.5, axis.prior_sd, place)
    return density / math.prod(space.sizes)


def truncated(axis, mean, deviation, place):
    """The density of a normal distribution within the axis."""
    normal = NormalDist(mean, deviation)
    mass = 1.0
    if axis.high == 1.0:
        mass = normal.cdf(1.0) - normal.cdf(0.0)
    return normal.pdf(place) / mass


def widened(axis, bandwidth):
    """The standard deviation of a normal number plus a uniform one from a cell."""
    return math.sqrt(bandwidth**2 + axis.width**2 / 12)


def kernel(space, own, bandwidths, contrast, point):
    """The density of one observation: a category is `contrast` times as likely if it is the observation's own."""
    density = 1.0
    for axis, mean, bandwidth, place in zip(space.axes, own.coordinates, bandwidths, point.coordinates, strict=True):
        density *= truncated(axis, mean, widened(axis, bandwidth), place)
    for size, mine, other in zip(space.sizes, space.categories(own.bits), space.categories(point.bits), strict=True):
        density *= (contrast if mine == other else 1.0) / (contrast + size - 1)
    return density


def good_bandwidths(points, axis):
    """The gap to the farther of the two neighbours, within bounds."""
    if len(points) == 1:
        return [1.0]
    found = []
    for number, point in enumerate(points):
        others = [(other.coordinates[axis], index) for index, other in enumerate(points) if index != number]
        mine = (point.coordinates[axis], number)
        below = [mine[0] - other[0] for other in others if other < mine]
        above = [other[0] - mine[0] for other in others if other > mine]
        gap = max(min(below, default=0.0), min(above, default=0.0))
        found.append(min(max(gap, 1 / min(100, len(points) + 2)), 1.0))
    return found


def good_weights(count):
    weights = [math.log(count + 1) - math.log(rank) for rank in range(1, count + 1)]
    return [weight * count / sum(weights) for weight in weights]


def good_density(space, points, point):
    """Not normalised: the prior has the weight 1, as a kernel has on average."""
    columns = [good_bandwidths(points, axis) for axis in range(len(space.axes))]
    total = prior(space, point)
    for number, weight in enumerate(good_weights(len(points))):
        bandwidths = [column[number] for column in columns]
        total += weight * kernel(space, points[number], bandwidths, len(points) + 2, point)
    return total


def bad_density(space, points, weights, point):
    count = sum(weight > 0 for weight in weights) + 1
    dimensions = len(space.axes) + len(space.sizes)
    bandwidth = 0.12 * max(1, count - 1) ** (-1 / (dimensions + 4))
    contrast = max(1, min(count, 25)) + 1
    total = prior(space, point)
    for own, weight in zip(points, weights, strict=True):
        total += weight * kernel(space, own, [bandwidth] * len(space.axes), contrast, point)
    return total


def ages(count):
    """The weights of bad observations: the newest 25 have 1, the older ones rise to that in equal steps."""
    old = max(0, count - 25)
    return [(place + 1) / old for place in range(old)] + [1.0] * (count - old)


def bad_side_of(space, points, good=(), pending=()):
    return bad_side(space, dict(enumerate(points)), good, pending)


# -- densities ---------------------------------------------------------------------------------------------------------


@each_space
@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_the_density_of_the_good_side_is_the_plain_sum_of_its_kernels(domains, sizes, count):
    space = kernel_space(domains, sizes)
    points = drawn(space, count)
    points[count // 2 :] = points[: count - count // 2]  # some are equal
    good = good_side(space, points)
    for point in [*drawn(space, 10, seed=1), points[0]]:
        expected = math.log(good_density(space, points, point))
        assert good.log_density(point) == pytest.approx(expected)


@each_space
@pytest.mark.parametrize("count", [0, 1, 20, 150])
def test_the_density_of_the_bad_side_is_the_plain_sum_of_its_kernels(domains, sizes, count):
    space = kernel_space(domains, sizes)
    points = drawn(space, count)
    bad = bad_side_of(space, points)
    for point in drawn(space, 10, seed=1):
        expected = math.log(bad_density(space, points, ages(count), point))
        assert bad.log_density(point) == pytest.approx(expected)


def test_the_bad_side_leaves_out_the_good_ones_and_believes_pending_ones_less():
    space = kernel_space(*SPACES["mixed"])
    points = drawn(space, 60)
    weights = ages(60)
    for number in (0, 31, 59):
        weights[number] = 0.0
    for number in (1, 40, 58):
        weights[number] *= 0.3
    bad = bad_side_of(space, points, [0, 31, 59], [1, 40, 58])
    for point in drawn(space, 10, seed=1):
        assert bad.log_density(point) == pytest.approx(math.log(bad_density(space, points, weights, point)))


def test_the_bad_side_knows_the_newest_ones(monkeypatch):
    monkeypatch.setattr(parzen, "_MOST_BAD", 40)
    space = kernel_space(*SPACES["mixed"])
    points = drawn(space, 60)
    bad = bad_side_of(space, points, [0, 5])
    for point in drawn(space, 10, seed=1):
        expected = math.log(bad_density(space, points[-40:], ages(40), point))
        assert bad.log_density(point) == pytest.approx(expected)


# -- draws -------------------------------------------------------------------------------------------------------------


def test_the_prior_is_drawn_uniformly_or_normally():
    space = kernel_space([uniform(2, 5), randn(7, 3)], [2, 3])
    points = drawn(space, 3000)
    for below in (0.1, 0.5, 0.9):
        assert sum(point.coordinates[0] < below for point in points) / 3000 == pytest.approx(below, abs=0.03)
        limit = NormalDist(0.5, 1 / 8).inv_cdf(below)
        assert sum(point.coordinates[1] < limit for point in points) / 3000 == pytest.approx(below, abs=0.03)
    shares = Counter(tuple(space.categories(point.bits)) for point in points)
    assert [*shares.values()] == pytest.approx([500] * 6, abs=80)


@pytest.mark.parametrize(("count", "domain"), [(2, uniform(0, 1)), (6, uniform(0, 1)), (6, randint(0, 8))])
def test_draws_of_the_good_side_follow_its_density(count, domain):
    space = kernel_space([domain], [3])
    points = drawn(space, count, seed=3)
    good = good_side(space, points)
    rng = random.Random(0)
    found = Counter()
    for _ in range(4000):
        point = good.draw(rng)
        found[int(8 * point.coordinates[0]), space.categories(point.bits)[0]] += 1
    for cell in range(8):
        for category in range(3):
            steps = [Point(((cell + (step + 0.5) / 10) / 8,), 1 << category) for step in range(10)]
            share = sum(good_density(space, points, each) for each in steps) / 80 / (count + 1)
            assert found[cell, category] / 4000 == pytest.approx(share, abs=0.025)


def test_draws_stay_within_the_bounds_and_in_the_middle_of_cells():
    domains = [uniform(0, 1), randint(0, 4), quniform(0, 1, 0.5), randn(0, 1)]
    space = kernel_space(domains, [])
    good = good_side(space, [Point((0.0, 0.125, 1 / 6, 3.0), 0), Point((1.0, 0.875, 5 / 6, -2.0), 0)])
    rng = random.Random(0)
    places = [good.draw(rng).coordinates for _ in range(200)]
    assert all(0 < place[0] < 1 for place in places)
    for number, cells in ((1, 4), (2, 3)):  # those of the prior lie anywhere in their cells
        in_the_middle = Counter(round(2 * cells * place[number], 9) for place in places)
        assert sum(in_the_middle[index] for index in range(1, 2 * cells, 2)) > 100
    assert max(place[3] for place in places) > 1


# -- the choice --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_best_candidate_has_the_largest_ratio(seed):
    space = kernel_space(*SPACES["mixed"])
    points = drawn(space, 200, seed)
    best = [*range(0, 200, 20)]
    best_points = [points[number] for number in best]
    good = good_side(space, best_points)
    bad = bad_side_of(space, points, best)
    candidates = drawn(space, 24, seed + 100)
    weights = ages(200)
    for number in best:
        weights[number] = 0.0

    def ratio(point):
        return good_density(space, best_points, point) / bad_density(space, points, weights, point)

    assert best_candidate(good, bad, candidates) == max(candidates, key=ratio)
    assert best_candidate(good, bad, candidates[::-1]) == max(candidates, key=ratio)


def test_a_branch_is_drawn_in_proportion_to_the_ratio_however_often_it_is_a_candidate():
    space = kernel_space([], [3])
    first, second, third = (space.pack((), [index]) for index in range(3))
    points = [first, second, first, second, second]
    good = good_side(space, [first, second, first])
    bad = bad_side_of(space, points, [0, 1, 2])
    rng = random.Random(0)
    found = Counter(draw_by_ratio(good, bad, [first] * 22 + [second, third], rng) for _ in range(3000))
    ratios = []
    for point in (first, second, third):
        above = good_density(space, [first, second, first], point)
        ratios.append(above / bad_density(space, points, [0, 0, 0, 1, 1], point))
    for point, ratio in zip((first, second, third), ratios, strict=True):
        assert found[point] / 3000 == pytest.approx(ratio / sum(ratios), abs=0.03)
