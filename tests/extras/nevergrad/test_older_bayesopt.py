"""BayesOptSearch with version 1 of bayesian-optimization, which Nevergrad brings."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import minitune as tune
from minitune.search.bayesopt import BayesOptSearch

UTILITIES = [{"kind": "ucb"}, {"kind": "ei", "xi": 0.01}, {"kind": "poi", "xi": 0.05}]


def searching(utility: dict[str, Any]) -> BayesOptSearch:
    space = {"x": tune.uniform(0, 1)}
    options: dict[str, Any] = {"random_search_steps": 5, "skip_duplicate": False}
    return BayesOptSearch(space, metric="loss", mode="min", utility_kwargs=utility, **options)


@pytest.mark.parametrize("utility", UTILITIES)
def test_each_utility_learns_and_restores_its_state(utility: dict[str, Any], tmp_path: Path) -> None:
    assert importlib.util.find_spec("bayes_opt.acquisition") is None, "the package is newer than its version 1"
    search = searching(utility)
    found = []
    for number in range(14):
        if number == 8:
            search.save(str(tmp_path / "state"))
            search = searching(utility)
            search.restore(str(tmp_path / "state"))
        config: Any = search.suggest(str(number))
        found.append(config["x"])
        search.on_trial_complete(str(number), {"loss": (found[-1] - 0.3) ** 2})
    assert min(abs(x - 0.3) for x in found[5:]) < 0.05
