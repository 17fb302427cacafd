"""Our own searchers under the contract that authors of others subclass."""

import pytest

from minitune.search import AutoSearch, ConcurrencyLimiter, Repeater, TPESearch
from minitune.space.domains import choice, loguniform

pytest.register_assert_rewrite("minitune.testing.searcher_contract")

from minitune.testing import SearcherContract  # noqa: E402 - its asserts are rewritten first


class TestTPE(SearcherContract):
    learns = True

    def make_searcher(self):
        return TPESearch(n_initial_points=8)


class TestAuto(SearcherContract):
    learns = True

    def make_searcher(self):
        return AutoSearch(n_initial_points=20)  # the contract compares the first 20 with later ones


class TestTPEBelowCategories(SearcherContract):
    param_space = {  # noqa: RUF012 - no one changes it
        "model": choice([{"kind": "linear", "l2": loguniform(1e-4, 1.0)}, {"kind": "tree", "depth": choice([1, 2, 3])}])
    }

    def make_searcher(self):
        return TPESearch(n_initial_points=8)

    def loss_of(self, config):
        model = config["model"]
        return model["l2"] if model["kind"] == "linear" else 1 / model["depth"]


class Wrapper(SearcherContract):
    test_a_saved_state_goes_on_as_if_nothing_had_happened = (
        None  # save() is the inner searcher's: the run saves the rest
    )


class TestLimiter(Wrapper):
    def make_searcher(self):
        return ConcurrencyLimiter(TPESearch(n_initial_points=8), max_concurrent=5)


class TestRepeater(Wrapper):
    def make_searcher(self):
        return Repeater(TPESearch(n_initial_points=4), repeat=2)
