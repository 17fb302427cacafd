"""Which results lack an objective, and when that ends the run: a wrong name, but no accident of one trial."""

import re

import pytest
from kit import fit

from minitune import ASHAScheduler, grid_search
from minitune.driver.failure import Objectives
from minitune.error import CrashLoopError

AUTO = {"training_iteration": 1, "time_total_s": 0.5, "done": True}


def errors(objectives, *results):
    """The first names in the errors of these results."""
    found = [objectives.settle(dict(result)) for result in results]
    return [error and re.search("'(.*?)'", str(error))[1] for error in found]


def test_each_required_objective_is_missed_by_its_name():
    objectives = Objectives({"loss": True, "eval/loss": True, "cost": False})
    assert errors(
        objectives,
        {"loss": 1.0, "eval": {"loss": 1.0}},
        {"loss": 1.0, "eval/loss": 1.0, "cost": None},
        {"loss": 1.0, "eval": 1.0},
        {"eval": {"loss": 1.0}, "cost": 1.0},
        {"loss": 1.0, "eval": {"loss": 1.0}, "cost": "much"},
        AUTO,
    ) == [None, None, "eval/loss", "loss", "cost", None]
    assert not objectives.is_over


def test_an_objective_that_a_result_may_lack_may_be_none_but_no_text():
    objectives = Objectives({"loss": True, "cost": False})
    results = ({"loss": 1, "cost": None}, {"loss": 1, "cost": ""}, {"loss": None, "cost": 1}, {"cost": 1})
    assert errors(objectives, *results) == [None, "cost", "loss", "loss"]


@pytest.mark.parametrize("place", ["run", "scheduler"])
def test_a_wrong_metric_ends_the_run(place):
    settings = {"metric": "los", "mode": "min"}
    if place == "scheduler":
        settings = {"scheduler": ASHAScheduler(**settings)}
    with pytest.raises(CrashLoopError, match="Did you mean 'loss'"):
        fit(lambda config: {"loss": 1.0}, {"x": grid_search(list(range(9)))}, **settings)
