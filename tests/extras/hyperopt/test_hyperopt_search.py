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


def test_points_in_a_native_space_are_refused() -> None:
    with pytest.raises(ValueError, match="points_to_evaluate must be None for a space of HyperOpt's own"):
        HyperOptSearch({"x": hyperopt.hp.uniform("x", 0, 1)}, "loss", "min", points_to_evaluate=[{"x": 0.5}])


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
    search = HyperOptSearch({"x": tune.uniform(0, 1)}, points_to_evaluate=[{"x": 0.5}])
    with pytest.raises(ValueError, match="constraint"):
        minimise(tmp_path / "3", {}, search, constraints=near)
