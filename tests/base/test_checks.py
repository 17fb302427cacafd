"""Checks of arguments."""

from __future__ import annotations

import datetime
from fractions import Fraction

import pytest

from minitune.base.checks import (
    did_you_mean,
    duration_s,
    instance_of,
    made_with,
    of_class,
    require,
    require_texts,
    shown,
)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (None, None),
        (0, None),
        (1.5, 1.5),
        (3, 3.0),
        (datetime.timedelta(days=1, seconds=2), 86402.0),
        (datetime.timedelta(), None),
    ],
)
def test_a_duration_is_seconds_whatever_its_unit_was(given: float | datetime.timedelta | None, seconds: float) -> None:
    found = duration_s(given, "time_budget_s")
    assert found == seconds
    assert found is None or type(found) is float


def test_an_error_names_the_rule_and_the_value() -> None:
    require(True, "name: a rule", None)
    with pytest.raises(ValueError, match=r"^name must be a rule: of two parts, but got \[1, 2\]$"):
        require(False, "name: a rule: of two parts", [1, 2])
    assert len(shown("x" * 10_000)) < 300


def test_a_class_in_place_of_an_object_is_told_to_be_called() -> None:
    assert of_class(Fraction) == "; make an object of it: Fraction(...)"
    assert of_class(Fraction(1)) == ""


def test_the_most_similar_name_is_meant() -> None:
    assert did_you_mean("mod", ["metric", "model", "mode"]) == " (did you mean 'mode'?)"
    assert did_you_mean("xyz", ["metric", "mode"]) == ""
    assert did_you_mean("mode", []) == ""


def test_a_class_is_made_with_the_arguments_that_it_takes(caplog: pytest.LogCaptureFixture) -> None:
    class Taking:
        def __init__(self, a: int, b: int = 2):
            self.both = a, b

    class TakingNothing:
        pass

    assert made_with(Taking, {"a": 1, "b": 3}).both == (1, 3)
    assert caplog.messages == []
    assert made_with(Taking, {"a": 1, "d": 4, "c": 3}).both == (1, 2)
    made_with(TakingNothing, {"a": 1})
    assert caplog.messages == [
        "Taking does not take c, d; left out (it takes a, b)",
        "TakingNothing does not take a; left out (it takes nothing)",
    ]


def test_only_a_list_of_texts_is_one() -> None:
    require_texts("names", [])
    require_texts("names", ("a", "b"))
    with pytest.raises(TypeError, match="names must be a list of texts, but it is 'text'"):
        require_texts("names", "text")
    with pytest.raises(TypeError, match=r"names must hold texts only, but names\[1\] is 3"):
        require_texts("names", ["a", 3])


def test_an_object_is_given_or_made() -> None:
    given: dict[str, int] = {}
    assert instance_of("config", given, dict) is given
    assert instance_of("config", None, dict) == {}
    with pytest.raises(TypeError, match=r"^config must be a dict, but got \[\]$"):
        instance_of("config", [], dict)
    with pytest.raises(
        TypeError, match=r"config must be a Fraction, but got .*; make an object of it: Fraction\(...\)"
    ):
        instance_of("config", Fraction, Fraction)
