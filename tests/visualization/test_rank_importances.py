"""Importances without a model: what each parameter alone explains of the objective. They need no other package."""

from __future__ import annotations

from typing import Any

import pytest
from kit import fit, run_path

from minitune import choice, report, uniform
from minitune.visualization import RunHistory
from minitune.visualization.importances import rank_importances
from minitune.visualization.page import describe_importances

OBJECTIVE = {"metric": "loss", "mode": "min"}


def test_a_parameter_with_an_optimum_in_the_middle_matters_most() -> None:
    def train(config: dict[str, Any]) -> None:
        report({"loss": (config["z"] - 0.5) ** 2 + 0.01 * (config["act"] == "relu")})

    space = {"a": uniform(0, 1), "act": choice(["relu", "tanh"]), "z": uniform(0, 1)}
    fit(train, space, num_samples=60, seed=2, **OBJECTIVE)
    found = rank_importances(RunHistory(run_path()))
    assert next(iter(found.mean)) == "z", "its correlation is 0, and the first of the alphabet is a"
    assert found.mean["z"] > 0.7
    assert sum(found.mean.values()) == pytest.approx(1)


def test_a_category_that_decides_comes_first_and_one_diverged_trial_changes_nothing() -> None:
    def train(config: dict[str, Any]) -> None:
        report({"loss": 1e30 if config["a"] > 0.97 else float(config["kind"] == "bad") + 0.1 * config["a"]})

    space = {"a": uniform(0, 1), "kind": choice(["bad", "good", "fine"])}
    fit(train, space, num_samples=60, seed=2, **OBJECTIVE)
    assert next(iter(rank_importances(RunHistory(run_path())).mean)) == "kind"


def test_the_page_has_an_order_of_parameters_from_three_trials_on() -> None:
    space = {"a": uniform(0, 1), "b": uniform(0, 1)}
    fit(lambda config: {"loss": config["b"]}, space, num_samples=6, seed=1, **OBJECTIVE)
    found = describe_importances(RunHistory(run_path()))["loss"]
    assert next(iter(found.mean)) == "b"
    assert found.note.startswith("by the ranks of 6 trials, each parameter alone; ")
    fit(lambda config: {"loss": 1.0}, {"b": uniform(0, 1)}, num_samples=2, name="two", **OBJECTIVE)
    assert not describe_importances(RunHistory(run_path().parent / "two"))["loss"].mean
