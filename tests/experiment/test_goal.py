"""What a run optimises: a metric with its mode, and what is said of trials without it."""

import math

import pytest
from kit import fit

from minitune import grid_search, report
from minitune.experiment.goal import Best, Goal
from minitune.schedulers import FIFOScheduler


def report_all(values, **settings):
    """The results of trials that report these results, one after the other."""

    def train(config):
        for result in values[config["i"]]:
            report(result)

    return fit(train, {"i": grid_search(list(values))}, **settings)


def test_an_observed_objective_has_no_mode_of_its_own():
    results = {i: [{"loss": i, "size": i, "time": i}] for i in range(2)}
    grid = report_all(results, metric=["loss", "size", "time"], mode=["min", "max", "obs"])
    with pytest.raises(ValueError, match="metric and mode must be set, but got metric='time', mode=None"):
        grid.get_best_result("time")
    assert grid.get_best_result("time", "max").config == {"i": 1}


def test_a_bare_number_beside_other_metrics_is_not_what_is_missing():
    grid = report_all({i: [{"_metric": 1, "loss": 2}] for i in range(2)})
    with pytest.raises(RuntimeError, match=r"reported were: _metric, loss\. Did you mean 'loss'\?"):
        grid.get_best_result("los", "min")


def test_a_metric_of_an_earlier_report_is_known():
    grid = report_all({0: [{"loss": 1, "acc": 0.5}, {"loss": 2}]})
    assert grid.get_best_result("acc") is grid[0]


@pytest.mark.parametrize(
    ("reports", "stopped", "best", "by_last"),
    [
        (
            [[0.1], [5, 1, 1, 0.5], [5, 1, 1, 0.4], [5, 1, 1, 0.3]],
            [0],
            3,
            0,
        ),  # the first one was lucky, and hardly began
        ([[0.1], [5, 1, 1, 0.5], [5, 1, 1, 0.4], [5, 1, 1, 0.3]], [], 0, 0),  # no scheduler has stopped it
        ([[0.2, 0.1], [5, 5, 5, 5, 1, 0.5], [5]], [2], 0, 0),  # it has a third of the most reports
        ([[9, 4, 4, 4], [9, 1, 2, 3], [9, 8, 8, 1], [2]], [3], 1, 2),  # the mean of the last three
        ([[5, 0.3], [5, 0.3], [5, 0.3], [5, 0.3]], [3], 0, 0),
        ([[0.1], [5, 5, 5, math.nan], [5, 5, 5, 1], [5, 5, 5, 2]], [0], 2, 0),
    ],
)
def test_where_a_scheduler_stops_trials_those_with_the_most_reports_are_compared(reports, stopped, best, by_last):
    class Stops(FIFOScheduler):
        def on_trial_result(self, tune_controller, trial, result):
            return "STOP" if trial.config["i"] in stopped else "CONTINUE"

    grid = report_all(
        {i: [{"loss": value} for value in values] for i, values in enumerate(reports)},
        scheduler=Stops(), metric="loss", mode="min",
    )  # fmt: skip
    trials = grid._run.trials
    found = Best.of(trials, "loss", "min")
    assert [found.trial, grid.get_best_result().config["i"]] == [trials[best], best]
    assert grid.get_best_result(scope="last").config["i"] == by_last
    assert Goal("loss", "min").ranked(trials)[0] is trials[best]
    least = math.ceil(max(map(len, reports)) / 3)
    assert (f"(best mean of the last 3 reports, of trials with {least} or more)" in str(found)) == (best != by_last)
