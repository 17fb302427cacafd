"""The Gaussian process of `AutoSearch`, against plain formulas and plain linear algebra."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from minitune.search import gaussian_process
from minitune.search.gaussian_process import Covariance, GaussianProcess, Region, Scales
from minitune.search.parzen import KernelSpace, Point
from minitune.space.domains import lograndint, randint, uniform
from minitune.space.parameters import Axis

Matrix = list[list[float]]
FLAT = KernelSpace([Axis(uniform(0, 1))] * 2, [])
MIXED = KernelSpace([Axis(uniform(0, 1)), Axis(randint(0, 9))], [3])
CONDITIONAL = KernelSpace([Axis(uniform(0, 1)), Axis(uniform(0, 1))], [2, 3], [0, 0b10, 0, 0b10])
"""The second number and the second choice exist only with the second category of the first choice."""


@pytest.fixture(autouse=True)
def without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same computations also where numpy is installed."""
    monkeypatch.setattr(gaussian_process, "covariance_kind", lambda: Covariance)


def drawn(space: KernelSpace, count: int, seed: int = 0) -> list[Point]:
    rng = random.Random(seed)
    return [space.draw_prior(rng) for _ in range(count)]


def process(
    points: Sequence[Point],
    values: Sequence[float],
    space: KernelSpace = FLAT,
    pending: Sequence[Point] = (),
    failed: Sequence[Point] = (),
    logs: Sequence[float] = (),
) -> GaussianProcess:
    """A process; with these length scales, if they are given."""
    made = GaussianProcess
    if logs:
        made = type("Fixed", (GaussianProcess,), {"_learn": lambda *args: None})
    return made(space, points, values, pending, failed, Scales(logs), random.Random(0))


# -- plain linear algebra ----------------------------------------------------------------------------------------------


def solved(matrix: Matrix, right: Sequence[float]) -> list[float]:
    """X with matrix * x = right, by Gauss-Jordan elimination. The pivots of a covariance need no search."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for place in range(len(rows)):
        rows[place] = [value / rows[place][place] for value in rows[place]]
        for other in range(len(rows)):
            if other != place:
                factor = rows[other][place]
                rows[other] = [a - factor * b for a, b in zip(rows[other], rows[place], strict=True)]
    return [row[-1] for row in rows]


def determinant(matrix: Matrix) -> float:
    rows = [list(row) for row in matrix]
    found = 1.0
    for place in range(len(rows)):
        found *= rows[place][place]
        for other in range(place + 1, len(rows)):
            factor = rows[other][place] / rows[place][place]
            rows[other] = [a - factor * b for a, b in zip(rows[other], rows[place], strict=True)]
    return found


def dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def matern(distance: float) -> float:
    """The kernel for smoothness 5/2, at a distance that is not yet multiplied by the root of 5."""
    root = math.sqrt(5) * distance
    return (1 + root + root * root / 3) * math.exp(-root)


def apart(space: KernelSpace, one: Point, other: Point, lengths: Sequence[float]) -> float:
    """The distance: each parameter that differs, divided by its length scale; two categories have the distance 1."""

    def exists(number: int, point: Point) -> bool:
        return not space.needs or point.bits & space.needs[number] == space.needs[number]

    squares = 0.0
    for number, length in enumerate(lengths):
        if number < len(space.axes):
            a, b = (point.coordinates[number] if exists(number, point) else 0.5 for point in (one, other))
            squares += ((a - b) / length) ** 2
        else:
            choice = number - len(space.axes)
            there = [exists(number, point) for point in (one, other)]
            categories = [space.categories(point.bits)[choice] for point in (one, other)]
            assert all(there)
            squares += (categories[0] != categories[1]) / length**2
    return math.sqrt(squares)


def covariances(inputs: Sequence[Sequence[float]], noise: float) -> Matrix:
    """Of points whose distances are already multiplied by the root of 5."""
    found = [[matern(math.dist(a, b) / math.sqrt(5)) for b in inputs] for a in inputs]
    for number in range(len(found)):
        found[number][number] += noise
    return found


@pytest.mark.parametrize("known", [40, 33])
def test_predictions_are_those_of_plain_linear_algebra(known: int) -> None:
    """Of 40 points the last ones may have no value: they change no mean, but the variance."""
    rng = random.Random(1)
    inputs = [tuple(3 * rng.random() for _ in range(3)) for _ in range(40)]
    values = [rng.gauss(0, 1) for _ in range(known)]
    covariance = Covariance(inputs, 0.01)
    matrix = covariances(inputs, 0.01)
    of_known = [row[:known] for row in matrix[:known]]
    assert covariance.solve(values) == pytest.approx(dot(values, solved(of_known, values)))
    assert covariance.log_determinant == pytest.approx(math.log(determinant(matrix)) / 2)
    candidates = [(0.1, 0.2, 0.3), (2.5, 2.5, 0.1), inputs[0], inputs[-1]]
    for candidate, (mean, bounds) in zip(candidates, covariance.predict(candidates), strict=True):
        row = [matern(math.dist(candidate, each) / math.sqrt(5)) for each in inputs]
        shares = list(bounds)
        assert mean == pytest.approx(dot(row[:known], solved(of_known, values)))
        assert shares[-1] == pytest.approx(1 - dot(row, solved(matrix, row)))
        assert shares == sorted(shares, reverse=True)
        assert len(shares) == 3  # the bound is looked at after 16, 32 and 40 points


def test_a_distance_of_one_length_scale_has_the_covariance_of_one() -> None:
    logs = [math.log(1 / 0.5**2), math.log(1 / 2**2), math.log(1e-6)]
    one = process([Point((0.25, 0.25), 0)], [1.0], logs=logs)
    for place in ((0.75, 0.25), (0.25, 1.0)):
        row = gaussian_process._kernel(*(lambda p: (p[0], [p[1]]))(one._scaled([Point(place, 0), one._best[0]])))
        assert row == [pytest.approx(matern(apart(FLAT, Point(place, 0), one._best[0], [0.5, 2])))]


def test_the_loss_of_length_scales_is_the_negative_log_posterior() -> None:
    """The negative logarithm of the likelihood, for the most likely variance, and of the prior."""
    points = drawn(MIXED, 12)
    values = [math.sin(5 * point.coordinates[0]) for point in points]
    one = process(points, values, MIXED)
    logs = [0.5, -1.0, 0.3, math.log(0.02)]
    lengths = [math.exp(-each / 2) for each in logs[:-1]]
    matrix = [[matern(apart(MIXED, a, b, lengths)) + 0.02 * (a is b) for b in points] for a in points]
    variance = dot(values, solved(matrix, values)) / 12 + 1e-12
    expected = 6 * math.log(variance) + math.log(determinant(matrix)) / 2
    assert 0.02 * variance > math.exp(-4)
    expected += 0.2 * sum(math.cosh(each) for each in logs[:-1]) - 0.1 * logs[-1]
    expected += (math.log(0.02 * variance) + 4) ** 2 / 2
    assert one._loss(logs, [one._coordinates(point) for point in points], values) == pytest.approx(expected)


def test_length_scales_tell_which_parameter_matters_and_are_improved_on() -> None:
    points = drawn(FLAT, 25)
    scales = Scales()
    losses = []
    for _ in range(4):
        values = [math.sin(9 * point.coordinates[0]) for point in points]
        made = GaussianProcess(FLAT, points, values, [], [], scales, random.Random(3))
        inputs = [made._coordinates(point) for point in points]
        losses.append(made._loss(scales.logs, inputs, made._values))
    assert losses == sorted(losses, reverse=True)
    assert scales.logs[0] > scales.logs[1] + 2
    assert scales.has_numpy is False


def test_of_many_points_the_best_and_the_newest_others_teach(monkeypatch: pytest.MonkeyPatch) -> None:
    taught: list[Any] = []
    monkeypatch.setattr(GaussianProcess, "_learn", lambda self, *args: taught.append(args))
    points = drawn(FLAT, 80)
    with pytest.raises(IndexError):  # nothing was learned, so it cannot go on
        process(points, [float(number) for number in range(80)])
    assert [each[:2] for each in taught[0][1]] == [points[n].coordinates for n in [*range(25), *range(40, 65)]]
    assert taught[0][2] == sorted(taught[0][2])


# -- the expected improvement ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("z", [4.0, 1.0, 0.0, -1.0, -8.0, -29.0, -31.0, -100.0])
def test_the_expected_improvement_is_that_of_an_integral(z: float) -> None:
    one = process(drawn(FLAT, 5), [5.0, 4.0, 3.0, 2.0, 1.0])
    deviation = math.sqrt(0.25 * one._variance)
    # The integral of u * pdf(z - u), in units of the deviation. Its factor pdf(z) is taken out, since it may underflow.
    step = min(0.01, 0.02 / max(1.0, -z))
    terms = (u * math.exp(u * z - u * u / 2) for u in (step * (n + 0.5) for n in range(2000)))
    log_pdf = -z * z / 2 - math.log(2 * math.pi) / 2
    expected = log_pdf + math.log(step * math.fsum(terms)) + math.log(deviation)
    assert one._log_improvement(one._least - z * deviation, 0.25) == pytest.approx(expected, abs=2e-3)


def test_the_chance_of_success_is_estimated_from_the_five_nearest_trials() -> None:
    succeeded = [Point((place, 0.5), 0) for place in (0.1, 0.12, 0.5)]
    failed = [Point((place, 0.5), 0) for place in (0.14, 0.16, 0.9, 0.92, 0.94, 0.96, 0.98)]
    one = process(succeeded, [1.0, 2.0, 3.0], failed=failed)
    share = 3 / 10  # of successes, which counts as one more trial
    for place, successes in ((0.1, 3), (0.7, 1), (1.0, 0)):
        assert math.exp(one._log_success(Point((place, 0.5), 0))) == pytest.approx((successes + share) / 6)
    assert process(succeeded, [1.0, 2.0, 3.0])._log_success(failed[0]) == 0.0


def test_a_failure_keeps_the_process_from_an_equally_good_place() -> None:
    known = [Point((place, 0.5), 0) for place in (0.25, 0.5, 0.75)]
    left, right = Point((0.05, 0.5), 0), Point((0.95, 0.5), 0)
    for near, other in ((left, right), (right, left)):
        failed = [Point((near.coordinates[0], 0.4), 0), Point((near.coordinates[0], 0.6), 0)]
        assert process(known, [0.0, 1.0, 0.0], failed=failed).best_of([left, right]) == other
        assert process(known, [0.0, 1.0, 0.0], pending=[near]).best_of([left, right]) == other


def test_a_pending_trial_that_promises_much_raises_the_bar() -> None:
    """Its mean counts as seen: what is not better than that is no improvement."""
    points = [Point((place, 0.5), 0) for place in (0.0, 0.2, 0.4, 1.0)]
    values = [3.0, 2.0, 1.0, 3.0]
    logs = [0.0, 0.0, math.log(1e-4)]
    pending = [Point((0.5, 0.5), 0)]
    one = process(points, values, pending=pending, logs=logs)
    (mean, _), *_ = one._covariance.predict(one._scaled(pending))
    assert one._least == pytest.approx(mean)
    without = process(points, values, logs=logs)
    assert one._least < without._least == pytest.approx(min(one._values), abs=0.02)


def test_a_lucky_value_is_neither_the_bar_nor_the_centre() -> None:
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


@pytest.mark.parametrize(
    ("values", "cut"),
    [
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]),
        (
            [1.0, 2.0, 3.0, 3.0, 1e6],
            [1.0, 2.0, 3.0, 3.0, 9.0],
        ),  # the median, and three times its distance from the best
        ([-1e6, 1.0, 2.0], [-1e6, 1.0, 2.0]),
        ([0.0, 0.0, 5.0], [0.0, 0.0, 0.0]),
        ([1e308, -1e308, 1e308], [1e308, -1e308, 1e308]),
        ([0.0, 0.0], [0.0, 0.0]),
    ],
)
def test_values_are_standardised_and_large_ones_are_cut_off(values: list[float], cut: list[float]) -> None:
    mean = sum(value / len(cut) for value in cut)
    deviation = math.hypot(*((value - mean) / math.sqrt(len(cut)) for value in cut)) or 1.0
    scaled, *_ = gaussian_process.cut_off(values)
    assert scaled == pytest.approx([(value - mean) / deviation for value in cut])


# -- coordinates -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_corners_of_a_simplex_are_equally_far_from_each_other(count: int) -> None:
    corners = gaussian_process._simplex(count)
    assert len(corners) == count
    assert all(math.dist(a, b) == pytest.approx(1) for a, b in itertools.combinations(corners, 2))
    assert all(sum(column) == pytest.approx(0) for column in zip(*corners, strict=True))


def test_two_categories_have_the_distance_one_and_those_without_a_trial_share_a_corner() -> None:
    space = KernelSpace([], [5])
    points = [space.pack((), [category]) for category in range(5)]
    one = process([points[0], points[2]], [0.0, 1.0], space, pending=[points[4]])
    places = [one._coordinates(point) for point in points]
    for a, b in itertools.combinations(range(5), 2):
        assert math.dist(places[a], places[b]) == pytest.approx(0 if {a, b} == {1, 3} else 1)


def test_a_parameter_that_does_not_exist_has_always_the_same_place() -> None:
    hidden = [CONDITIONAL.pack((0.2, place), [0, category]) for place in (0.1, 0.9) for category in range(3)]
    shown = [CONDITIONAL.pack((0.2, place), [1, category]) for place in (0.1, 0.9) for category in range(3)]
    one = process([*hidden, *shown], [float(number) for number in range(12)], CONDITIONAL)
    assert len({one._coordinates(point) for point in hidden}) == 1
    assert len({one._coordinates(point) for point in shown}) == 6


# -- where it searches -------------------------------------------------------------------------------------------------


def suggestions(size: float, space: KernelSpace, best: Point, count: int = 12) -> list[Point]:
    rng = random.Random(5)
    others = drawn(space, 6, seed=2)
    values = [0.0, *(1.0 + number for number in range(6))]
    found = []
    for _ in range(count):
        made = GaussianProcess(space, [best, *others], values, [], [], Scales(), rng)
        found.append(made.suggest(size))
    return found


def test_a_step_ends_within_the_bounds_of_the_region() -> None:
    made = process([Point((0.2, 0.95), 0)], [0.0])
    moved = [made._near(Point((0.2, 0.95), 0), 0.3, [(0.1, 0.25), (0.9, 1.0)]).coordinates for _ in range(100)]
    assert {min(place) for place in zip(*moved, strict=True)} == {0.1, 0.9}
    assert {max(place) for place in zip(*moved, strict=True)} == {0.25, 1.0}


def test_a_region_is_the_space_contracted_towards_the_best_point() -> None:
    made = process([Point((0.2, 1.0), 0)], [0.0])
    places = [made._from_region(0.1, [0.1, 0.1]).coordinates for _ in range(200)]
    for column, low, high in zip(zip(*places, strict=True), (0.18, 0.9), (0.28, 1.0), strict=True):
        assert low <= min(column) < low + 0.005
        assert high - 0.005 < max(column) <= high


def test_a_region_has_the_next_cells_however_small_it_is() -> None:
    space = KernelSpace([Axis(randint(0, 4)), Axis(lograndint(1, 100))], [])
    axis = space.axes[0]
    centre = Point((axis.encode(2), space.axes[1].encode(10)), 0)
    made = process([centre], [0.0], space)
    sizes = [min(1.0, 2 * each.width) for each in space.axes]
    drawn_cells = {axis.decode(made._from_region(0.01, sizes).coordinates[0]) for _ in range(60)}
    assert drawn_cells == {1, 2, 3}
    asked: list[list[float]] = []
    made._from_region = lambda size, given: asked.append(given) or centre  # type: ignore[method-assign,func-returns-value]
    made.suggest(0.01)
    assert asked[0] == pytest.approx(sizes)


def test_in_a_small_region_few_categories_change() -> None:
    space = KernelSpace([Axis(uniform(0, 1))], [4] * 10)
    best = space.pack((0.5,), [0] * 10)
    made = process([best], [0.0], space)

    def changed(size: float) -> float:
        points = [made._from_region(size, [size]) for _ in range(100)]
        return sum(sum(map(bool, space.categories(point.bits))) for point in points) / 1000

    assert changed(0.1) == pytest.approx(0.1 * 3 / 4, abs=0.03)
    assert changed(1.0) == pytest.approx(3 / 4, abs=0.05)


@pytest.mark.parametrize(("count", "share"), [(4, 0.5), (20, 0.2), (50, 0.08)])
def test_a_step_moves_some_of_the_coordinates(count: int, share: float) -> None:
    space = KernelSpace([Axis(uniform(0, 1))] * count, [])
    centre = Point((0.5,) * count, 0)
    made = process([centre], [0.0], space)
    moved = 0
    for _ in range(200):
        point = made._near(centre, 0.01, [(0.0, 1.0)] * count)
        moved += sum(place != 0.5 for place in point.coordinates)
    assert moved / 200 / count == pytest.approx(share, rel=0.2)


@pytest.mark.parametrize(
    ("updates", "sizes"),
    [
        ([(1, 1), (1, 2), (2, 3), (3, 4)], [0.4, 0.4, 0.4, 0.8]),  # two new best trials in a row, not with one between
        ([(1, 1), (1, 7), (1, 13), (1, 19), (1, 25)], [0.4, 0.2, 0.1, 0.05, 1.0]),
    ],
)
def test_a_region_grows_after_successes_and_shrinks_after_failures(
    updates: list[tuple[int, int]], sizes: list[float]
) -> None:
    region = Region()
    found = []
    for best, ended in updates:
        region.update(best, ended)
        found.append(region.size)
    assert found == sizes
