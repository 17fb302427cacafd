"""A run in a few lines: which trials a table shows, how the run ended, and errors by kind."""

from __future__ import annotations

import pytest
from kit import make_trial, run_trial

from minitune.error import trial_error_of_text
from minitune.experiment.endings import Ending, EndKind, interruption
from minitune.experiment.goal import Goal
from minitune.experiment.lifecycle import Transition
from minitune.experiment.trial import Trial
from minitune.view.summary import (
    best_and_failed,
    best_first,
    best_line,
    early_end,
    ending_counts,
    error_groups,
    front_html,
    last_values,
    run_html,
)

LOSS = Goal("loss", "min")


def trial_of(number: int, loss: float | None = None, how: Transition | None = Transition.STOP) -> Trial:
    trial = run_trial(make_trial(number, config={"lr": number}, evaluated_params={"lr": number}))
    if loss is not None:
        trial.record_result({"loss": loss, "acc": -loss})
    if how is not None:
        trial.move(how)
    return trial


def failed(number: int, text: str, loss: float | None = None) -> Trial:
    trial = trial_of(number, loss, Transition.FAIL)
    trial.error = trial_error_of_text(text)
    trial.num_failures = 1
    return trial


def numbers(trials: list[Trial]) -> list[int]:
    return [trial.number for trial in trials]


def cut(*, started: bool, kind: EndKind | None = None, number: int = 0) -> Trial:
    trial = make_trial(number)
    if started:
        run_trial(trial)
    trial.move(Transition.STOP)
    trial.ending = interruption("SIGINT") if kind is None else Ending.of(kind)
    return trial


# -- rows --------------------------------------------------------------------------------------------------------------
def test_the_best_of_those_that_have_ended_come_first() -> None:
    trials = [trial_of(number, loss) for number, loss in enumerate((3.0, 1.0, 2.0, 4.0))]
    ranked = LOSS.ranked(trials)
    assert numbers(best_first(trials, ranked)) == [1, 2, 0, 3]
    assert numbers(best_first(trials, ranked[:1])) == [1, 0, 2, 3], "the others keep their order"


def test_the_best_are_followed_by_failures_that_are_not_among_them() -> None:
    trials = [failed(0, "a", 0.5), failed(1, "b"), trial_of(2, 2.0), trial_of(3), failed(4, "c"), trial_of(5, 1.0)]
    ranked = numbers(LOSS.ranked(trials))
    assert numbers(best_and_failed(trials, LOSS, 9, 9)) == [*ranked, *(n for n in (3, 1, 4, 0) if n not in ranked)]
    assert numbers(best_and_failed(trials, LOSS, 1, 1))[:1] == ranked[:1]
    assert len(best_and_failed(trials, LOSS, 2, 1)) == 3
    assert len(best_and_failed(trials, LOSS, 2, 0)) == 2
    assert numbers(best_and_failed(trials, Goal(), 9, 1)) == [2, 3, 5, 0]


# -- ends --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("trials", "text"),
    [
        ([trial_of(0), failed(1, "no")], ""),
        ([trial_of(0), cut(started=True)], "interrupted by SIGINT; 1 of 2 trials had ended, 1 was interrupted"),
        ([cut(started=False)], "interrupted by SIGINT; 0 of 1 trials had ended, 1 was not started"),
        (
            [*[cut(started=True)] * 2, *[cut(started=False)] * 3, trial_of(0)],
            "interrupted by SIGINT; 1 of 6 trials had ended, 2 were interrupted, 3 were not started",
        ),
        (
            [cut(started=True, kind=EndKind.STOPPER)],
            "the stopper has ended the run; 0 of 1 trials had ended, 1 was interrupted",
        ),
        ([cut(started=True, kind=EndKind.SCHEDULER)], ""),
        ([], ""),
    ],
)
def test_a_run_that_ended_early_tells_why_and_whom_it_cut(trials: list[Trial], text: str) -> None:
    assert early_end(trials) == text


def test_trials_are_counted_by_their_states_with_those_that_were_not_drawn() -> None:
    trials = [trial_of(0), failed(1, "no"), trial_of(2), cut(started=True), cut(started=False)]
    assert ending_counts(trials) == "2 finished, 1 failed, 1 interrupted, 1 not started"
    assert ending_counts(trials, 4).endswith(", 5 not started")
    assert (ending_counts([]), ending_counts([], 1)) == ("none", "1 not started")


# -- errors ------------------------------------------------------------------------------------------------------------
def test_errors_that_differ_in_numbers_and_quoted_texts_are_of_one_kind() -> None:
    texts = ["E: 3 of 'a'", "F: x", 'E: 77 of "b c"', "F: y", "E: 0 of ''", "F: x", "E: t0007 is 1"]
    trials = [failed(number, text) for number, text in enumerate(texts)]
    trials[6].trial_id = "t0007"
    trials.append(failed(8, "E: t0008 is 22"))
    groups = error_groups([*trials, trial_of(9)])
    assert sorted(map(numbers, groups)) == sorted([[0, 2, 4], [1, 5], [3], [6, 8]])
    assert [len(alike) for alike in groups] == [3, 2, 2, 1], "the most frequent first"


# -- the best ----------------------------------------------------------------------------------------------------------
def test_the_best_trial_is_told_on_one_line() -> None:
    trials = [trial_of(0, 2.0), trial_of(1, 1.0)]
    assert best_line(trials, LOSS) == ["Best: loss=1 with lr=1 (trial t0001)"]
    assert best_line(trials, LOSS, ["none"]) == ["Best: loss=1 (trial t0001)"]
    assert best_line(trials, Goal("acc", "max")) == ["Best: acc=-1 with lr=1 (trial t0001)"]
    for goal in (Goal(), Goal("loss"), Goal("f1", "min")):
        assert best_line(trials, goal) == []
    both = Goal.of(["loss", "acc"], ["min", "max"])
    assert best_line(trials, both) == ["Front: 1 trial that no other one beats in loss (min), acc (max)"]
    assert best_line([trial_of(0)], both) == []
    assert last_values([*trials, trial_of(2)], "loss") == [(0, 2.0), (1, 1.0)]


def test_a_notebook_gets_a_hundred_rows_and_is_told_of_the_others() -> None:
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
    front = front_html([trial_of(number, 1.0) for number in range(1234)], Goal.of(["loss", "acc"], ["min", "max"]))
    assert "Pareto front of loss, acc: 1234 trials" in front
    assert (">train_t0099<" in front, ">train_t0100<" in front, "1,134 more" in front) == (True, False, True)
