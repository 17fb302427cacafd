"""What a row says of a trial, and which columns a table has."""

from __future__ import annotations

from collections import UserDict

import pytest
from kit import make_trial, run_trial

from minitune.error import trial_error_of_text
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.goal import Goal
from minitune.experiment.lifecycle import Transition
from minitune.experiment.trial import Repeat
from minitune.view.rows import (
    ended,
    fact_field,
    infer_metrics,
    last_line,
    metric_columns,
    metrics_of,
    row_of,
    shown_metric,
    shown_metrics,
    table_of,
)

LOSS = Goal("loss", "min")


def trial_of(number=0, *results, params=(), how=None):
    params = dict(params)
    trial = run_trial(make_trial(number, config=dict(params), evaluated_params=dict(params)))
    for step, result in enumerate(results, 1):
        trial.record_result({"training_iteration": step, **result})
    if how is not None:
        trial.move(how)
    return trial


# -- a row -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "facts", "reports", "text"),
    [
        (None, {}, 2, "finished"),
        (EndKind.SCHEDULER, {"scheduler": "ASHA"}, 2, "stopped at 2 by ASHA"),
        (EndKind.SCHEDULER, {"scheduler": "ASHA"}, 0, "stopped by ASHA"),
        (EndKind.REQUEST, {}, 2, "stopped at 2"),
        (EndKind.INTERRUPTED, {}, 1, "interrupted at 1"),
        (EndKind.MAX_T, {"scheduler": "ASHA"}, 2, "finished"),
    ],
)
def test_the_end_of_a_trial_is_told_with_its_iteration_and_its_scheduler(kind, facts, reports, text):
    trial = trial_of(0, *[{"loss": 1.0}] * reports, how=Transition.STOP)
    trial.ending = None if kind is None else Ending.of(kind, **facts)
    row = row_of(trial, (), ())
    assert ended(trial) == row["ended"] == text
    assert row["status"] == text.partition(" ")[0]


def test_a_trial_that_goes_on_has_not_ended():
    trial = trial_of(3, {"loss": 1.0})
    assert (ended(trial), row_of(trial, (), ())["ended"]) == ("running", None)
    trial.move(Transition.FAIL)
    assert ended(trial) == row_of(trial, (), ())["ended"] == "failed"


def test_a_row_has_the_last_numbers_that_were_asked_for():
    trial = trial_of(5, {"loss": 1.0, "deep": {"x": 2}}, {"acc": 3}, params={"lr": 0.1, "none": None})
    row = row_of(trial, iter(("lr", "none", "missing")), ("deep/x", "missing"))
    assert (row["deep/x"], row["acc"], row["config/lr"], row["config/none"]) == (2, 3, 0.1, None)
    assert not {"loss", "missing", "config/missing"} & row.keys()


def test_the_error_of_a_trial_is_one_line_of_limited_length():
    trial = trial_of(0, how=Transition.FAIL)
    assert last_line(trial) == ""
    trial.error = trial_error_of_text("ValueError:  a \t b")
    assert last_line(trial) == row_of(trial, (), ())["error_message"] == "ValueError: a b"
    trial.error = trial_error_of_text("x" * 300)
    assert last_line(trial) == "x" * 300
    trial.error = trial_error_of_text("x" * 5000)
    assert len(last_line(trial)) == 300


def test_facts_for_programs_are_whole_and_their_own_names_come_first():
    trial = trial_of(
        4, {"loss": 1 / 3, "trial": "mine", "status": "mine", "deep": {"x": 2}}, params={"lr": 0.1}, how=Transition.STOP
    )
    trial.repeats = Repeat("t0002", "loss", "min")
    trial.num_failures = 2
    facts = row_of(trial, (), LOSS.metrics)
    assert list(facts)[:6] == ["trial", "trial_id", "trial_name", "status", "ended", "repeats"]
    assert (facts["trial"], facts["status"], facts["repeats"]) == (4, "finished", "t0002")
    assert (facts["loss"], facts["deep/x"], facts["config/lr"]) == (1 / 3, 2, 0.1)
    assert (facts["failures"], facts["error_message"]) == (2, None)
    assert facts["logdir"] == trial.local_path
    new = row_of(make_trial(0), (), LOSS.metrics)
    assert (new["logdir"], new["ended"]) == (None, None)
    assert ("loss" in new, new["repeats"]) == (False, None)


# -- metrics -----------------------------------------------------------------------------------------------------------
def test_the_last_number_of_a_metric_stands_for_one_that_the_last_report_lacks():
    trial = trial_of(0, {"loss": 1.0, "acc": 2}, {"loss": 3.0})
    assert (shown_metric(trial, "loss"), shown_metric(trial, "acc"), shown_metric(trial, "x")) == (3.0, 2, None)
    assert shown_metrics(trial, Goal("acc", "max")) == {"acc": 2, "loss": 3.0}
    assert list(shown_metrics(trial, Goal("acc", "max"))) == ["acc", "loss"]
    assert shown_metrics(trial, Goal("x", "max")) == {"loss": 3.0}
    odd = trial_of(0, {"loss": None, "b": {"c": "text"}})
    assert shown_metrics(odd, LOSS) == {"loss": None, "b/c": "text"}


def test_metrics_are_found_in_the_first_twenty_trials_with_a_report():
    waiting = [make_trial(number) for number in range(30)]
    reported = [trial_of(number, {f"m{number}": 1, "text": "t", "flag": True}) for number in range(25)]
    every = [f"m{number}" for number in range(20)]
    assert infer_metrics([*waiting, *reported], (), 99) == every
    assert infer_metrics(reported, ("m0", "m2"), 2) == ["m1", "m3"]
    assert infer_metrics([trial_of(0, {"zero": 0.0})], (), 9) == ["zero"]
    assert infer_metrics(reported, (), 0) == infer_metrics([], (), 9) == []


@pytest.mark.parametrize(
    ("goal", "most", "names"),
    [
        (Goal(), 2, ["a", "b"]),
        (LOSS, 2, ["loss", "a"]),
        (LOSS, 1, ["loss"]),
        (LOSS, 0, ["loss"]),
        (Goal("b", "min"), 9, ["b", "a", "c"]),
        (Goal.of(["c", "a"], ["min", "max"]), 3, ["c", "a", "b"]),
    ],
)
def test_the_columns_of_metrics_are_objectives_then_others_then_the_usual_ones(goal, most, names):
    trial = trial_of(0, {"a": 1, "b": 2, "c": 3, "mean_loss": 4})
    usual = {"mean_loss": "loss", "time_total_s": "time"}
    found = metric_columns([trial], goal, most, usual)
    assert list(found) == [*names, "mean_loss", "time_total_s"]
    assert (found["mean_loss"], found[names[0]]) == ("loss", names[0])


# -- tables ------------------------------------------------------------------------------------------------------------
def test_metrics_that_cannot_be_looked_at_are_none():
    class Odd(UserDict):  # type: ignore[type-arg]
        def items(self):
            raise RuntimeError("odd")

    deep = {}
    deep["again"] = deep
    for value in (Odd(a=1), deep):
        assert metrics_of({"a": value}) == {}
    assert metrics_of({"a": {"b": 1}, "pid": 3, "config": {"x": 1}, "done": True}) == {"a/b": 1}


def test_a_table_of_facts_has_the_columns_with_a_value():
    facts = [
        {"status": "failed", "loss": 1, "config/x": None, "none": None},
        {"status": "finished", "config/y": "z" * 60, "none": None},
    ]
    names = ["status", "config/x", "none", "missing", "loss", "config/y"]
    table = table_of(facts, map(fact_field, names))
    assert [column.texts for column in table.columns] == [
        ["status", "failed", "finished"],
        ["config/x", "None", ""],
        ["loss", "1", ""],
        ["config/y", "", "..." + "z" * 37],
    ]
    assert [len(column.colors) for column in table.columns] == [2, 0, 0, 0]
    assert table.columns[0].colors[0] != table.columns[0].colors[1]
    (runs,) = table_of([{"state": "killed"}], [fact_field("state")]).columns
    assert len(set(runs.colors)) == 1
    assert runs.colors[0] == table.columns[0].colors[0], "both are trouble"
    assert table_of([], [fact_field("status")]).columns == []
