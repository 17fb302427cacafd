"""Which results lack an objective, and when that ends the run: a wrong name, but no accident of one trial."""

from decimal import Decimal
from fractions import Fraction

import pytest
from kit import fit, make_trial

from minitune import ASHAScheduler, grid_search
from minitune.driver.objectives import Objectives
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


def test_objectives_become_plain_numbers_in_the_result():
    objectives = Objectives({"eval/loss": True, "cost": False})
    result = {"eval": {"loss": Fraction(1, 2), "n": Fraction(1, 2)}, "cost": Decimal(2)}
    assert objectives.settle(result) is None
    assert result == {"eval": {"loss": 0.5, "n": Fraction(1, 2)}, "cost": 2.0}
    assert [type(result["eval"]["loss"]), type(result["cost"])] == [float, float]


def test_an_objective_that_a_result_may_lack_may_be_none_but_no_text():
    objectives = Objectives({"loss": True, "cost": False})
    results = ({"loss": 1, "cost": None}, {"loss": 1, "cost": ""}, {"loss": None, "cost": 1}, {"cost": 1})
    assert errors(objectives, *results) == [None, "cost", "loss", "loss"]


@pytest.mark.parametrize(("reported", "hint"), [("losses", "Did you mean 'losses'? "), ("other", None)])
def test_the_error_names_what_was_reported_and_a_name_that_is_close(reported, hint):
    error = Objectives({"loss": True}).settle({reported: 1.0, "b": 1.0, **AUTO})
    names = ", ".join(sorted([reported, "b"]))
    assert f"the metric 'loss' must be in every reported result, but reported were: {names}." in str(error)
    assert ("Did you mean" in str(error)) is bool(hint)
    assert (hint or "") in str(error)


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


@pytest.mark.parametrize("how", ["last result", "earlier result", "no number in the last result", "result of its own"])
def test_a_metric_that_a_trial_has_reported_ends_no_run(how):
    objectives = Objectives({"eval/loss": True})
    error = objectives.settle(LOST)
    trial = make_trial()
    if how == "last result":
        trial.record_result({"eval": {"loss": 1.0}})
    elif how == "earlier result":
        trial.record_result({"eval": {"loss": 1.0}})
        trial.record_result({"accuracy": 1.0})
    elif how == "no number in the last result":
        trial.record_result({"eval": {"loss": "high"}})
    else:
        assert errors(objectives, {"eval": {"loss": "high"}}) == ["eval/loss"]
    assert error is not None
    for _ in range(4):
        objectives.has_failed(error, [make_trial(1), trial])
    for _ in range(4):  # it is remembered
        objectives.has_failed(error, [])


def test_without_a_metric_the_first_result_is_looked_at_and_no_other(caplog):
    objectives = Objectives({"_metric": False}, is_bare=True)
    assert errors(objectives, AUTO) == [None]
    assert caplog.text == ""
    for _ in range(2):
        assert errors(objectives, LOST) == [None]
    assert caplog.text.count("there is a mode but no metric") == 1
    assert "reported were: accuracy. Name the metric, such as metric='accuracy'" in caplog.text
    assert errors(objectives, {"_metric": "text"}) == ["_metric"]


@pytest.mark.parametrize("names", [{}, {"_metric": False}])
def test_a_bare_number_is_no_reason_for_a_warning(names, caplog):
    objectives = Objectives(names, is_bare=True)
    assert not objectives.is_over
    assert errors(objectives, {"_metric": 1.0}) == [None]
    assert objectives.is_over is not bool(names)
    assert caplog.text == ""


def test_there_is_nothing_to_look_for_without_an_objective():
    assert Objectives({}).is_over


@pytest.mark.parametrize("place", ["run", "scheduler"])
def test_a_wrong_metric_of_a_run_is_raised_with_its_name(place):
    settings = {"metric": "los", "mode": "min"}
    if place == "scheduler":
        settings = {"scheduler": ASHAScheduler(**settings)}
    with pytest.raises(MissingMetricError, match="Did you mean 'loss'") as found:
        fit(lambda config: {"loss": 1.0}, {"x": grid_search([1, 2, 3])}, **settings)
    assert found.value.metric == "los"
