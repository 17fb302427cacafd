"""Importances: what each parameter alone explains of the objective."""

from __future__ import annotations

import math

import pytest
from kit import fit, run_path

from minitune import choice, grid_search, loguniform, randint, report, uniform
from minitune.view.history import RunHistory
from minitune.visualization.page import describe_importances

OBJECTIVE = {"metric": "loss", "mode": "min"}
NOISE = {"noise": uniform(0, 1)}
DECIDES = {
    "an optimum in the middle": (uniform(0, 1), lambda x, noise: (x - 0.5) ** 2 + 0.01 * noise),
    "a category": (choice(["bad", "good", "fine"]), lambda x, noise: float(x == "bad") + 0.1 * noise),
    "a category beside one diverged trial": (
        choice(["bad", "good", "fine"]),
        lambda x, noise: 1e30 if noise > 0.97 else float(x == "bad") + 0.1 * noise,
    ),
    "a narrow range": (uniform(1, 1 + 1e-9), lambda x, noise: (x - 1) * 1e9 + 0.001 * noise),
    "time stamps": (
        randint(1_700_000_000, 1_700_000_100),
        lambda x, noise: (x - 1_700_000_000) / 100 + 0.001 * noise,
    ),
    "small numbers": (loguniform(1e-60, 1e-40), lambda x, noise: math.log10(x) + 0.001 * noise),
    "large numbers": (uniform(-1e300, 1e300), lambda x, noise: x / 2e300 + 0.001 * noise),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("domain", "loss"), DECIDES.values(), ids=DECIDES)
def test_the_parameter_that_decides_comes_first(domain, loss):
    def train(config):
        report({"loss": loss(config["x"], config["noise"])})

    found = fit(train, NOISE | {"x": domain}, num_samples=60, seed=2, **OBJECTIVE).importances()
    assert next(iter(found)) == "x", "the first of the alphabet is the noise"
    assert sum(found.values()) == pytest.approx(1)


def test_a_number_that_is_missing_below_a_category_is_told_apart():
    space = {"model": choice([{"depth": randint(10**400, 10**400 + 5)}, "linear"])}

    def train(config):
        report({"loss": 1.0 if config["model"] == "linear" else 0.0})

    assert fit(train, space, num_samples=40, seed=1, **OBJECTIVE).importances()["model/depth"] > 0.3


def test_equal_values_are_explained_by_nothing():
    found = fit(lambda config: {"loss": 1}, {"x": grid_search([1, 2, 3, 4])}, **OBJECTIVE).importances()
    assert found == {"x": 0}


def test_importances_need_trials_and_a_parameter():
    few = fit(lambda config: {"loss": config["a"]}, {"a": uniform(0, 1)}, num_samples=2, **OBJECTIVE)
    with pytest.raises(ValueError, match="need at least 3 trials with a finite objective; this run has 2"):
        few.importances()
    assert not describe_importances(RunHistory(few))["loss"]["shares"]
    same = fit(lambda config: {"loss": 1}, {"a": 1}, num_samples=10, name="same", **OBJECTIVE)
    with pytest.raises(ValueError, match="need a parameter with more than one value"):
        same.importances()


def test_the_page_has_importances_for_each_objective():
    space = {"a": uniform(0, 1), "b": uniform(0, 1)}
    both = {"metric": ["one", "two"], "mode": ["min", "max"]}
    grid = fit(lambda config: {"one": config["a"], "two": config["b"]}, space, num_samples=30, seed=1, **both)
    found = describe_importances(RunHistory(run_path()))
    assert {name: next(iter(each["shares"])) for name, each in found.items()} == {"one": "a", "two": "b"}
    assert list(grid.importances("two", "max")) == ["b", "a"]
