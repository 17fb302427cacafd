"""Errors of calls whose arguments do not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from minitune.base.calls import explains_calls, unknown_argument


@explains_calls()
def plan(metric: str, *, samples: int = 1, _hidden: int = 0) -> tuple[str, int]:
    if metric == "fails":
        len(3)  # type: ignore[arg-type]
    return metric, samples


@explains_calls(name="Public")
class _Private:
    def __init__(self, limit: int, mode: str = "min"):
        self.limit = limit


class Derived(_Private):
    pass


def hint(given: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    return f"write more than {list(given)} and {sorted(kwargs)}" if given or "old" in kwargs else ""


@explains_calls(hint)
def hinted(first: int) -> None:
    pass


@explains_calls()
def nothing() -> None:
    pass


def error_of(call: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(TypeError) as caught:
        call(*args, **kwargs)
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_a_call_that_fits_is_made() -> None:
    assert plan("loss", samples=3) == ("loss", 3)
    assert plan.__name__ == "plan"
    assert Derived(3, mode="max").limit == 3


def test_an_argument_that_does_not_exist_is_named_with_those_that_do() -> None:
    taken = "it takes metric, samples"
    assert error_of(plan, "loss", sample=3) == (f"plan() takes no argument 'sample' (did you mean 'samples'?); {taken}")
    assert error_of(plan, "loss", xyz=3) == f"plan() takes no argument 'xyz'; {taken}"
    assert error_of(nothing, x=1) == "nothing() takes no argument 'x'; it takes nothing"


def test_arguments_that_do_not_fit_are_told_with_those_that_do() -> None:
    assert error_of(plan) == "plan(): missing a required argument: 'metric'; it takes metric, samples"
    assert error_of(plan, "loss", 3) == "plan(): too many positional arguments; it takes metric, samples"


def test_a_class_is_named_as_the_user_has_called_it() -> None:
    assert error_of(_Private, 1, modes="max").startswith("Public() takes no argument 'modes' (did you mean 'mode'?);")
    assert error_of(_Private).startswith("Public(): missing a required argument: 'limit'; it takes limit, mode")
    assert error_of(Derived, 1, modes="max") == (
        "Derived() takes no argument 'modes' (did you mean 'mode'?); it takes limit, mode"
    )


def test_a_hint_takes_the_place_of_a_similar_name() -> None:
    assert error_of(hinted, old=1) == "hinted() takes no argument 'old'; write more than [] and ['old']"
    assert error_of(hinted, 1, 2) == "hinted(): too many positional arguments; write more than [1, 2] and []"
    assert error_of(hinted, new=1) == "hinted() takes no argument 'new'; it takes first"


def test_an_error_within_the_function_is_its_own() -> None:
    with pytest.raises(TypeError, match="has no len"):
        plan("fails")


def test_a_keyword_that_is_not_known_is_named_with_a_similar_one() -> None:
    assert str(unknown_argument("fit", "seeds", ["seed", "name"])) == (
        "fit() takes no argument 'seeds' (did you mean 'seed'?)"
    )
