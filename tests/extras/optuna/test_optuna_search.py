"""OptunaSearch with the real library: spaces of every kind, what the study hears, warm start, saving, runs."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import optuna
import pytest
from kit import fit
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

import minitune as tune
from minitune.search.optuna import OptunaSearch
from minitune.space.domains import fits
from minitune.space.parameters import config_key

SPACE = {
    "x": tune.uniform(0, 1),
    "inner": {"rate": tune.loguniform(1e-5, 1), "width": tune.qrandint(8, 64, 8)},
    "model": tune.choice([{"kind": "svm", "c": tune.uniform(1, 2)}, {"kind": "tree", "depth": tune.randint(1, 9)}]),
    "layers": tune.choice([(8,), (8, 8)]),
    "constant": 7,
}


def searching(space: Any = None, own: bool = False, **options: Any) -> OptunaSearch:
    options = {"metric": "loss", "mode": "min", "seed": 1, **options}
    search = OptunaSearch(space if own else None, **options)
    assert search.set_search_properties(None, None, {} if own else space or {"x": tune.uniform(0, 1)}) is not own
    return search


def states(search: OptunaSearch) -> list[str]:
    return [trial.state.name for trial in search.study.trials]


def test_both_paths_name_the_same_class() -> None:
    from minitune.tune.search.optuna import OptunaSearch as other

    assert other is OptunaSearch
    assert isinstance(tune.create_searcher("optuna", metric="loss", mode="min"), OptunaSearch)


def test_nested_and_conditional_parameters_reach_the_trial_where_they_belong() -> None:
    search = searching(SPACE)
    kinds = set()
    for number in range(40):
        config = search.suggest(str(number))
        assert fits(SPACE, config)
        kinds.add((config["model"]["kind"], *config["model"]))
        search.on_trial_complete(str(number), {"loss": config["x"]})
    assert kinds == {("svm", "kind", "c"), ("tree", "kind", "depth")}
    assert set(search.study.trials[0].params) > {"x", "inner/rate", "inner/width"}


def test_it_learns() -> None:
    search = searching({"x": tune.uniform(0, 1)})
    for number in range(60):
        x = search.suggest(str(number))["x"]
        search.on_trial_complete(str(number), {"loss": (x - 0.3) ** 2})
    assert abs(search.study.best_params["x"] - 0.3) < 0.05


def test_a_seed_repeats_the_suggestions() -> None:
    def first(search: OptunaSearch) -> list[Any]:
        return [search.suggest(str(number)) for number in range(5)]

    assert first(searching(SPACE)) == first(searching(SPACE))
    of_run = [searching(SPACE, seed=None) for _ in range(2)]
    for search in of_run:
        search.set_seed(5)
    assert first(of_run[0]) == first(of_run[1])


def test_distributions_of_its_own_nested_with_constants() -> None:
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


def test_a_function_that_defines_the_space() -> None:
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


def test_a_function_that_returns_something_else() -> None:
    with pytest.raises(TypeError, match="must return None or a dict of constants by name, but returned 5"):
        searching(lambda trial: 5, own=True).suggest("0")


def test_what_the_study_hears_of_ends() -> None:
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
    search.on_trial_complete("e", {"other": 1})
    search.on_suggestion_refused("f")
    search.on_trial_complete("a", {"loss": 5.0})

    assert states(search) == ["COMPLETE", "FAIL", "PRUNED", "FAIL", "PRUNED", "FAIL", "RUNNING"]
    assert search.study.trials[0].value == 1.0
    assert search.study.trials[0].intermediate_values == {1: 3.0, 2: 2.0}


def test_several_objectives() -> None:
    search = searching(metric=["loss", "size", "time"], mode=["min", "max", "obs"])
    for number in range(3):
        search.suggest(str(number))
        search.on_trial_result(str(number), {"loss": 1, "size": 2, "time": 3})
        search.on_trial_complete(str(number), {"loss": number, "size": number, "time": 0})
    assert [direction.name for direction in search.study.directions] == ["MINIMIZE", "MAXIMIZE"]
    assert len(search.study.best_trials) == 3


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


def test_points_with_their_values_are_not_tried() -> None:
    search = searching(points_to_evaluate=[{"x": 0.5}, {"x": 0.25}], evaluated_rewards=[2.0, 1.0])
    assert search.suggest("0")["x"] not in (0.5, 0.25)
    assert [trial.value for trial in search.study.trials[:2]] == [2.0, 1.0]
    with pytest.raises(ValueError, match="evaluated_rewards must be None or one value for each of points_to_evaluate"):
        searching(points_to_evaluate=[{"x": 0.5}], evaluated_rewards=[1.0, 2.0])


def test_evaluated_points() -> None:
    search = searching()
    search.add_evaluated_point({"x": 0.5}, 1.0, intermediate_values=[3.0, 2.0])
    search.add_evaluated_point({"x": 0.6}, 1.0, pruned=True)
    search.add_evaluated_point({"x": 0.7}, 1.0, error=True)
    search.add_evaluated_point({"x": 0.8}, math.nan)
    assert states(search) == ["COMPLETE", "PRUNED", "FAIL", "FAIL"]
    assert search.study.trials[0].intermediate_values == {0: 3.0, 1: 2.0}


def test_an_evaluated_point_with_a_mistake_is_refused_by_name() -> None:
    for space in ({"x": tune.uniform(0, 1)}, {"x": optuna.distributions.FloatDistribution(0, 1)}):
        search = OptunaSearch(space, metric="loss", mode="min")
        with pytest.raises(ValueError, match=r"got 'xx' \(did you mean 'x'\?\)"):
            search.add_evaluated_point({"xx": 0.5}, 1.0)


def test_a_finished_run_as_history(tmp_path: Path) -> None:
    grid = minimise(tmp_path, {"x": tune.uniform(0, 1), "k": 7}, None)
    search = OptunaSearch()
    search.add_evaluated_trials(tune.ExperimentAnalysis(grid.experiment_path), metric="loss")
    minimise(tmp_path / "2", {"x": tune.uniform(0, 1), "k": 7}, search, num_samples=2)
    assert len(search.study.trials) == 14
    assert search.study.trials[3].params == {"x": grid[3].config["x"]}


@pytest.mark.parametrize(
    ("space", "text"),
    [
        ({"x": tune.randn(0, 1)}, "Optuna has no normal distribution, but parameter 'x' has one"),
        ({"x": tune.grid_search([1, 2])}, "cannot cover a grid, but parameter 'x' is one"),
        ({"x": tune.choice([{"y": tune.qrandn(0, 1, 0.5)}])}, "parameter 'x/0/y' has one"),
    ],
)
def test_spaces_that_it_cannot_search(space: Any, text: str) -> None:
    for own in (True, False):
        with pytest.raises(ValueError, match=text):
            searching(space, own=own)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="OptunaSearch has no search space"):
        OptunaSearch(metric="loss", mode="min").suggest("0")
    with pytest.raises(ValueError, match="OptunaSearch needs a metric and a mode, but got metric=None, mode=None"):
        OptunaSearch({"x": tune.uniform(0, 1)}).suggest("0")


@pytest.mark.parametrize(
    "options",
    [{"sampler": "tpe"}, {"storage": 5}, {"study_name": 5}, {"seed": 0.5}, {"space": 5}, {"mode": "up", "metric": "x"}],
)
def test_bad_arguments(options: dict[str, Any]) -> None:
    (name,) = list(options)[:1]
    with pytest.raises(ValueError, match=f"{name} must be"):
        OptunaSearch(**options)


def test_a_sampler_of_its_own_and_a_seed(caplog: pytest.LogCaptureFixture) -> None:
    search = searching(sampler=optuna.samplers.RandomSampler(seed=3))
    assert "seed=1 has no effect on a sampler of your own" in caplog.text
    assert isinstance(search.study.sampler, optuna.samplers.RandomSampler)


def test_what_is_saved_goes_on(tmp_path: Path) -> None:
    search, other = searching(SPACE), searching(SPACE, seed=9)
    for number in range(15):
        search.on_trial_complete(str(number), {"loss": search.suggest(str(number))["x"]})
    search.suggest("open")
    search.save(str(tmp_path / "state"))
    other.restore(str(tmp_path / "state"))
    assert config_key(other.suggest("next")) == config_key(search.suggest("next"))
    other.on_trial_complete("open", {"loss": 1.0})
    assert states(other)[15] == "COMPLETE"


def test_a_study_in_a_storage_goes_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    for _ in range(2):
        search = searching(storage=url, study_name="mine")
        search.suggest("0")
        search.on_trial_complete("0", {"loss": 1.0})
    assert len(optuna.load_study(study_name="mine", storage=url).trials) == 2


def train(config: dict[str, Any]) -> None:
    for step in range(3):
        tune.report({"loss": (config["x"] - 0.3) ** 2 + 1 / (step + 1)})


def minimise(storage: Path, space: Any, search: Any, **options: Any) -> tune.ResultGrid:
    settings = {"metric": "loss", "mode": "min", "num_samples": 12, "seed": 3, **options}
    return fit(train, space, search_alg=search, storage_path=storage, **settings)


@pytest.mark.parametrize("scheduler", [None, tune.ASHAScheduler(max_t=3, grace_period=1)])
def test_a_run(tmp_path: Path, scheduler: Any) -> None:
    search = OptunaSearch(points_to_evaluate=[{"x": 0.3}])
    space = {"x": tune.uniform(0, 1), "twice": tune.sample_from(lambda config: 2 * config["x"])}
    grid = minimise(tmp_path, space, search, scheduler=scheduler, max_concurrent_trials=2)
    assert [result.config["twice"] for result in grid] == [2 * result.config["x"] for result in grid]
    assert grid[0].config["x"] == 0.3
    assert {trial.state for trial in search.study.trials} == {TrialState.COMPLETE}
    assert tune.Tuner.restore(str(tmp_path / "run"), train, add_samples=2).fit().num_terminated == 14


def test_duplicates_and_constraints(tmp_path: Path) -> None:
    space = {"x": tune.choice([0, 1, 2]), "y": tune.choice([0, 1, 2])}
    grid = minimise(tmp_path, space, OptunaSearch(), num_samples=50, on_duplicate="resample")
    assert len({(result.config["x"], result.config["y"]) for result in grid}) == len(grid) == 9
    grid = minimise(
        tmp_path / "2", {"x": tune.uniform(0, 1)}, OptunaSearch(), constraints=[lambda config: config["x"] < 0.05]
    )
    assert len(grid) == 12
    assert all(result.config["x"] < 0.05 for result in grid)


def test_nothing_is_said_that_no_one_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    before = optuna.logging.get_verbosity()
    searching().suggest("0")
    assert capsys.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == before
    assert logging.getLogger("optuna").level != logging.CRITICAL
