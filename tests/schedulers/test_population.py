"""The ranks of a population."""

from __future__ import annotations

import pytest

from minitune.schedulers.async_hyperband import exact
from minitune.schedulers.population import Member, Population


def test_of_two_equal_scores_the_earlier_one_ranks_better() -> None:
    population = Population(4)
    first, second, third = (population.add(name, name) for name in ("c", "b", "a"))
    for member, score in ((first, 1.0), (second, 2.0), (third, 1.0)):
        population.record(member, score)
    assert population.best(3) == [second, first, third]
    population.record(first, 1.0)  # its turn comes again
    assert population.best(3) == [second, third, first]


def heard(population: Population, name: str, *reports: tuple[float, float]) -> Member:
    """A member whose turn came with its last report."""
    member = population.add(name, name)
    for time, score in reports:
        population.hear(member, time, score)
    population.record(member, score)
    member.last_turn = time
    return member


def test_a_copy_is_compared_by_what_its_donor_had_at_that_time() -> None:
    population = Population(4, at_same_time=True)
    slow = heard(population, "slow", (2, 3.0))
    donor = heard(population, "donor", (1, 1.0), (2, 2.5), (4, 4.0))
    copied = heard(population, "copy", (4, 0.0))
    assert population.best(3) == [slow, donor, copied]
    population.become(copied, donor)
    population.hear(copied, 5, 9.0)
    population.record(copied, 9.0)
    assert population.best(3) == [slow, donor, copied], "at time 2, it had the donor's score"
    assert population.time_of_rank(copied) == 2
    population.hear(slow, 5, 3.0)
    population.record(slow, 3.0)
    assert population.best(3) == [donor, copied, slow], "at time 4, too"


def test_a_copy_does_not_get_what_its_donor_has_reported_since_it_was_saved() -> None:
    population = Population(4, at_same_time=True)
    donor, copied = heard(population, "donor", (2, 2.0)), heard(population, "copy", (2, 1.0))
    population.hear(donor, 3, 8.0)
    population.become(copied, donor)
    population.hear(copied, 4, 5.0)
    population.record(copied, 5.0)
    population.hear(donor, 4, 8.0)
    population.record(donor, 8.0)
    assert population.best(2) == [donor, copied]
    assert [member.score for member in population.best(2)] == [8.0, 5.0]


@pytest.mark.parametrize(
    ("count", "fraction", "ends"), [(0, 0.25, 0), (1, 0.25, 0), (2, 0.25, 1), (5, 0.25, 2), (5, 0.5, 2), (8, 0.25, 2)]
)
def test_the_ends_are_a_fraction_rounded_up_and_at_most_half(count: int, fraction: float, ends: int) -> None:
    population = Population(exact(fraction))
    for number in range(count):
        heard(population, str(number), (1, float(number)))
    assert population.size_of_ends() == ends
    assert [member.trial_id for member in population.lower()] == [str(n) for n in range(ends - 1, -1, -1)]
    best = population.best(count)
    assert [population.rank(member) for member in best] == list(range(1, count + 1))
    assert [population.count_better(member) for member in best] == [min(rank, ends) for rank in range(count)]
    assert [population.at(rank + 1) for rank in range(count)] == best


def test_members_with_an_equal_score_are_not_better() -> None:
    population = Population(exact(0.5))
    first, second, third, fourth = (heard(population, str(n), (1, score)) for n, score in enumerate((3.0, 3.0, 3, 1)))
    assert [population.count_better(member) for member in (first, second, third, fourth)] == [0, 0, 0, 2]
