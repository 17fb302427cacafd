"""Where the Gaussian process of `AutoSearch` looks for an improvement."""

import itertools
import math
import random

import pytest

from minitune.search.improvement import Improvement
from minitune.search.parzen import KernelSpace, Point
from minitune.space.domains import lograndint, randint, uniform
from minitune.space.parameters import Axis

FLAT = KernelSpace([Axis(uniform(0, 1))] * 2, [])
MIXED = KernelSpace([Axis(uniform(0, 1)), Axis(randint(0, 9))], [3])
CONDITIONAL = KernelSpace([Axis(uniform(0, 1)), Axis(uniform(0, 1))], [2, 3], [0, 0b10, 0, 0b10])
"""The second number and the second choice exist only with the second category of the first choice."""


def drawn(space, count, seed=0):
    rng = random.Random(seed)
    return [space.draw_prior(rng) for _ in range(count)]


def process(
    points,
    values,
    space=FLAT,
    pending=(),
    failed=(),
    logs=(),
):
    """A process; with these length scales, if they are given."""
    made = Improvement
    if logs:
        made = type("Fixed", (Improvement,), {"_learned": lambda *args: logs})
    return made(space, points, values, pending, failed, (), random.Random(0))


# -- the expected improvement ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("z", [4.0, 1.0, 0.0, -1.0, -8.0, -29.0, -31.0, -100.0])
def test_the_expected_improvement_is_that_of_an_integral(z):
    one = process(drawn(FLAT, 5), [5.0, 4.0, 3.0, 2.0, 1.0])
    deviation = math.sqrt(0.25 * one._surface.variance)
    # The integral of u * pdf(z - u), in units of the deviation. Its factor pdf(z) is taken out, since it may underflow.
    step = min(0.01, 0.02 / max(1.0, -z))
    terms = (u * math.exp(u * z - u * u / 2) for u in (step * (n + 0.5) for n in range(2000)))
    log_pdf = -z * z / 2 - math.log(2 * math.pi) / 2
    expected = log_pdf + math.log(step * math.fsum(terms)) + math.log(deviation)
    assert one._log_improvement(one._least - z * deviation, 0.25) == pytest.approx(expected, abs=2e-3)


def test_the_chance_of_success_is_estimated_from_the_five_nearest_trials():
    succeeded = [Point((place, 0.5), 0) for place in (0.1, 0.12, 0.5)]
    failed = [Point((place, 0.5), 0) for place in (0.14, 0.16, 0.9, 0.92, 0.94, 0.96, 0.98)]
    one = process(succeeded, [1.0, 2.0, 3.0], failed=failed)
    share = 3 / 10  # of successes, which counts as one more trial
    for place, successes in ((0.1, 3), (0.7, 1), (1.0, 0)):
        assert math.exp(one._log_success(Point((place, 0.5), 0))) == pytest.approx((successes + share) / 6)
    assert process(succeeded, [1.0, 2.0, 3.0])._log_success(failed[0]) == 0.0


def test_a_failure_keeps_the_process_from_an_equally_good_place():
    known = [Point((place, 0.5), 0) for place in (0.25, 0.5, 0.75)]
    left, right = Point((0.05, 0.5), 0), Point((0.95, 0.5), 0)
    for near, other in ((left, right), (right, left)):
        failed = [Point((near.coordinates[0], 0.4), 0), Point((near.coordinates[0], 0.6), 0)]
        assert process(known, [0.0, 1.0, 0.0], failed=failed).best_of([left, right]) == other
        assert process(known, [0.0, 1.0, 0.0], pending=[near]).best_of([left, right]) == other


def test_a_pending_trial_that_promises_much_raises_the_bar():
    """Its mean counts as seen: what is not better than that is no improvement."""
    points = [Point((place, 0.5), 0) for place in (0.0, 0.2, 0.4, 1.0)]
    values = [3.0, 2.0, 1.0, 3.0]
    logs = [0.0, 0.0, math.log(1e-4)]
    pending = [Point((0.5, 0.5), 0)]
    one = process(points, values, pending=pending, logs=logs)
    (mean,), _ = one._surface.predict([one._coordinates(point) for point in pending])
    assert one._least == pytest.approx(mean)
    without = process(points, values, logs=logs)
    assert one._least < without._least == pytest.approx(min(one._values), abs=0.02)


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


# -- coordinates -------------------------------------------------------------------------------------------------------


def test_two_categories_have_the_distance_one_and_those_without_a_trial_share_a_corner():
    space = KernelSpace([], [5])
    points = [space.pack((), [category]) for category in range(5)]
    one = process([points[0], points[2]], [0.0, 1.0], space, pending=[points[4]])
    places = [one._coordinates(point) for point in points]
    for a, b in itertools.combinations(range(5), 2):
        assert math.dist(places[a], places[b]) == pytest.approx(0 if {a, b} == {1, 3} else 1)


def test_a_parameter_that_does_not_exist_has_always_the_same_place():
    hidden = [CONDITIONAL.pack((0.2, place), [0, category]) for place in (0.1, 0.9) for category in range(3)]
    shown = [CONDITIONAL.pack((0.2, place), [1, category]) for place in (0.1, 0.9) for category in range(3)]
    one = process([*hidden, *shown], [float(number) for number in range(12)], CONDITIONAL)
    assert len({one._coordinates(point) for point in hidden}) == 1
    assert len({one._coordinates(point) for point in shown}) == 6


# -- where it searches -------------------------------------------------------------------------------------------------


def suggestions(size, space, best, count=12):
    rng = random.Random(5)
    others = drawn(space, 6, seed=2)
    values = [0.0, *(1.0 + number for number in range(6))]
    found = []
    for _ in range(count):
        made = Improvement(space, [best, *others], values, [], [], (), rng)
        found.append(made.suggest(size))
    return found


def test_a_step_ends_within_the_bounds_of_the_region():
    made = process([Point((0.2, 0.95), 0)], [0.0])
    moved = [made._near(Point((0.2, 0.95), 0), 0.3, [(0.1, 0.25), (0.9, 1.0)]).coordinates for _ in range(100)]
    assert {min(place) for place in zip(*moved, strict=True)} == {0.1, 0.9}
    assert {max(place) for place in zip(*moved, strict=True)} == {0.25, 1.0}


def test_a_region_is_the_space_contracted_towards_the_best_point():
    made = process([Point((0.2, 1.0), 0)], [0.0])
    places = [made._from_region(0.1, [0.1, 0.1]).coordinates for _ in range(200)]
    for column, low, high in zip(zip(*places, strict=True), (0.18, 0.9), (0.28, 1.0), strict=True):
        assert low <= min(column) < low + 0.005
        assert high - 0.005 < max(column) <= high


def test_a_region_has_the_next_cells_however_small_it_is():
    space = KernelSpace([Axis(randint(0, 4)), Axis(lograndint(1, 100))], [])
    axis = space.axes[0]
    centre = Point((axis.encode(2), space.axes[1].encode(10)), 0)
    made = process([centre], [0.0], space)
    sizes = [min(1.0, 2 * each.width) for each in space.axes]
    drawn_cells = {axis.decode(made._from_region(0.01, sizes).coordinates[0]) for _ in range(60)}
    assert drawn_cells == {1, 2, 3}
    asked = []
    made._from_region = lambda size, given: asked.append(given) or centre
    made.suggest(0.01)
    assert asked[0] == pytest.approx(sizes)


def test_in_a_small_region_few_categories_change():
    space = KernelSpace([Axis(uniform(0, 1))], [4] * 10)
    best = space.pack((0.5,), [0] * 10)
    made = process([best], [0.0], space)

    def changed(size):
        points = [made._from_region(size, [size]) for _ in range(100)]
        return sum(sum(map(bool, space.categories(point.bits))) for point in points) / 1000

    assert changed(0.1) == pytest.approx(0.1 * 3 / 4, abs=0.03)
    assert changed(1.0) == pytest.approx(3 / 4, abs=0.05)


@pytest.mark.parametrize(("count", "share"), [(4, 0.5), (20, 0.2), (50, 0.08)])
def test_a_step_moves_some_of_the_coordinates(count, share):
    space = KernelSpace([Axis(uniform(0, 1))] * count, [])
    centre = Point((0.5,) * count, 0)
    made = process([centre], [0.0], space)
    moved = 0
    for _ in range(200):
        point = made._near(centre, 0.01, [(0.0, 1.0)] * count)
        moved += sum(place != 0.5 for place in point.coordinates)
    assert moved / 200 / count == pytest.approx(share, rel=0.2)
