"""BayesOptSearch: the suite of all adapters, its utilities, its end, pairs of bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from adapter_suite import Adapter, AdapterSuite
from hypothesis import strategies as st

import minitune as tune
from minitune.search.bayesopt import BayesOptSearch
from minitune.space.domains import fits

REAL = [tune.uniform(-1, 1), tune.uniform(2, 2), tune.loguniform(1e-9, 1e3), tune.quniform(-0.3, 0.9, 0.1), "constant"]
INNER = st.one_of(st.sampled_from(REAL), st.dictionaries(st.sampled_from("xy"), st.sampled_from(REAL), max_size=2))
SPACE = {
    "x": tune.uniform(0, 1),
    "inner": {"rate": tune.loguniform(1e-5, 1), "width": tune.quniform(8, 64, 8)},
    "constant": 7,
}
NOT_REAL = "BayesOptSearch searches real numbers between bounds, .* parameter 'x' is"


class TestBayesOpt(AdapterSuite):
    adapter = Adapter(
        BayesOptSearch,
        "bayesopt",
        options={"random_search_steps": 4, "skip_duplicate": False},
        space=SPACE,
        spaces=st.dictionaries(st.sampled_from("ab"), INNER, min_size=1, max_size=2),
        refused={NOT_REAL: tune.randint(0, 3), NOT_REAL + " ": tune.choice([1, 2]), NOT_REAL + "  ?": tune.randn(0, 1)},
        bad=[{"metric": ["a"]}, {"mode": "up"}, {"utility_kwargs": {"a": 1}}, {"patience": 0}],
        trials=10,
        examples=4,
    )


searching = Adapter(BayesOptSearch, "bayesopt").searching


@pytest.mark.parametrize(
    ("mode", "utility"),
    [("min", {"kind": "ei", "xi": 0.01}), ("max", {"kind": "poi", "xi": 0.05})],
)
def test_each_utility_learns(mode: str, utility: Any) -> None:
    search = searching(mode=mode, utility_kwargs=utility, random_search_steps=5, skip_duplicate=False)
    sign, found = 1 if mode == "min" else -1, []
    for number in range(14):
        found.append(search.suggest(str(number))["x"])
        search.on_trial_complete(str(number), {"loss": sign * (found[-1] - 0.3) ** 2})
    assert min(abs(x - 0.3) for x in found[5:]) < 0.02


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


def test_points_come_first_and_bounds_are_a_space() -> None:
    search = searching(SPACE, points_to_evaluate=[{"x": 0.25, "inner/rate": 0.5}, {"inner": {"width": 16}}])
    first, second = search.suggest("0"), search.suggest("1")
    assert (first["x"], first["inner"]["rate"], second["inner"]["width"], first["constant"]) == (0.25, 0.5, 16, 7)
    with pytest.raises(ValueError, match="every key of a point must be one of the search space, but got 'y'"):
        searching(SPACE, points_to_evaluate=[{"y": 1}])
    pairs = BayesOptSearch({"x": (0, 2)}, metric="loss", mode="min")
    assert not pairs.set_search_properties(None, None, {})
    assert 0 <= pairs.suggest("0")["x"] <= 2


def test_a_saved_state_is_restored(tmp_path: Path) -> None:
    search, other = searching(SPACE, random_search_steps=2), searching(SPACE, seed=9)
    for number in range(5):
        search.on_trial_complete(str(number), {"loss": search.suggest(str(number))["x"]})
    search.suggest("open")
    search.save(str(tmp_path / "state"))
    other.restore(str(tmp_path / "state"))
    assert fits(SPACE, other.suggest("next"))
    assert len(other._known) == 5
    other.on_trial_complete("open", {"loss": 1.0})
