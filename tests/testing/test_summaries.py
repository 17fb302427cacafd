"""The text that an ended run appends to the page of a CI job."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from kit import fit

from minitune import grid_search, report, run, simulate
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
    assert "Best: **loss = 0.25 \\(trial " in lines[5]
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
    fit_rates(tmp_path, [2], **{f"p{number}": "x" * 10_000 for number in range(100)})
    assert 1_000 < page.stat().st_size < 20_000
    page.write_bytes(b"." * 999_990)
    fit_rates(tmp_path, [1])
    assert page.stat().st_size == 999_990
