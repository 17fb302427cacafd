"""What Nevergrad suggests lies in the space, whatever that is; what is known of it comes back."""

from __future__ import annotations

from typing import Any

import hypothesis
from hypothesis import strategies as st

import minitune as tune
from minitune.search.equality import config_key
from minitune.search.nevergrad import NevergradSearch
from minitune.space import fits

LEAVES = st.sampled_from(
    [
        tune.uniform(-1, 1),
        tune.uniform(2, 2),
        tune.loguniform(1e-9, 1e3),
        tune.quniform(-0.3, 0.9, 0.1),
        tune.qloguniform(0.001, 0.1, 0.001),
        tune.randint(-3, 4),
        tune.lograndint(1, 1000),
        tune.qrandint(3, 50, 7),
        tune.qlograndint(8, 1024, 8),
        tune.qrandint(1, 9, 1),
        tune.choice([1, 1.0, True, None, "a", float("inf")]),
        tune.choice([[1], (2,), {"k": 1}, len]),
        tune.choice(range(10**7)),
        tune.sample_from(lambda: 1),
        "constant",
    ]
)
SPACES = st.dictionaries(
    st.sampled_from(["a", "b", "a/b"]),
    st.recursive(
        LEAVES,
        lambda inner: st.one_of(
            st.dictionaries(st.sampled_from("xy"), inner, min_size=1, max_size=2),
            st.lists(inner, min_size=1, max_size=2),
            st.lists(st.dictionaries(st.sampled_from("pq"), inner, max_size=2), min_size=1, max_size=3).map(
                tune.choice
            ),
        ),
        max_leaves=6,
    ),
    min_size=1,
    max_size=3,
)


@hypothesis.given(SPACES, st.integers(0, 99))
@hypothesis.settings(deadline=None, max_examples=20, phases=[hypothesis.Phase.generate])
def test_suggestions_lie_in_the_space(space: Any, seed: int) -> None:
    search = NevergradSearch(metric="loss", mode="min")
    search.set_seed(seed)
    search.set_search_properties(None, None, space)
    configs = []
    for number in range(14):
        config = search.suggest(str(number))
        assert fits(space, config)
        configs.append(config)
        search.on_trial_complete(str(number), {"loss": float(number % 3)})
    again = NevergradSearch(metric="loss", mode="min", points_to_evaluate=configs[-2:])
    again.set_search_properties(None, None, space)
    assert [config_key(again.suggest(name)) for name in "ab"] == list(map(config_key, configs[-2:]))


@hypothesis.given(SPACES, st.integers(0, 99))
@hypothesis.settings(deadline=None, max_examples=10, phases=[hypothesis.Phase.generate])
def test_nothing_comes_twice(space: Any, seed: int) -> None:
    study = tune.Study(space, NevergradSearch(), mode="min", seed=seed, num_samples=15, on_duplicate="resample")
    keys = set()
    while (config := study.ask()) is not None:
        assert fits(space, config)
        assert config_key(config) not in keys
        keys.add(config_key(config))
        study.tell(config, len(keys) % 4)
    assert len(keys) == 15 or study.end_reason
