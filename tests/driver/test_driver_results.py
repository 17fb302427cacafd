"""The return value of `fit`."""

import math

import pytest
from kit import counting, cut, fit, restore, run_path

from minitune import (
    grid_search,
    report,
)
from minitune.analysis import ExperimentAnalysis

SCORES = {0: [5.0, 1.0, 3.0], 1: [2.0, 4.0, 4.0], 2: [math.nan, 9.0, math.nan], 3: []}


def scoring(config):
    for score in SCORES[config["i"]]:
        report({"eval": {"score": score}, "flag": True})
    if config["i"] == 3:
        raise ValueError("no score at all")


@pytest.fixture
def grid():
    return fit(scoring, {"i": grid_search([0, 1, 2, 3])}, metric=None)


@pytest.mark.parametrize(
    ("mode", "scope", "best"),
    [
        ("max", "last", 1),
        ("min", "last", 0),
        ("max", "all", 2),
        ("min", "all", 0),
        ("max", "avg", 1),
        ("min", "avg", 0),
        ("max", "last-5-avg", 1),
    ],
)
def test_a_grid_has_the_best_result_by_metric_and_mode(grid, mode, scope, best):
    assert grid.get_best_result("eval/score", mode, scope).config == {"i": best}


def test_no_trial_runs_in_the_results_of_a_run_without_a_driver():
    cut(counting(9), {"i": 1}, results=2)
    assert [trial.state for trial in restore(counting(9)).get_results()._run.trials] == ["interrupted"]
    assert [trial.state for trial in ExperimentAnalysis(run_path()).trials] == ["interrupted"]
