"""What holds for TPESearch in every space, whatever becomes of the trials."""

import random

import hypothesis
from hypothesis import strategies as st
from random_spaces import SEARCHED_SPACES, SETTINGS

from minitune.search import TPESearch
from minitune.space.domains import fits

VALUES = st.one_of(st.floats(), st.none(), st.text(max_size=1), st.integers(-5, 5))


@hypothesis.settings(SETTINGS, max_examples=40)
@hypothesis.given(
    SEARCHED_SPACES,
    st.integers(0, 100),
    st.lists(VALUES, min_size=1, max_size=6),
    st.booleans(),
    st.integers(1, 2),
)
def test_tpe_never_fails_and_never_leaves_the_space(searched, seed, values, stops_early, objectives):
    rng = random.Random(seed)
    names = ["a", "b"][:objectives]
    searcher = TPESearch(
        searched,
        metric=names if objectives > 1 else "a",
        mode=["min", "max"] if objectives > 1 else "max",
        n_initial_points=3,
        seed=seed,
    )
    searcher.set_search_properties(None, None, {}, stops_early=stops_early)
    live = []
    for number in range(25):
        config = searcher.suggest(f"t{number}")
        assert fits(searched, config)
        live.append(f"t{number}")
        trial = rng.choice(live)
        result = {"training_iteration": rng.randint(1, 4), **{name: rng.choice(values) for name in names}}
        act = rng.randrange(5)
        if act < 2:
            searcher.on_trial_result(trial, result)
        else:
            live.remove(trial)
            searcher.on_trial_complete(trial, result if act > 2 else None, error=act == 4)
