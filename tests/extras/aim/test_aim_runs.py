"""Runs of Aim in a local repository."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit import CutAfter, PauseOnce, counting, fit, resume

import minitune as tune
from minitune.integration.aim import AimLoggerCallback

SCRIPTS = Path(__file__).with_name("scripts")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Aim closes a repository's files when its objects are collected.

    They are in cycles. When a run is opened again, a cache of results holds its repository until the next such call.
    """
    yield
    if "aim.sdk.repo" in sys.modules:
        sys.modules["aim.sdk.repo"].Repo._all_run_hashes.cache_clear()
    gc.collect()


def read(result: tune.Result, repo: Path) -> dict[str, Any]:
    """Aim's data about a trial, read by another process, because Aim's objects keep threads and files."""
    name = Path(result.path, ".aim_run").read_text()
    done = subprocess.run(
        [sys.executable, SCRIPTS / "reads_a_run.py", name, repo], capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout), hash=name)


def test_each_trial_is_one_run_also_when_it_pauses(tmp_path: Path) -> None:
    tracker = AimLoggerCallback(metrics=["n"])
    settings = {"num_samples": 2, "storage_path": tmp_path, "callbacks": [tracker], "scheduler": PauseOnce()}
    grid = fit(counting(3), {"a": {"b": 3}}, **settings)
    hashes = set()
    for result in grid:
        run = read(result, tmp_path / "run")
        hashes.add(run["hash"])
        assert (run["trial_id"], run["hparams"]["a/b"], run["end"]) == (result.metrics["trial_id"], 3, "finished")
        assert (run["experiment"], run["values"]) == ("run", {"ray/tune/n": [1, 2, 3]})
    assert len(hashes) == 2


def test_a_restored_run_continues_its_runs(tmp_path: Path) -> None:
    tracker = AimLoggerCallback(str(tmp_path), "mine", metrics=["training_iteration"])
    with pytest.raises(tune.TuneError):
        fit(counting(4), storage_path=tmp_path, name="run", callbacks=[CutAfter(2), tracker])
    (result,) = resume(counting(4), path=tmp_path / "run")  # with the saved callback
    run = read(result, tmp_path)
    assert (run["experiment"], run["end"]) == ("mine", "finished")
    assert run["values"]["ray/tune/training_iteration"] == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="metrics must be"):
        AimLoggerCallback(metrics=[])
