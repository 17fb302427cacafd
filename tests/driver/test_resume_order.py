"""A resume goes on first with trials that had a worker, then with those that waited. A lost worker is no failure."""

import shutil
from contextlib import closing

import pytest
from kit import (
    Log,
    LoggingScheduler,
    NoThread,
    Spy,
    counting,
    cut,
    fit,
    journal_of,
    report_state,
    restored_state,
    resume,
    run_path,
)

from minitune import ExperimentAnalysis, grid_search
from minitune.experiment.endings import Ending, EndKind
from minitune.record import records
from minitune.record.journal import Journal
from minitune.schedulers import ASHAScheduler, MedianStoppingRule, PopulationBasedTraining
from minitune.space.domains import uniform

pytestmark = pytest.mark.usefixtures("inline")

SIX = {"i": grid_search([0, 1, 2, 3, 4, 5])}


class Starts(Spy):
    """Notes the numbers of trials in the order of their starts."""

    def __init__(self):
        super().__init__()
        self.order = []

    def on_trial_start(self, iteration, trials, trial, **info):
        self.order.append(trial.number)


@pytest.mark.parametrize("how", ["raise", "SIGINT"])
def test_trials_that_had_a_worker_go_on_before_those_that_waited(how, monkeypatch):
    """Two at a time: 0 and 1 have ended, 2 and 3 were at work, 4 and 5 had been drawn."""
    monkeypatch.setenv("MINITUNE_NUM_CPUS", "2")
    cut(counting(4), SIX, results=11, how=how)
    drawn = {record["trial"] for record in journal_of() if record["type"] == "trial"}
    begun = {record["trial"] for record in journal_of() if record["type"] == "start"}
    starts = Starts()
    grid = resume(counting(4), callbacks=[starts])
    assert (len(drawn), len(begun)) == (6, 4)
    assert starts.order == [2, 3, 4, 5]
    assert [result.metrics["n"] for result in grid] == [4] * 6


@pytest.mark.usefixtures("one_cpu")
def test_a_trial_that_waited_for_its_retry_is_not_put_first():
    """It had no worker when the driver ended."""

    def trainable(config):
        for n in range(restored_state() + 1, 4):
            if config["i"] == 0 and n == 2 and not failed:
                failed.append(n)
                raise ValueError("once")
            report_state(n, {"n": n})

    failed = []
    cut(trainable, {"i": grid_search([0, 1, 2])}, results=3, max_failures=1)
    starts = Starts()
    grid = resume(trainable, callbacks=[starts], max_failures=1)
    assert starts.order == [1, 2, 0]
    assert not grid.errors


def lose_the_worker(trial_number):
    """Put on record, as the last thing that has happened, that a trial has lost its worker through no fault of it."""
    trials = {record["number"]: record["trial"] for record in journal_of() if record["type"] == "trial"}
    with closing(Journal(run_path() / "journal", NoThread(), is_new=False)) as journal:
        journal.append(
            records.status(trials[trial_number], "PENDING", Ending.of(EndKind.LOST, "could not start a process"))
        )


def test_a_lost_worker_is_no_failure_after_a_resume_either():
    cut(counting(3), {"i": grid_search([0, 1])}, results=4, max_concurrent_trials=2)
    lose_the_worker(1)
    assert ExperimentAnalysis(run_path()).trials[1].num_failures == 0
    log = Log()
    grid = resume(counting(3), callbacks=(), scheduler=LoggingScheduler(log))
    assert [result.metrics["n"] for result in grid] == [3, 3]
    assert log.of("scheduler.on_trial_error") == []
    assert [line for line in log.of("scheduler.on_trial_add") if "1" in line.split()] == [
        "scheduler.on_trial_add 1 PENDING"
    ]
    assert {trial["attempt"] for trial in journal_of() if trial["type"] == "start"} == {1, 2}
    assert ExperimentAnalysis(run_path()).trials[1].num_failures == 0


# -- schedulers that draw --------------------------------------------------------------------------------------------


def climbs(config):
    for n in range(restored_state() + 1, 13):
        report_state(n, {"n": n, "score": config["x"] * n})


GOAL = {"time_attr": "training_iteration", "metric": "score", "mode": "max"}
DRAWING = {
    "asha": lambda: ASHAScheduler(**GOAL, max_t=12, grace_period=1, reduction_factor=2, brackets=3),
    "median": lambda: MedianStoppingRule(**GOAL, grace_period=2, min_samples_required=2),
    "pbt": lambda: PopulationBasedTraining(
        **GOAL, perturbation_interval=2, hyperparam_mutations={"x": uniform(0, 1)}, resample_probability=0.5
    ),
}


@pytest.mark.parametrize("kind", DRAWING)
def test_a_resumed_run_decides_as_the_whole_one(kind, monkeypatch):
    """Its random numbers go on where they were, be the scheduler's state loaded or its past told to it again."""
    settings = {"num_samples": 8, "seed": 4, "max_concurrent_trials": 1}
    space = {"x": uniform(0, 1)}
    whole = fit(climbs, space, scheduler=DRAWING[kind](), name="whole", **settings)
    for results, period in ((5, "0"), (17, "3600"), (30, "0")):
        monkeypatch.setenv("MINITUNE_GLOBAL_CHECKPOINT_S", period)
        cut(climbs, space, results=results, scheduler=DRAWING[kind](), **settings)
        grid = resume(climbs, callbacks=())
        assert [result.config for result in grid] == [result.config for result in whole], (results, period)
        assert [result.metrics["n"] for result in grid] == [result.metrics["n"] for result in whole], (results, period)
        shutil.rmtree(run_path())
