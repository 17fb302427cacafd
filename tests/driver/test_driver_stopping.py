"""Stop criteria in all their forms, and results that lack the metric."""

import logging
import time

import pytest
from kit import EndAfter, SavedCounter, counting, fit, report_n, virtual_executor

from minitune import (
    ASHAScheduler,
    FIFOScheduler,
    Searcher,
    Stopper,
    grid_search,
    report,
    uniform,
)
from minitune.base import clock
from minitune.stopper import CombinedStopper, FunctionStopper, MaximumIterationStopper


def falling(config):
    for n in range(1, 10):
        report({"n": n, "eval": {"loss": 1 / n}})


class AfterSix(Stopper):
    def __call__(self, trial_id, result):
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
def test_a_trial_stops_at_its_criterion(stop, last):
    grid = fit(falling, num_samples=2, stop=stop)
    assert [result.metrics["n"] for result in grid] == [last, last]
    assert [result.metrics["done"] for result in grid] == [True, True]


@pytest.mark.parametrize("trainable", [counting(9), SavedCounter])
def test_nothing_is_put_aside_any_more_when_the_run_ends(trainable):
    class PausesAllOthers(FIFOScheduler):
        def on_trial_complete(self, tune_controller, trial, result):
            for other in tune_controller.get_live_trials():
                if other is not trial:
                    tune_controller.pause_trial(other)

    grid = fit(
        trainable,
        num_samples=3,
        stop=EndAfter(4),
        scheduler=PausesAllOthers(),
        executor=virtual_executor(),
        **({"checkpoint_at_end": True} if trainable is SavedCounter else {}),
    )
    assert grid.num_terminated == 3


def test_the_stop_runs_the_finally_blocks_of_the_trial():
    unwound = []

    def trainable(config):
        n = 0
        try:
            while True:
                n += 1
                report({"n": n})
        finally:
            unwound.append(n)

    fit(trainable, num_samples=3, stop={"n": 2})
    assert unwound == [2, 2, 2]


# -- the metric ----------------------------------------------------------------------------------------------------


def sometimes(config):
    for n in (1, 2):
        report({"eval": {"loss": n}} if config["good"] else {"evall": {"loss": n}, "acc": 1})


def test_a_result_without_the_metric_fails_only_its_trial_and_without_retry():
    grid = fit(
        sometimes,
        {"good": grid_search([True, False, True])},
        metric="eval/loss",
        mode="min",
        max_failures=3,
    )
    assert [result.error is None for result in grid] == [True, False, True]
    text = str(grid[1].error)
    for part in ("'eval/loss'", "acc, evall/loss", "MINITUNE_DISABLE_STRICT_METRIC"):
        assert part in text
    assert grid.get_best_result().metrics["eval"]["loss"] == 2


@pytest.mark.parametrize("who", ["scheduler", "searcher"])
def test_the_metric_of_scheduler_and_searcher_counts_too(who):
    class Metrical(FIFOScheduler):
        def __init__(self):
            self._metric, self._mode = "eval/loss", "min"

    class Always(Searcher):
        def suggest(self, trial_id):
            return {"good": int(trial_id[-1]) != 1}

    settings = (
        {"scheduler": Metrical(), "search_alg": Always()}
        if who == "scheduler"
        else {"search_alg": Always(metric="eval/loss", mode="min")}
    )
    grid = fit(sometimes, num_samples=3, **settings)
    assert [result.error is None for result in grid] == [True, False, True]


def test_of_two_failures_the_first_one_is_raised():
    """The second trial is in a step when the first one's failure ends the run."""

    class Failing(SavedCounter):
        def step(self):
            clock.current.sleep(self.config["i"])
            raise KeyError(f"number {self.config['i']}")

    with pytest.raises(KeyError, match="number 1"):
        fit(Failing, {"i": grid_search([2, 1])}, fail_fast="raise", executor=virtual_executor())


@pytest.mark.parametrize(
    ("settings", "report_it", "is_told"),
    [
        ({"mode": "min"}, True, True),
        ({"scheduler": ASHAScheduler(mode="max")}, True, True),
        ({"mode": "min", "search_alg": "tpe"}, True, True),
        ({"mode": "min"}, False, False),
        ({"mode": "min", "metric": "n"}, True, False),
        ({"mode": "min", "scheduler": ASHAScheduler(metric="n")}, True, False),
        ({}, True, False),
    ],
)
def test_a_mode_without_a_metric_is_told_once_where_trials_report_names(settings, report_it, is_told, caplog):
    def one(config):
        if report_it:
            report({"n": 1, "acc": config["x"]})
        return None if report_it else config["x"]

    assert fit(one, {"x": uniform(0, 1)}, num_samples=3, **settings).num_errors == 0
    said = [text for text in caplog.messages if text.startswith("there is a mode but no metric")]
    assert [text.endswith("reported were: acc, n. Name the metric, such as metric='acc'") for text in said] == (
        [True] * is_told
    )


def test_stop_metric_that_is_never_reported_is_one_warning(caplog):
    with caplog.at_level(logging.WARNING, "minitune"):
        fit(report_n(2), stop={"unknown": 3}, num_samples=3)
    assert sum("'unknown'" in record.message for record in caplog.records) == 1


def test_a_trial_that_unwinds_still_counts_as_one_that_runs(tmp_path):
    mark = tmp_path / "unwinding"

    def train(config):
        try:
            while True:
                report({"alone": not mark.exists(), "n": 1})
        finally:
            mark.touch()
            time.sleep(0.3)  # another worker would begin within this time
            mark.unlink()

    grid = fit(train, num_samples=3, stop={"n": 1}, max_concurrent_trials=1, executor="local")
    assert [(result.error, result.metrics["alone"]) for result in grid] == [(None, True)] * 3
