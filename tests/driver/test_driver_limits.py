"""How many at a time, for how long, and by which workers."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from kit import (
    LastFirst,
    Log,
    LoggingSearcher,
    PauseOnce,
    SavedCounter,
    Spy,
    fit,
    report_n,
    virtual_executor,
)

from minitune import (
    BasicVariantGenerator,
    ConcurrencyLimiter,
    TuneError,
    grid_search,
    report,
    uniform,
    with_resources,
)
from minitune.base import clock
from minitune.schedulers import HyperBandScheduler
from minitune.search.bohb import TuneBOHB


@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize("own", [None, 0, 2])
def test_the_smaller_limit_bounds_what_runs(limit, own):
    spy = Spy()
    search = None if own is None else BasicVariantGenerator(max_concurrent=own)
    grid = fit(report_n(3), num_samples=7, max_concurrent_trials=limit, search_alg=search, callbacks=[spy])
    assert spy.most_running == min(limit, own or limit)
    assert grid.num_terminated == 7


LIMITED = {
    "wrapped by the user": lambda: {"search_alg": ConcurrencyLimiter(LoggingSearcher(Log()), max_concurrent=2)},
    "in batches": lambda: {"search_alg": ConcurrencyLimiter(LoggingSearcher(Log()), max_concurrent=2, batch=True)},
    "by the run": lambda: {"search_alg": LoggingSearcher(Log()), "max_concurrent_trials": 2},
    "by itself": lambda: {"search_alg": BasicVariantGenerator(max_concurrent=2)},
    "as once in Ray Tune": lambda: {
        "search_alg": TuneBOHB({"x": uniform(0, 1)}, metric="n", mode="max", max_concurrent=2)
    },
}


@pytest.mark.parametrize("limited", LIMITED)
def test_paused_trials_make_room_and_resumed_ones_keep_the_limit(limited):
    spy = Spy()
    scheduler = HyperBandScheduler(max_t=9, metric="n", mode="max")
    grid = fit(SavedCounter, callbacks=[spy], scheduler=scheduler, num_samples=9, **LIMITED[limited]())
    assert sorted(result.metrics["n"] for result in grid) == [1, 1, 1, 1, 1, 1, 3, 3, 9]
    assert spy.most_running == 2


def test_without_a_limit_the_resources_are_the_limit():
    spy = Spy()
    fit(report_n(3), num_samples=9, callbacks=[spy])
    assert spy.most_running == 4
    fit(with_resources(report_n(3), {"cpu": 2}), num_samples=9, callbacks=[spy := Spy()])
    assert spy.most_running == 2
    fit(with_resources(report_n(3), {"cpu": 0.5}), num_samples=9, callbacks=[spy := Spy()])
    assert spy.most_running == 8


@pytest.mark.parametrize(("cpus", "started"), [([3, 4, 1], [3, 1, 4]), ([4, 3, 2], [4, 3, 2])])
def test_a_trial_passes_a_bigger_one_only_if_that_has_no_room(cpus, started):
    order = []

    def trainable(config):
        order.append(config["cpus"])
        report({"n": 1})
        report({"n": 2})

    sized = with_resources(trainable, lambda config: {"cpu": config["cpus"]})
    fit(sized, {"cpus": grid_search(cpus)})
    assert order == started


@pytest.mark.parametrize("search_alg", [None, LoggingSearcher(Log())])
def test_a_trial_that_asks_for_too_much_does_not_end_the_search(search_alg):
    sized = with_resources(report_n(1), lambda config: {"cpu": 99 if config["i"] in (1, 2) else 1})
    space = None if search_alg else {"i": grid_search([0, 1, 2, 3])}
    grid = fit(sized, space, num_samples=4 if search_alg else 1, search_alg=search_alg)
    assert [result.error is not None for result in grid] == [False, True, True, False]
    for result in (grid[1], grid[2]):
        assert isinstance(result.error, TuneError)
        written = Path(result.path, "error.txt").read_text()
        assert written.startswith("Failure # 1 ")
        assert "99" in written


def sleeping(config):
    for n in range(1, 10):
        clock.current.sleep(config["seconds"])
        report({"n": n})


@pytest.mark.parametrize("budget", [100, datetime.timedelta(seconds=100), 100.5])
def test_a_time_budget_ends_the_run(budget):
    grid = fit(
        sleeping,
        {"seconds": grid_search([7, 30, 200])},
        time_budget_s=budget,
        executor=virtual_executor(cpus=2),
    )
    assert [result.metrics.get("n") for result in grid] == [9, 3, None]
    assert grid.num_terminated == 3
    assert not grid.interrupted


# -- workers that are handed on ---------------------------------------------------------------------------------------


def test_a_trial_that_was_paused_can_go_on_in_another_ones_worker():
    class Resettable(SavedCounter):
        def reset_config(self, new_config):
            self.n = 0
            return True

    grid = fit(Resettable, {"end": 5}, num_samples=4, reuse_actors=True, max_concurrent_trials=2, scheduler=LastFirst())
    assert [result.metrics["n"] for result in grid] == [5] * 4


def test_the_time_of_a_save_or_a_load_is_no_time_without_a_report():
    class SlowSaves(SavedCounter):
        def step(self):
            clock.current.sleep(2)
            return super().step()

        def save_checkpoint(self, checkpoint_dir):
            clock.current.sleep(4)
            return super().save_checkpoint(checkpoint_dir)

        def load_checkpoint(self, checkpoint):
            clock.current.sleep(4)
            super().load_checkpoint(checkpoint)

    settings = {"scheduler": PauseOnce(2), "checkpoint_frequency": 1, "report_timeout_s": 3}
    (result,) = fit(SlowSaves, {"end": 3}, executor=virtual_executor(), **settings)
    assert (result.error, result.metrics["n"]) == (None, 3)
