"""The evolution strategy of `AutoSearch`, against the formulas of the papers, axis by axis."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import dataclass, field

import pytest

from minitune.search.evolution import Evolution
from minitune.search.parzen import KernelSpace, Point
from minitune.space.domains import randint, uniform
from minitune.space.parameters import Axis


def evolution_of(*domains):
    return Evolution(KernelSpace([Axis(each) for each in domains], []))


@dataclass
class Plain:
    """The state of a separable CMA-ES with active weights for the mean; population 10, first step 0.1."""

    n: int
    step: float = 0.1
    mean: list[float] = field(default_factory=list)
    variances: list[float] = field(default_factory=list)
    path: list[float] = field(default_factory=list)
    step_path: list[float] = field(default_factory=list)

    def __post_init__(self):
        self.mean, self.variances = [0.5] * self.n, [1.0] * self.n
        self.path, self.step_path = [0.0] * self.n, [0.0] * self.n

    def move(self, ranked):
        n = self.n
        # Hansen's tutorial, equations 49 to 53: weights, and the effective numbers of points
        raw = [math.log(5.5) - math.log(rank) for rank in range(1, 11)]
        positive = sum(each for each in raw if each > 0)
        negative = sum(-each for each in raw if each < 0)
        better = [each / positive if each > 0 else 0.0 for each in raw]
        weights = [each / positive if each > 0 else 0.5 * each / negative for each in raw]
        mu_eff = 1 / sum(each**2 for each in weights)
        mu_better = 1 / sum(each**2 for each in better)
        # table 1, with the factor (n + 2) / 3 of Ros and Hansen for a diagonal
        c_sigma = (mu_eff + 2) / (n + mu_eff + 5)
        d_sigma = 1 + 2 * max(0.0, math.sqrt((mu_eff - 1) / (n + 1)) - 1) + c_sigma
        c_c = (4 + mu_eff / n) / (n + 4 + 2 * mu_eff / n)
        c_1 = (n + 2) / 3 * 2 / ((n + 1.3) ** 2 + mu_eff)
        c_mu = min(1 - c_1, (n + 2) / 3 * 2 * (mu_better - 2 + 1 / mu_better) / ((n + 2) ** 2 + mu_eff))
        expected_length = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))
        # the points in units of the distribution; none counts as farther than this (Hansen 2011)
        farthest = math.sqrt(n) + 2 * n / (n + 2)
        steps = []
        for places in ranked:
            z = [(p - m) / (self.step * v**0.5) for p, m, v in zip(places, self.mean, self.variances, strict=True)]
            length = math.sqrt(sum(each**2 for each in z))
            steps.append([each * min(1.0, farthest / length) for each in z])
        moved = [sum(w * z[axis] for w, z in zip(weights, steps, strict=True)) for axis in range(n)]
        for axis in range(n):
            place = self.mean[axis] + self.step * self.variances[axis] ** 0.5 * moved[axis]
            self.mean[axis] = min(1.0, max(0.0, place))
            self.step_path[axis] *= 1 - c_sigma
            self.step_path[axis] += math.sqrt(c_sigma * (2 - c_sigma) * mu_eff) * moved[axis]
        length = math.sqrt(sum(each**2 for each in self.step_path)) / expected_length
        stalls = length <= 1.4 + 2 / (n + 1)
        for axis in range(n):
            v = self.variances[axis]
            self.path[axis] *= 1 - c_c
            if stalls:
                self.path[axis] += math.sqrt(c_c * (2 - c_c) * mu_eff) * math.sqrt(v) * moved[axis]
            spread = sum(w * z[axis] ** 2 for w, z in zip(better, steps, strict=True))
            self.variances[axis] = (1 - c_1 - c_mu) * v + c_1 * self.path[axis] ** 2 + c_mu * v * spread
        self.step *= math.exp(min(1.0, c_sigma / d_sigma * (length - 1)))


@pytest.mark.parametrize("pull", ["near", "far", "one way"])
@pytest.mark.parametrize("n", [1, 2, 16])
def test_generations_move_the_distribution_as_in_the_papers(n, pull):
    evolution = evolution_of(*[uniform(0, 1)] * n)
    plain = Plain(n)
    rng = random.Random(n)
    for _ in range(6):
        told = []
        for _ in range(10):
            point = evolution.draw(rng)
            if pull == "far":
                point = Point(tuple(rng.random() for _ in range(n)), 0)
            value = sum(point.coordinates)
            if pull == "near":
                value = sum((place - 0.45) ** 2 * (axis + 1) for axis, place in enumerate(point.coordinates))
            told.append((value, point.coordinates))
            evolution.tell(point, value)
        plain.move([places for _, places in sorted(told)])
        assert evolution._mean == pytest.approx(plain.mean)
        assert evolution._step == pytest.approx(plain.step)
        assert evolution._variances == pytest.approx(plain.variances)


def test_draws_have_the_mean_and_the_widths_of_the_distribution():
    evolution = evolution_of(uniform(0, 1), uniform(3, 9))
    evolution._variances = [1.0, 0.04]
    rng = random.Random(0)
    columns = [*zip(*(evolution.draw(rng).coordinates for _ in range(1000)), strict=True)]
    for column, deviation in zip(columns, (0.1, 0.02), strict=True):
        assert statistics.fmean(column) == pytest.approx(0.5, abs=0.01)
        assert statistics.pstdev(column) == pytest.approx(deviation, rel=0.08)


def test_integers_are_drawn_in_the_middle_of_their_cells_and_never_stall():
    evolution = evolution_of(randint(0, 9))
    evolution._step = 1e-5
    rng = random.Random(0)
    drawn = [round(9 * evolution.draw(rng).coordinates[0], 9) for _ in range(200)]
    assert {*drawn} == {3.5, 4.5, 5.5}


def told_generations(evolution, value, place):
    """After how many trials at this place the distribution moves."""
    before = list(evolution._mean)
    for count in range(1, 100):
        evolution.tell(Point((place,), 0), value)
        if evolution._mean != before:
            return count
    return 0


def test_each_start_has_twice_as_many_trials_in_a_generation():
    evolution = evolution_of(uniform(0, 1))
    assert told_generations(evolution, 1.0, 0.6) == 10
    for generation in (20, 40):
        evolution._step = 1e-9
        for _ in range(evolution._population):
            evolution.tell(Point((0.6,), 0), 1.0)
        assert evolution._mean == [0.5]
        assert told_generations(evolution, 1.0, 0.6) == generation
