"""HyperOptSearch: the suite of all adapters, the library's own spaces, its trials, warm start."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import hyperopt
import pytest
from adapter_suite import SPACE, Adapter, AdapterSuite, minimise
from kit import spaces

import minitune as tune
from minitune.search import Searcher
from minitune.search.hyperopt import HyperOptSearch
from minitune.space.domains import fits

pytest.register_assert_rewrite("minitune.testing.searcher_contract")

from minitune.testing import SearcherContract  # noqa: E402 - its asserts are rewritten first


class TestHyperOpt(AdapterSuite):
    adapter = Adapter(
        HyperOptSearch,
        "hyperopt",
        options={"n_initial_points": 5},
        space={**SPACE, "model": tune.choice([{"kind": "svm", "c": tune.randn(1, 2)}, {"kind": "tree", "depth": 3}])},
        spaces=spaces(tune.randn(0, 3), tune.qrandn(0, 3, 0.5)),
        bad=[{"metric": ["a"]}, {"mode": "up"}, {"n_initial_points": 0}, {"gamma": 1}, {"random_state_seed": 0.5}],
    )


class TestContract(SearcherContract):
    def make_searcher(self) -> Searcher:
        return HyperOptSearch(n_initial_points=8)


def searching(space: Any = None, own: bool = False, **options: Any) -> HyperOptSearch:
    options = {"metric": "loss", "mode": "min", "random_state_seed": 1, "n_initial_points": 5, **options}
    search = HyperOptSearch(space if own else None, **options)
    assert search.set_search_properties(None, None, {} if own else space or {"x": tune.uniform(0, 1)}) is not own
    return search


def learned(search: HyperOptSearch) -> Any:
    """The library's own trials, from which its model learns."""
    return search.get_state()["_trials"]


def test_a_space_in_the_form_of_hyperopt_is_searched() -> None:
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
        ({"x": 0.25, "name": 0.5, "first": 3, "second": 4}, {"x": 0.25, "other": 0.5, "pair": (3, 4)}),
        ({"model": "plain"}, {"model": "plain", "constant": 5}),
        ({"model": 1, "n": 1.5}, {"model": {"kind": "b", "n": 1.5}}),
        ({"twice": 0.25}, {"twice": 0.5}),
        ({}, {}),
    ],
)
def test_points_in_a_native_space_come_first(point: dict[str, Any], expected: dict[str, Any]) -> None:
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
        ({"y": 0.5}, "every key of a point must be one of the labels .*, but got 'y'"),
        ({"x": "much"}, "'x' of a point must be a number, or a category of the choice, but got 'much'"),
        ({"model": "fancy"}, "'model' of a point must be a number, or a category of the choice, but got 'fancy'"),
    ],
)
def test_a_point_outside_of_a_native_space_is_refused(point: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        HyperOptSearch(OWN_SPACE, "loss", "min", points_to_evaluate=[{"x": 0.5}, point])


def test_a_choice_by_its_label_is_an_index() -> None:
    by_label = {"x": HP.uniform("x", 0, 1), "kind": HP.choice("which", ["a", "b"])}
    assert searching(by_label, own=True, points_to_evaluate=[{"which": 1}]).suggest("0")["kind"] == "b"
    assert searching(by_label, own=True, points_to_evaluate=[{"which": "b"}]).suggest("0")["kind"] == "b"
    with pytest.raises(ValueError, match="'which' of a point must be an index below 2, but got 2"):
        searching(by_label, own=True, points_to_evaluate=[{"which": 2}]).suggest("0")


def test_two_searchers_with_one_seed_suggest_the_same() -> None:
    first, second = searching(SPACE), searching(SPACE)
    assert [first.suggest(str(n)) for n in range(5)] == [second.suggest(str(n)) for n in range(5)]


def test_only_numbers_are_learned_from() -> None:
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


def test_evaluated_points_are_learned_from_unless_they_failed() -> None:
    search, plain = searching(SPACE), searching(SPACE)
    known = [plain.suggest(str(number)) for number in range(8)]
    for number, config in enumerate(known):
        search.add_evaluated_point(config, float(number))
    search.add_evaluated_point({"x": 0.5}, 1.0, error=True)
    assert learned(search).losses() == list(map(float, range(8)))
    assert search.suggest("0") != searching(SPACE).suggest("0")


def test_a_forbidden_point_is_refused(tmp_path: Path) -> None:
    near = [lambda config: config["x"] < 0.05]
    assert len(minimise(tmp_path / "2", {}, HyperOptSearch({"x": tune.uniform(0, 1)}), constraints=near)) == 8
    search = HyperOptSearch({"x": HP.uniform("x", 0, 1)}, points_to_evaluate=[{"x": 0.5}])
    with pytest.raises(ValueError, match="constraint"):
        minimise(tmp_path / "3", {}, search, constraints=near)


def test_a_converted_space_draws_like_its_domains() -> None:
    space = {
        "rate": tune.loguniform(1e-4, 1),
        "step": tune.quniform(0, 1, 0.25),
        "one": tune.uniform(2, 2),
        "noise": tune.randn(0, 1),
        "inner": {"n": tune.randint(1, 4), "even": tune.qrandint(2, 8, 2), "big": tune.lograndint(1, 1000)},
        "model": tune.choice([{"kind": "a"}, {"kind": "b", "depth": tune.randint(0, 3)}, [1, 2]]),
        "c": "constant",
    }
    converted = HyperOptSearch.convert_search_space(space)
    searcher = HyperOptSearch(converted, metric="loss", mode="min", random_state_seed=1, n_initial_points=5)
    configs = [searcher.suggest(str(number)) for number in range(40)]
    assert all(config.keys() == space.keys() for config in configs)
    assert all(fits(space["inner"], config["inner"]) for config in configs)
    assert all(fits(space[name], config[name]) for config in configs for name in ("rate", "step", "one", "noise", "c"))
    assert {config["inner"]["n"] for config in configs} == {1, 2, 3}
    assert {config["inner"]["even"] for config in configs} == {2, 4, 6, 8}
    assert {str(type(config["inner"]["even"])) for config in configs} == {"<class 'int'>"}
    depths = {
        config["model"]["depth"] for config in configs if isinstance(config["model"], dict) and len(config["model"]) > 1
    }
    assert depths == {0, 1, 2}


def test_labels_of_a_converted_space_are_paths() -> None:
    converted = HyperOptSearch.convert_search_space({"a": {"b": tune.uniform(0, 1)}, "c": 1}, prefix="mine")
    assert converted["c"] == 1
    assert converted["a"]["b"].pos_args[0].pos_args[0].obj == "mine/a/b"


@pytest.mark.parametrize("domain", [tune.grid_search([1, 2]), tune.sample_from(lambda: 1)])
def test_unsupported_domain_is_not_converted(domain: Any) -> None:
    with pytest.raises(ValueError, match="parameter 'a/x' must be of a kind that HyperOpt can draw"):
        HyperOptSearch.convert_search_space({"a": {"x": domain}})
