"""Checks of arguments."""

import datetime

import pytest

from minitune.base.checks import (
    duration_s,
    made_with,
    require,
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
def test_a_duration_is_seconds_whatever_its_unit_was(given, seconds):
    found = duration_s(given, "time_budget_s")
    assert found == seconds
    assert found is None or type(found) is float


def test_an_error_names_the_rule_and_the_value():
    require(True, "name: a rule", None)
    with pytest.raises(ValueError, match=r"^name must be a rule: of two parts, but got \[1, 2\]$"):
        require(False, "name: a rule: of two parts", [1, 2])
    assert len(shown("x" * 10_000)) < 300


def test_a_class_is_made_with_the_arguments_that_it_takes(caplog):
    class Taking:
        def __init__(self, a, b=2):
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
