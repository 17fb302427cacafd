"""A run in a few lines: which trials a table shows, how the run ended, and errors by kind."""

from __future__ import annotations

import pytest
from kit import make_trial, run_trial

from minitune.error import trial_error_of_text
from minitune.experiment.endings import Ending, EndKind, interruption
from minitune.experiment.goal import Goal
from minitune.experiment.lifecycle import Transition
from minitune.view.summary import (
    best_first,
    early_end,
    run_html,
)

LOSS = Goal("loss", "min")


def trial_of(number, loss=None, how=Transition.STOP):
    trial = run_trial(make_trial(number, config={"lr": number}, evaluated_params={"lr": number}))
    if loss is not None:
        trial.record_result({"loss": loss, "acc": -loss})
    if how is not None:
        trial.move(how)
    return trial


def failed(number, text, loss=None):
    trial = trial_of(number, loss, Transition.FAIL)
    trial.error = trial_error_of_text(text)
    trial.num_failures = 1
    return trial


def numbers(trials):
    return [trial.number for trial in trials]


def cut(*, started, kind=None, number=0):
    trial = make_trial(number)
    if started:
        run_trial(trial)
    trial.move(Transition.STOP)
    trial.ending = interruption("SIGINT") if kind is None else Ending.of(kind)
    return trial


# -- rows --------------------------------------------------------------------------------------------------------------
def test_the_best_of_those_that_have_ended_come_first():
    trials = [trial_of(number, loss) for number, loss in enumerate((3.0, 1.0, 2.0, 4.0))]
    ranked = LOSS.ranked(trials)
    assert numbers(best_first(trials, ranked)) == [1, 2, 0, 3]
    assert numbers(best_first(trials, ranked[:1])) == [1, 0, 2, 3], "the others keep their order"


# -- ends --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("trials", "text"),
    [
        ([trial_of(0), failed(1, "no")], ""),
        ([trial_of(0), cut(started=False), cut(started=True)], "interrupted by SIGINT"),
        ([cut(started=True, kind=EndKind.STOPPER)], "the stopper has ended the run"),
        ([cut(started=True, kind=EndKind.SCHEDULER)], ""),
        ([], ""),
    ],
)
def test_a_run_that_ended_early_tells_why(trials, text):
    assert early_end(trials) == text


# -- the best ----------------------------------------------------------------------------------------------------------
def test_a_notebook_gets_a_hundred_rows_and_is_told_of_the_others():
    good = [trial_of(number, float(number)) for number in range(95)]
    bad = [failed(number, "no") for number in range(200, 212)]
    html = run_html([*good, *bad], LOSS, "/runs/<it>")
    assert "107 trials: 95 finished, 12 failed" in html
    assert html.count(">train_t00") + html.count(">train_t02") == 100
    assert ">train_t0209<" in html
    assert ">train_t0210<" not in html, "ten failed ones"
    assert "7 more" in html
    assert "get_dataframe() or dataframe() has all" in html
    assert "/runs/&lt;it&gt;" in html
