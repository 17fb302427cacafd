"""Stop criteria in all their forms, and results that lack the metric."""

from __future__ import annotations

import logging
from collections import Counter as Tally
from typing import Any

import pytest
from kit import Counter, SavedCounter, counting, fit, report_n, virtual_executor

from minitune import FIFOScheduler, Searcher, Stopper, Trial, grid_search, report
from minitune.stopper import CombinedStopper, FunctionStopper, MaximumIterationStopper


def falling(config: dict[str, Any]) -> None:
    for n in range(1, 10):
        report({"n": n, "eval": {"loss": 1 / n}})


class AfterSix(Stopper):
    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return bool(result["n"] >= 6)


@pytest.mark.parametrize(
    ("stop", "last"),
    [
        (None, 9),
        ({}, 9),
        ({"training_iteration": 4}, 4),
        ({"n": 4, "training_iteration": 7}, 4),
        ({"eval/loss": ("<=", 0.2)}, 5),
        ({"eval/loss": ("<", 0.2)}, 6),
        ({"eval/loss": 0.9}, 1),
        ({"unknown": 3}, 9),
        (lambda trial_id, result: result["eval"]["loss"] < 0.3, 4),
        (FunctionStopper(lambda trial_id, result: result["n"] == 2), 2),
        (AfterSix(), 6),
        (MaximumIterationStopper(3), 3),
        (CombinedStopper(AfterSix(), MaximumIterationStopper(8)), 6),
        ([AfterSix(), {"n": 8}, lambda trial_id, result: False], 6),
    ],
)
def test_a_trial_stops_at_its_criterion(stop: Any, last: int) -> None:
    grid = fit(falling, num_samples=2, stop=stop)
    assert [result.metrics["n"] for result in grid] == [last, last]
    assert [result.metrics["done"] for result in grid] == [True, True]


@pytest.mark.parametrize("stop", [{"a": {"b": 1}}, {"a": ("~", 1)}, 7, [3], AfterSix, {"a": None}])
def test_nonsense_is_refused_before_anything_runs(stop: Any) -> None:
    started: list[int] = []
    with pytest.raises(ValueError):
        fit(lambda config: started.append(1), stop=stop)
    assert not started


@pytest.mark.parametrize("trainable", [counting(9), SavedCounter])
def test_nothing_is_put_aside_any_more_when_the_run_ends(trainable: Any) -> None:
    class PausesAllOthers(FIFOScheduler):
        def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
            for other in tune_controller.get_live_trials():
                if other is not trial:
                    tune_controller.pause_trial(other)

    class Enough(Stopper):
        results = 0

        def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
            self.results += 1
            return False

        def stop_all(self) -> bool:
            return self.results >= 4

    grid = fit(
        trainable,
        num_samples=3,
        stop=Enough(),
        scheduler=PausesAllOthers(),
        executor=virtual_executor(),
        **({"checkpoint_at_end": True} if trainable is SavedCounter else {}),
    )
    assert grid.num_terminated == 3


def test_done_is_a_criterion_of_its_own() -> None:
    def trainable(config: dict[str, Any]) -> None:
        for n in (1, 2, 3):
            report({"n": n, "done": n == 2})

    assert fit(trainable)[0].metrics["n"] == 2
    assert fit(Counter, {"end": 2}, name="class")[0].metrics["n"] == 2


def test_the_stop_runs_the_finally_blocks_of_the_trial() -> None:
    unwound: list[int] = []

    def trainable(config: dict[str, Any]) -> None:
        n = 0
        try:
            while True:
                n += 1
                report({"n": n})
        finally:
            unwound.append(n)

    fit(trainable, num_samples=3, stop={"n": 2})
    assert unwound == [2, 2, 2]


def test_stop_all_ends_an_endless_search() -> None:
    class Enough(Stopper):
        def __init__(self) -> None:
            self.seen: Tally[str] = Tally()

        def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
            self.seen[trial_id] += 1
            return False

        def stop_all(self) -> bool:
            return len(self.seen) >= 6

    grid = fit(report_n(3), num_samples=-1, stop=Enough(), max_concurrent_trials=2)
    assert sum(bool(result.metrics.get("n")) for result in grid) == 6
    assert grid.num_terminated == len(grid)


# -- the metric ----------------------------------------------------------------------------------------------------


def sometimes(config: dict[str, Any]) -> None:
    for n in (1, 2):
        report({"eval": {"loss": n}} if config["good"] else {"evall": {"loss": n}, "acc": 1})


def test_a_result_without_the_metric_fails_only_its_trial_and_without_retry() -> None:
    grid = fit(
        sometimes,
        {"good": grid_search([True, False, True])},
        metric="eval/loss",
        mode="min",
        max_failures=3,
    )
    assert [result.error is None for result in grid] == [True, False, True]
    text = str(grid[1].error)
    for part in ("'eval/loss'", "acc, evall/loss", "Did you mean 'evall/loss'?", "MINITUNE_DISABLE_STRICT_METRIC"):
        assert part in text
    assert grid.get_best_result().metrics["eval"]["loss"] == 2


@pytest.mark.parametrize("who", ["scheduler", "searcher"])
def test_the_metric_of_scheduler_and_searcher_counts_too(who: str) -> None:
    class Metrical(FIFOScheduler):
        def __init__(self) -> None:
            self._metric, self._mode = "eval/loss", "min"

    class Always(Searcher):
        def suggest(self, trial_id: str) -> dict[str, Any]:
            return {"good": int(trial_id[-1]) != 1}

    settings: dict[str, Any] = (
        {"scheduler": Metrical(), "search_alg": Always()}
        if who == "scheduler"
        else {"search_alg": Always(metric="eval/loss", mode="min")}
    )
    grid = fit(sometimes, num_samples=3, **settings)
    assert [result.error is None for result in grid] == [True, False, True]


@pytest.mark.parametrize("variable", ["MINITUNE_DISABLE_STRICT_METRIC_CHECKING", "TUNE_DISABLE_STRICT_METRIC_CHECKING"])
def test_the_check_can_be_disabled(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    grid = fit(sometimes, {"good": grid_search([True, False])}, metric="eval/loss", mode="min")
    assert grid.num_errors == 0


def test_a_result_that_holds_nothing_of_the_users_needs_no_metric() -> None:
    class Silent(SavedCounter):
        def step(self) -> dict[str, Any]:
            self.n += 1
            return {"done": self.n == 2}

    assert fit(Silent, metric="loss", mode="min").num_errors == 0


def test_a_metric_of_the_result_that_was_never_reported_is_no_reason_to_wait(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "minitune"):
        fit(report_n(2), stop={"unknown": 3}, num_samples=3)
    assert sum("'unknown'" in record.message for record in caplog.records) == 1
