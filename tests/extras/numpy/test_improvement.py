"""Where the Gaussian process of `AutoSearch` looks for an improvement."""

import math
import random

import pytest

from minitune.search.improvement import Improvement
from minitune.search.parzen import KernelSpace, Point
from minitune.space.domains import uniform
from minitune.space.parameters import Axis

FLAT = KernelSpace([Axis(uniform(0, 1))] * 2, [])


def process(points, values, pending=(), failed=(), logs=()):
    """A process; with these length scales, if they are given."""
    made = Improvement
    if logs:
        made = type("Fixed", (Improvement,), {"_learned": lambda *args: logs})
    return made(FLAT, points, values, pending, failed, (), random.Random(0))


@pytest.mark.parametrize("z", [4.0, 1.0, 0.0, -1.0, -8.0, -29.0, -31.0, -100.0])
def test_the_expected_improvement_is_that_of_an_integral(z):
    one = process([Point((place, 0.5), 0) for place in (0.1, 0.2, 0.4, 0.5, 0.9)], [5.0, 4.0, 3.0, 2.0, 1.0])
    deviation = math.sqrt(0.25 * one._surface.variance)
    # The integral of u * pdf(z - u), in units of the deviation. Its factor pdf(z) is taken out, since it may underflow.
    step = min(0.01, 0.02 / max(1.0, -z))
    terms = (u * math.exp(u * z - u * u / 2) for u in (step * (n + 0.5) for n in range(2000)))
    log_pdf = -z * z / 2 - math.log(2 * math.pi) / 2
    expected = log_pdf + math.log(step * math.fsum(terms)) + math.log(deviation)
    assert one._log_improvement(one._least - z * deviation, 0.25) == pytest.approx(expected, abs=2e-3)


def test_a_failure_keeps_the_process_from_an_equally_good_place():
    known = [Point((place, 0.5), 0) for place in (0.25, 0.5, 0.75)]
    left, right = Point((0.05, 0.5), 0), Point((0.95, 0.5), 0)
    for near, other in ((left, right), (right, left)):
        failed = [Point((near.coordinates[0], 0.4), 0), Point((near.coordinates[0], 0.6), 0)]
        assert process(known, [0.0, 1.0, 0.0], failed=failed).best_of([left, right]) == other
        assert process(known, [0.0, 1.0, 0.0], pending=[near]).best_of([left, right]) == other


def test_a_lucky_value_is_neither_the_bar_nor_the_centre():
    """With noise, what counts is the mean of the process, which the trials nearby decide, too."""
    rng = random.Random(1)
    points = [Point((place / 20, 0.5), 0) for place in range(21)]
    values = [4 * (point.coordinates[0] - 0.25) ** 2 + rng.gauss(0, 0.02) for point in points]
    values[17] = -0.2  # its neighbours have values about 1.4
    order = sorted(range(21), key=values.__getitem__)
    one = process([points[number] for number in order], [values[number] for number in order], logs=[3.0, 0.0, -1.0])
    assert order[0] == 17
    assert points[17] not in one._best
    assert abs(one._best[0].coordinates[0] - 0.25) < 0.15
    assert one._least > min(one._values) + 0.3


def test_the_chance_of_success_is_estimated_from_the_five_nearest_trials():
    succeeded = [Point((place, 0.5), 0) for place in (0.1, 0.12, 0.5)]
    failed = [Point((place, 0.5), 0) for place in (0.14, 0.16, 0.9, 0.92, 0.94, 0.96, 0.98)]
    one = process(succeeded, [1.0, 2.0, 3.0], failed=failed)
    share = 3 / 10  # of successes, which counts as one more trial
    for place, successes in ((0.1, 3), (0.7, 1), (1.0, 0)):
        assert math.exp(one._log_success(Point((place, 0.5), 0))) == pytest.approx((successes + share) / 6)
    assert process(succeeded, [1.0, 2.0, 3.0])._log_success(failed[0]) == 0.0


@pytest.mark.parametrize(("count", "share"), [(4, 0.5), (20, 0.2), (50, 0.08)])
def test_a_step_moves_some_of_the_coordinates(count, share):
    centre = Point((0.5,) * count, 0)
    made = Improvement(KernelSpace([Axis(uniform(0, 1))] * count, []), [centre], [0.0], (), (), (), random.Random(0))
    moved = 0
    for _ in range(200):
        point = made._near(centre, 0.01, [(0.0, 1.0)] * count)
        moved += sum(place != 0.5 for place in point.coordinates)
    assert moved / 200 / count == pytest.approx(share, rel=0.2)
