"""The text that an ended run appends to the page of a CI job."""

from __future__ import annotations

import json
import math
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from kit import fit, listening

from minitune import ResultGrid, grid_search, report, run, simulate
from minitune.analysis.summary import Summary, Target, append_to, escaped
from minitune.experiment.goal import Best
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
