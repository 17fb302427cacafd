"""Runs whose trials have reported so often that a resume reads the sum of their results rather than each."""

import pytest
from kit import Spy, fit, resume, run_path

from minitune import ASHAScheduler, Stopper, grid_search, report
from minitune.record.decisions import Decisions, read_decisions
from minitune.record.reading import read_run
from minitune.record.standing import read_standing

REPORTS = 50
SPACE = {"x": grid_search([1.0, 2.0, 3.0])}
AWKWARD = (float("nan"), 1, True, 10**400, None, "text", -float("inf"), [1, {"a": 2}])


def train(config):
    for step in range(REPORTS):
        report({"loss": config["x"] / (step + 1), "deep": {"step": step}, "odd": AWKWARD[step % len(AWKWARD)]})


def state(trials):
    return [
        (trial.status, repr(trial.last_result), repr(trial.metric_analysis), trial.progress.num_reports)
        for trial in trials
    ]


@pytest.mark.parametrize("scheduler", [None, ASHAScheduler(max_t=REPORTS, grace_period=REPORTS // 2)])
def test_a_run_that_is_read_or_resumed_is_unchanged(scheduler):
    fit(train, SPACE, metric="loss", mode="min", scheduler=scheduler, callbacks=[first := Spy()])
    before = state(first.trials)
    assert state(read_run(run_path()).trials) == before
    decisions = Decisions()
    run, _ = read_standing(str(run_path()), decisions)
    assert state(run.trials) == before
    assert decisions.by_trial == read_decisions(run_path()).by_trial
    grid = resume(train, callbacks=[second := Spy()])
    assert state(second.trials) == before
    assert [len(result.get_rows()) for result in grid] == [trial.progress.num_reports for trial in first.trials]


def test_a_stopper_of_the_users_hears_each_result_again():
    class Counting(Stopper):
        heard = 0

        def __call__(self, trial_id, result):
            self.heard += 1
            return False

        def get_state(self):
            raise RuntimeError("cannot be saved, so a resume tells it all that has happened")

    fit(train, {"x": 1.0}, stop=Counting())
    again = Counting()
    resume(train, stop=again)
    assert again.heard == REPORTS
