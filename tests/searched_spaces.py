"""Random search spaces, and what holds in each of them for a searcher that stands on another library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

import minitune as tune
from minitune.search import Searcher
from minitune.search.equality import config_key
from minitune.space import fits

_LEAVES: list[Any] = [
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


def spaces(*more: Any) -> st.SearchStrategy[Any]:
    """Nested and conditional spaces of domains of every kind, and of `more`."""
    return st.dictionaries(
        st.sampled_from(["a", "b", "a/b"]),
        st.recursive(
            st.sampled_from([*_LEAVES, *more]),
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


def check_suggestions(space: Any, searcher: Searcher, again: Callable[[list[Any]], Searcher]) -> None:
    """What a searcher suggests lies in the space; given to another one as points, it comes back.

    Args:
        space: The space.
        searcher: Of `loss`, to be minimised.
        again: Makes another one that evaluates these points first.
    """
    searcher.set_search_properties(None, None, space)
    configs: list[Any] = []
    for number in range(14):
        configs.append(searcher.suggest(str(number)))
        assert fits(space, configs[-1])
        searcher.on_trial_complete(str(number), {"loss": float(number % 3)})
    second = again(configs[-2:])
    second.set_search_properties(None, None, space)
    assert [config_key(second.suggest(name)) for name in "ab"] == list(map(config_key, configs[-2:]))


def check_that_nothing_comes_twice(space: Any, searcher: Searcher, seed: int) -> None:
    """With `on_duplicate="resample"` each configuration is another one, or the search ends and says why."""
    study = tune.Study(space, searcher, mode="min", seed=seed, num_samples=15, on_duplicate="resample")
    keys = set()
    while (config := study.ask()) is not None:
        assert fits(space, config)
        assert config_key(config) not in keys
        keys.add(config_key(config))
        study.tell(config, len(keys) % 4)
    assert len(keys) == 15 or study.end_reason
