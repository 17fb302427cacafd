"""The ranks of a population."""

import pytest

from minitune.schedulers.async_hyperband import exact
from minitune.schedulers.population import Population


def test_of_two_equal_scores_the_earlier_one_ranks_better():
    population = Population(4)
    first, second, third = (population.add(name, name) for name in ("c", "b", "a"))
    for member, score in ((first, 1.0), (second, 2.0), (third, 1.0)):
        population.record(member, score)
    assert population.best(3) == [second, first, third]
    population.record(first, 1.0)  # its turn comes again
    assert population.best(3) == [second, third, first]


def ranked(population, name, score):
    member = population.add(name, name)
    population.record(member, score)
    return member


@pytest.mark.parametrize(
    ("count", "fraction", "ends"), [(0, 0.25, 0), (1, 0.25, 0), (2, 0.25, 1), (5, 0.25, 2), (5, 0.5, 2), (8, 0.25, 2)]
)
def test_the_ends_are_a_fraction_rounded_up_and_at_most_half(count, fraction, ends):
    population = Population(exact(fraction))
    for number in range(count):
        ranked(population, str(number), float(number))
    assert population.size_of_ends() == ends
    assert [member.trial_id for member in population.lower()] == [str(n) for n in range(ends - 1, -1, -1)]
    best = population.best(count)
    assert [population.rank(member) for member in best] == list(range(1, count + 1))
    assert [population.count_better(member) for member in best] == [min(rank, ends) for rank in range(count)]
    assert [population.at(rank + 1) for rank in range(count)] == best


def test_members_with_an_equal_score_are_not_better():
    population = Population(exact(0.5))
    first, second, third, fourth = (ranked(population, str(n), score) for n, score in enumerate((3.0, 3.0, 3, 1)))
    assert [population.count_better(member) for member in (first, second, third, fourth)] == [0, 0, 0, 2]
