"""Which results lack an objective, and when that ends the run: a wrong name, but no accident of one trial."""

import pytest
from kit import fit

from minitune import ASHAScheduler, grid_search
from minitune.driver.failure import Objectives
from minitune.error import MissingMetricError

AUTO = {"training_iteration": 1, "time_total_s": 0.5, "done": True}
LOST = {"accuracy": 0.5, **AUTO}


def errors(objectives, *results):
    """The metrics of the errors of these results."""
    found = [objectives.settle(dict(result)) for result in results]
    return [error and error.metric for error in found]


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


def test_a_run_ends_when_two_trials_lack_a_metric_and_the_error_names_it():
    objectives = Objectives({"loss": True, "cost": True})
    of_loss = objectives.settle({**LOST, "cost": 1.0})
    of_cost = objectives.settle({**LOST, "loss": 1.0})
    assert of_loss is not None
    assert of_cost is not None
    objectives = Objectives({"loss": True, "cost": True})
    objectives.has_failed(of_loss, [])
    objectives.has_failed(of_cost, [])
    with pytest.raises(
        MissingMetricError, match=r"2 trials have failed without a metric .*: the metric 'cost'"
    ) as found:
        objectives.has_failed(of_cost, [])
    assert found.value.metric == "cost"


@pytest.mark.parametrize("place", ["run", "scheduler"])
def test_a_wrong_metric_of_a_run_is_raised_with_its_name(place):
    settings = {"metric": "los", "mode": "min"}
    if place == "scheduler":
        settings = {"scheduler": ASHAScheduler(**settings)}
    with pytest.raises(MissingMetricError, match="Did you mean 'loss'") as found:
        fit(lambda config: {"loss": 1.0}, {"x": grid_search([1, 2, 3])}, **settings)
    assert found.value.metric == "los"
