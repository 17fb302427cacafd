"""The remarks on a run, at its start and at its end: what its user may not have meant."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kit import SavedCounter, fit, make_trial, resume, run_trial, virtual_executor

import minitune as tune
from minitune import ResultGrid, choice, clock, grid_search, report, uniform
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.lifecycle import Transition
from minitune.experiment.trial import Repeat, Trial
from minitune.output.remarks import closing_remarks, opening_remarks, remark_on_luck_of
from minitune.schedulers import (
    ASHAScheduler,
    HyperBandScheduler,
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


def once(config: dict[str, Any]) -> dict[str, Any]:
    return {"loss": config["x"]}


@pytest.mark.parametrize("scheduler", [ASHAScheduler(), HyperBandScheduler(), ASHAScheduler(max_t=100, grace_period=1)])
def test_a_scheduler_of_trials_that_report_once_is_told(scheduler: TrialScheduler, remarks_of: Any) -> None:
    assert remarks_of(once, {"x": uniform(0, 1)}, num_samples=6, scheduler=scheduler, **OBJECTIVE) == [
        f"hint: {scheduler.short_name} could change nothing: each trial has reported once, at its end; report after "
        "each epoch, so that it acts in time"
    ]


@pytest.mark.parametrize("stop", [{"training_iteration": 1}, {"loss": -1}])
def test_trials_that_a_criterion_ends_at_once_might_have_reported_more(stop: dict[str, Any], remarks_of: Any) -> None:
    settings: dict[str, Any] = {"metric": "loss", "mode": "max", "scheduler": ASHAScheduler(), "num_samples": 5}
    assert remarks_of(slow, {"x": uniform(0, 1)}, stop=stop, executor=virtual_executor(), **settings) == []


# -- stop criteria -----------------------------------------------------------------------------------------------------


def falling(config: dict[str, Any]) -> None:
    for step in range(1, 5):
        report({"loss": config["x"] / step, "depth": 9})


def test_a_criterion_that_waits_for_a_loss_to_grow_is_told(remarks_of: Any) -> None:
    assert remarks_of(falling, {"x": uniform(1, 2)}, num_samples=2, stop={"loss": 0.1}, **OBJECTIVE) == [
        "hint: stop={'loss': 0.1} has ended each trial at its first report, since loss was at least 0.1; "
        "stop={'loss': ('<=', 0.1)} waits until it has fallen to 0.1"
    ]


@pytest.mark.parametrize(
    ("stop", "mode"),
    [
        ({"loss": ("<=", 2)}, "min"),
        ({"loss": 1.5}, "min"),  # for trials that diverge
        ({"loss": 0.1}, "max"),
        ({"depth": 5}, "min"),
        ({"training_iteration": 1, "loss": 100}, "min"),
    ],
)
def test_other_criteria_need_no_remark(stop: dict[str, Any], mode: str, remarks_of: Any) -> None:
    assert remarks_of(falling, {"x": grid_search([1, 2])}, stop=stop, metric="loss", mode=mode) == []


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


# -- at the start ------------------------------------------------------------------------------------------------------


def hints_of(capsys: pytest.CaptureFixture[str], space: Any, **settings: Any) -> list[str]:
    """The remarks at the start of a run."""
    settings = {"metric": "score", "mode": "max", "num_samples": 2, **settings}
    fit(lambda config: {settings["metric"] or "score": 0.5}, space, verbose=1, **settings)
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("hint: ")]


LISTS = "and each trial gets all of it; choice([...]) draws one of its values, grid_search([...]) tries each"
BOUNDS = "is a dict, and each trial gets all of it; uniform(0, 1) draws a number, randint(...) a whole one"
CONSTANTS = "hint: the search space has only constants: "


class Array:
    """Like an array of a library."""

    def __init__(self, *values: float, shape: tuple[int, ...] = ()):
        self.values = values
        self.shape = shape or (len(values),)

    def __len__(self) -> int:
        return len(self.values)

    def tolist(self) -> list[float]:
        return list(self.values)


@pytest.mark.parametrize(
    ("space", "hints"),
    [
        ({"n": range(3)}, [f"{CONSTANTS}'n' is a range, {LISTS}"]),
        ({"a": {"n": (1, 2)}}, [f"{CONSTANTS}'a/n' is a tuple, {LISTS}"]),
        ({"n": Array(0.1, 0.2)}, [f"{CONSTANTS}'n' is an array, {LISTS}"]),
        ({"n": {"min": 0, "max": 1}}, [f"{CONSTANTS}'n' {BOUNDS}"]),
        (
            {"n": {"values": [1, 2]}},
            [f"{CONSTANTS}'n' is a dict, and each trial gets all of it; choice([...]) draws one of the values"],
        ),
        ({"x": uniform(0, 1), "lr": [0.1, 0.2]}, [f"hint: 'lr' is a list, {LISTS}"]),
        ({"x": uniform(0, 1), "a": {"batch_size": range(8, 64, 8)}}, [f"hint: 'batch_size' is a range, {LISTS}"]),
        ({"x": uniform(0, 1), "lr": {"min": 0, "max": 1}}, [f"hint: 'lr' {BOUNDS}"]),
        ({"x": uniform(0, 1), "layers": [64, 32], "betas": (0.9, 0.99), "clip": {"min": 0, "max": 1}}, []),
        ({"x": uniform(0, 1), "lr": [uniform(0, 1), 0.5]}, []),
        ({"layers": [64, 64], "one": [1], "nested": [[1, 2], [3, 4]], "data": list(range(1000))}, []),
        ({"clip": {"min": 0, "max": 1, "norm": 2}, "text": "ab", "empty": {}, "none": None}, []),
        ({"n": Array(*range(1000)), "one": Array(1.0)}, []),
        ({"matrix": Array(1, 2, shape=(2, 1))}, []),
        (
            {"n": {"min": 0, "max": 1.5}},
            [f"{CONSTANTS}'n' is a dict, and each trial gets all of it; uniform(0, 1.5) draws a number"],
        ),
    ],
)
def test_constants_that_look_like_domains_are_told(
    space: Any, hints: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    hints = [hint.replace("'batch_size'", "'a/batch_size'") for hint in hints]
    assert hints_of(capsys, space) == hints


def test_a_metric_without_a_mode_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert hints_of(capsys, {}, mode=None) == [
        "hint: metric='score' has no mode, so no trial is the best: add mode='min' or mode='max', or pass the mode to "
        "get_best_result()"
    ]


def test_a_large_array_is_not_copied() -> None:
    none: Any = SimpleNamespace(metric=None, mode=None)
    for array in (Array(list(range(101)), error=KeyboardInterrupt()), Array([1], 2, error=KeyboardInterrupt())):
        assert list(opening_remarks({"lr": array}, 1, none, [])) == []


@pytest.mark.parametrize(
    ("function", "is_told"),
    [(lambda: 1, True), (lambda config: 1, True), (lambda one, two: 1, False), (len, False), (slow, False)],
)
def test_a_lambda_that_may_be_meant_for_sample_from_is_told(function: Any, is_told: bool) -> None:
    none: Any = SimpleNamespace(metric=None, mode=None)
    found = list(opening_remarks({"a": {"b": function}}, 2, none, []))
    assert [
        remark.startswith("hint: 'a/b' is a lambda, and each trial gets the lambda itself") for remark in found
    ] == ([True] * is_told)


def test_a_metric_without_a_mode_is_told_unless_there_are_several() -> None:
    for metric, count in (("loss", 1), (["loss", "acc"], 0), (None, 0)):
        goal: Any = SimpleNamespace(metric=metric, mode=None)
        found = list(opening_remarks({}, 2, goal, []))
        assert [remark.startswith("hint: metric='loss' has no mode, so no trial is the best") for remark in found] == (
            [True] * count
        )


@pytest.mark.parametrize(
    ("metric", "mode", "is_told"),
    [
        ("loss", "max", True),
        ("eval/mean_loss", "max", True),
        ("loss", "min", False),
        ("neg_mean_loss", "max", False),
        ("weight_loss", "max", False),
        ("val_accuracy", "max", False),
        ("lossless", "max", False),
    ],
)
def test_a_loss_that_is_maximised_is_told(
    metric: str, mode: str, is_told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    hint = f"hint: mode='max' looks for the largest {metric}; mode='min' looks for the smallest"
    assert hints_of(capsys, {}, metric=metric, mode=mode) == [hint] * is_told


class Ends(tune.Callback):
    def on_trial_results(self, **info: Any) -> None:
        """No hook."""

    def on_experiment_end(self, trials: Any, **info: Any) -> None:
        """A hook."""


class CallsItself(tune.Callback):
    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        self.on_trial_completed()

    def on_trial_completed(self) -> None:
        """A function of its own."""


class OfOther:
    def on_trial_ends(self) -> None:
        """Whatever another library calls."""


class Both(tune.Callback, OfOther):
    def on_trial_ends(self) -> None:
        """The same."""

    def on_message(self) -> None:
        """Like no hook."""


@pytest.mark.parametrize(("callback", "is_told"), [(Ends(), True), (CallsItself(), False), (Both(), False)])
def test_a_method_of_a_callback_that_no_one_calls_is_told(
    callback: tune.Callback, is_told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    hints = hints_of(capsys, {}, callbacks=[callback, callback])
    assert hints == ["hint: nothing calls Ends.on_trial_results (did you mean 'on_trial_result'?)"] * is_told


@pytest.mark.parametrize(("name", "is_told"), [("momentun", True), ("momentum", False), ("rate", False)])
def test_a_mutation_with_nearly_the_name_of_a_constant_is_told(
    name: str, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = PopulationBasedTraining(hyperparam_mutations={name: [0.8, 0.9]})
    fit(slow, {"x": 1, "momentum": 0.9}, scheduler=scheduler, executor=virtual_executor(), **OBJECTIVE)
    assert (
        caplog.messages
        == [
            "hyperparam_mutations has 'momentun', which the search space lacks, so PBT adds it (did you mean "
            "'momentum'?)"
        ]
        * is_told
    )


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


def test_a_resumed_run_does_not_repeat_the_remarks_of_its_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(config: dict[str, Any]) -> None:
        raise ValueError("on purpose")

    fit(fails, {"x": uniform(0, 1)}, verbose=1)
    assert "hint: one configuration is drawn" in capsys.readouterr().out
    resume(fails, restart_errored=True, verbose=1)
    assert "hint: one configuration is drawn" not in capsys.readouterr().out


def test_a_quiet_run_has_no_remarks(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    fit(deaf, {"rate": uniform(0, 1)}, num_samples=5, **OBJECTIVE)
    assert capsys.readouterr().out == caplog.text == ""


# -- each remark by itself ---------------------------------------------------------------------------------------------
def trial_of(
    number: int, *losses: float, kind: EndKind | None = None, how: Any = Transition.STOP, **more: Any
) -> Trial:
    trial = run_trial(make_trial(number, config={"x": number}, evaluated_params={"x": number}, **more))
    for step, loss in enumerate(losses, 1):
        trial.record_result({"loss": loss, "training_iteration": step, "time_total_s": 2.0 * step})
    if how is not None:
        trial.move(how)
    trial.ending = None if kind is None else Ending.of(kind)
    return trial


def at_end(
    trials: list[Trial],
    scheduler: Any = None,
    *,
    metric: Any = "loss",
    mode: Any = "min",
    is_cut: bool = False,
    end_reason: str = "",
    closing_remark: str = "",
) -> list[str]:
    search: Any = SimpleNamespace(end_reason=end_reason, closing_remark=closing_remark)
    goal: Any = SimpleNamespace(metric=metric, mode=mode)
    return list(closing_remarks(trials, scheduler or timed(None, None), search, goal, is_cut=is_cut))


def timed(time_attr: str | None, first_turn: float | None) -> Any:
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
def test_a_scheduler_without_a_turn_is_told_with_the_time_that_trials_reached(
    time_attr: str | None, first: float | None, reports: int, text: str | None
) -> None:
    trials = [trial_of(0, 1.0), trial_of(1, *[1.0] * reports)]
    remarks = at_end(trials, timed(time_attr, first))
    assert len(remarks) == (text is not None)
    assert text is None or text in remarks[0]


SINGLE = "hint: Sched could change nothing: each trial has reported once, at its end"


@pytest.mark.parametrize(
    ("kinds", "has_remark"),
    [
        ([EndKind.RETURNED] * 4, True),
        ([EndKind.DONE] * 4, True),
        ([EndKind.RETURNED, EndKind.DONE, EndKind.SCHEDULER, EndKind.SCHEDULER], True),
        ([EndKind.RETURNED] * 3, False),  # too few
        ([EndKind.SCHEDULER] * 4, False),  # it has decided
        ([EndKind.RETURNED] * 3 + [EndKind.CRITERION], False),
        ([EndKind.RETURNED] * 4 + [None], False),
    ],
)
def test_trials_that_report_once_at_their_ends_leave_a_scheduler_nothing(
    kinds: list[EndKind | None], has_remark: bool
) -> None:
    trials = [trial_of(number, float(number), kind=kind) for number, kind in enumerate(kinds)]
    remarks = at_end(trials, timed("training_iteration", 1))
    assert [remark.startswith(SINGLE) for remark in remarks] == [True] * has_remark
    assert at_end(trials, timed(None, None)) == []
    assert at_end([*trials, trial_of(9, 1.0, 2.0, kind=EndKind.RETURNED)], timed("training_iteration", 1)) == []


@pytest.mark.parametrize(
    ("losses", "kind", "mode", "has_remark"),
    [
        ([2.0], EndKind.CRITERION, "min", True),
        ([1.0], EndKind.CRITERION, "min", True),
        ([0.9], EndKind.CRITERION, "min", False),
        ([2.0], EndKind.CRITERION, "max", False),
        ([2.0], EndKind.RETURNED, "min", False),
        ([2.0], None, "min", False),
        ([2.0, 2.0], EndKind.CRITERION, "min", False),
    ],
)
def test_a_criterion_that_a_loss_meets_at_once_is_told(
    losses: list[float], kind: EndKind | None, mode: str, has_remark: bool
) -> None:
    trials = [trial_of(number, *losses, kind=kind, stopping_criterion={"loss": 1}) for number in range(2)]
    remarks = at_end(trials, mode=mode)
    assert [remark.startswith("hint: stop={'loss': 1} has ended each trial at its first") for remark in remarks] == (
        [True] * has_remark
    )
    assert at_end([*trials, trial_of(2, *losses, kind=kind)], mode=mode) == [], "one trial has no such limit"
    assert at_end(trials, metric=["loss", "b"], mode=[mode, "min"]) == []


@pytest.mark.parametrize(
    ("curves", "has_remark"),
    [
        ([[0.5, 0.25]] * 4, True),
        ([[0.5, 0.25]] * 3, False),
        ([[1.0, 2.0]] * 4, False),  # whole numbers are often the same
        ([[0.5, 0.25]] * 3 + [[0.25, 0.5]], False),
        ([[0.5]] * 3 + [[0.5, 0.5]], False),
    ],
)
def test_trials_that_all_report_the_same_fractions_are_told(curves: list[list[float]], has_remark: bool) -> None:
    trials = [trial_of(number, *curve) for number, curve in enumerate(curves)]
    remarks = at_end(trials)
    assert [f"hint: {len(trials)} trials with different configurations have all" in remark for remark in remarks] == (
        [True] * has_remark
    )
    same = [trial_of(0, *curve) for curve in curves]
    assert at_end(same) == [], "they had the same configuration"
    failed = [trial_of(number, *curve, how=Transition.FAIL) for number, curve in enumerate(curves)]
    assert at_end(failed) == []


def test_the_searcher_has_its_remarks_and_a_run_that_was_cut_or_is_empty_only_the_reason_of_its_end() -> None:
    trials = [trial_of(0, 1.0)]
    assert at_end(trials, end_reason="no points left", closing_remark="half of them") == [
        "No more trials: no points left",
        "hint: half of them",
    ]
    for cut in (at_end([], end_reason="x", closing_remark="y"), at_end(trials, end_reason="x", is_cut=True)):
        assert cut == ["No more trials: x"]
    silent = [trial_of(0), trial_of(1)]
    (remark,) = at_end(silent, closing_remark="y")
    assert remark.startswith("hint: no trial has reported a result: call report(")
    assert at_end([*silent, trial_of(2, how=Transition.FAIL)]) == []


def test_a_lucky_value_is_told_after_a_run_of_ten_seconds_that_confirmed_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("minitune.search.estimate.estimates", lambda *goal: asked.append(goal[1:]) or ["found"])
    monkeypatch.setattr("minitune.search.estimate.remark_on_luck", lambda found, mode: f"{found[0]} {mode}")
    trials = [trial_of(0, 1.0)]
    told = ["hint: found max; see get_best_result(by='estimate')"]
    assert list(remark_on_luck_of(trials, "loss", "max", 9.9)) == []
    assert list(remark_on_luck_of(trials, "loss", "max", 10.0)) == told
    assert asked == [("loss", "max")]
    again = trial_of(1, 2.0)
    again.repeats = Repeat("t0000", "loss", "max")
    assert list(remark_on_luck_of([*trials, again], "loss", "max", 10.0)) == []
    monkeypatch.setattr("minitune.search.estimate.remark_on_luck", lambda found, mode: "")
    assert list(remark_on_luck_of(trials, "loss", "max", 10.0)) == []


class Array:
    """An array of numpy, as far as it is looked at."""

    def __init__(self, values: list[Any], dimensions: int = 1, error: BaseException | None = None):
        self.values = values
        self.shape = (len(values),) * dimensions
        self.error = error

    def __len__(self) -> int:
        return len(self.values)

    def tolist(self) -> list[Any]:
        if self.error is not None:
            raise self.error
        return self.values


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([1, 2], "a list"),
        ((0.1, "a"), "a tuple"),
        (range(100), "a range"),
        (Array([1, 2]), "an array"),
        (Array(list(range(100))), "an array"),
        ({"min": 0, "max": 1}, "a dict"),
        ({"min": 0.5, "max": 1}, "a dict"),
        ({"values": [1, 2]}, "a dict"),
        ([1], None),
        ([1, 1], None),
        ([1, [2]], None),
        ([], None),
        (range(101), None),
        (Array([1, 2], dimensions=2), None),
        (Array(list(range(101))), None),
        (Array([1, 2], error=RuntimeError("odd")), None),
        ({"min": 0, "max": 1, "step": 1}, None),
        ({"min": "a", "max": "b"}, None),
        ({"min": True, "max": False}, None),
        ({"min": 0, "max": "b"}, None),
        ({"values": [1]}, None),
        ("ab", None),
        ({1, 2}, None),
    ],
)
def test_a_constant_that_lists_values_looks_like_a_domain(value: Any, kind: str | None) -> None:
    none: Any = SimpleNamespace(metric=None, mode=None)
    remarks = list(opening_remarks({"deep": {"lr": value}}, 1, none, []))
    assert [f"'deep/lr' is {kind}, and each trial gets all of it" in remark for remark in remarks] == [True] * (
        kind is not None
    )
    searched = list(opening_remarks({"deep": {"lr": value}, "x": uniform(0, 1)}, 2, none, []))
    assert len(searched) == len(remarks), "with the name of a single value"
    other = list(opening_remarks({"deep": {"anything": value}, "x": uniform(0, 1)}, 2, none, []))
    assert other == []


@pytest.mark.parametrize(
    ("metric", "mode", "is_told"),
    [
        ("loss", "max", True),
        ("eval/mean_loss", "max", True),
        ("val-loss", "max", True),
        ("Train_Loss", "max", True),
        ("loss", "min", False),
        ("neg_loss", "max", False),
        ("val_mean", "max", False),
        ("lossy", "max", False),
    ],
)
def test_a_loss_that_is_to_grow_is_told_by_its_words(metric: str, mode: str, is_told: bool) -> None:
    goal: Any = SimpleNamespace(metric=metric, mode=mode)
    told = [f"hint: mode='max' looks for the largest {metric}; mode='min' looks for the smallest"] * is_told
    assert list(opening_remarks({}, 9, goal, [])) == told


@pytest.mark.parametrize(
    ("domain", "samples", "is_told"),
    [
        (uniform(0, 1), 1, True),
        (uniform(0, 1), 2, False),
        (grid_search([1, 2]), 1, False),
        (grid_search([1]), 1, False),
    ],
)
def test_a_single_draw_from_a_space_is_told(domain: Any, samples: int, is_told: bool) -> None:
    none: Any = SimpleNamespace(metric=None, mode=None)
    found = list(opening_remarks({"x": domain}, samples, none, []))
    assert [remark.startswith("hint: one configuration is drawn from the search space") for remark in found] == (
        [True] * is_told
    )
