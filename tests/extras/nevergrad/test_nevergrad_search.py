"""NevergradSearch with the real library: spaces, points, saving, runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import nevergrad as ng
import pytest
from kit import fit

import minitune as tune
from minitune.search.nevergrad import NevergradSearch
from minitune.space.domains import fits
from minitune.space.parameters import config_key

SPACE = {
    "x": tune.uniform(0, 1),
    "inner": {"rate": tune.loguniform(1e-5, 1), "width": tune.qrandint(8, 64, 8)},
    "model": tune.choice([{"kind": "svm", "c": tune.uniform(1, 2)}, {"kind": "tree", "depth": tune.randint(1, 9)}]),
    "layers": tune.choice([(8,), (8, 8)]),
    "constant": 7,
}


def searching(space: Any = None, *, seed: int = 1, **options: Any) -> NevergradSearch:
    search = NevergradSearch(**{"metric": "loss", "mode": "min", **options})
    search.set_seed(seed)
    assert search.set_search_properties(None, None, space or {"x": tune.uniform(0, 1)})
    return search


def test_both_paths_name_the_same_class() -> None:
    from minitune.tune.search.nevergrad import NevergradSearch as other

    assert other is NevergradSearch
    assert isinstance(tune.create_searcher("nevergrad", metric="loss", mode="min"), NevergradSearch)


def test_nested_and_conditional_parameters_reach_the_trial_where_they_belong() -> None:
    search = searching(SPACE)
    kinds = set()
    for number in range(60):
        config = search.suggest(str(number))
        assert fits(SPACE, config)
        kinds.add(tuple(config["model"]))
        search.on_trial_complete(str(number), {"loss": config["x"]})
    assert kinds == {("kind", "c"), ("kind", "depth")}


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("optimizer", [None, ng.optimizers.OnePlusOne, ng.optimizers.ParametrizedOnePlusOne()])
def test_it_learns(mode: str, optimizer: Any) -> None:
    search = searching(optimizer=optimizer, mode=mode, optimizer_kwargs={"budget": 80})
    sign, found = 1 if mode == "min" else -1, []
    for number in range(80):
        found.append(search.suggest(str(number))["x"])
        search.on_trial_complete(str(number), {"loss": sign * (found[-1] - 0.3) ** 2})
    assert min(abs(x - 0.3) for x in found) < 0.02


def test_a_seed_repeats_the_suggestions() -> None:
    first, second = (searching(SPACE, seed=5) for _ in range(2))
    assert [first.suggest(str(n)) for n in range(5)] == [second.suggest(str(n)) for n in range(5)]


def test_spaces_of_the_librarys_own() -> None:
    space = ng.p.Dict(x=ng.p.Scalar(lower=0, upper=1), kind=ng.p.Choice(["a", "b"]))
    named = NevergradSearch(ng.optimizers.OnePlusOne(2), space=["x", "y/z"], metric="loss", mode="min")
    for search, keys in ((NevergradSearch(space=space, metric="loss", mode="min"), {"x", "kind"}), (named, {"x", "y"})):
        assert not search.set_search_properties("loss", "min", {})
        for number in range(5):
            config = search.suggest(str(number))
            assert set(config) == keys
            search.on_trial_complete(str(number), {"loss": float(config["x"])})
    assert isinstance(config["y"], dict)


def test_points_come_first_by_value_also_below_a_choice() -> None:
    points = [
        {"x": 0.25, "inner/rate": 0.5, "model": {"kind": "tree", "depth": 3}, "layers": (8, 8)},
        {"inner": {"width": 16}},
    ]
    search = searching(SPACE, points_to_evaluate=points)
    first, second = search.suggest("0"), search.suggest("1")
    assert first["x"] == pytest.approx(0.25)
    assert first["inner"]["rate"] == pytest.approx(0.5)
    assert (first["model"], first["layers"]) == ({"kind": "tree", "depth": 3}, (8, 8))
    assert second["inner"]["width"] == 16
    with pytest.raises(ValueError, match="every key of a point must be one of the search space, but got 'y'"):
        searching(SPACE, points_to_evaluate=[{"y": 1}])


def test_what_has_no_value_does_no_harm() -> None:
    search = searching()
    for trial_id in "abcde":
        search.suggest(trial_id)
    search.on_trial_complete("a", {"loss": 1.0})
    search.on_trial_complete("b", error=True)
    search.on_trial_complete("c")
    search.on_trial_complete("d", {"loss": math.nan})
    search.on_suggestion_refused("e")
    search.add_evaluated_point({"x": 0.5}, 0.5)
    assert 0 <= search.suggest("f")["x"] <= 1


def test_what_is_missing_or_wrong_is_named() -> None:
    with pytest.raises(ValueError, match="NevergradSearch has no search space"):
        NevergradSearch(metric="loss", mode="min").suggest("0")
    with pytest.raises(ValueError, match="NevergradSearch needs a metric and a mode"):
        NevergradSearch(space={"x": tune.uniform(0, 1)}).suggest("0")
    with pytest.raises(ValueError, match="cannot cover a grid, but parameter 'x' is one"):
        searching({"x": tune.grid_search([1, 2])})
    with pytest.raises(ValueError, match="Nevergrad has no normal distribution, but parameter 'x' has one"):
        searching({"x": tune.randn(0, 1)})
    bad = [{"metric": ["a"]}, {"mode": "up"}, {"optimizer": 5}, {"optimizer_kwargs": 5}, {"space": 5}]
    for options in bad:
        with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
            NevergradSearch(**options)


def test_what_is_saved_goes_on(tmp_path: Path) -> None:
    search, other = searching(SPACE), searching(SPACE, seed=9)
    for number in range(15):
        search.on_trial_complete(str(number), {"loss": search.suggest(str(number))["x"]})
    search.suggest("open")
    search.save(str(tmp_path / "state"))
    other.restore(str(tmp_path / "state"))
    assert config_key(other.suggest("next")) == config_key(search.suggest("next"))
    other.on_trial_complete("open", {"loss": 1.0})


def train(config: dict[str, Any]) -> None:
    for step in range(3):
        tune.report({"loss": (config["x"] - 0.3) ** 2 + 1 / (step + 1)})


def minimise(storage: Path, space: Any, search: Any, **options: Any) -> tune.ResultGrid:
    settings = {"metric": "loss", "mode": "min", "num_samples": 12, "seed": 3, **options}
    return fit(train, space, search_alg=search, storage_path=storage, **settings)


def test_a_run(tmp_path: Path) -> None:
    space = {"x": tune.uniform(0, 1), "twice": tune.sample_from(lambda config: 2 * config["x"])}
    search = NevergradSearch(points_to_evaluate=[{"x": 0.25}])
    grid = minimise(tmp_path, space, search, scheduler=tune.ASHAScheduler(max_t=3, grace_period=1))
    assert [result.config["twice"] for result in grid] == [2 * result.config["x"] for result in grid]
    assert tune.Tuner.restore(str(tmp_path / "run"), train, add_samples=2).fit().num_terminated == 14


def test_duplicates(tmp_path: Path) -> None:
    space = {"x": tune.choice([0, 1, 2]), "y": tune.choice([0, 1, 2])}
    grid = minimise(tmp_path, space, NevergradSearch(), num_samples=50, on_duplicate="resample")
    assert len({(result.config["x"], result.config["y"]) for result in grid}) == len(grid) == 9
