"""The target for the best value of a run, and its errors in one line."""

import math

import pytest
from kit import fit

from minitune import grid_search
from minitune.analysis.summary import Target, grouped_errors


def test_each_kind_of_error_is_a_line_the_most_frequent_first():
    def fails(config):
        raise ValueError(config["text"])

    grid = fit(fails, {"text": grid_search(["one", "two", "two", "a\nb"])})
    assert grouped_errors(grid._run.trials) == [
        "2 x ValueError: two",
        "1 x ValueError: one",
        "1 x ValueError: a",
    ]


@pytest.mark.parametrize(
    ("at_least", "at_most", "mode", "text", "met", "missed"),
    [
        (1.0, None, "max", "best v >= 1", [1.0, 2.0, math.inf], [0.9, math.nan]),
        (None, 1.0, "min", "best v <= 1", [1.0, 0.0, -math.inf], [1.1, math.nan]),
        (0.0, None, "max", "best v >= 0", [0.0], [-0.1]),
        (None, 0.0, "min", "best v <= 0", [0.0], [0.1]),
        (1.0, 2.0, "max", "best v >= 1 and <= 2", [1.0, 1.5, 2.0], [0.9, 2.1]),
    ],
)
def test_a_target_is_met_by_values_within_its_limits(at_least, at_most, mode, text, met, missed):
    target = Target.of("v", at_least, at_most)
    assert (target.mode, str(target)) == (mode, text)
    assert [target.is_met(value) for value in (*met, *missed)] == [True] * len(met) + [False] * len(missed)


def test_a_target_may_have_the_other_mode():
    assert Target.of("v", 1.0, None, mode="min").mode == "min"
    assert Target.of("v", None, 1.0, mode="max", scope="avg").scope == "avg"


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ((None, 1.0, None), {}, "metric must be"),
        (("v", None, None), {}, "at_least or at_most must be"),
        (("v", math.nan, None), {}, "at_least must be"),
        (("v", None, math.nan), {}, "at_most must be"),
        (("v", "1", None), {}, "at_least must be"),
        (("v", None, True), {}, "at_most must be"),
        (("v", 1.0, None), {"mode": "best"}, "'best'"),
        (("v", 1.0, None), {"scope": "first"}, "scope must be one of last, all, avg"),
    ],
)
def test_a_target_without_a_sense_is_refused(arguments, options, text):
    with pytest.raises(ValueError, match=text):
        Target.of(*arguments, **options)
