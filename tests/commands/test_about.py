"""The facts of a run, of a trial and of the best trial, each as people and as programs get it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kit import make_trial, run_trial

from minitune.base import clock
from minitune.base.text import date
from minitune.checkpoint import CheckpointRecord
from minitune.commands.about import about_best, about_run, about_trial, require_best
from minitune.commands.facts import Facts, data_of, text_of
from minitune.commands.selecting import NotFoundError
from minitune.error import trial_error_of_text
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.goal import Goal
from minitune.experiment.lifecycle import Transition
from minitune.experiment.trial import KeptCheckpoint, Trial, Usage
from minitune.record.decisions import TrialDecision
from minitune.record.standing import Standing

LOSS = Goal("loss", "min")
FINISHED = Standing("finished", "finished")


def trial_of(number: int, *losses: float, how: Transition | None = Transition.STOP, path: str = "/runs/it") -> Trial:
    lr = {"lr": number}
    trial = run_trial(make_trial(number, config=dict(lr), evaluated_params=dict(lr), experiment_path=path))
    for step, loss in enumerate(losses, 1):
        trial.record_result({"loss": loss, "training_iteration": step, "time_total_s": 1.5 * step})
    if how is not None:
        trial.move(how)
    return trial


def run_of(*trials: Trial, goal: Goal = LOSS, not_drawn: int = 0, ending: Ending | None = None) -> Any:
    setup = SimpleNamespace(
        goal=goal, trainable_name="train", seed=7, versions={"python": "3.11", "minitune": "1"}, begun_s=1e9
    )
    driver = SimpleNamespace(ending=ending, ended_before=[], opened_s=1e9, earlier_s=0.0, time_budget_s=None)
    total = len(trials) + not_drawn
    return SimpleNamespace(
        path="/runs/it",
        trials=list(trials),
        setup=setup,
        driver=driver,
        not_drawn=not_drawn,
        total_samples=total,
        updated_s=1e9 + 60,
        worked_s=42.0,
    )


def texts(facts: Facts) -> dict[str, Any]:
    return {name: text_of(value) for name, value in facts.items()}


# -- a run -------------------------------------------------------------------------------------------------------------
def test_a_run_is_told_with_its_counts_its_best_and_its_times() -> None:
    run = run_of(trial_of(0, 2.0), trial_of(1, 0.5, 1.0), not_drawn=3, ending=Ending.of(EndKind.FINISHED))
    facts = about_run(run, Standing("stopped", "stopped before its trials"))
    data = data_of(facts)
    assert (data["run"], data["name"], data["state"], data["total_trials"]) == ("/runs/it", "it", "stopped", 5)
    assert (data["counts"]["finished"], data["counts"]["not_started"], data["counts"]["failed"]) == (2, 3, 0)
    assert data["ending"] == {"kind": "finished", "text": "finished"}
    assert (data["seed"], data["trainable"], data["worked_s"], data["rest_s"]) == (7, "train", 42.0, None)
    assert data["versions"] == {"python": "3.11", "minitune": "1"}
    assert (data["begun"], data["last_updated"]) == (date(1e9), date(1e9 + 60))
    assert (data["best"]["trial"], data["best"]["value"], data["best"]["iteration"]) == (1, 1.0, 2)
    assert data["best"] | {"metric": "loss", "mode": "min", "status": "finished", "config": {"lr": 1}} == data["best"]
    assert (data["front"], data["errors"]) == ([], [])
    shown = texts(facts)
    assert shown["trials"] == "2 finished, 3 not started"
    assert shown["versions"] == "python 3.11, minitune 1"
    assert shown["state"] == "stopped before its trials"
    assert shown["best"] == "trial 1 (t0001): loss=1"


def test_a_run_without_trials_has_no_best() -> None:
    facts = about_run(run_of(), FINISHED)
    data = data_of(facts)
    assert (data["best"], data["earlier_best"], data["ending"]) == (None, None, None)
    assert texts(facts)["trials"] == "none yet"
    both = about_run(run_of(goal=Goal.of(["loss", "acc"], ["min", "max"])), FINISHED)
    assert (data_of(both)["front"], texts(both)["front"]) == ([], "none yet")


def test_a_front_is_told_by_the_numbers_of_its_trials() -> None:
    trials = [trial_of(number, loss) for number, loss in ((4, 1.0), (5, 2.0), (6, 1.0))]
    facts = about_run(run_of(*trials, goal=Goal.of(["loss", "training_iteration"], ["min", "min"])), FINISHED)
    assert texts(facts)["front"] == "4, 6"
    assert data_of(facts)["front"] == [{"trial": n, "trial_id": f"t{n:04}"} for n in (4, 6)]
    assert data_of(facts)["best"] is None


@pytest.mark.parametrize(("kinds", "last"), [(5, None), (6, "and 1 more kinds"), (8, "and 3 more kinds")])
def test_five_kinds_of_errors_are_told_with_the_command_for_each(kinds: int, last: str | None) -> None:
    trials = [trial_of(number, how=Transition.FAIL) for number in range(kinds + 1)]
    for trial in trials:
        trial.error = trial_error_of_text(f"E: {'abcdefgh'[max(0, trial.number - 1)]}")
    facts = about_run(run_of(*trials), FINISHED)
    lines = texts(facts)["errors"]
    assert lines[:2] == ["trial 0 (t0000) and 1 more: E: a", "  minitune rerun /runs/it 0"]
    assert lines[2:4] == ["trial 2 (t0002): E: b", "  minitune rerun /runs/it 2"]
    assert len(lines) == 10 + (last is not None)
    assert last is None or lines[-1] == last
    assert [each["count"] for each in data_of(facts)["errors"]] == [2, *[1] * (kinds - 1)]


# -- a trial -----------------------------------------------------------------------------------------------------------
def with_checkpoints(trial: Trial) -> Trial:
    for number, loss in ((0, 0.25), (1, 0.75)):
        kept: Any = SimpleNamespace(metrics={"loss": loss, "training_iteration": number + 1})
        trial.checkpoints.append(KeptCheckpoint(CheckpointRecord(number, 2, 12_345, 0), kept))
    return trial


def test_a_trial_is_told_in_full(tmp_path: Path) -> None:
    trial = with_checkpoints(trial_of(3, 0.5, 0.75, path=str(tmp_path)))
    Path(trial.local_path).mkdir()
    Path(trial.local_path, "command.json").write_text(json.dumps(["sh", "-c", "a b", 3]))
    trial.usage = Usage(1.25, 3 * 2**20)
    decisions = [
        TrialDecision("PAUSE", "to wait", {"rung": 1}, 1),
        TrialDecision("STOP", "x", {}, 2, EndKind.SCHEDULER),
    ]
    facts = about_trial(run_of(trial), FINISHED, trial, decisions)
    data = data_of(facts)
    assert (data["trial"], data["trial_id"], data["trial_name"]) == (3, "t0003", "train_t0003")
    assert (data["status"], data["attempt"], data["failures"]) == ("finished", 1, 0)
    assert (data["iteration"], data["time_total_s"], data["cpu_s"]) == (2, 3.0, 1.25)
    assert (data["peak_bytes"], data["metrics"], data["config"]) == (3 * 2**20, {"loss": 0.75}, {"lr": 3})
    assert (data["command"], data["error"], data["directory"]) == (["sh", "-c", "a b", "3"], None, trial.local_path)
    assert [each["iteration"] for each in data["checkpoints"]] == [1, 2]
    assert data["checkpoints"][0] == {
        "path": f"{trial.local_path}/checkpoint_000000",
        "iteration": 1,
        "value": 0.25,
        "bytes": 12_345,
    }
    assert [(each["action"], each["kind"], each["facts"]) for each in data["decisions"]] == [
        ("PAUSE", None, {"rung": 1}),
        ("STOP", "scheduler", {}),
    ]
    shown = texts(facts)
    assert (shown["trial"], shown["status"], shown["run"]) == ("3 (t0003)", "finished", "/runs/it: finished")
    assert (shown["command"], shown["seconds"]) == ("sh -c 'a b' 3", 3.0)
    assert shown["peak_bytes"].startswith("3")
    assert text_of(shown["checkpoints"][0]) == ("checkpoint_000000 (iteration 1, loss=0.25, 12,345 bytes)")


@pytest.mark.parametrize(
    ("attempt", "failures", "status"),
    [
        (1, 0, "failed"),
        (1, 1, "failed"),
        (2, 1, "failed, attempt 2"),
        (1, 2, "failed, 2 failures"),
        (3, 2, "failed, attempt 3, 2 failures"),
    ],
)
def test_attempts_and_failures_are_told_from_the_second_one_on(attempt: int, failures: int, status: str) -> None:
    trial = trial_of(0, how=Transition.FAIL)
    trial.attempt.number = attempt
    trial.num_failures = failures
    trial.error = trial_error_of_text("E: a\n  b")
    facts = about_trial(run_of(trial), FINISHED, trial, [])
    assert texts(facts)["status"] == status
    assert (data_of(facts)["error"], texts(facts)["error"]) == ("E: a\n  b", ["E: a", "  b"]), "also without its file"


def test_a_trial_that_never_started_has_no_directory() -> None:
    data = data_of(about_trial(run_of(), FINISHED, make_trial(0), []))
    assert (data["directory"], data["iteration"], data["cpu_s"], data["peak_bytes"]) == (None, None, None, None)
    assert (data["metrics"], data["checkpoints"], data["error"], data["command"]) == ({}, [], None, None)


# -- the best one ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("scope", "mode", "number", "value", "iteration"),
    [
        ("last", "min", 1, 1.0, 3),
        ("last", "max", 0, 2.0, 1),
        ("all", "min", 1, 0.5, None),  # it is in no journal
        ("all", "max", 1, 3.0, None),
        ("avg", "min", 1, 1.5, None),
    ],
)
def test_the_best_trial_has_the_value_of_the_scope(
    scope: str, mode: str, number: int, value: float, iteration: int | None
) -> None:
    run = run_of(trial_of(0, 2.0), trial_of(1, 3.0, 0.5, 1.0))
    facts = about_best(run, FINISHED, "loss", mode, scope)
    data = data_of(facts)
    assert (data["trial"], data["value"], data["iteration"]) == (number, value, iteration)
    assert (data["metric"], data["mode"], data["scope"], data["config"]) == ("loss", mode, scope, {"lr": number})
    assert texts(facts)["chosen by"] == f"{mode} of loss, scope {scope}, of 2 trials"
    assert texts(facts)["value"] == f"loss={value:g}"


def test_a_choice_among_a_part_of_the_trials_says_so() -> None:
    never = make_trial(2)
    never.move(Transition.STOP)
    run = run_of(trial_of(0, 2.0), never)
    told = texts(about_best(run, Standing("killed", ""), "loss", "min", "last"))["chosen by"]
    assert told == "min of loss, scope last, of 2 trials so far (the run was killed), 1 of which were not started"
    with pytest.raises(NotFoundError, match=r"has reported 'acc'.*\(/runs/it\)$"):
        require_best(run, "acc", "max", "last")


@pytest.mark.parametrize(("mode", "best", "last"), [("min", 0, "checkpoint_000001"), ("max", 1, None)])
def test_the_last_checkpoint_is_shown_beside_a_better_one(mode: str, best: int, last: str | None) -> None:
    run = run_of(with_checkpoints(trial_of(0, 0.25, 0.75)))
    facts = about_best(run, FINISHED, "loss", mode, "last")
    data = data_of(facts)
    assert data["best_checkpoint"]["iteration"] == best + 1
    assert data["last_checkpoint"]["iteration"] == 2
    shown = texts(facts)["last checkpoint"]
    assert isinstance(shown, str) == (last is not None)
    assert last is None or last in shown
    none = data_of(about_best(run_of(trial_of(0, 1.0)), FINISHED, "loss", mode, "last"))
    assert (none["best_checkpoint"], none["last_checkpoint"]) == (None, None)


def test_a_noisy_value_is_told_with_what_to_expect(monkeypatch: pytest.MonkeyPatch) -> None:
    class Guess:
        trial_id, expected, low, high, is_noisy = "t0000", 1.5, 1.0, 2.0, True

        def __str__(self) -> str:
            return "about 1.5"

    monkeypatch.setattr("minitune.search.estimate.estimates", lambda *goal: [Guess()])
    monkeypatch.setattr("minitune.search.estimate.remark_on_luck", lambda found, mode: "it was lucky")
    run = run_of(trial_of(0, 1.0))
    facts = about_best(run, FINISHED, "loss", "min", "last")
    expected = {"value": 1.5, "low": 1.0, "high": 2.0, "best_trial_id": "t0000", "remark": "it was lucky"}
    assert data_of(facts)["expected"] == expected
    assert texts(facts)["expected"] == "about 1.5: it was lucky"
    monkeypatch.setattr("minitune.search.estimate.remark_on_luck", lambda found, mode: "")
    assert texts(about_best(run, FINISHED, "loss", "min", "last"))["expected"] == "about 1.5"
    for name, value in (("is_noisy", False), ("trial_id", "another")):
        monkeypatch.setattr(Guess, name, value)
        assert data_of(about_best(run, FINISHED, "loss", "min", "last"))["expected"] is None


def test_a_run_that_goes_on_is_told_with_the_time_that_it_will_take() -> None:
    run = run_of(trial_of(0, 2.0), trial_of(1, 1.0), trial_of(2, how=None), not_drawn=2)
    with clock.use(clock.VirtualClock(1e9 + 50)):
        facts = about_run(run, Standing("running", "running (process 7)"))
    data = data_of(facts)
    assert (data["state"], data["worked_s"], data["rest_s"]) == ("running", 50.0, 50.0)
    assert (data["counts"]["running"], data["counts"]["pending"], data["counts"]["not_started"]) == (1, 2, 0)
    assert (texts(facts)["rest"], texts(facts)["trials"]) == ("about 50 s", "1 running, 2 pending, 2 finished")
    assert data["ending"] is None
