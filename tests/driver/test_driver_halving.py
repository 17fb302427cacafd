"""Schedulers that compare trials at rungs, in whole runs: how far each trial gets, and that all runs end."""

import logging

import pytest
from kit import Counter, Listed, SavedCounter, Spy, cut, fit, report_state, restored_state, resume

from minitune import (
    ASHAScheduler,
    TuneConfig,
    grid_search,
    report,
    uniform,
)
from minitune.schedulers import FIFOScheduler, HyperBandForBOHB, HyperBandScheduler
from minitune.simulation import simulate
from minitune.stopper import MaximumIterationStopper

VALUES = [3, 0, 7, 5, 8, 1, 2, 6, 4]
NINE = {"x": grid_search(VALUES)}
HALVED = [1, 1, 1, 1, 1, 1, 3, 3, 9]


def saved(config):
    for i in range(restored_state() + 1, 100):
        report_state(i, {"n": i, "score": config["x"]})


def unsaved(config):
    for i in range(1, 100):
        report({"n": i, "score": config["x"]})


class Saved(SavedCounter):
    def step(self):
        return {**super().step(), "score": self.config["x"]}

    def reset_config(self, new_config):
        self.n = 0
        return True


class Unsaved(Counter):
    def step(self):
        return {**super().step(), "score": self.config["x"]}


TRAINABLES = {"saved": saved, "unsaved": unsaved, "Saved": Saved, "Unsaved": Unsaved}


def hyperband(**kwargs):
    return HyperBandScheduler(**{"max_t": 9, "metric": "score", "mode": "max", **kwargs})


def promoting(**kwargs):
    defaults = {"max_t": 9, "reduction_factor": 3, "variant": "promote", "metric": "score", "mode": "max"}
    return ASHAScheduler(**{**defaults, **kwargs})


def rungs(grid):
    """How far the trials got, in the order of their value."""
    return [result.metrics["n"] for result in sorted(grid, key=lambda result: result.config["x"])]


def nine():
    return Listed(*({"x": x} for x in VALUES))


# -- trainables and searchers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TRAINABLES)
@pytest.mark.parametrize("make", [hyperband, promoting])
def test_every_kind_of_trainable_is_put_aside_and_taken_up_again(make, kind, caplog):
    with caplog.at_level(logging.WARNING, "minitune"):
        grid = fit(TRAINABLES[kind], NINE, scheduler=make(), reuse_actors=make is hyperband)
    assert grid.num_terminated == 9
    assert rungs(grid)[-1] == 9
    if make is hyperband:
        assert rungs(grid) == HALVED
        if "nsaved" not in kind:
            assert sum(len(result.get_rows()) for result in grid) == sum(HALVED), "no step is made twice"
    lost = [record for record in caplog.records if "is paused after report" in record.message]
    assert len(lost) == ("nsaved" in kind), "said once"


@pytest.mark.parametrize(
    ("stop", "limit"), [(None, 1), ({"training_iteration": 9}, 2), (MaximumIterationStopper(9), None)]
)
def test_hyperband_is_the_same_with_a_searcher_a_limit_and_a_criterion(stop, limit):
    settings = {"scheduler": hyperband(), "max_concurrent_trials": limit, "stop": stop}
    grid = fit(Saved, search_alg=nine(), num_samples=9, **settings)
    assert rungs(grid) == HALVED


def test_bohb_budget_reaches_only_the_searcher():
    heard = []

    class Listening(Listed):
        def on_trial_result(self, trial_id, result):
            heard.append((result["n"], result["hyperband_info"].get("budget")))

    scheduler = HyperBandForBOHB(max_t=9, metric="score", mode="max")
    search = Listening(*({"x": x} for x in VALUES))
    grid = fit(Saved, search_alg=search, num_samples=9, scheduler=scheduler)
    assert set(heard) <= {(1, 1), (2, None), (3, 3), *((n, None) for n in range(4, 9))}
    assert heard.count((1, 1)) >= 8
    assert "hyperband_info" not in grid[0].metrics


@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize("make", [hyperband, promoting])
def test_a_bracket_goes_on_without_trials_that_fail(make, retries):
    failed = []

    def failing(config):
        for i in range(restored_state() + 1, 100):
            if (config["x"], i) in ((2, 1), (8, 2)) and config["x"] not in failed:
                failed.append(config["x"])
                raise RuntimeError("no luck")
            report_state(i, {"n": i, "score": config["x"]})

    grid = fit(failing, NINE, scheduler=make(), max_failures=retries)
    assert grid.num_errors == (0 if retries else 2)
    got = [result.metrics.get("n", 0) for result in sorted(grid, key=lambda result: result.config["x"])]
    assert max(got) == 9
    if make is hyperband:
        assert got == (HALVED if retries else [1, 1, 0, 1, 1, 1, 3, 9, 1])


def test_a_failure_that_no_retry_can_help_does_not_hold_up_the_others():
    """The scheduler hears of it like of any other failure, and there would be retries left."""

    def train(config):
        for i in range(restored_state() + 1, 100):
            report_state(i, {"n": i, "score": config["x"]} if config["x"] != 8 else {"n": i, "sore": 1})

    grid = fit(train, NINE, scheduler=hyperband(), max_failures=5)
    assert grid.num_errors == 1
    assert sorted(result.metrics["n"] for result in grid if not result.error) == [1, 1, 1, 1, 1, 3, 3, 9]


# -- resume ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("results", "how", "period"),
    [
        (9, "raise", "0"),
        (9, "SIGINT", "auto"),
        (14, "raise", "auto"),
    ],
)
def test_an_interrupted_bracket_goes_on_as_if_nothing_had_happened(results, how, period, monkeypatch):
    """Be its state told again, or saved at every turn and continued."""
    monkeypatch.setenv("MINITUNE_GLOBAL_CHECKPOINT_S", period)
    cut(saved, NINE, results=results, how=how, scheduler=hyperband())
    spy = Spy()
    scheduler = hyperband()
    grid = resume(saved, callbacks=[spy], scheduler=scheduler)
    assert grid.num_terminated == 9
    assert rungs(grid) == HALVED
    assert scheduler._brackets == []


def test_failed_trials_that_are_tried_again_and_new_ones_find_a_place():
    broken = [True]

    def train(config):
        if broken and config["x"] in (8, 3):
            raise RuntimeError("no luck")
        saved(config)

    first = fit(train, NINE, scheduler=hyperband())
    assert first.num_errors == 2
    broken.clear()
    scheduler = hyperband()
    grid = resume(train, resume_errored=True, callbacks=(), scheduler=scheduler)
    assert grid.num_terminated == 9
    assert max(rungs(grid)) == 9
    assert scheduler._brackets == []


# -- time --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("workers", "limit"), [(1, None), (16, 2)])
def test_a_full_band_costs_as_much_as_in_the_paper(workers, limit):
    def curve(config):
        return [({"score": config["x"]}, 1.0 + config["x"])] * 200

    scheduler = hyperband(max_t=81)
    config = TuneConfig(num_samples=143, scheduler=scheduler, max_concurrent_trials=limit)
    done = simulate(curve, param_space={"x": uniform(0, 1)}, tune_config=config, num_workers=workers, seed=1)
    assert done.num_steps == 1581
    assert sum(result.metrics["training_iteration"] == 81 for result in done.results) == 10


# -- schedulers of users ------------------------------------------------------------------------------------------


class Patient(HyperBandScheduler):
    """As users write it: some trials are spared."""

    def on_trial_result(self, tune_controller, trial, result):
        if trial.config["x"] == 0:
            return FIFOScheduler.CONTINUE
        return super().on_trial_result(tune_controller, trial, result)


def test_a_users_subclass_of_hyperband_can_spare_a_trial():
    grid = fit(saved, NINE, scheduler=Patient(max_t=9, metric="score", mode="max"), stop={"n": 12})
    assert rungs(grid) == [12, 1, 1, 1, 1, 1, 3, 3, 9]
