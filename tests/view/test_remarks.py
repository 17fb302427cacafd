"""The remarks on a run, at its start and at its end: what its user may not have meant."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kit import SavedCounter, fit, make_trial, resume, run_trial, virtual_executor

import minitune as tune
from minitune import grid_search, report, uniform
from minitune.base import clock
from minitune.experiment.lifecycle import Transition
from minitune.schedulers import (
    ASHAScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
)
from minitune.view.remarks import closing_remarks, opening_remarks

OBJECTIVE = {"metric": "loss", "mode": "min"}


@pytest.fixture
def remarks_of(capsys):
    """Runs, and returns the remarks; those at the start of a run are left out."""

    def remarks_of(trainable, space, **settings):
        grid = fit(trainable, space, verbose=1, **settings)
        assert len(grid)
        _, _, end = capsys.readouterr().out.partition("Results: ")
        return end.splitlines()[1:]

    return remarks_of


def slow(config):
    for _ in range(20):
        clock.current.sleep(0.5)
        report({"loss": config["x"]})


# -- schedulers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheduler", "start"),
    [
        (PopulationBasedTraining(hyperparam_mutations={"x": uniform(0, 1)}), "PBT decided nothing: its first turn"),
        (MedianStoppingRule(), "median rule decided nothing: its first turn"),
        (ASHAScheduler(time_attr="time_total_s", grace_period=60), "ASHA decided nothing: its first turn"),
    ],
)
def test_a_scheduler_that_never_had_a_turn_names_its_unit(scheduler, start, remarks_of):
    settings = {"num_samples": 3, "executor": virtual_executor(), **OBJECTIVE}
    (remark,) = remarks_of(slow, {"x": uniform(0, 1)}, scheduler=scheduler, **settings)
    assert remark == (
        f"hint: {start} is at time_total_s=60, and no trial got beyond 10 "
        "(time_attr='time_total_s' counts seconds, 'training_iteration' counts reports)"
    )


@pytest.mark.parametrize(
    "scheduler",
    [
        PopulationBasedTraining(perturbation_interval=10, hyperparam_mutations={"x": uniform(0, 1)}),
        PopulationBasedTraining("training_iteration", perturbation_interval=5, hyperparam_mutations={"x": [0.1, 0.2]}),
        MedianStoppingRule(grace_period=5),
        ASHAScheduler(max_t=100),
        None,
    ],
)
def test_a_scheduler_that_had_a_turn_needs_no_remark(scheduler, remarks_of):
    settings = {"num_samples": 3, "executor": virtual_executor(), **OBJECTIVE}
    assert remarks_of(slow, {"x": uniform(0, 1)}, scheduler=scheduler, **settings) == []


# -- at the start ------------------------------------------------------------------------------------------------------


def hints_of(capsys, space, **settings):
    """The remarks at the start of a run."""
    settings = {"metric": "score", "mode": "max", "num_samples": 2, **settings}
    fit(lambda config: {settings["metric"] or "score": 0.5}, space, verbose=1, **settings)
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("hint: ")]


LISTS = "and each trial gets all of it; choice([...]) draws one of its values, grid_search([...]) tries each"
CONSTANTS = "hint: the search space has only constants: "


@pytest.mark.parametrize(
    ("space", "hints"),
    [
        ({"n": range(3)}, [f"{CONSTANTS}'n' is a range, {LISTS}"]),
        ({"n": {"values": [1, 2]}}, [f"{CONSTANTS}'n/values' is a list, {LISTS}"]),
        ({"x": uniform(0, 1), "a": {"lr": [0.1, 0.2]}}, [f"hint: 'a/lr' is a list, {LISTS}"]),
        ({"x": uniform(0, 1), "lr": [uniform(0, 1), 0.5]}, []),
        ({"one": [1], "clip": {"min": 0, "max": 1, "norm": 2}, "text": "ab", "empty": {}, "none": None}, []),
    ],
)
def test_constants_that_look_like_domains_are_told(space, hints, capsys):
    assert hints_of(capsys, space) == hints


@pytest.mark.parametrize(
    ("function", "is_told"),
    [(lambda: 1, True), (lambda config: 1, True), (lambda one, two: 1, False), (len, False), (slow, False)],
)
def test_a_lambda_that_may_be_meant_for_sample_from_is_told(function, is_told):
    found = list(opening_remarks({"a": {"b": function}}, 2))
    assert [
        remark.startswith("hint: 'a/b' is a lambda, and each trial gets the lambda itself") for remark in found
    ] == ([True] * is_told)


@pytest.mark.parametrize(("name", "is_told"), [("momentun", True), ("momentum", False)])
def test_a_mutation_that_the_space_lacks_is_told(name, is_told, caplog):
    scheduler = PopulationBasedTraining(hyperparam_mutations={name: [0.8, 0.9]})
    fit(slow, {"x": 1, "momentum": 0.9}, scheduler=scheduler, executor=virtual_executor(), **OBJECTIVE)
    text = "hyperparam_mutations has momentun, which the search space lacks, so PBT adds it"
    assert caplog.messages == [text] * is_told


# -- in general --------------------------------------------------------------------------------------------------------


def test_a_run_that_was_cut_has_no_remarks(remarks_of):
    class AfterThree(tune.Stopper):
        seen = 0

        def __call__(self, trial_id, result):
            self.seen += 1
            return False

        def stop_all(self):
            return self.seen >= 3

    settings = {"stop": AfterThree(), "scheduler": MedianStoppingRule(), "metric": "n", "mode": "max"}
    assert remarks_of(SavedCounter, {"i": uniform(0, 1)}, **settings) == []


def test_a_resumed_run_does_not_repeat_the_remarks_of_its_beginning(capsys):
    def fails(config):
        raise ValueError("on purpose")

    fit(fails, {"x": uniform(0, 1)}, verbose=1)
    assert "hint: one configuration is drawn" in capsys.readouterr().out
    resume(fails, restart_errored=True, verbose=1)
    assert "hint: one configuration is drawn" not in capsys.readouterr().out


# -- each remark by itself ---------------------------------------------------------------------------------------------
def trial_of(number, *losses, how=Transition.STOP):
    trial = run_trial(make_trial(number, config={"x": number}, evaluated_params={"x": number}))
    for step, loss in enumerate(losses, 1):
        trial.record_result({"loss": loss, "training_iteration": step, "time_total_s": 2.0 * step})
    if how is not None:
        trial.move(how)
    return trial


def at_end(trials, scheduler=None, *, is_cut=False, end_reason=""):
    search = SimpleNamespace(end_reason=end_reason)
    return list(closing_remarks(trials, scheduler or timed(None, None), search, is_cut=is_cut))


def timed(time_attr, first_turn):
    return SimpleNamespace(time_attr=time_attr, first_turn=first_turn, short_name="Sched")


@pytest.mark.parametrize(
    ("time_attr", "first", "reports", "text"),
    [
        ("training_iteration", 4, 3, "hint: Sched decided nothing: its first turn is at training_iteration=4, and no "),
        ("training_iteration", 3, 3, None),
        ("time_total_s", 7, 3, "no trial got beyond 6 (time_attr='time_total_s' counts seconds, 'training_iteration' "),
        ("time_total_s", 6, 3, None),
        ("epoch", 6, 3, None),  # no trial has reported it
        (None, 6, 3, None),
        ("training_iteration", None, 3, None),
    ],
)
def test_a_scheduler_without_a_turn_is_told_with_the_time_that_trials_reached(time_attr, first, reports, text):
    trials = [trial_of(0, 1.0), trial_of(1, *[1.0] * reports)]
    remarks = at_end(trials, timed(time_attr, first))
    assert len(remarks) == (text is not None)
    assert text is None or text in remarks[0]


def test_a_run_that_was_cut_or_is_empty_tells_only_why_its_search_has_ended():
    silent = [trial_of(0), trial_of(1)]
    (remark,) = at_end(silent)
    assert remark.startswith("hint: no trial has reported a result: call report(")
    assert at_end([*silent, trial_of(2, how=Transition.FAIL)]) == []
    assert at_end([trial_of(0, 1.0)], end_reason="no points left") == ["No more trials: no points left"]
    for cut in (at_end([], end_reason="x"), at_end(silent, end_reason="x", is_cut=True)):
        assert cut == ["No more trials: x"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([1, 2], "a list"),
        ((0.1, "a"), "a tuple"),
        (range(100), "a range"),
        ([1], None),
        ([1, 1], None),
        ([1, [2]], None),
        ([], None),
        (range(101), None),
        ("ab", None),
        ({1, 2}, None),
    ],
)
def test_a_constant_that_lists_values_looks_like_a_domain(value, kind):
    remarks = list(opening_remarks({"deep": {"lr": value}}, 1))
    assert [f"'deep/lr' is {kind}, and each trial gets all of it" in remark for remark in remarks] == [True] * (
        kind is not None
    )
    searched = list(opening_remarks({"deep": {"lr": value}, "x": uniform(0, 1)}, 2))
    assert len(searched) == len(remarks), "with the name of a single value"
    other = list(opening_remarks({"deep": {"anything": value}, "x": uniform(0, 1)}, 2))
    assert other == []


@pytest.mark.parametrize(
    ("domain", "samples", "is_told"),
    [
        (uniform(0, 1), 1, True),
        (uniform(0, 1), 2, False),
        (grid_search([1, 2]), 1, False),
        (grid_search([1]), 1, False),
    ],
)
def test_a_single_draw_from_a_space_is_told(domain, samples, is_told):
    found = list(opening_remarks({"x": domain}, samples))
    assert [remark.startswith("hint: one configuration is drawn from the search space") for remark in found] == (
        [True] * is_told
    )
