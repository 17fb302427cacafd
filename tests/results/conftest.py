"""Runs of these tests take place in this process; nothing of theirs may be unpickled where a test says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kit import fit
from result_runs import training

from minitune import ResultGrid, grid_search


@pytest.fixture
def grid() -> ResultGrid:
    return fit(training, {"i": grid_search([0, 1, 2]), "nested": {"a": "s"}}, metric="loss", mode="min")


@pytest.fixture
def forbid_unpickling(grid: ResultGrid) -> None:
    """A test that loads one of the run's pickles fails: they are no pickles any more."""
    for directory, _, names in os.walk(grid.experiment_path):
        for name in names:
            if name.endswith(".pkl"):
                Path(directory, name).write_bytes(b"no pickle")
