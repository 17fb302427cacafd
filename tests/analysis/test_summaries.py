"""The text that an ended run appends to the page of a CI job."""

from __future__ import annotations

import json
import math
import os
import re
import signal
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from kit import fit, listening, make_trial, raiser, run_trial

from minitune import ResultGrid, grid_search, report, run, simulate
from minitune.analysis.run_results import RunResults
from minitune.analysis.summary import Summary, Target, append_to, escaped
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.goal import Best
from minitune.experiment.lifecycle import Transition
from minitune.experiment.trial import Trial
from minitune.schedulers import ASHAScheduler
from minitune.testing import smoke


def train(config: dict[str, Any]) -> None:
    report({"loss": config["lr"]})
    if config["lr"] > 1:
        raise ValueError("lr | is\n<too> `large`")


def fit_rates(tmp_path: Path, values: list[float], **more: Any) -> None:
    space = {"lr": grid_search(values), **more}
    fit(train, space, metric="loss", mode="min", storage_path=tmp_path / "runs", name="my_run")


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "page.md"))
    return tmp_path / "page.md"


def test_a_run_adds_counts_the_best_trial_and_each_error_once(tmp_path: Path, page: Path) -> None:
    page.write_text("before\n")
    fit_rates(tmp_path, [0.5, 0.25, 2, 3], note="a|b")
    lines = page.read_text().splitlines()
    assert lines[:2] == ["before", r"### my\_run"]
    assert "4 trials in" in lines[3]
    assert lines[3].endswith("2 finished, 2 failed.")
    assert "Best: **loss=0.25 \\(trial " in lines[5]
    assert "| lr | 0.25 |" in lines
    assert "| note | 'a&#124;b' |" in lines
    assert [line for line in lines if line.startswith("- ")] == [
        r"- 2 x ValueError: lr &#124; is &lt;too&gt; \`large\`"
    ]


def test_trials_stopped_by_a_scheduler_are_counted_as_stopped(
    tmp_path: Path, page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def curve(config: dict[str, Any]) -> None:
        for _ in range(4):
            report({"loss": config["lr"]})

    scheduler = ASHAScheduler(grace_period=2, max_t=8, reduction_factor=2)
    goal = {"metric": "loss", "mode": "min"}
    fit(curve, {"lr": grid_search([1, 2, 3])}, scheduler=scheduler, storage_path=tmp_path, verbose=1, **goal)
    assert "1 finished, 2 stopped" in capsys.readouterr().out
    assert "1 finished, 2 stopped." in page.read_text()


def test_older_ways_into_a_run_tell_too_and_smoke_tests_and_simulations_do_not(tmp_path: Path, page: Path) -> None:
    smoke(train, {"lr": 1}, directory=tmp_path / "smoke")
    simulate(lambda config: [({"loss": 1}, 1.0)])
    assert not page.exists()
    run(train, config={"lr": 1}, storage_path=str(tmp_path / "runs"), verbose=0, metric="loss", mode="min")
    assert "1 trial in" in page.read_text()


def test_a_run_within_a_trial_does_not(tmp_path: Path, page: Path) -> None:
    def tunes(config: dict[str, Any]) -> None:
        grid = fit(train, {"lr": 0.5}, storage_path=tmp_path / "inner", name="inner")
        report({"loss": grid[0].metrics["loss"]})

    assert fit(tunes, storage_path=tmp_path / "runs", name="outer").num_errors == 0
    assert [line for line in page.read_text().splitlines() if "###" in line] == ["### outer"]


def test_empty_variable_turns_the_summary_off(tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "")
    fit_rates(tmp_path, [1])
    assert sorted(os.listdir(tmp_path)) == ["runs"]


def test_a_file_that_cannot_be_written_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "nowhere" / "page.md"))
    fit_rates(tmp_path, [1])
    fit_rates(tmp_path, [1])
    assert caplog.text.count("the file of GITHUB_STEP_SUMMARY cannot be written") == 1


class Nasty:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def test_odd_values_do_no_harm(tmp_path: Path, page: Path) -> None:
    fit_rates(tmp_path, [10**400, 1, 2**70], odd=Nasty())
    assert page.read_text().count("| odd | &lt;Nasty instance at ") == 1


def test_the_page_does_not_grow_without_bound(tmp_path: Path, page: Path) -> None:
    fit_rates(tmp_path, [2], **{f"p{number}" + "y" * 5_000: "x" * 10_000 for number in range(100)})
    assert 1_000 < page.stat().st_size < 20_000
    assert "\n| and 71 more |  |\n" in page.read_text()
    page.write_bytes(b"." * 999_990)
    fit_rates(tmp_path, [1])
    assert page.stat().st_size == 999_990


def test_a_summary_fills_the_page_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    for text, limit_bytes in (("abc", 3), ("de", 4), ("de", 5)):
        append_to(str(path), text, "PAGE", limit_bytes=limit_bytes)
    assert path.read_text() == "abcde"


def test_of_many_kinds_of_errors_thirty_are_told_the_most_frequent_first(tmp_path: Path, page: Path) -> None:
    def fails(config: dict[str, Any]) -> None:
        raise ValueError("a" * (config["n"] + 1 - (config["n"] == 35)))

    grid = fit(fails, {"n": grid_search(list(range(36)))}, storage_path=tmp_path / "runs")
    lines = Summary.of(grid._run, 1.0, is_interrupted=False).lines()
    assert sum(line.startswith("  failed: ") for line in lines) == 30
    errors = [line for line in page.read_text().splitlines() if line.startswith("- ")]
    assert errors[0] == f"- 2 x ValueError: {'a' * 35}"
    assert len(errors) == 31
    assert errors[-1] == "- and 5 other kinds"


def test_a_log_gets_each_kind_of_error_on_a_line(tmp_path: Path) -> None:
    def fails(config: dict[str, Any]) -> None:
        raise ValueError(config["text"])

    grid = fit(fails, {"text": grid_search(["one", "two", "two"])}, storage_path=tmp_path, name="run")
    assert Summary.of(grid._run, 1.25, is_interrupted=False).lines() == [
        "run run: 3 trials in 1.2 s: 3 failed",
        "  failed: 2 x ValueError: two",
        "  failed: 1 x ValueError: one",
        f"  {grid.experiment_path}",
    ]


def test_an_interrupted_run_tells_what_has_ended_and_what_has_not(tmp_path: Path, page: Path) -> None:
    interrupt = listening(on_trial_result=lambda **info: os.kill(os.getpid(), signal.SIGINT))
    space = {"lr": grid_search([0.5, 0.25])}
    fit(train, space, callbacks=[interrupt], max_concurrent_trials=1, num_samples=2, storage_path=tmp_path / "runs")
    text = page.read_text()
    assert re.search(r"^1 trial in [\d.]+ s \\\(interrupted\\\): 1 interrupted\.$", text, re.MULTILINE)
    assert "Ended early: interrupted by SIGINT; 0 of 1 trials had ended, 1 was interrupted." in text


def test_the_record_of_a_run_has_the_best_finite_last_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [2.0, -math.inf, 0.5, math.nan, 1.0]

    def falls(config: dict[str, Any]) -> None:
        report({"loss": -9})
        report({"loss": values[config["n"]], "eval": {"acc": config["n"]}})

    monkeypatch.setenv("MINITUNE_ENDED_RUNS", str(tmp_path / "ended"))
    fit(falls, {"n": grid_search(list(range(5)))}, storage_path=tmp_path / "runs")
    (line,) = (tmp_path / "ended").read_text().splitlines()
    values = json.loads(line)["best_values"]
    assert (values["loss"], values["eval/acc"]) == ({"min": 0.5, "max": 2.0}, {"min": 0, "max": 4})


def test_the_value_of_a_confirmed_trial_is_the_mean_of_its_repeats(
    tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = {0: [1.0, 9, 8, 7], 1: [2.0, 3, 3, 3], 2: [4.0, 0, 5, 7], 3: [5.0]}

    def noisy(config: dict[str, Any]) -> None:
        report({"loss": draws[config["n"]].pop(0)})

    monkeypatch.setenv("MINITUNE_ENDED_RUNS", str(tmp_path / "ended"))
    fit(noisy, {"n": grid_search(list(draws))}, metric="loss", mode="min", confirm=3, storage_path=tmp_path / "runs")
    record = json.loads((tmp_path / "ended").read_text())
    assert record["best_values"]["loss"] == {"min": 3.0, "max": 5.0}, "not that of a lucky trial or of a repeat"
    shown = "loss=3 in the mean of 3 repeats (2 seen)"
    assert record["best_line"][0].startswith(f"Best: {shown} with n=1 (trial ")
    assert f"Best: **{escaped(shown)} " in page.read_text()


def test_a_lower_limit_of_zero_looks_for_the_largest_value() -> None:
    assert Target.of("reward", 0.0, None).mode == "max"
    assert Target.of("loss", None, 0.0).mode == "min"


def test_a_target_is_told_with_both_limits() -> None:
    assert str(Target.of("loss", 1, 2.5)) == "best loss >= 1 and <= 2.5"


def test_the_text_of_a_trial_is_no_link_and_no_picture_on_the_page() -> None:
    assert escaped("![a](b) @x\n<i>") == r"\!\[a\]\(b\) \@x &lt;i&gt;"


def test_a_log_gets_the_whole_configuration_of_the_best_trial(tmp_path: Path) -> None:
    grid = fit(train, {"lr": 0.5, "note": "x"}, metric="loss", mode="min", storage_path=tmp_path, name="run")
    lines = Summary.of(grid._run, 1.0, is_interrupted=False).lines()
    assert lines[1].startswith("  Best: loss=0.5 with lr=0.5, note='x' (trial ")


def test_the_best_of_a_run_has_the_value_of_the_scope(grid: ResultGrid) -> None:
    for scope, value in (("last", 2.0), ("all", 1.0), ("avg", 2.0)):
        best = Best.of(grid._run.trials, "loss", "min", scope)
        assert best is not None
        assert (best.trial.number, best.value) == (0, value)


# -- the texts ---------------------------------------------------------------------------------------------------------
FULL = Summary(
    name="a_run",
    path="/runs/a_run",
    elapsed_s=61.04,
    is_interrupted=True,
    counts={"finished": 2, "failed": 1},
    cut=1,
    early_end="interrupted by SIGINT; 3 of 4 trials had ended",
    best="loss=0.5 (trial t0)",
    best_line=["Best: loss=0.5 with lr=1 (trial t0)"],
    config={"lr": "1", "a|b": "'<x>'"},
    errors=["2 x ValueError: no", "1 x KeyError: x"],
)
EMPTY = Summary("r", "/r", 0.0, False, {}, 0, "", None, [], {}, [])


def test_a_summary_has_all_that_is_known_and_nothing_else() -> None:
    assert FULL.lines() == [
        "run a_run: 3 trials in 61.0 s (interrupted): 2 finished, 1 failed",
        "  ended early: interrupted by SIGINT; 3 of 4 trials had ended",
        "  Best: loss=0.5 with lr=1 (trial t0)",
        "  failed: 2 x ValueError: no",
        "  failed: 1 x KeyError: x",
        "  /runs/a_run",
    ]
    assert FULL.markdown().splitlines() == [
        r"### a\_run",
        "",
        r"3 trials in 61.0 s \(interrupted\): 2 finished, 1 failed.",
        "",
        "Ended early: interrupted by SIGINT; 3 of 4 trials had ended.",
        "",
        r"Best: **loss=0.5 \(trial t0\)**",
        "",
        "| parameter | value |",
        "| --- | --- |",
        "| lr | 1 |",
        "| a&#124;b | '&lt;x&gt;' |",
        "",
        "Failures:",
        "",
        "- 2 x ValueError: no",
        "- 1 x KeyError: x",
    ]
    assert EMPTY.lines() == ["run r: 0 trials in 0.0 s: none", "  /r"]
    assert EMPTY.markdown() == "### r\n\n0 trials in 0.0 s: none.\n"


@pytest.mark.parametrize(("count", "more"), [(30, 0), (31, 1)])
def test_thirty_parameters_and_kinds_of_errors_are_told_and_the_others_counted(count: int, more: int) -> None:
    many = replace(
        EMPTY,
        config={f"p{number}": "1" for number in range(count)},
        errors=[f"1 x E{number}" for number in range(count)],
    )
    lines = many.markdown().splitlines()
    assert sum(line.startswith("| p") and line.endswith(" 1 |") for line in lines) == 30
    assert ("| and 1 more |  |" in lines) == (more == 1)
    assert sum(line.startswith("- 1 x ") for line in lines) == 30
    assert ("- and 1 other kinds" in lines) == (more == 1)
    assert sum(line.startswith("  failed: ") for line in many.lines()) == 30


def test_a_text_of_a_summary_is_cut_at_two_hundred_characters() -> None:
    assert escaped("a" * 200) == "a" * 200
    assert len(escaped("a" * 201)) == 200
    assert escaped("&|*~") == "&amp;&#124;\\*\\~"


def test_a_summary_is_read_back_from_its_record() -> None:
    assert Summary.of_record(json.loads(json.dumps(asdict(FULL)))) == FULL


def trial_of(*losses: float, number: int = 0, how: Transition | None = Transition.STOP, started: bool = True) -> Trial:
    trial = make_trial(number, config={"n": number})
    if started:
        run_trial(trial)
    for loss in losses:
        trial.record_result({"loss": loss})
    if how is not None:
        trial.move(how)
    return trial


def test_a_run_that_has_ended_counts_its_trials_by_their_ends() -> None:
    cut_off = trial_of(0.1, number=3, how=None)
    cut_off.move(Transition.STOP)
    cut_off.ending = Ending.of(EndKind.STOPPER)
    never = trial_of(number=4, started=False)
    never.ending = Ending.of(EndKind.STOPPER)
    trials = [trial_of(0.5), trial_of(number=1), trial_of(number=2, how=Transition.FAIL), cut_off, never]
    summary = Summary.of(RunResults("/runs/it", trials, "loss", "min"), 2.5, False)
    assert (summary.name, summary.path, summary.elapsed_s, summary.cut) == ("it", "/runs/it", 2.5, 2)
    assert summary.counts == {"finished": 1, "failed": 1, "interrupted": 1, "not started": 1, "without a result": 1}
    assert summary.early_end.startswith("the stopper has ended the run; 3 of 5 trials had ended")
    assert (summary.best, summary.config) == ("loss=0.1 (trial t0003)", {"n": "3"})
    without = Summary.of(RunResults("/runs/it", trials), 2.5, True)
    assert (without.best, without.best_line, without.config) == (None, [], {})
    assert without.is_interrupted
    unknown = Summary.of(RunResults("/runs/it", trials, "acc", "max"), 2.5, False)
    assert (unknown.best, unknown.config) == (None, {})


# -- targets -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("at_least", "at_most", "mode", "text", "met", "missed"),
    [
        (1.0, None, "max", "best v >= 1", [1.0, 2.0, math.inf], [0.9, math.nan]),
        (None, 1.0, "min", "best v <= 1", [1.0, 0.0, -math.inf], [1.1, math.nan]),
        (0.0, None, "max", "best v >= 0", [0.0], [-0.1]),
        (None, 0.0, "min", "best v <= 0", [0.0], [0.1]),
        (1.0, 2.0, "max", "best v >= 1 and <= 2", [1.0, 1.5, 2.0], [0.9, 2.1]),
    ],
)
def test_a_target_is_met_by_values_within_its_limits(
    at_least: float | None, at_most: float | None, mode: str, text: str, met: list[float], missed: list[float]
) -> None:
    target = Target.of("v", at_least, at_most)
    assert (target.mode, str(target)) == (mode, text)
    assert [target.is_met(value) for value in (*met, *missed)] == [True] * len(met) + [False] * len(missed)


def test_a_target_may_have_the_other_mode() -> None:
    assert Target.of("v", 1.0, None, mode="min").mode == "min"
    assert Target.of("v", None, 1.0, mode="max", scope="avg").scope == "avg"


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ((None, 1.0, None), {}, "metric must be"),
        (("v", None, None), {}, "at_least or at_most must be"),
        (("v", math.nan, None), {}, "at_least must be"),
        (("v", None, math.nan), {}, "at_most must be"),
        (("v", "1", None), {}, "at_least must be"),
        (("v", None, True), {}, "at_most must be"),
        (("v", 1.0, None), {"mode": "best"}, "'best'"),
        (("v", 1.0, None), {"scope": "first"}, "scope must be one of last, all, avg"),
    ],
)
def test_a_target_without_a_sense_is_refused(arguments: tuple[Any, ...], options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Target.of(*arguments, **options)


def test_a_run_without_a_summary_is_one_warning_and_no_failure(
    tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Summary, "markdown", raiser(RuntimeError("odd")))
    monkeypatch.setenv("MINITUNE_ENDED_RUNS", str(tmp_path / "ended"))
    fit_rates(tmp_path, [1])
    assert caplog.text.count("there is no summary of ") == 1
    assert (page.exists(), (tmp_path / "ended").exists()) == (False, False)
