"""What holds for the parameters of every space."""

import random

import hypothesis
from hypothesis import strategies as st
from random_spaces import SEARCHED_SPACES, SETTINGS

from minitune.space import domains
from minitune.space.domains import fits
from minitune.space.parameters import draw, parameters, values_of


@SETTINGS
@hypothesis.given(SEARCHED_SPACES, st.integers(0, 100))
def test_values_give_the_configuration_and_the_configuration_its_values(searched, seed):
    known = {each.name: each for each in parameters(searched)}
    rng = random.Random(seed)
    chosen = {}

    def choose(parameter):
        assert known[parameter.name] == parameter
        assert parameter.parent is None or chosen[parameter.parent[0]] == parameter.parent[1]
        domain = parameter.domain
        is_choice = isinstance(domain, domains.Categorical)
        chosen[parameter.name] = rng.randrange(len(domain)) if is_choice else domain.sample(random_state=rng)
        return chosen[parameter.name]

    config = draw(searched, choose)
    read = values_of(searched, config)

    assert fits(searched, config)
    # Several categories may give the same value, so the indices need not be those that were chosen.
    assert draw(searched, lambda parameter: read[parameter.name]) == config
    assert len(known) == len(parameters(searched))
