"""Data frames need pandas; without it the error says what works."""

import sys

import pytest

from minitune import ExperimentAnalysis


@pytest.mark.parametrize("member", ["results_df", "trial_dataframes", "best_dataframe", "best_result_df"])
def test_frames_of_an_analysis_name_the_way_out(grid, member, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    analysis = ExperimentAnalysis(grid.experiment_path, default_metric="loss", default_mode="min")
    with pytest.raises(ImportError, match=r"pip install pandas.*get_rows\(\)"):
        getattr(analysis, member)


def test_frames_of_results_name_the_way_out(grid, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"get_rows\(\)"):
        grid.get_dataframe()
    with pytest.raises(ImportError, match=r"get_rows\(\)"):
        _ = grid[0].metrics_dataframe
    assert not hasattr(grid[0], "nothing")
