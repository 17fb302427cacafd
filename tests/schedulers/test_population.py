"""The ranks of a population."""

from __future__ import annotations

from minitune.schedulers.population import Population


def test_of_two_equal_scores_the_earlier_one_ranks_better() -> None:
    population = Population(4)
    first, second, third = (population.add(name, name) for name in ("c", "b", "a"))
    for member, score in ((first, 1.0), (second, 2.0), (third, 1.0)):
        population.record(member, score)
    assert population.best(3) == [second, first, third]
    population.record(first, 1.0)  # its turn comes again
    assert population.best(3) == [second, third, first]
