"""The small run for the tests of commands, also as one that goes on, and the type of the fixture for commands."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit import fit

from minitune import Checkpoint, ResultGrid, get_checkpoint, grid_search, report
from minitune.record.standing import Standing, read_on

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


def grows_record_by_record(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Cut the journal of a run to three records. Each wait of `minitune watch` adds the next one. Returns the rest."""
    journal = path / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    left = lines[3:]
    journal.write_bytes(b"".join(lines[:3]))

    def read_on_alive(follower: Any) -> tuple[bool, Standing]:
        has_new, state = read_on(follower)
        return has_new, Standing("running", "running") if left else state

    def add_a_record(duration_s: float) -> None:
        with open(journal, "ab") as file:
            file.write(left.pop(0))

    monkeypatch.setattr("minitune.commands.watch.read_on", read_on_alive)
    monkeypatch.setattr("minitune.commands.watch.time.sleep", add_a_record)
    return left
