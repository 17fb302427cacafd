"""What HyperOpt suggests lies in the space, whatever that is; what is known of it comes back."""

from __future__ import annotations

from typing import Any

import hypothesis
from hypothesis import strategies as st
from kit import check_suggestions, check_that_nothing_comes_twice, spaces

import minitune as tune
from minitune.search.hyperopt import HyperOptSearch

SPACES = spaces(tune.randn(0, 3), tune.qrandn(0, 3, 0.5))


@hypothesis.given(SPACES, st.integers(0, 99))
@hypothesis.settings(max_examples=25)
def test_suggestions_lie_in_the_space(space: Any, seed: int) -> None:
    def again(points: list[Any]) -> HyperOptSearch:
        return HyperOptSearch(metric="loss", mode="min", points_to_evaluate=points)

    searcher = HyperOptSearch(metric="loss", mode="min", random_state_seed=seed, n_initial_points=4)
    check_suggestions(space, searcher, again)


@hypothesis.given(SPACES, st.integers(0, 99))
@hypothesis.settings(max_examples=10)
def test_nothing_comes_twice(space: Any, seed: int) -> None:
    check_that_nothing_comes_twice(space, HyperOptSearch(n_initial_points=4), seed)
