"""HyperOptSearch with the real library: spaces, what its trials hear, warm start, saving, runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import hyperopt
import pytest
from kit import fit

import minitune as tune
from minitune.search.hyperopt import HyperOptSearch
from minitune.space.domains import fits
from minitune.space.parameters import config_key

SPACE = {
    "x": tune.uniform(0, 1),
    "inner": {"rate": tune.loguniform(1e-5, 1), "width": tune.qrandint(8, 64, 8)},
    "model": tune.choice([{"kind": "svm", "c": tune.randn(1, 2)}, {"kind": "tree", "depth": tune.randint(1, 9)}]),
    "layers": tune.choice([(8,), (8, 8)]),
    "constant": 7,
}


def searching(space: Any = None, own: bool = False, **options: Any) -> HyperOptSearch:
    options = {"metric": "loss", "mode": "min", "random_state_seed": 1, "n_initial_points": 5, **options}
    search = HyperOptSearch(space if own else None, **options)
    assert search.set_search_properties(None, None, {} if own else space or {"x": tune.uniform(0, 1)}) is not own
    return search


def learned(search: HyperOptSearch) -> Any:
    """What is in the model, as the library's own trials."""
    return search.get_state()["_trials"]


def test_both_paths_name_the_same_class() -> None:
    from minitune.tune.search.hyperopt import HyperOptSearch as other

    assert other is HyperOptSearch
    assert isinstance(tune.create_searcher("hyperopt", metric="loss", mode="min"), HyperOptSearch)


def test_nested_and_conditional_parameters_reach_the_trial_where_they_belong() -> None:
    search = searching(SPACE)
    kinds = set()
    for number in range(40):
        config = search.suggest(str(number))
        assert fits(SPACE, config)
        kinds.add(tuple(config["model"]))
        search.on_trial_complete(str(number), {"loss": config["x"]})
    assert kinds == {("kind", "c"), ("kind", "depth")}


@pytest.mark.parametrize("mode", ["min", "max"])
def test_it_learns(mode: str) -> None:
    search = searching({"x": tune.uniform(0, 1)}, mode=mode)
    sign, found = 1 if mode == "min" else -1, []
    for number in range(60):
        found.append(search.suggest(str(number))["x"])
        search.on_trial_complete(str(number), {"loss": sign * (found[-1] - 0.3) ** 2})
    assert min(abs(x - 0.3) for x in found) < 0.02
    assert sum(abs(x - 0.3) < 0.2 for x in found[30:]) > 15


def test_a_seed_repeats_the_suggestions() -> None:
    def first(search: HyperOptSearch) -> list[Any]:
        return [search.suggest(str(number)) for number in range(5)]

    assert first(searching(SPACE)) == first(searching(SPACE))
    of_run = [searching(SPACE, random_state_seed=None) for _ in range(2)]
    for search in of_run:
        search.set_seed(5)
    assert first(of_run[0]) == first(of_run[1])


def test_a_space_of_the_librarys_own() -> None:
    hp = hyperopt.hp
    space = {
        "x": hp.uniform("x", 0, 1),
        "model": hp.choice("model", [{"kind": "a"}, {"kind": "b", "n": hp.normal("n", 0, 1)}]),
    }
    search = searching(space, own=True)
    for number in range(12):
        config = search.suggest(str(number))
        assert 0 <= config["x"] <= 1
        assert ("n" in config["model"]) is (config["model"]["kind"] == "b")
        search.on_trial_complete(str(number), {"loss": config["x"]})


HP = hyperopt.hp
OWN_SPACE = {
    "x": HP.uniform("x", 0, 1),
    "other": HP.loguniform("name", -5, 0),
    "model": HP.choice("model", [{"kind": "a"}, {"kind": "b", "n": HP.normal("n", 0, 1)}, "plain"]),
    "pair": [HP.randint("first", 9), HP.uniformint("second", 1, 9)],
    "twice": 2 * HP.uniform("twice", 0, 1),
    "constant": 5,
}


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ({"x": 0.25, "other": 0.5, "pair": [3, 4]}, {"x": 0.25, "other": 0.5, "pair": (3, 4)}),
        ({"model": "plain", "constant": 5}, {"model": "plain", "constant": 5}),
        ({"model": {"kind": "b", "n": 1.5}}, {"model": {"kind": "b", "n": 1.5}}),
        ({"model": {"kind": "a"}}, {"model": {"kind": "a"}}),
        ({"name": 0.5, "twice": 0.25}, {"other": 0.5, "twice": 0.5}),  # by label, as HyperOpt's fmin takes them
        ({}, {}),
    ],
)
def test_points_in_a_space_of_the_librarys_own_come_first(point: dict[str, Any], expected: dict[str, Any]) -> None:
    search = searching(OWN_SPACE, own=True, points_to_evaluate=[point, {"x": 0.75}])
    first, second = search.suggest("0"), search.suggest("1")
    assert {key: first[key] for key in expected} == expected
    assert first.keys() == OWN_SPACE.keys()
    assert second["x"] == 0.75
    search.on_trial_complete("1", {"loss": 3.0})
    assert learned(search).losses() == [None, 3.0]
    assert searching(OWN_SPACE, own=True, points_to_evaluate=[point]).suggest("0") == first  # the rest follows the seed
    for number in range(2, 12):
        search.on_trial_complete(str(number), {"loss": search.suggest(str(number))["x"]})


@pytest.mark.parametrize(
    ("point", "text"),
    [
        ({"y": 0.5}, "every key of a point must be one of constant, model, other, pair, twice, x, but got 'y'"),
        ({"x": "much"}, "'x' of a point must be a number, but got 'much'"),
        ({"model": "fancy"}, "'model' of a point must be one of its 3 choices, but got 'fancy'"),
        ({"model": {"kind": "a", "n": 1}}, "'model' of a point must be one of its 3 choices"),
        ({"pair": [3]}, r"'pair' of a point must be a list of 2, but got \[3\]"),
        ({"constant": 6}, "'constant' of a point must be 5, but got 6"),
    ],
)
def test_a_point_that_is_not_in_a_space_of_the_librarys_own_is_refused(point: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        HyperOptSearch(OWN_SPACE, "loss", "min", points_to_evaluate=[{"x": 0.5}, point])


def test_a_choice_by_its_label_is_an_index() -> None:
    by_label = {"x": HP.uniform("x", 0, 1), "kind": HP.choice("which", ["a", "b"])}
    assert searching(by_label, own=True, points_to_evaluate=[{"which": 1}]).suggest("0")["kind"] == "b"
    with pytest.raises(ValueError, match="'which' of a point must be an index below 2, but got 2"):
        searching(by_label, own=True, points_to_evaluate=[{"which": 2}]).suggest("0")


def test_points_come_first_by_value_also_below_a_choice() -> None:
    points = [
        {"x": 0.25, "inner/rate": 0.5, "model": {"kind": "tree", "depth": 3}, "layers": (8, 8)},
        {"inner": {"width": 16}},
    ]
    search = searching(SPACE, points_to_evaluate=points)
    first, second = search.suggest("0"), search.suggest("1")
    assert (first["x"], first["inner"]["rate"], first["layers"]) == (0.25, 0.5, (8, 8))
    assert first["model"] == {"kind": "tree", "depth": 3}
    assert second["inner"]["width"] == 16
    search.on_trial_complete("0", {"loss": 1.0})
    assert learned(search).losses() == [1.0, None]
    with pytest.raises(ValueError, match="every key of a point must be one of the search space, but got 'y'"):
        searching(SPACE, points_to_evaluate=[{"y": 1}])


def test_only_values_count() -> None:
    search = searching()
    for trial_id in "abcdef":
        search.suggest(trial_id)
    search.on_trial_complete("a", {"loss": 1.0})
    search.on_trial_complete("b", error=True)
    search.on_trial_complete("c")
    search.on_trial_complete("d", {"loss": math.nan})
    search.on_suggestion_refused("e")
    search.on_trial_complete("a", {"loss": 5.0})
    assert learned(search).losses() == [1.0, None]


def test_evaluated_points() -> None:
    search, plain = searching(SPACE), searching(SPACE)
    known = [plain.suggest(str(number)) for number in range(8)]
    for number, config in enumerate(known):
        search.add_evaluated_point(config, float(number))
    search.add_evaluated_point({"x": 0.5}, 1.0, error=True)
    assert learned(search).losses() == list(map(float, range(8)))
    assert search.suggest("0") != searching(SPACE).suggest("0")


def test_what_is_missing_or_wrong_is_named() -> None:
    with pytest.raises(ValueError, match="HyperOptSearch has no search space"):
        HyperOptSearch(metric="loss", mode="min").suggest("0")
    with pytest.raises(ValueError, match="HyperOptSearch needs a metric and a mode"):
        HyperOptSearch({"x": tune.uniform(0, 1)}).suggest("0")
    with pytest.raises(ValueError, match="cannot cover a grid, but parameter 'x' is one"):
        searching({"x": tune.grid_search([1, 2])})
    for options in (
        {"metric": ["a"]},
        {"mode": "up"},
        {"n_initial_points": 0},
        {"gamma": 1},
        {"random_state_seed": 0.5},
    ):
        with pytest.raises(ValueError, match=f"{next(iter(options))} must be|{next(iter(options))}: "):
            HyperOptSearch(**options)


def test_what_is_saved_goes_on(tmp_path: Path) -> None:
    search, other = searching(SPACE), searching(SPACE, random_state_seed=9)
    for number in range(15):
        search.on_trial_complete(str(number), {"loss": search.suggest(str(number))["x"]})
    search.suggest("open")
    search.save(str(tmp_path / "state"))
    other.restore(str(tmp_path / "state"))
    assert config_key(other.suggest("next")) == config_key(search.suggest("next"))
    other.on_trial_complete("open", {"loss": 1.0})
    assert learned(other).losses()[15] == 1.0


def train(config: dict[str, Any]) -> None:
    for step in range(3):
        tune.report({"loss": (config["x"] - 0.3) ** 2 + 1 / (step + 1)})


def minimise(storage: Path, space: Any, search: Any, **options: Any) -> tune.ResultGrid:
    settings = {"metric": "loss", "mode": "min", "num_samples": 12, "seed": 3, **options}
    return fit(train, space, search_alg=search, storage_path=storage, **settings)


def test_a_run(tmp_path: Path) -> None:
    space = {"x": tune.uniform(0, 1), "twice": tune.sample_from(lambda config: 2 * config["x"])}
    search = HyperOptSearch(points_to_evaluate=[{"x": 0.3}], n_initial_points=3)
    grid = minimise(tmp_path, space, search, scheduler=tune.ASHAScheduler(max_t=3, grace_period=1))
    assert [result.config["twice"] for result in grid] == [2 * result.config["x"] for result in grid]
    assert grid[0].config["x"] == 0.3
    assert tune.Tuner.restore(str(tmp_path / "run"), train, add_samples=2).fit().num_terminated == 14


def test_duplicates_and_constraints(tmp_path: Path) -> None:
    space = {"x": tune.choice([0, 1, 2]), "y": tune.choice([0, 1, 2])}
    grid = minimise(tmp_path, space, HyperOptSearch(), num_samples=50, on_duplicate="resample")
    assert len({(result.config["x"], result.config["y"]) for result in grid}) == len(grid) == 9
    near = [lambda config: config["x"] < 0.05]
    grid = minimise(tmp_path / "2", {}, HyperOptSearch({"x": tune.uniform(0, 1)}), constraints=near)
    assert len(grid) == 12
    search = HyperOptSearch({"x": HP.uniform("x", 0, 1)}, points_to_evaluate=[{"x": 0.5}])
    with pytest.raises(ValueError, match="constraint"):
        minimise(tmp_path / "3", {}, search, constraints=near)
