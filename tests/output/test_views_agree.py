"""All views of a run agree: on the names of its trials, on columns, on numbers as text, and on what is called best."""

from __future__ import annotations

import html
import json
import math
import os
import re
from typing import Any

import pytest
from kit import EndAfter, deciding, fit, table_in

from minitune import ResultGrid, TrialScheduler, cli, grid_search, report
from minitune.base.text import number_text
from minitune.visualization import RunHistory
from minitune.visualization.page import RunData

NAME_WIDTH = 16
"""The width of a name in the text of `show`."""
OBJECTIVE = {"metric": "loss", "mode": "min"}
SMALL, TIE, EQUAL, ODD, FAILS, STOPPED, SILENT, CUT, LATE = range(9)
LOSSES = {
    SMALL: [0.5, 1e-7, 7.0],
    TIE: [0.3, 0.123456789012],
    EQUAL: [0.2, 0.123456789012],
    ODD: [math.nan],
    FAILS: [1234567.5],
    STOPPED: [123456.7, 4.0],
    SILENT: [0.25, None],
    CUT: [3e30, 1e8, 2.0, 3.0],
    LATE: [1.0],
}
"""The losses of each trial in order; None stands for a report without a loss."""


def train(config: dict[str, Any]) -> None:
    case = config["case"]["number"]
    for loss in LOSSES[case]:
        metrics: dict[str, Any] = {} if loss is None else {"loss": loss}
        metrics |= {"eval": {"share": (case + 1) / 3, "seen": 123456789}, "whole": 20_000.0}
        report(metrics)
    if case == FAILS:
        raise ValueError("bad luck")


def decide(context: object, trial: Any, result: dict[str, Any]) -> str:
    stops = trial.config["case"]["number"] == STOPPED
    return TrialScheduler.STOP if stops else TrialScheduler.CONTINUE


def html_table_in(text: str) -> list[dict[str, str]]:
    """The same of HTML."""
    body = re.sub(r"<style>.*?</style>", "", text)
    lines = re.findall(r"<tr>(.*?)</tr>", body.partition("</table>")[0])
    head, *rows = ([html.unescape(cell) for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", line)] for line in lines)
    return [dict(zip(head, row, strict=True)) for row in rows]


@pytest.fixture
def ended(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> tuple[ResultGrid, str]:
    """A run with trials of all ends, and what it has printed."""
    monkeypatch.setenv("MINITUNE_DISABLE_STRICT_METRIC_CHECKING", "1")
    space = {"case": {"number": grid_search(list(LOSSES)), "rate": grid_search([1.23456789012e-5])}, "opt": "adam"}
    grid = fit(
        train,
        space,
        scheduler=deciding(decide),
        stop=EndAfter(sum(map(len, LOSSES.values())) - 2),
        max_concurrent_trials=1,
        verbose=1,
        **OBJECTIVE,
    )
    return grid, capsys.readouterr().out


class Commands:
    """Runs commands on the run, and gives what they print."""

    def __init__(self, grid: ResultGrid, capsys: pytest.CaptureFixture[str]):
        self._path = grid.experiment_path
        self._capsys = capsys

    def __call__(self, command: str, *arguments: str) -> str:
        cli.main([command, self._path, *arguments])
        return self._capsys.readouterr().out


def told_in(text: str) -> dict[str, Any]:
    """The facts that `show` and `best` print by name: texts, or for a list of facts a dict of texts."""
    facts: dict[str, Any] = {}
    last = ""
    for line in text.splitlines():
        if line.startswith("  "):
            name, _, value = line.strip().partition(": ")
            facts[last][name] = value
        else:
            last = line[:NAME_WIDTH].strip()
            facts[last] = line[NAME_WIDTH:].strip() or {}
    return facts


def page_of(grid: ResultGrid) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(RunData(RunHistory(grid)).text())
    return data


def test_all_views_call_the_same_trial_best(ended: tuple[ResultGrid, str], capsys: pytest.CaptureFixture[str]) -> None:
    grid, printed = ended
    call = Commands(grid, capsys)
    best = grid.get_best_result()
    trial_id = best.metrics["trial_id"]
    number = best.config["case"]["number"]
    page = page_of(grid)
    line = next(line for line in printed.splitlines() if line.startswith("Best: "))

    assert number == TIE, "the first of equal trials; the one that was once better does not count"
    assert f"(trial {trial_id})" in line
    assert line in call("watch").splitlines()
    assert line in html.unescape(grid._repr_html_())
    assert f"best            trial {number} ({trial_id}): loss=0.123457" in call("show")
    assert json.loads(call("best", "--json"))["trial_id"] == trial_id
    assert table_in(call("compare"))
    assert page["best"] == number
    once = f"trial {SMALL} was at 1e-07 in iteration 2"
    assert page["earlier_best"] == once
    assert all(once in call(command) for command in ("show", "best", "compare"))


def test_a_trial_without_a_last_value_is_best_by_the_value_that_views_show(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINITUNE_DISABLE_STRICT_METRIC_CHECKING", "1")
    grid = fit(train, {"case": {"number": grid_search([SILENT, CUT])}}, verbose=1, **OBJECTIVE)
    printed = capsys.readouterr().out
    call = Commands(grid, capsys)
    page = page_of(grid)

    assert grid.get_best_result().config["case"]["number"] == SILENT
    assert "Best: loss=0.25 with " in printed
    assert table_in(printed)[0]["loss"] == table_in(call("ls"))[0]["loss"] == "0.25"
    assert html_table_in(grid._repr_html_())[0]["loss"] == "0.25"
    assert ": loss=0.25\n" in call("show")
    assert (page["best"], page["trials"][0]["value"]) == (0, 0.25)


def test_a_trial_has_the_same_facts_in_the_tables_alone_and_on_the_page(
    ended: tuple[ResultGrid, str], capsys: pytest.CaptureFixture[str]
) -> None:
    grid, printed = ended
    call = Commands(grid, capsys)
    page = page_of(grid)
    names = {row["Trial name"] for row in table_in(printed)}

    for row in table_in(call("ls")):
        trial = page["trials"][int(row["trial"])]
        told = told_in(call("show", row["trial"]))
        metrics = {name: row[name] for name in ("loss", "whole", "eval/share", "eval/seen") if row[name]}
        assert told["name"] == trial["name"]
        assert told["name"] in names
        assert told["status"] == trial["ended"] == (row["ended"] or row["status"])
        assert (told.get("iteration", ""), told.get("seconds", "")) == (row["training_iteration"], row["time_total_s"])
        assert {name: value for name, value in told.get("metrics", {}).items() if name in metrics} == metrics
        assert [name for name in told.get("metrics", {}) if name in metrics] == list(metrics)
        assert {name: told["config"][name] for name in trial["params"]} == {
            name: row[f"config/{name}"] for name in page["params"]
        }
        assert {name: number_text(value) for name, value in trial["params"].items()} == {
            name: row[f"config/{name}"] for name in page["params"]
        }
        on_page = {name: number_text(trial["metrics"][name]) for name in page["metrics"] if name in trial["metrics"]}
        if trial["value"] is not None:  # JSON has no NaN
            on_page["loss"] = number_text(trial["value"])
        assert on_page == {name: text for name, text in metrics.items() if text != "nan"}
        if trial["curve"]:
            assert number_text(trial["counted_s"]) == row["time_total_s"]


def test_the_best_trial_has_the_same_facts_alone_and_among_others(
    ended: tuple[ResultGrid, str], capsys: pytest.CaptureFixture[str]
) -> None:
    grid, printed = ended
    call = Commands(grid, capsys)
    best = told_in(call("best"))
    (row,) = (row for row in table_in(call("ls")) if row["trial"] == str(TIE))
    told = told_in(call("show", str(TIE)))

    assert best["value"] == f"loss={row['loss']}" == f"loss={best['metrics']['loss']}"
    assert best["trial"] == told["trial"]
    assert best["status"] == told["status"] == (row["ended"] or row["status"])
    assert (best["iteration"], best["config"]) == (told["iteration"], told["config"])
    assert best["metrics"] == told["metrics"]
    line = next(line for line in printed.splitlines() if line.startswith("Best: "))
    assert line.startswith(f"Best: {best['value']} with ")
    assert all(f"{name}={text}" in line for name, text in best["config"].items())


def test_runs_side_by_side_have_the_facts_of_the_other_views(
    ended: tuple[ResultGrid, str], capsys: pytest.CaptureFixture[str]
) -> None:
    grid, _ = ended
    call = Commands(grid, capsys)
    rows = table_in(call("ls"))
    best = next(row for row in rows if row["trial"] == str(TIE))
    column = {row[""]: row[os.path.basename(grid.experiment_path)] for row in table_in(call("compare"))}

    assert column == page_of(grid)["compared"]
    assert column["best loss"] == best["loss"]
    assert column["best trial"] == told_in(call("best"))["trial"]
    assert column["earlier best"] == told_in(call("show"))["earlier best"]
    assert {key: value for key, value in best.items() if key.startswith("config/")}.items() <= column.items()
    total_s = sum(result.metrics["time_total_s"] for result in grid if result.metrics)
    assert column["total time (s)"] == number_text(total_s)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (3.0, "3"), (3, "3"), (1e8, "100000000"), (1e-7, "1e-07"), (123456.7, "123457"), (1234567.5, "1.23457e+06"),
        (0.123456789, "0.123457"), (2e30, "2e+30"), (-0.0, "0"), (math.nan, "nan"), (-math.inf, "-inf"),
    ],
)  # fmt: skip
def test_a_number_has_one_text(number: float, text: str) -> None:
    assert number_text(number) == text
