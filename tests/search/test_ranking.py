"""Ranking: whatever becomes of trials, the best are those that sorting all of them gives, and it looks at few."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from minitune.search.parzen import Observation, Ranking


def report(observation: Observation, value: Any, step: int) -> None:
    observation.step, observation.value, observation.rows[step] = step, value, value


def by_sorting(observations: list[Observation], early_stop: Any, share: float, most: int) -> list[int]:
    """The best ones, from what the policies are said to do."""
    counts: dict[float, int] = {}
    for step in (step for each in observations for step in each.rows):
        counts[step] = counts.get(step, 0) + 1
    believed = [step for step, count in counts.items() if count >= 10]
    rung = max(believed) if believed else max(counts, key=lambda step: (counts[step], step), default=None)
    ranks = []
    for each in observations:
        if early_stop == "rung" and not each.has_failed:
            counts_now, value = rung in each.rows, each.rows.get(rung or 0)
        else:
            counts_now, value = each.arrival is not None or (each.is_paused and each.value is not None), each.value
        if counts_now:
            is_worst = each.has_failed or value is None or math.isnan(value)
            depth = -each.step if early_stop == "depth" else 0
            key = (math.inf, 0) if is_worst else (depth, value)
            ranks.append((key, math.inf if each.arrival is None else each.arrival, each.number))
    ranks.sort()
    found = ranks[: min(math.ceil(share * len(ranks)), most)]
    return [number for key, _, number in found if key[0] != math.inf]


@pytest.mark.parametrize("early_stop", ["last", "depth", "rung"])
def test_the_best_are_those_that_sorting_gives(early_stop: str) -> None:
    rng = random.Random(0)
    ranking, observations, ended = Ranking(["min"], early_stop), [], 0
    for number in range(400):
        if number % 3 == 0:
            observations.append(Observation(number))
        each = rng.choice(observations)
        if each.arrival is None:
            each.is_paused = rng.random() < 0.3
            if rng.random() < 0.8:
                report(
                    each, rng.choice([math.nan, None, rng.random()]), rng.randint(int(each.step), int(each.step) + 2)
                )
            if rng.random() < 0.2:
                each.arrival, each.has_failed, each.is_paused, ended = ended, rng.random() < 0.2, False, ended + 1
            ranking.update(each)
        assert ranking.best(range(1000), 0.3, 20) == by_sorting(observations, early_stop, 0.3, 20)
    assert ended > 40


class Counting(set[int]):
    """Counts how often one asks for a number."""

    asked = 0

    def __contains__(self, number: object) -> bool:
        self.asked += 1
        return super().__contains__(number)


def test_few_are_looked_at_however_many_there_are() -> None:
    def finished() -> Iterator[Observation]:
        for number in range(5_000):
            yield Observation(number, value=float(-number), step=1, arrival=number)

    numbers = Counting(range(5_000))
    best = Ranking(["min"], "last", finished()).best(numbers, 0.2, 25)
    assert best == list(range(4_999, 4_974, -1))
    assert numbers.asked <= 126
