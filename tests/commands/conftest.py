"""One small run for all tests of a module: it is only looked at."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minitune import Checkpoint, ResultGrid, RunConfig, TuneConfig, Tuner, cli, get_checkpoint, grid_search, report


def train(config: dict[str, Any]) -> None:
    """Three reports with a checkpoint each; trial 2 fails after the second."""
    start = int(Path(checkpoint.path, "step").read_text()) if (checkpoint := get_checkpoint()) else 0
    for step in range(start, 3):
        if config["x"] == 2 and step == 2:
            raise ZeroDivisionError("nothing left")
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "step").write_text(str(step + 1))
            report({"loss": config["x"] + abs(step - 1)}, checkpoint=Checkpoint(directory))


def fit(storage: Path, trainable: Any = train, name: str = "run") -> ResultGrid:
    """Run a trainable under x = 0, 1, 2, in this process."""
    tune = TuneConfig(metric="loss", mode="min", executor="inline", seed=1)
    run_config = RunConfig(name=name, storage_path=str(storage), verbose=0)
    return Tuner(trainable, param_space={"x": grid_search([0, 1, 2])}, tune_config=tune, run_config=run_config).fit()


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the run lies, under the name `run`."""
    path = tmp_path_factory.mktemp("storage")
    fit(path)
    return path


@pytest.fixture
def minitune(
    storage: Path,
    storage_of_its_own: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str, str]]:
    """Runs a command, in this process, with that storage; gives exit status, output and errors."""
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(storage))

    def run(*arguments: str | os.PathLike[str]) -> tuple[int, str, str]:
        status = cli.main([os.fspath(argument) for argument in arguments])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run
