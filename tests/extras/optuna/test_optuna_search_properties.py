"""What Optuna suggests lies in the space, whatever that is; what is known of it comes back."""

from __future__ import annotations

from typing import Any

import hypothesis
from hypothesis import strategies as st
from kit import check_suggestions, check_that_nothing_comes_twice, spaces

from minitune.search.optuna import OptunaSearch

SPACES = spaces()


@hypothesis.given(SPACES, st.integers(0, 99))
@hypothesis.settings(max_examples=25)
def test_suggestions_lie_in_the_space(space: Any, seed: int) -> None:
    def again(points: list[Any]) -> OptunaSearch:
        return OptunaSearch(metric="loss", mode="min", points_to_evaluate=points)

    searcher = OptunaSearch(metric="loss", mode="min", seed=seed)
    check_suggestions(space, searcher, again)


@hypothesis.given(SPACES, st.integers(0, 99))
@hypothesis.settings(max_examples=10)
def test_nothing_comes_twice(space: Any, seed: int) -> None:
    check_that_nothing_comes_twice(space, OptunaSearch(), seed)
