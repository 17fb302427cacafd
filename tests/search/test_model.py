"""The model of `TPESearch`: it counts and lists what was not tried, and pending trials keep its proposals away."""

import random

from minitune.search.model import Model
from minitune.search.ranking import Observation, Ranking
from minitune.space.domains import choice, quniform, randint, uniform

NESTED = {
    "m": choice([{"d": randint(1, 4)}, {"q": choice([{"e": quniform(0, 1, 0.5)}, "plain"])}, "none"]),
    "one": randint(3, 4),
}


def test_all_configurations_of_a_finite_space_are_counted_and_listed():
    model = Model(NESTED)
    assert model.count == 3 + (3 + 1) + 1
    listed = model.untried()
    assert len({frozenset(values.items()) for values in listed}) == 8
    assert all(model.configuration(values) is not None for values in listed)
    model.add(Observation(0, listed[0]))
    model.add(Observation(1, listed[0]))
    assert model.left == 7
    assert model.untried() == listed[1:]
    assert model.configuration(listed[0]) is None
    assert Model({"x": uniform(0, 1)}).count is None


def test_pending_trials_keep_proposals_away_but_less_than_bad_ones():
    model = Model({"x": uniform(0, 1)})
    ended = [
        Observation(number, {"x": number / 20}, value=abs(number - 9), step=1, arrival=number) for number in range(20)
    ]
    for each in ended:
        model.add(each)
    ranking = Ranking(["min"], False, ended)

    def near(pending):
        found = [model.propose(random.Random(seed), ranking, pending)[1]["x"] for seed in range(50)]
        return sum(abs(x - 0.45) < 0.05 for x in found)

    alone = near(range(0))
    for number in range(20, 23):
        model.add(Observation(number, {"x": 0.45}))
    assert near(range(0)) < near(range(20, 23)) < alone
