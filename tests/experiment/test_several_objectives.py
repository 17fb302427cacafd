"""Runs with several objectives: the front, the best by one of them, and what shows a run."""

from itertools import product

import pytest
from kit import fit, resume, run_path

import minitune as tune
from minitune.__main__ import main
from minitune.experiment.goal import non_dominated
from minitune.schedulers import ASHAScheduler, MedianStoppingRule
from minitune.search.by_name import _BY_NAME

TWO = {"metric": ["cost", "gain"], "mode": ["min", "max"]}
POINTS = [(1, 1), (2, 3), (3, 2), (4, 4), (0, 0), (2, 3)]
ON_FRONT = [0, 1, 3, 4, 5]
"""Of POINTS: (3, 2) costs more than (2, 3) and gains less; equal ones do not beat each other."""


def trade(config):
    cost, gain = POINTS[config["n"]]
    return {"cost": float(cost), "gain": float(gain)}


def curve(config):
    return {"cost": float(config["x"] ** 2), "gain": float(-((config["x"] - 2) ** 2))}


def points(**settings):
    return fit(trade, {"n": tune.grid_search(list(range(len(POINTS))))}, **{**TWO, **settings})


def test_the_front_has_the_trials_that_no_other_dominates():
    assert [result.config["n"] for result in points().get_front()] == ON_FRONT


@pytest.mark.parametrize("places", [list(product(range(3), repeat=2)), list(product(range(2), repeat=3))])
def test_a_front_agrees_with_its_definition(places):
    def beats(a, b):
        return a != b and all(x >= y for x, y in zip(a, b, strict=True))

    for found in product(places, repeat=4):
        expected = [n for n, own in enumerate(found) if not any(beats(other, own) for other in found)]
        assert non_dominated(list(zip(found, range(4), strict=True))) == expected


def test_a_long_front_of_two_objectives_takes_few_comparisons():
    compared = 0

    class Score(float):
        def __ge__(self, other):
            nonlocal compared
            compared += 1
            return float(self) >= other

    front = non_dominated([((Score(n), Score(-n)), n) for n in range(100)])
    assert (front, compared <= 400) == (list(range(100)), True)


def test_a_front_of_other_metrics_than_the_run_s():
    grid = points(metric="cost", mode="min")
    assert [r.config["n"] for r in grid.get_front(["cost", "gain"], ["min", "max"])] == ON_FRONT
    assert [r.config["n"] for r in grid.get_front(["cost", "gain"], ["min", "obs"])] == [4]
    with pytest.raises(ValueError, match=r"no trial of 6 has reported 'costs'; reported were: cost, gain"):
        grid.get_front(["gain", "costs"], ["max", "min"])
    assert grid.get_front(["gain", "costs"], ["max", "obs"])
    with pytest.raises(ValueError, match=r"must be lists of one length for a front, but got metric=None"):
        grid.get_front()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), None])
def test_trials_without_a_value_are_not_on_the_front(bad):
    def train(config):
        return {"cost": -1.0 if config["n"] else 1.0, "gain": bad if config["n"] else 1.0}

    grid = fit(train, {"n": tune.grid_search([0, 1])}, **TWO)
    assert [result.config["n"] for result in grid.get_front()] == [0]


def test_the_best_result_is_that_of_a_named_objective():
    grid = points()
    with pytest.raises(ValueError, match=r"one of the run's objectives, cost \(min\), gain \(max\): .*get_front\(\)"):
        grid.get_best_result()
    assert grid.get_best_result("cost").config == {"n": 4}
    assert grid.get_best_result(metric="gain").config == {"n": 3}
    assert grid.get_best_result(metric="gain", mode="min").config == {"n": 4}


def test_each_objective_must_be_reported():
    grid = fit(lambda config: {"cost": 1.0}, {}, **TWO)
    assert "'gain' must be in every reported result" in str(grid.errors[0])


@pytest.mark.parametrize("name", ["tpe", "auto", "random", "variant_generator", None])
def test_each_searcher_by_name_takes_several_objectives(name):
    grid = fit(curve, {"x": tune.uniform(-5, 5)}, search_alg=name, num_samples=14, seed=1, **TWO)
    assert grid.num_terminated == 14
    assert all(-0.5 <= result.config["x"] <= 2.5 for result in grid.get_front() if len(grid.get_front()) > 1)


def test_a_searcher_of_one_objective_says_which_ones_take_several():
    with pytest.raises(ValueError, match=r"one metric for TuneBOHB, but got \['cost', 'gain'\]; AutoSearch, TPESearch"):
        fit(curve, {"x": tune.uniform(-5, 5)}, search_alg="bohb", **TWO)


@pytest.mark.parametrize("scheduler", [ASHAScheduler(), MedianStoppingRule(), "hyperband"])
def test_comparing_scheduler_needs_one_objective(scheduler):
    way_out = r"compares trials by one metric.*\(cost, gain\): name .*\(metric='cost', mode='min'\)"
    with pytest.raises(ValueError, match=way_out):
        points(scheduler=scheduler)


def test_scheduler_compares_by_one_objective():
    def train(config):
        for _ in range(4):
            tune.report({"cost": float(config["x"]), "gain": 1.0})

    scheduler = ASHAScheduler(metric="cost", mode="min", max_t=4, grace_period=1, reduction_factor=2)
    grid = fit(train, {"x": tune.grid_search([1, 2, 3, 4])}, scheduler=scheduler, **TWO)
    assert [result.metrics["training_iteration"] for result in grid] == [4, 1, 1, 1]
    assert "cost" in str(grid[1].decisions[0])


def test_resumed_run_keeps_several_objectives():
    fit(curve, {"x": tune.uniform(-5, 5)}, search_alg="tpe", num_samples=12, seed=1, **TWO)
    grid = resume(curve, add_samples=3)
    assert len(grid) == 15
    assert grid.get_front()


def test_the_end_of_a_run_shows_the_front_first(capsys):
    points(verbose=1)
    shown = capsys.readouterr().out
    assert "(min cost, max gain)" in shown
    assert "Front: 5 trials that no other one beats in cost (min), gain (max)" in shown
    assert [line.split("|")[3].strip() for line in shown.splitlines() if "finished |" in line] == [*"01345", "2"]


def test_a_failed_trial_is_on_the_front_that_is_shown_first_by_its_values(capsys):
    def train(config):
        tune.report({"cost": config["n"], "gain": -config["n"]})
        if config["n"] == 0:
            raise ValueError("on purpose")

    fit(train, {"n": tune.grid_search([2, 0, 1])}, verbose=1, **TWO)
    shown = capsys.readouterr().out
    assert "Front: 1 trial that no other one beats" in shown
    assert [line.split("|")[3].strip() for line in shown.splitlines() if " | " in line][1:] == ["0", "2", "1"]


def test_a_notebook_shows_the_front():
    html = points()._repr_html_()
    assert "Front: 5 trials" in html
    assert "cost (min), gain (max)" in html


def test_commands_show_several_objectives(capsys):
    points()
    path = str(run_path())
    assert main(["ls", path]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert "cost" in rows[2]
    assert [int(row.split()[1]) for row in rows[4:9]] == [0, 1, 3, 4, 5]  # the front comes first
    assert main(["show", path]) == 0
    shown = capsys.readouterr().out
    assert "cost (min), gain (max)" in shown
    assert "0, 1, 3, 4, 5" in shown
    assert main(["ls", str(run_path().parent), "--json"]) == 0
    assert '"metric": ["cost", "gain"], "mode": ["min", "max"]' in capsys.readouterr().out
    assert main(["watch", path]) == 0
    assert "Front: 5 trials" in capsys.readouterr().out


def test_commands_for_the_best_trial_need_one_objective(capsys):
    points()
    path = str(run_path())
    assert main(["best", path]) != 0
    said = capsys.readouterr().err
    assert "several objectives (cost (min), gain (max)), so no trial is the best; pass --metric" in said
    assert main(["best", path, "--metric", "gain"]) == 0
    assert "max of gain" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name", [name for name in _BY_NAME if name not in ("ax", "bayesopt", "hyperopt", "nevergrad", "optuna")]
)
def test_a_study_and_a_run_take_the_same_names(name):
    space = {"x": tune.uniform(0, 1)}
    study = tune.search.Study(space, name, metric="loss", mode="min", num_samples=3, seed=5)
    asked = []
    while (config := study.ask()) is not None:
        asked.append(config["x"])
        study.tell(config, config["x"])
    grid = fit(
        lambda config: {"loss": config["x"]}, space, metric="loss", mode="min", search_alg=name, num_samples=3, seed=5
    )
    assert [result.config["x"] for result in grid] == asked
