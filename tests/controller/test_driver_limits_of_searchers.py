"""A limit of the search algorithm's holds for trials that are taken up again, and paused ones do not count."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kit import SavedCounter, Spy, fit

import minitune as tune
from minitune import BasicVariantGenerator, ConcurrencyLimiter, Searcher
from minitune.schedulers import HyperBandScheduler
from minitune.search.bohb import TuneBOHB


class Uniform(Searcher):
    """Draws without end."""

    def __init__(self) -> None:
        super().__init__()
        self.random = random.Random(4)

    def suggest(self, trial_id: str) -> dict[str, Any]:
        return {"x": self.random.random()}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        pass


SPACE = {"x": tune.uniform(0, 1)}
LIMITED: dict[str, Any] = {
    "wrapped by the user": lambda: {"search_alg": ConcurrencyLimiter(Uniform(), max_concurrent=2)},
    "in batches": lambda: {"search_alg": ConcurrencyLimiter(Uniform(), max_concurrent=2, batch=True)},
    "by the run": lambda: {"search_alg": Uniform(), "max_concurrent_trials": 2},
    "by itself": lambda: {"search_alg": BasicVariantGenerator(max_concurrent=2)},
    "as once in Ray Tune": lambda: {"search_alg": TuneBOHB(SPACE, metric="n", mode="max", max_concurrent=2)},
}


@pytest.mark.parametrize("limited", LIMITED)
def test_paused_trials_make_room_for_new_ones_and_those_taken_up_again_keep_to_the_limit(limited: str) -> None:
    spy = Spy()
    scheduler = HyperBandScheduler(max_t=9, metric="n", mode="max")
    grid = fit(SavedCounter, callbacks=[spy], scheduler=scheduler, num_samples=9, **LIMITED[limited]())
    assert sorted(result.metrics["n"] for result in grid) == [1, 1, 1, 1, 1, 1, 3, 3, 9]
    assert spy.most_running == 2
