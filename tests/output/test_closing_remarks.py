"""The remarks at the end of a run: what its user may not have meant."""

from __future__ import annotations

from typing import Any

import pytest
from kit import SavedCounter, fit, virtual_executor

import minitune as tune
from minitune import ResultGrid, choice, clock, grid_search, report, uniform
from minitune.schedulers import (
    ASHAScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    ResourceChangingScheduler,
    TrialScheduler,
)
from minitune.search import BasicVariantGenerator

OBJECTIVE: dict[str, Any] = {"metric": "loss", "mode": "min"}


@pytest.fixture
def remarks_of(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs, and returns the remarks; those at the start of a run are left out."""

    def remarks_of(trainable: Any, space: Any, **settings: Any) -> list[str]:
        grid: ResultGrid = fit(trainable, space, verbose=1, **settings)
        assert len(grid)
        _, _, end = capsys.readouterr().out.partition("Total run time")
        return end.splitlines()[1:]

    return remarks_of


def slow(config: dict[str, Any]) -> None:
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
        (ResourceChangingScheduler(MedianStoppingRule()), "median rule decided nothing: its first turn"),
    ],
)
def test_a_scheduler_that_never_had_a_turn_names_its_unit(
    scheduler: TrialScheduler, start: str, remarks_of: Any
) -> None:
    settings: dict[str, Any] = {"num_samples": 3, "executor": virtual_executor(), **OBJECTIVE}
    (remark,) = remarks_of(slow, {"x": uniform(0, 1)}, scheduler=scheduler, **settings)
    assert remark == (
        f"hint: {start} is at time_total_s=60, and no trial got beyond 10 "
        "(time_attr='time_total_s' counts seconds, 'training_iteration' counts reports)"
    )


def test_the_unit_of_reports_needs_no_explanation(remarks_of: Any) -> None:
    rule = MedianStoppingRule("training_iteration", grace_period=30)
    assert remarks_of(slow, {"x": uniform(0, 1)}, scheduler=rule, executor=virtual_executor(), **OBJECTIVE) == [
        "hint: median rule decided nothing: its first turn is at training_iteration=30, and no trial got beyond 20"
    ]


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
def test_a_scheduler_that_had_a_turn_needs_no_remark(scheduler: TrialScheduler | None, remarks_of: Any) -> None:
    settings: dict[str, Any] = {"num_samples": 3, "executor": virtual_executor(), **OBJECTIVE}
    assert remarks_of(slow, {"x": uniform(0, 1)}, scheduler=scheduler, **settings) == []


# -- points to evaluate ------------------------------------------------------------------------------------------------

GRID = {"a": grid_search([1, 2, 3]), "b": grid_search([1, 2]), "c": uniform(0, 1)}


def total(config: dict[str, Any]) -> dict[str, Any]:
    return {"loss": config["a"] + config["b"] + config["c"]}


@pytest.mark.parametrize(
    ("points", "num_samples", "left"),
    [
        ([{"a": 2, "b": 1}], 1, 5),
        ([{"a": 2}], 1, 4),
        ([{"a": 2}, {"a": 3}], 2, 2),
        ([{"c": 0.5}], 1, 0),
        ([{"a": 2}], 2, 0),
    ],
)
def test_a_grid_that_points_to_evaluate_leave_out_is_told(
    points: list[dict[str, Any]], num_samples: int, left: int, remarks_of: Any
) -> None:
    search_alg = BasicVariantGenerator(points_to_evaluate=points)
    remarks = remarks_of(total, GRID, search_alg=search_alg, num_samples=num_samples, **OBJECTIVE)
    assert remarks == [
        f"hint: points_to_evaluate took all samples, so {left} of 6 points of the grid were not tried; each further "
        "sample (num_samples) tries all of them"
    ] * bool(left)


# -- equal curves ------------------------------------------------------------------------------------------------------


def deaf(config: dict[str, Any]) -> None:
    for epoch in range(1, 15):
        report({"loss": 0.123456789 / epoch, "epoch": epoch})


def test_trials_that_do_not_hear_of_their_parameters_are_told(remarks_of: Any) -> None:
    assert remarks_of(deaf, {"rate": uniform(0, 1)}, num_samples=5, **OBJECTIVE) == [
        "hint: 5 trials with different configurations have all reported exactly the same loss, epoch: the parameters "
        "may not reach the training"
    ]


def one_is_other(config: dict[str, Any]) -> None:
    for step in range(14):
        report({"loss": 0.25 if config["i"] == 4 and step == 1 else 0.5})


def one_is_longer(config: dict[str, Any]) -> None:
    for _ in range(2 + (config["i"] == 4)):
        report({"loss": 0.5})


def perfect(config: dict[str, Any]) -> None:
    report({"loss": 0.0, "accuracy": 1.0, "steps": 100})


def silent_number(config: dict[str, Any]) -> None:
    report({"loss": float("nan")})


@pytest.mark.parametrize(
    ("trainable", "space"),
    [
        (one_is_other, {"i": grid_search([1, 2, 3, 4, 5])}),
        (one_is_longer, {"i": grid_search([1, 2, 3, 4, 5])}),
        (perfect, {"i": grid_search([1, 2, 3, 4, 5])}),
        (silent_number, {"i": grid_search([1, 2, 3, 4, 5])}),
        (deaf, {"i": grid_search([1, 2, 3])}),  # a coincidence
        (deaf, {"i": choice([1])}),  # the configurations are the same
    ],
    ids=["one report differs", "one is longer", "perfect", "NaN", "few", "one configuration"],
)
def test_other_trials_are_not_suspected(trainable: Any, space: Any, remarks_of: Any) -> None:
    num_samples = 5 if "choice" in str(space) else 1
    assert remarks_of(trainable, space, num_samples=num_samples, **OBJECTIVE) == []


# -- in general --------------------------------------------------------------------------------------------------------


def test_a_run_that_was_cut_has_no_remarks(remarks_of: Any) -> None:
    class AfterThree(tune.Stopper):
        seen = 0

        def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
            self.seen += 1
            return False

        def stop_all(self) -> bool:
            return self.seen >= 3

    settings: dict[str, Any] = {"stop": AfterThree(), "scheduler": MedianStoppingRule(), "metric": "n", "mode": "max"}
    assert remarks_of(SavedCounter, {"i": uniform(0, 1)}, **settings) == []


def test_a_quiet_run_has_no_remarks(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    fit(deaf, {"rate": uniform(0, 1)}, num_samples=5, **OBJECTIVE)
    assert capsys.readouterr().out == caplog.text == ""
