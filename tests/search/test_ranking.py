"""Ranking: whatever becomes of trials, the best are those that sorting all of them gives, and it looks at few."""

import math
import random
from dataclasses import replace

import pytest

from minitune.search.ranking import Observation, Ranking


def report(observation, value, step):
    observation.step, observation.value, observation.rows[step] = step, value, value


def by_sorting(observations, by_rung, share, most):
    """The best ones, from what the policies are said to do."""
    counts = {}
    for step in (step for each in observations for step in each.rows):
        counts[step] = counts.get(step, 0) + 1
    believed = [step for step, count in counts.items() if count >= 10]
    rung = max(believed) if believed else max(counts, key=lambda step: (counts[step], step), default=None)
    ranks = []
    for each in observations:
        if by_rung and not each.has_failed:
            counts_now, value = rung in each.rows, each.rows.get(rung or 0)
        else:
            counts_now, value = each.arrival is not None, each.value
        if counts_now:
            is_worst = each.has_failed or value is None or math.isnan(value)
            key = (math.inf,) if is_worst else (value,)
            ranks.append((key, math.inf if each.arrival is None else each.arrival, each.number))
    ranks.sort()
    found = ranks[: min(math.ceil(share * len(ranks)), most)]
    return [number for key, _, number in found if key[0] != math.inf]


@pytest.mark.parametrize("by_rung", [False, True])
def test_the_best_are_those_that_sorting_gives(by_rung):
    rng = random.Random(0)
    ranking, observations, ended = Ranking(["min"], by_rung), [], 0
    for number in range(400):
        if number % 3 == 0:
            observations.append(Observation(number))
        each = rng.choice(observations)
        if each.arrival is None:
            if rng.random() < 0.8:
                report(
                    each, rng.choice([math.nan, None, rng.random()]), rng.randint(int(each.step), int(each.step) + 2)
                )
            if rng.random() < 0.2:
                each.arrival, each.has_failed, ended = ended, rng.random() < 0.2, ended + 1
            ranking.update(each)
        assert ranking.best(range(1000), 0.3, 20) == by_sorting(observations, by_rung, 0.3, 20)
    assert ended > 40


class Counting(set[int]):
    """Counts how often one asks for a number."""

    asked = 0

    def __contains__(self, number):
        self.asked += 1
        return super().__contains__(number)


def test_ranking_looks_at_few_trials():
    def finished():
        for number in range(5_000):
            yield Observation(number, value=float(-number), step=1, arrival=number)

    numbers = Counting(range(5_000))
    best = Ranking(["min"], False, finished()).best(numbers, 0.2, 25)
    assert best == list(range(4_999, 4_974, -1))
    assert numbers.asked <= 126


def test_pareto_points_with_most_volume_come_first():
    values = [(0.0, 10.0), (4.1, 3.95), (10.0, 0.0), (4.0, 4.0), (10.0, 10.0), (5.0, 5.0)]
    ended = [Observation(number, value=value, step=1, arrival=number) for number, value in enumerate(values)]
    ranking = Ranking(["min", "min"], False, ended)
    # the middle, the ends of the front, what is next to the middle, and then the next fronts
    assert ranking.best(range(6), 1.0, 6) == [3, 0, 2, 1, 5, 4]
    assert ranking.best(range(6), 1.0, 2) == [3, 0]
    mirrored = Ranking(["max", "min"], False, [replace(one, value=(-one.value[0], one.value[1])) for one in ended])
    assert mirrored.best(range(6), 1.0, 6) == [3, 0, 2, 1, 5, 4]


@pytest.mark.parametrize("values", [[(3.0, 1.0), (1.0, 3.0)], [(1.0, 3.0), (3.0, 1.0)]])
def test_of_pareto_points_that_add_as_much_the_earlier_one_comes_first(values):
    ended = [Observation(number, value=value, step=1, arrival=number) for number, value in enumerate(values)]
    assert Ranking(["min", "min"], False, ended).best(range(2), 1.0, 2) == [0, 1]


def test_a_value_of_minus_infinity_ranks_first_and_one_that_is_nan_last():
    values = [(0.0, 0.0, 9.0), (1.0, 1.0, 1.0), (-math.inf, 5.0, 5.0), (2.0, 2.0, math.nan), (9.0, 9.0, 9.0)]
    ended = [Observation(number, value=value, step=1, arrival=number) for number, value in enumerate(values)]
    found = Ranking(["min"] * 3, False, ended).best(range(5), 1.0, 5)
    assert set(found[:3]) == {0, 1, 2}
    assert found[3:] == [4]
