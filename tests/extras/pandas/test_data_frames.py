"""Data frames of results: columns, rows, and values as users of Ray Tune know them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from kit import fit

from minitune import ExperimentAnalysis, Result, ResultGrid, grid_search, report

LOSSES = {0: [3, 1, 2], 1: [2.0, 5.0, math.nan], 2: []}
METRICS = ["loss", "flag"]
NOT_LOOKED_AT = {"checkpoint_dir_name", "should_checkpoint", "experiment_tag"}
AUTOMATIC = [
    "timestamp",
    "done",
    "training_iteration",
    "trial_id",
    "date",
    "time_this_iter_s",
    "time_total_s",
    "pid",
    "hostname",
    "node_ip",
    "time_since_restore",
    "iterations_since_restore",
]
NESTED = ["eval/step", "config/i", "config/deep/a"]


def training(config: dict[str, Any]) -> None:
    for step, loss in enumerate(LOSSES[config["i"]]):
        report({"loss": loss, "eval": {"step": step, "empty": {}}, "flag": True})
    if config["i"] == 2:
        raise ValueError("no result at all")


@pytest.fixture
def grid() -> ResultGrid:
    return fit(training, {"i": grid_search([0, 1, 2]), "deep": {"a": "s"}})


def test_the_frame_of_a_grid_has_a_row_for_each_trial(grid: ResultGrid) -> None:
    frame = grid.get_dataframe()

    assert [name for name in frame if name not in NOT_LOOKED_AT] == [*METRICS, *AUTOMATIC, *NESTED, "logdir"]
    assert list(frame["config/i"]) == [0, 1]  # without the trial that has reported nothing
    assert frame["loss"].dtype == "float64"
    assert frame["flag"].dtype == "bool"
    assert not frame["done"].any()
    assert list(frame["logdir"]) == [grid[0].path, grid[1].path]
    assert all(f"_{tag}_" in path for tag, path in zip(frame["experiment_tag"], frame["logdir"], strict=True))
    assert list(frame[["loss", "config/i"]].dropna()["loss"]) == [2]
    assert list(grid.get_dataframe("loss", "max")["loss"]) == [3, 5]
    assert list(grid.get_dataframe(filter_metric="loss", filter_mode="min")["training_iteration"]) == [2, 1]


def test_the_frame_of_a_result_has_a_row_for_each_report(grid: ResultGrid) -> None:
    frame = grid[0].metrics_dataframe

    assert [name for name in frame if name not in NOT_LOOKED_AT] == [*METRICS, *AUTOMATIC, *NESTED]
    assert list(frame["loss"]) == [3, 1, 2]
    assert grid[0].metrics_dataframe is frame
    assert math.isnan(grid[1].metrics_dataframe["loss"].iloc[-1])
    assert grid[2].metrics_dataframe.empty
    assert Result.from_path(grid[0].path).metrics_dataframe.equals(frame)


def test_without_lines_the_frame_comes_from_the_table(grid: ResultGrid) -> None:
    Path(grid[0].path, "result.json").unlink()
    frame = Result.from_path(grid[0].path).metrics_dataframe
    assert list(frame["loss"]) == [3, 1, 2]
    assert list(frame["trial_id"].unique()) == [grid[0].metrics["trial_id"]]


def test_the_frames_of_an_analysis_have_the_rows_of_its_trials(grid: ResultGrid) -> None:
    analysis = ExperimentAnalysis(grid.experiment_path, default_metric="loss", default_mode="min")
    ids = [trial.trial_id for trial in analysis.trials]

    assert analysis.dataframe().equals(grid.get_dataframe())
    assert list(analysis.results_df.index) == ids
    assert analysis.results_df.loc[ids[0], "eval/step"] == 2
    assert list(analysis.best_result_df.index) == ids[:1]
    assert analysis.best_result_df["config/deep/a"].item() == "s"
    assert list(analysis.trial_dataframes) == ids
    assert list(analysis.trial_dataframes[ids[0]]["loss"]) == [3, 1, 2]
    assert analysis.best_dataframe is analysis.trial_dataframes[ids[0]]
    paths = [trial.local_path for trial in analysis.trials]
    assert list(analysis.fetch_trial_dataframes()) == paths
