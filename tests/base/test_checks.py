"""Checks of arguments."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from minitune.base.checks import (
    check_num_samples,
    did_you_mean,
    duration_s,
    instance_of,
    is_real,
    is_whole,
    made_with,
    of_class,
    require,
    require_creator,
    require_flag,
    require_metric,
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


@pytest.mark.parametrize("given", [-1, "60", True, datetime.timedelta(seconds=-1), float("nan")])
def test_another_duration_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="time_budget_s must be None, a number of seconds >= 0"):
        duration_s(given, "time_budget_s")


@pytest.mark.parametrize(
    ("value", "whole", "real"),
    [
        (1, True, True),
        (-1, True, True),
        (1.0, False, True),
        (Fraction(1, 2), False, True),
        (True, False, False),
        (None, False, False),
        ("1", False, False),
        (1j, False, False),
        (Decimal(1), False, False),
        ([1], False, False),
    ],
)
def test_which_arguments_are_numbers(value: object, whole: bool, real: bool) -> None:
    assert (is_whole(value), is_real(value)) == (whole, real)


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


@pytest.mark.parametrize("value", [True, False, 0, 1.0, None])
def test_a_flag_may_be_a_bool_or_a_number(value: object) -> None:
    require_flag("verbose", value)


@pytest.mark.parametrize("value", ["no", [], object()])
def test_a_flag_that_is_no_bool_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="verbose must be True or False, but got"):
        require_flag("verbose", value)


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


def test_a_metric_is_a_text_or_none() -> None:
    require_metric("metric", None)
    require_metric("metric", "loss")
    for value in (3, ["loss"], b"loss"):
        with pytest.raises(ValueError, match="metric must be None or the metric's name, but got"):
            require_metric("metric", value)


@pytest.mark.parametrize(("value", "count"), [(1, 1), (100, 100), (-1, -1)])
def test_the_number_of_samples_is_positive_or_endless(value: int, count: int) -> None:
    assert check_num_samples(value) == count


@pytest.mark.parametrize("value", [0, -2, 1.0, True, None, "3"])
def test_another_number_of_samples_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="num_samples must be an int >= 1, or -1 for no end, but got"):
        check_num_samples(value)


def test_a_creator_can_be_called_or_is_none() -> None:
    assert require_creator(None, "name") is None
    assert require_creator(str, "name") is str
    with pytest.raises(ValueError, match="name must be None or a function of the trial, but got 'text'"):
        require_creator("text", "name")
