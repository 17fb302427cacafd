"""OptunaSearch: the suite of all adapters, the library's own distributions, its study, warm start, storage."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import optuna
import pytest
from adapter_suite import GRID, SPACE, Adapter, AdapterSuite, minimise
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

import minitune as tune
from minitune.search import Searcher
from minitune.search.optuna import OptunaSearch

pytest.register_assert_rewrite("minitune.testing.searcher_contract")

from minitune.testing import SearcherContract  # noqa: E402 - its asserts are rewritten first


class TestOptuna(AdapterSuite):
    adapter = Adapter(
        OptunaSearch,
        "optuna",
        has_old_arguments=False,
        refused={**GRID, "Optuna has no normal distribution, but parameter 'x' has one": tune.randn(0, 1)},
        bad=[{"sampler": "tpe"}, {"storage": 5}, {"study_name": 5}, {"seed": 0.5}, {"space": 5}, {"mode": "up"}],
    )


class TestContract(SearcherContract):
    learns = True

    def make_searcher(self) -> Searcher:
        return OptunaSearch()


def searching(space: Any = None, own: bool = False, **options: Any) -> OptunaSearch:
    options = {"metric": "loss", "mode": "min", "seed": 1, **options}
    search = OptunaSearch(space if own else None, **options)
    assert search.set_search_properties(None, None, {} if own else space or {"x": tune.uniform(0, 1)}) is not own
    return search


def states(search: OptunaSearch) -> list[str]:
    return [trial.state.name for trial in search.study.trials]


def test_a_seed_repeats_suggestions_in_a_nested_space() -> None:
    first, second = searching(SPACE), searching(SPACE)
    assert [first.suggest(str(n)) for n in range(5)] == [second.suggest(str(n)) for n in range(5)]
    assert set(first.study.trials[0].params) > {"x", "inner/rate", "inner/width"}


def test_optunas_distributions_may_be_nested_and_beside_constants() -> None:
    space = {
        "a": {"x": FloatDistribution(0, 1)},
        "b/n": IntDistribution(1, 3),
        "c": CategoricalDistribution(["p"]),
        "k": 5,
    }
    config = searching(space, own=True).suggest("0")
    assert 0 <= config["a"]["x"] <= 1
    assert config["b"]["n"] in (1, 2, 3)
    assert (config["c"], config["k"]) == ("p", 5)


def test_a_function_defines_the_space() -> None:
    def define(trial: optuna.Trial) -> dict[str, Any]:
        if trial.suggest_categorical("kind", ["a", "b"]) == "a":
            trial.suggest_float("deep/x", 0, 1)
        trial.suggest_int(name="n", low=1, high=3)
        return {"constant": 7}

    search = searching(define, own=True)
    for number in range(10):
        config = search.suggest(str(number))
        assert config["constant"] == 7
        assert ("deep" in config) is (config["kind"] == "a")
        search.on_trial_complete(str(number), {"loss": 1.0})
    search.add_evaluated_point({"kind": "a", "deep": {"x": 0.5}, "n": 2}, 0.1)
    assert search.study.best_params == {"kind": "a", "deep/x": 0.5, "n": 2}


def test_a_function_must_return_constants_or_none() -> None:
    with pytest.raises(TypeError, match="must return None or a dict of constants by name, but returned 5"):
        searching(lambda trial: 5, own=True).suggest("0")


def test_trials_in_the_study_have_their_states() -> None:
    search = searching()
    for trial_id in "abcdefg":
        search.suggest(trial_id)
    search.on_trial_result("a", {"loss": 3.0, "training_iteration": 1})
    search.on_trial_result("a", {"loss": 2.0, "training_iteration": 2})
    search.on_trial_result("a", {"loss": 9.0, "training_iteration": 2})
    search.on_trial_complete("a", {"loss": 1.0, "training_iteration": 3})
    search.on_trial_complete("b", error=True)
    search.on_trial_complete("c")
    search.on_trial_complete("d", {"loss": math.nan})
    assert search._completed_trials == {"a", "b", "c", "d"}  # scripts for Ray Tune read it
    search.on_trial_complete("e", {"other": 1})
    search.on_suggestion_refused("f")
    search.on_trial_complete("a", {"loss": 5.0})

    assert states(search) == ["COMPLETE", "FAIL", "PRUNED", "FAIL", "PRUNED", "FAIL", "RUNNING"]
    assert search.study.trials[0].value == 1.0
    assert search.study.trials[0].intermediate_values == {1: 3.0, 2: 2.0}


def test_a_study_has_a_direction_for_each_objective_but_observed_ones() -> None:
    search = searching(metric=["loss", "size", "time"], mode=["min", "max", "obs"])
    for number in range(3):
        search.suggest(str(number))
        search.on_trial_result(str(number), {"loss": 1, "size": 2, "time": 3})
        search.on_trial_complete(str(number), {"loss": number, "size": number, "time": 0})
    assert [direction.name for direction in search.study.directions] == ["MINIMIZE", "MAXIMIZE"]
    assert len(search.study.best_trials) == 3


def test_points_with_their_values_are_not_tried() -> None:
    search = searching(points_to_evaluate=[{"x": 0.5}, {"x": 0.25}], evaluated_rewards=[2.0, 1.0])
    assert search.suggest("0")["x"] not in (0.5, 0.25)
    assert [trial.value for trial in search.study.trials[:2]] == [2.0, 1.0]
    with pytest.raises(ValueError, match="evaluated_rewards must be None or one value for each of points_to_evaluate"):
        searching(points_to_evaluate=[{"x": 0.5}], evaluated_rewards=[1.0, 2.0])


@pytest.mark.parametrize(
    "space", [{"x": FloatDistribution(0, 1)}, lambda trial: {"k": [trial.suggest_float("x", 0, 1)] and 7}]
)
def test_values_of_adopted_trials_count_also_in_a_space_of_its_own(space: Any) -> None:
    search = searching(space, own=True, points_to_evaluate=[{"x": 0.75}, {"x": 0.25}, {"x": 0.5}])
    for number, x in enumerate([0.25, 0.125]):
        search.adopt(str(number), {"x": x, "k": 7, "of_the_run": 5})
        search.on_trial_complete(str(number), {"loss": x})
    search.adopt("2", {"x": 0.5})
    search.on_trial_complete("2", {"loss": 0.5})
    assert [trial.params["x"] for trial in search.study.trials] == [0.25, 0.125, 0.5]
    assert search.study.best_params == {"x": 0.125}


def test_evaluated_points_become_trials_of_the_study_with_their_state() -> None:
    search = searching()
    search.add_evaluated_point({"x": 0.5}, 1.0, intermediate_values=[3.0, 2.0])
    search.add_evaluated_point({"x": 0.6}, 1.0, pruned=True)
    search.add_evaluated_point({"x": 0.7}, 1.0, error=True)
    search.add_evaluated_point({"x": 0.8}, math.nan)
    assert states(search) == ["COMPLETE", "PRUNED", "FAIL", "FAIL"]
    assert search.study.trials[0].intermediate_values == {0: 3.0, 1: 2.0}


def test_a_wrong_evaluated_point_is_refused_by_name() -> None:
    for space in ({"x": tune.uniform(0, 1)}, {"x": optuna.distributions.FloatDistribution(0, 1)}):
        search = OptunaSearch(space, metric="loss", mode="min")
        with pytest.raises(ValueError, match=r"got 'xx' \(did you mean 'x'\?\)"):
            search.add_evaluated_point({"xx": 0.5}, 1.0)


def test_a_finished_run_is_learned_from_by_the_next_study(tmp_path: Path) -> None:
    grid = minimise(tmp_path, {"x": tune.uniform(0, 1), "k": 7}, None)
    search = OptunaSearch()
    for result in grid:
        search.add_evaluated_point({"x": result.config["x"]}, result.metrics["loss"])
    minimise(tmp_path / "2", {"x": tune.uniform(0, 1), "k": 7}, search, num_samples=2)
    assert len(search.study.trials) == 10
    assert {trial.state for trial in search.study.trials} == {TrialState.COMPLETE}
    assert search.study.trials[3].params == {"x": grid[3].config["x"]}


@pytest.mark.parametrize(
    ("space", "text"),
    [
        ({"x": tune.randn(0, 1)}, "Optuna has no normal distribution, but parameter 'x' has one"),
        ({"x": tune.grid_search([1, 2])}, "cannot cover a grid, but parameter 'x' is one"),
        ({"x": tune.choice([{"y": tune.qrandn(0, 1, 0.5)}])}, "parameter 'x/0/y' has one"),
    ],
)
def test_unsupported_spaces_are_refused(space: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        searching(space, own=True)


def test_a_seed_has_no_effect_on_a_native_sampler(caplog: pytest.LogCaptureFixture) -> None:
    search = searching(sampler=optuna.samplers.RandomSampler(seed=3))
    assert "seed=1 has no effect on the given sampler" in caplog.text
    assert isinstance(search.study.sampler, optuna.samplers.RandomSampler)


def test_a_stored_study_is_continued(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    for _ in range(2):
        search = searching(storage=url, study_name="mine")
        search.suggest("0")
        search.on_trial_complete("0", {"loss": 1.0})
    assert len(optuna.load_study(study_name="mine", storage=url).trials) == 2


def test_optuna_logs_nothing_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.INFO)
    try:
        searching().suggest("0")
        assert capsys.readouterr() == ("", "")
        assert optuna.logging.get_verbosity() == optuna.logging.INFO
    finally:
        optuna.logging.set_verbosity(before)
    assert logging.getLogger("optuna").level != logging.CRITICAL
