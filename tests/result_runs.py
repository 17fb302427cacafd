"""Three trials that show what there is to see of results, run in this process; and fixtures of such a run."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from kit import fit

from minitune import Checkpoint, ResultGrid, grid_search, report

LOSSES = {0: [3.0, 1.0, 2.0], 1: [2.0, 5.0, math.nan], 2: [4.0, -math.inf]}


def training(config: dict[str, Any]) -> None:
    for step, loss in enumerate(LOSSES[config["i"]]):
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "step").write_text(str(step))
            report({"loss": loss, "eval": {"step": step}}, checkpoint=Checkpoint.from_directory(directory))
    if config["i"] == 2:
        raise ValueError("two is too many")


@pytest.fixture
def grid(storage_of_its_own: None) -> ResultGrid:
    """The results of these trials. Their losses are in `LOSSES`."""
    return fit(training, {"i": grid_search([0, 1, 2]), "nested": {"a": "s"}}, metric="loss", mode="min")


@pytest.fixture
def forbid_unpickling(grid: ResultGrid) -> None:
    """A test that loads one of the run's pickles fails: they are no pickles any more."""
    for directory, _, names in os.walk(grid.experiment_path):
        for name in names:
            if name.endswith(".pkl"):
                Path(directory, name).write_bytes(b"no pickle")
