"""NevergradSearch: the suite of all adapters, its optimizers, the library's own spaces."""

from __future__ import annotations

from typing import Any

import nevergrad as ng
import pytest
from adapter_suite import GRID, Adapter, AdapterSuite

import minitune as tune
from minitune.search import Searcher
from minitune.search.nevergrad import NevergradSearch

pytest.register_assert_rewrite("minitune.testing.searcher_contract")

from minitune.testing import SearcherContract  # noqa: E402 - its asserts are rewritten first


class TestNevergrad(AdapterSuite):
    adapter = Adapter(
        NevergradSearch,
        "nevergrad",
        refused={**GRID, "Nevergrad has no normal distribution, but parameter 'x' has one": tune.randn(0, 1)},
        bad=[{"metric": ["a"]}, {"mode": "up"}, {"optimizer": 5}, {"optimizer_kwargs": 5}, {"space": 5}],
        trials=80,
    )


class TestContract(SearcherContract):
    def make_searcher(self) -> Searcher:
        return NevergradSearch()


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("optimizer", [ng.optimizers.OnePlusOne, ng.optimizers.ParametrizedOnePlusOne()])
def test_each_kind_of_optimizer_learns(mode: str, optimizer: Any) -> None:
    search = TestNevergrad.adapter.searching(optimizer=optimizer, mode=mode, optimizer_kwargs={"budget": 80})
    sign, found = 1 if mode == "min" else -1, []
    for number in range(80):
        found.append(search.suggest(str(number))["x"])
        search.on_trial_complete(str(number), {"loss": sign * (found[-1] - 0.3) ** 2})
    assert min(abs(x - 0.3) for x in found) < 0.02


def test_a_space_may_be_of_nevergrads_own_parameters_or_of_names() -> None:
    space = ng.p.Dict(x=ng.p.Scalar(lower=0, upper=1), kind=ng.p.Choice(["a", "b"]))
    named = NevergradSearch(ng.optimizers.OnePlusOne(2), space=["x", "y/z"], metric="loss", mode="min")
    for search, keys in ((NevergradSearch(space=space, metric="loss", mode="min"), {"x", "kind"}), (named, {"x", "y"})):
        assert not search.set_search_properties("loss", "min", {})
        for number in range(5):
            config = search.suggest(str(number))
            assert set(config) == keys
            search.on_trial_complete(str(number), {"loss": float(config["x"])})
    assert isinstance(config["y"], dict)
