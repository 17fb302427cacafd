"""RunHistory: what plots know of a run, read from its journal; and what is said where their packages are missing."""

from __future__ import annotations

import math

import pytest
from kit import (
    deciding,
    fit,
    journal_of,
    listening,
    report_n,
    report_state,
    restored_state,
    run_path,
)

from minitune import choice, grid_search, report, sample_from
from minitune.experiment.decision import Decision
from minitune.schedulers import AsyncHyperBandScheduler
from minitune.view.history import METRICS_KEPT, RunHistory
from minitune.view.rows import ended, last_line
from minitune.visualization import page
from minitune.visualization.page import run_data

OBJECTIVE = {"metric": "score", "mode": "max"}


def curve(config):
    for step in range(4):
        report({"score": config["i"] * (step + 1)})
        if config["i"] == 3:
            raise ValueError("no luck")


def test_a_history_has_parameters_curves_and_ends():
    scheduler = AsyncHyperBandScheduler(grace_period=2, max_t=4, reduction_factor=2)
    grid = fit(curve, {"i": grid_search([3, 2, 1]), "c": 7}, scheduler=scheduler, **OBJECTIVE)

    history = RunHistory(grid)

    assert (history.metric, history.mode, history.params) == ("score", "max", ["i"])
    failed, _, stopped = history.trials
    assert [trial.params for trial in history.trials] == [{"i": 3}, {"i": 2}, {"i": 1}]
    assert failed.failed
    assert "no luck" in last_line(failed.trial)
    assert list(zip(stopped.steps, stopped.values, strict=True)) == [(1, 1), (2, 2)]
    assert ended(stopped.trial) == "stopped at 2 by ASHA"
    assert history.state.name == "finished"
    assert [trial.number for trial in history.scored] == [1, 2]


def test_the_curve_of_a_long_trial_has_all_its_results():
    def train(config):
        for step in range(40):
            report({"score": math.inf if step == 7 else config["i"] + step})

    grid = fit(train, {"i": grid_search([1, 2])}, **OBJECTIVE)
    first, second = RunHistory(grid).trials
    assert [value for step, value in zip(first.steps, first.values, strict=True) if step != 8] == [
        1 + n for n in range(40) if n != 7
    ]
    assert list(second.steps) == list(range(1, 41))
    assert list(second.seconds) == sorted(second.seconds)
    assert second.reported_s > 1e9
    assert second.value == 41


def test_the_decisions_on_a_trial_that_has_ended_are_all_there():
    def every_other(context, trial, result):
        number = result["training_iteration"]
        return Decision("CONTINUE", f"reason {number}") if number % 2 else "CONTINUE"

    fit(report_n(300, score=1), scheduler=deciding(every_other), **OBJECTIVE)

    (trial,) = (history := RunHistory(run_path())).trials
    told = [decision.reason for decision in history.decisions_on(trial) if decision.action == "CONTINUE"]
    assert told == [f"reason {number}" for number in range(1, 301, 2)]
    assert len(trial.steps) == 300


def test_a_result_that_a_later_attempt_repeats_counts_once():
    def forgetful(config):
        """Saves its first step alone, and fails after its second one."""
        if (begin := restored_state()) == 0:
            report_state(1, {"score": 1, "other": 5})
        report({"score": 2 + begin, "other": 6 + begin})
        raise ValueError("no luck")

    (trial,) = RunHistory(fit(forgetful, max_failures=1, **OBJECTIVE)).trials

    assert list(zip(trial.steps, trial.values, strict=True)) == [(1, 1), (2, 3)]
    assert {name: list(values) for name, values in trial.others.items()} == {"other": [5, 7]}


def test_values_that_no_axis_can_show_are_texts_or_missing():
    def odd(config):
        report({"score": math.nan if config["i"] else 1})

    space = {"i": grid_search([0, 1]), "f": choice([print]), "g": sample_from(lambda config: [config["i"]])}

    first, second = RunHistory(fit(odd, space, **OBJECTIVE)).trials

    assert (first.value, math.isnan(second.value)) == (1, True)
    assert isinstance(first.params["f"], str)
    assert isinstance(first.params["g"], str)


def test_a_killed_run_shows_its_results():
    fit(report_n(3, score=1), {"i": grid_search([0, 1])}, max_concurrent_trials=1, **OBJECTIVE)
    journal = next(run_path().glob("*journal*"))
    lines = journal.read_bytes().splitlines(keepends=True)
    kinds = [record["type"] for record in journal_of()]
    last = len(kinds) - 1 - kinds[::-1].index("result")
    journal.write_bytes(b"".join(lines[:last]) + lines[last][:10])

    history = RunHistory(run_path())

    assert history.state.name == "killed"
    first, second = history.trials
    assert (ended(first.trial), ended(second.trial)) == ("finished", "interrupted at 2")
    assert list(second.steps) == [1, 2]


def test_parameters_that_a_scheduler_changes_count_as_those_of_the_space():
    def train(config):
        for step in range(restored_state(), 3):
            report_state(step + 1, {"score": config["lr"]})

    def change(context, trial, result):
        if trial.attempt.number > 1:
            return "CONTINUE"
        trial.set_config({**trial.config, "lr": 2})
        return "PAUSE"

    space = {"i": grid_search([0, 1]), "lr": 1, "constant": 1}
    history = RunHistory(fit(train, space, scheduler=deciding(change), **OBJECTIVE))
    assert history.params == ["i", "lr"]
    assert [trial.params for trial in history.trials] == [{"i": 0, "lr": 2}, {"i": 1, "lr": 2}]


def test_a_parameter_that_a_trial_lacks_is_missing():
    space = {"opt": grid_search([{"name": "sgd", "momentum": choice([0.9])}, {"name": "adam"}])}
    history = RunHistory(fit(report_n(1, score=1), space, **OBJECTIVE))
    first, second = history.trials
    assert first.params["opt/momentum"] == 0.9
    assert "opt/momentum" not in second.params
    assert set(history.params) == first.params.keys() | second.params.keys()


def test_a_metric_with_mode_obs_is_no_objective():
    modes = {"metric": ["time", "score", "size"], "mode": ["obs", "max", "min"]}
    history = RunHistory(fit(report_n(1, time=1, score=2, size=3), **modes))
    assert (history.metric, history.mode) == ("score", "max")
    assert history.objectives == {"score": "max", "size": "min"}


def test_the_curves_of_very_many_metrics_are_left_out():
    (trial,) = RunHistory(fit(report_n(1, score=1, **{f"m{n}": n for n in range(90)}), **OBJECTIVE)).trials
    assert list(trial.others) == ["n", *(f"m{n}" for n in range(METRICS_KEPT - 1))]


def test_a_run_without_a_metric_names_those_that_were_reported(tmp_path):
    fit(report_n(1, loss=1))

    with pytest.raises(ValueError, match=r"has no metric; pass --metric, in Python metric=: one of .*loss"):
        RunHistory(run_path())
    with pytest.raises(ValueError, match="has no mode; pass --mode min or --mode max, in Python mode="):
        RunHistory(run_path(), metric="loss")
    assert RunHistory(run_path(), metric="loss", mode="min").trials[0].value == 1
    with pytest.raises(ValueError, match=r"no trial of 1 has reported 'los'; reported were: .*Did you mean 'loss'"):
        RunHistory(run_path(), metric="los", mode="min")
    with pytest.raises(FileNotFoundError, match=r"there is no run in .*, its name below the storage path, or 'last'"):
        RunHistory(tmp_path)
    with pytest.raises(TypeError, match="run: a run's directory"):
        RunHistory(3)


def test_a_history_that_is_read_on_is_as_one_that_is_read_at_the_end():
    histories = []

    def look(**info):
        if not histories:
            histories.append(RunHistory(run_path()))
        histories[0].read_new()

    space = {"i": grid_search([0, 1])}
    fit(report_n(2, score=1), space, max_concurrent_trials=1, callbacks=[listening(on_trial_result=look)], **OBJECTIVE)
    (history,) = histories

    assert history.state.name == "running"
    assert [history.read_new(), history.read_new()] == [True, False]
    whole = RunHistory(run_path())
    assert [trial.steps for trial in history.trials] == [trial.steps for trial in whole.trials]
    assert [trial.values for trial in history.trials] == [trial.values for trial in whole.trials]
    assert [ended(trial.trial) for trial in history.trials] == ["finished", "finished"]
    assert history.state.name == "finished"


def test_the_course_of_every_metric_is_known_and_goes_back_with_its_trial():
    def train(config):
        begun = restored_state()
        for step in range(begun, 4):
            metrics = {"score": step, "eval": {"acc": step / 10}, "note": "text"}
            if step > 1:
                metrics["late"] = math.nan if step == 2 else 5
            report_state(step + 1, metrics)
            if step == 2 and not begun:
                raise ValueError("once")

    fit(train, {}, max_failures=1, **OBJECTIVE)
    history = RunHistory(run_path())
    (trial,) = history.trials
    assert list(trial.values) == [0, 1, 2, 3]
    assert list(trial.others["eval/acc"]) == [0, 0.1, 0.2, 0.3]
    late = trial.others["late"]
    assert [math.isnan(value) for value in late] == [True, True, True, False]
    assert "note" not in trial.others
    data = run_data(history)["trials"][0]["courses"]
    assert data.pop("seconds") == pytest.approx(list(trial.seconds), rel=1e-4)
    assert data == {"at": None, "values": {"eval/acc": [0, 0.1, 0.2, 0.3], "late": [None, None, None, 5]}}


def test_a_large_run_has_fewer_values_of_other_metrics(monkeypatch):
    monkeypatch.setattr(page, "_MOST_VALUES", 5)
    monkeypatch.setattr(page, "_FEWEST_VALUES", 2)

    def train(config):
        for step in range(20):
            report({"score": step, "acc": step})

    fit(train, {}, **OBJECTIVE)
    data = run_data(RunHistory(run_path()))["trials"][0]
    assert len(data["courses"].pop("seconds")) == 5
    assert data["courses"] == {"at": [0, 5, 10, 14, 19], "values": {"acc": [0, 5, 10, 14, 19]}}
    assert len(data["curve"]) == 20, "the objective has all"
