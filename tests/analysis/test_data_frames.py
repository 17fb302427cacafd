"""Which rows become data frames, with a stand-in for pandas. `tests/extras` has the tests with the library."""

import sys
from types import SimpleNamespace

import pytest
from kit import fit

from minitune import ExperimentAnalysis, Result, grid_search, report


class DataFrame:
    """The rows that it was made of, and its index."""

    def __init__(self, rows, index=None):
        self.rows = rows
        self.index = index

    @classmethod
    def from_records(cls, rows, index=None):
        return cls(rows, index)


@pytest.fixture(autouse=True)
def pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=DataFrame))


def train(config):
    if config["x"] == 2:
        raise ValueError("before the first report")
    for loss in (config["x"] + 1, config["x"] + 3, config["x"] + 2):
        report({"loss": loss, "eval": {"acc": loss}})


@pytest.fixture
def grid():
    return fit(train, {"x": grid_search([0, 1, 2])}, metric="loss", mode="min")


def losses(frame):
    return [row.get("loss") for row in frame.rows]


def test_a_frame_of_trials_leaves_out_those_without_a_report(grid):
    analysis = ExperimentAnalysis(grid.experiment_path)
    for frame in (grid.get_dataframe, analysis.dataframe):
        assert losses(frame()) == [2, 3]
        assert losses(frame("loss", "max")) == [3, 4]
        assert losses(frame("loss", "min")) == [1, 2]
        row = frame().rows[1]
        assert (row["config/x"], row["eval/acc"], row["logdir"]) == (1, 3, grid[1].path)
    assert len(grid.get_rows()) == 3


def test_a_frame_of_a_trial_has_all_its_reports(grid):
    analysis = ExperimentAnalysis(grid.experiment_path)
    ids = [result.metrics["trial_id"] for result in grid]
    assert losses(grid[0].metrics_dataframe) == [1, 3, 2]
    assert grid[0].metrics_dataframe is grid[0].metrics_dataframe
    assert {trial: losses(frame) for trial, frame in analysis.trial_dataframes.items()} == {
        ids[0]: [1, 3, 2],
        ids[1]: [2, 4, 3],
        ids[2]: [],
    }
    assert losses(analysis.trial_dataframes[grid[0].path]) == [1, 3, 2]
    by_directory = {path: losses(frame) for path, frame in analysis.fetch_trial_dataframes().items()}
    assert by_directory == {grid[0].path: [1, 3, 2], grid[1].path: [2, 4, 3], grid[2].path: []}
    mine = DataFrame([{"loss": 9}])
    assert Result({}, None, None, "/a", mine).metrics_dataframe is mine


def test_a_frame_of_last_results_is_found_by_the_id_of_a_trial(grid, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DELIM", ".")
    analysis = ExperimentAnalysis(grid.experiment_path, default_metric="loss", default_mode="max")
    frame = analysis.results_df
    assert (frame.index, losses(frame)) == ("trial_id", [2, 3, None])
    assert (frame.rows[0]["eval.acc"], frame.rows[0]["config.x"]) == (2, 0)
    best = analysis.best_result_df
    assert (best.index, losses(best), best.rows[0]["eval.acc"]) == ("trial_id", [3], 3)
    assert losses(analysis.best_dataframe) == [2, 4, 3]
