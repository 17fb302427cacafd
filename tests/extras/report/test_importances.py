"""Importances of parameters, with scikit-learn."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from kit import fit

from minitune import ResultGrid, choice, cli, loguniform, randint, report, uniform
from minitune import visualization as plots
from minitune.visualization import Importances, importances

OBJECTIVE = {"metric": "loss", "mode": "min"}


def test_importances_rank_parameters_and_have_deviations(grid: ResultGrid) -> None:
    found = grid.importances()

    assert next(iter(found.mean)) == "lr"
    assert sum(found.mean.values()) == pytest.approx(1)
    assert found.mean["lr"] > 5 * found.mean["idle"]
    assert found.std["lr"] > 0
    assert "<table" in found._repr_html_()
    assert found.r2 > 0.5
    assert found.confidence.startswith("reliable: the model explains")
    assert grid.importances() == found, "the same seed gives the same"
    with pytest.raises(ValueError, match=r"metric and mode must be the ones of the RunHistory \(loss, min\)"):
        plots.get_param_importances(plots.RunHistory(grid), metric="size")


def test_importances_use_an_even_choice_of_many_trials(grid: ResultGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importances, "_MOST", 30)

    found = grid.importances()

    assert found.num_trials == 30
    assert next(iter(found.mean)) == "lr"


def test_importances_of_noise_are_called_unreliable() -> None:
    def noise(config: dict[str, Any]) -> None:
        report({"loss": random.Random(config["a"]).random()})

    found = fit(noise, {"a": uniform(0, 1), "b": uniform(0, 1)}, num_samples=40, seed=1, **OBJECTIVE).importances()

    assert found.confidence.startswith("unreliable")


def test_importances_need_trials_and_a_parameter() -> None:
    few = fit(lambda config: {"loss": config["a"]}, {"a": uniform(0, 1)}, num_samples=3, **OBJECTIVE)
    with pytest.raises(ValueError, match="need at least 10 trials with a finite objective; this run has 3"):
        few.importances()
    same = fit(lambda config: {"loss": 1}, {"a": 1}, num_samples=10, name="same", **OBJECTIVE)
    with pytest.raises(ValueError, match="need a parameter with more than one value"):
        same.importances()


def test_an_importance_that_varies_much_is_not_called_reliable() -> None:
    assert Importances({"a": 0.58, "b": 0.42}, {"a": 0.34, "b": 0.1}, 0.9, 80).confidence.startswith("rough: ")
    assert Importances({"a": 0.58, "b": 0.42}, {"a": 0.1, "b": 0.34}, 0.9, 80).confidence.startswith("reliable: ")
    assert Importances({"a": 0.58, "b": 0.42}, {"a": 0.34, "b": 0.1}, 0.1, 80).confidence.startswith("unreliable: ")


def test_the_command_prints_importances(grid: ResultGrid, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["importance", grid.experiment_path]) == 0
    assert str(grid.importances()) in capsys.readouterr().out


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("domain", "share"),
    [
        (uniform(0, 1), lambda x: x),
        (uniform(1, 1 + 1e-9), lambda x: (x - 1) * 1e9),
        (randint(1_700_000_000, 1_700_000_100), lambda x: (x - 1_700_000_000) / 100),
        (loguniform(1e-60, 1e-40), lambda x: math.log10(x) / 20 + 3),
        (loguniform(1e60, 1e80), lambda x: math.log10(x) / 20 - 3),
        (uniform(-1e300, 1e300), lambda x: x / 2e300 + 0.5),
    ],
    ids=["plain", "narrow", "time stamps", "small", "large", "huge"],
)
def test_the_scale_of_a_parameter_does_not_matter(domain: Any, share: Any) -> None:
    def train(config: dict[str, Any]) -> None:
        report({"loss": share(config["x"]) + 0.001 * config["noise"]})

    found = fit(train, {"x": domain, "noise": uniform(0, 1)}, num_samples=80, seed=1, **OBJECTIVE).importances()

    assert found.mean["x"] > 0.9
    assert found.r2 > 0.9


def test_a_number_that_is_missing_below_a_category_is_told_apart() -> None:
    space = {"model": choice([{"depth": randint(10**400, 10**400 + 5)}, "linear"])}

    def train(config: dict[str, Any]) -> None:
        report({"loss": 1.0 if config["model"] == "linear" else 0.0})

    found = fit(train, space, num_samples=40, seed=1, **OBJECTIVE).importances()

    assert found.r2 > 0.9
