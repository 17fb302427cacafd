"""What a run does with the value of its objective, whatever its type: a plain number everywhere, or the trial fails."""

import csv
import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from kit import Scalar, deciding, fit, journal_of, listening, live_reports

from minitune import Searcher, Stopper, grid_search, report


@pytest.mark.parametrize("cast", [Scalar, Decimal, Fraction])
def test_an_objective_is_a_plain_number_in_every_place(cast):
    heard = []

    class Hears(Searcher):
        def suggest(self, trial_id):
            return {"x": 0.5}

        def on_trial_complete(self, trial_id, result=None, error=False):
            heard.append(result["eval/loss"])

    class Asked(Stopper):
        def __call__(self, trial_id, result):
            heard.append(result["eval"]["loss"])
            return False

        def stop_all(self):
            return False

    callback = listening(on_trial_result=lambda result, **more: heard.append(result["eval"]["loss"]))
    scheduler = deciding(lambda context, trial, result: heard.append(result["eval/loss"]) or "CONTINUE")
    settings = {"metric": "eval/loss", "mode": "min", "stop": Asked(), "callbacks": [callback], "scheduler": scheduler}
    grid = fit(lambda config: {"eval": {"loss": cast(0.25), "n": 1}, "other": cast(1)}, search_alg=Hears(), **settings)
    [reports] = live_reports(journal_of()).values()
    result = grid[0]
    with open(Path(result.path, "progress.csv"), newline="") as file:
        [row] = csv.DictReader(file)
    [line] = Path(result.path, "result.json").read_text().splitlines()

    values = [*heard, result.metrics["eval"]["loss"], reports[0]["eval"]["loss"]]
    values += [json.loads(line)["eval"]["loss"], float(row["eval/loss"])]
    assert values == [0.25] * 8
    assert {type(value) for value in values} == {float}
    assert type(result.metrics["other"]) is cast


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([0.5], "a value of type list; give one plain number, such as float(x) or its mean"),
        (None, "None; where there is no value, give float('nan')"),
    ],
)
def test_an_objective_that_is_no_number_fails_its_trial_at_its_first_report(value, text):
    def reports(config):
        for n in range(3):
            report({"eval": {"loss": value if config["is_bad"] and n == config["at"] else n}})

    space = {"is_bad": grid_search([True, False, True, True]), "at": grid_search([0, 2])}
    grid = fit(reports, space, metric="eval/loss", mode="min", max_failures=2)

    done = {(result.config["is_bad"], result.config["at"]): result for result in grid}
    assert len(grid) == 8
    assert [done[key].metrics.get("training_iteration") for key in ((True, 0), (True, 2), (False, 0))] == [None, 2, 3]
    assert [result.error is not None for result in grid] == [result.config["is_bad"] for result in grid]
    assert f"the metric 'eval/loss' must be a number, but got {text}" in str(done[True, 2].error)


@pytest.mark.parametrize("variable", ["MINITUNE_DISABLE_STRICT_METRIC_CHECKING", "TUNE_DISABLE_STRICT_METRIC_CHECKING"])
def test_a_flag_or_a_text_fails_its_trial_also_where_the_metric_may_be_missing(variable, monkeypatch):
    monkeypatch.setenv(variable, "1")
    reports = [{"loss": 0.5}, {"other": 1}, {"loss": None}, {"loss": "0.5"}, {"loss": True}]
    grid = fit(lambda config: reports[config["n"]], {"n": grid_search([*range(5)])}, metric="loss", mode="min")

    assert [result.error is not None for result in grid] == [False, False, False, True, True]
    assert grid.get_best_result().config["n"] == 0


@pytest.mark.parametrize("value", [3, 2**60, 10**400])
def test_a_whole_objective_stays_as_it_is(value):
    [result] = fit(lambda config: {"loss": value}, metric="loss", mode="min")
    assert type(result.metrics["loss"]) is int
    assert result.metrics["loss"] == value


@pytest.mark.parametrize(
    ("value", "number"), [(Scalar(0.5), 0.5), (Fraction(1, 2), 0.5), (3, 3), (True, None), (1j, None), ("0.5", None)]
)
def test_a_function_may_return_a_number_of_every_type(value, number):
    [result] = fit(lambda config: value, mode="min")
    if number is None:
        assert "must return or yield a dict of metrics, a number or None, but it returned" in str(result.error)
    else:
        assert result.metrics["_metric"] == number
        assert type(result.metrics["_metric"]) is type(number)


def test_a_number_reported_under_the_default_name_is_an_objective():
    grid = fit(lambda config: {"_metric": config["x"]}, {"x": grid_search([Scalar(2), [1], Scalar(3)])}, mode="min")
    assert [type(result.metrics.get("_metric")) for result in grid] == [int, type(None), int]
    assert grid.get_best_result().metrics["_metric"] == 2
