"""The small run for the tests of commands, and the type of the fixture that runs a command."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kit import fit

from minitune import Checkpoint, ResultGrid, get_checkpoint, grid_search, report

Minitune = Callable[..., tuple[int, str, str]]
"""The fixture `minitune`: it runs a command, and gives exit status, output and errors."""


def train(config: dict[str, Any]) -> None:
    """Three reports with a checkpoint each; trial 2 fails after the second."""
    start = int(Path(checkpoint.path, "step").read_text()) if (checkpoint := get_checkpoint()) else 0
    for step in range(start, 3):
        if config["x"] == 2 and step == 2:
            raise ZeroDivisionError("nothing left")
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "step").write_text(str(step + 1))
            report({"loss": config["x"] + abs(step - 1)}, checkpoint=Checkpoint(directory))


def fit_three(storage: Path, trainable: Any = train, name: str = "run") -> ResultGrid:
    """Run a trainable under x = 0, 1, 2, in this process."""
    space = {"x": grid_search([0, 1, 2])}
    return fit(trainable, space, metric="loss", mode="min", seed=1, storage_path=storage, name=name)
