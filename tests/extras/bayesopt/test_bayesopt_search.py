"""BayesOptSearch with the real library: spaces, points, saving, runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from kit import check_suggestions, check_that_nothing_comes_twice, fit

import minitune as tune
from minitune.search.bayesopt import BayesOptSearch
from minitune.space.domains import fits

REAL = [tune.uniform(-1, 1), tune.uniform(2, 2), tune.loguniform(1e-9, 1e3), tune.quniform(-0.3, 0.9, 0.1), "constant"]
SPACE = {
    "x": tune.uniform(0, 1),
    "inner": {"rate": tune.loguniform(1e-5, 1), "step": tune.quniform(0, 1, 0.25)},
    "c": 7,
}


def flat_spaces() -> Any:
    inner = st.one_of(st.sampled_from(REAL), st.dictionaries(st.sampled_from("xy"), st.sampled_from(REAL), max_size=2))
    return st.dictionaries(st.sampled_from("ab"), inner, min_size=1, max_size=2)


def searching(space: Any = None, *, seed: int = 1, **options: Any) -> BayesOptSearch:
    search = BayesOptSearch(**{"metric": "loss", "mode": "min", **options})
    search.set_seed(seed)
    assert search.set_search_properties(None, None, space or {"x": tune.uniform(0, 1)})
    return search


def test_all_paths_name_the_same_class() -> None:
    from minitune.tune.search.bayesopt import BayesOptSearch as other
    from minitune.tune.search.bayesopt.bayesopt_search import BayesOptSearch as below

    assert other is below is BayesOptSearch
    assert isinstance(tune.create_searcher("bayesopt", metric="loss", mode="min"), BayesOptSearch)


@pytest.mark.parametrize(
    ("mode", "utility"),
    [("min", None), ("max", None), ("min", {"kind": "ei", "xi": 0.01}), ("max", {"kind": "poi", "xi": 0.05})],
)
def test_it_learns(mode: str, utility: Any) -> None:
    search = searching(mode=mode, utility_kwargs=utility, random_search_steps=5, skip_duplicate=False)
    sign, found = 1 if mode == "min" else -1, []
    for number in range(14):
        found.append(search.suggest(str(number))["x"])
        search.on_trial_complete(str(number), {"loss": sign * (found[-1] - 0.3) ** 2})
    assert min(abs(x - 0.3) for x in found[5:]) < 0.02


@hypothesis.given(flat_spaces(), st.integers(0, 99))
@hypothesis.settings(deadline=None, max_examples=4, phases=[hypothesis.Phase.generate])
def test_suggestions_lie_in_the_space(space: Any, seed: int) -> None:
    def made(points: list[Any]) -> BayesOptSearch:
        options: dict[str, Any] = {"random_search_steps": 4, "skip_duplicate": False}
        return BayesOptSearch(metric="loss", mode="min", points_to_evaluate=points, **options)

    searcher = made([])
    searcher.set_seed(seed)
    check_suggestions(space, searcher, made)


def test_nothing_comes_twice() -> None:
    check_that_nothing_comes_twice({"a": tune.quniform(0, 1, 0.25)}, BayesOptSearch(skip_duplicate=False), 1)


def test_a_small_space_ends_the_search() -> None:
    search = searching({"x": tune.quniform(0, 1, 0.5)})
    found = []
    while isinstance(config := search.suggest(str(len(found))), dict):
        found.append(config["x"])
        search.on_trial_complete(str(len(found) - 1), {"loss": config["x"]})
    assert config == BayesOptSearch.FINISHED
    assert sorted(found) == sorted(set(found))


def test_a_seed_repeats_the_suggestions_and_42_is_the_default() -> None:
    first, second = (searching(SPACE, seed=5, random_search_steps=1) for _ in range(2))
    for number in range(5):
        config = first.suggest(str(number))
        assert config == second.suggest(str(number))
        assert fits(SPACE, config)
        for search in (first, second):
            search.on_trial_complete(str(number), {"loss": config["x"]})
    own = searching(SPACE, seed=5, random_state=7)
    assert own.suggest("0") == searching(SPACE, seed=6, random_state=7).suggest("0")


def test_points_come_first_and_a_space_may_be_pairs_of_bounds() -> None:
    search = searching(SPACE, points_to_evaluate=[{"x": 0.25, "inner/rate": 0.5}, {"inner": {"step": 0.75}}])
    first, second = search.suggest("0"), search.suggest("1")
    assert (first["x"], first["inner"]["rate"], second["inner"]["step"], first["c"]) == (0.25, 0.5, 0.75, 7)
    with pytest.raises(ValueError, match="every key of a point must be one of the search space, but got 'y'"):
        searching(SPACE, points_to_evaluate=[{"y": 1}])
    pairs = BayesOptSearch({"x": (0, 2)}, metric="loss", mode="min")
    assert not pairs.set_search_properties(None, None, {})
    assert 0 <= pairs.suggest("0")["x"] <= 2


def test_what_has_no_value_does_no_harm_and_what_is_known_is_learned() -> None:
    search = searching(random_search_steps=0)
    for trial_id in "abcd":
        search.suggest(trial_id)
    search.on_trial_complete("a", {"loss": 1.0})
    search.on_trial_complete("b", error=True)
    search.on_trial_complete("c", {"loss": math.nan})
    search.on_trial_complete("d", {"loss": math.inf})
    search.add_evaluated_point({"x": 0.5}, 0.5)
    assert 0 <= search.suggest("f")["x"] <= 1


@pytest.mark.parametrize("domain", [tune.randint(0, 3), tune.choice([1, 2]), tune.randn(0, 1)])
def test_other_domains_are_refused(domain: Any) -> None:
    with pytest.raises(ValueError, match=r"BayesOptSearch searches real numbers between bounds, .* parameter 'x' is"):
        searching({"x": domain})


def test_what_is_missing_or_wrong_is_named() -> None:
    with pytest.raises(ValueError, match="BayesOptSearch has no search space"):
        BayesOptSearch(metric="loss", mode="min").suggest("0")
    with pytest.raises(ValueError, match="BayesOptSearch needs a metric and a mode"):
        BayesOptSearch(space={"x": tune.uniform(0, 1)}).suggest("0")
    bad: list[dict[str, Any]] = [{"metric": ["a"]}, {"mode": "up"}, {"utility_kwargs": {"a": 1}}, {"patience": 0}]
    for options in bad:
        with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
            BayesOptSearch(**options)


def test_what_is_saved_goes_on(tmp_path: Path) -> None:
    search, other = searching(SPACE, random_search_steps=2), searching(SPACE, seed=9)
    for number in range(5):
        search.on_trial_complete(str(number), {"loss": search.suggest(str(number))["x"]})
    search.suggest("open")
    search.save(str(tmp_path / "state"))
    other.restore(str(tmp_path / "state"))
    assert fits(SPACE, other.suggest("next"))
    assert len(other._known) == 5
    other.on_trial_complete("open", {"loss": 1.0})


def train(config: dict[str, Any]) -> None:
    for step in range(3):
        tune.report({"loss": (config["x"] - 0.3) ** 2 + 1 / (step + 1)})


def test_a_run(tmp_path: Path) -> None:
    space = {"x": tune.uniform(0, 1), "twice": tune.sample_from(lambda config: 2 * config["x"])}
    search = BayesOptSearch(points_to_evaluate=[{"x": 0.25}], random_search_steps=3)
    settings: dict[str, Any] = {"metric": "loss", "mode": "min", "num_samples": 8, "seed": 3, "storage_path": tmp_path}
    grid = fit(train, space, search_alg=search, **settings)
    assert grid[0].config["x"] == 0.25
    assert [result.config["twice"] for result in grid] == [2 * result.config["x"] for result in grid]
    assert tune.Tuner.restore(str(tmp_path / "run"), train, add_samples=2).fit().num_terminated == 10
