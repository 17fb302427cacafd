"""Experiments of Comet as its package archives them without a network."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from kit import CutAfter, PauseOnce, counting, fit, resume

import minitune as tune
from minitune.integration.comet import CometLoggerCallback


def messages(path: Path) -> list[dict[str, Any]]:
    with zipfile.ZipFile(path) as archive:
        return [json.loads(line) for line in archive.read("messages.json").splitlines()]


def metric(path: Path, name: str) -> list[tuple[int, float]]:
    found = [each["payload"]["metric"] for each in messages(path) if each["type"] == "metric_msg"]
    return [(each["step"], float(each["metricValue"])) for each in found if each["metricName"] == name]


def parameters(path: Path) -> dict[str, Any]:
    found = [each["payload"]["param"] for each in messages(path) if each["type"] == "parameter_msg"]
    return {each["paramName"]: each["paramValue"] for each in found}


def test_each_trial_is_one_experiment_also_when_it_pauses(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tracker = CometLoggerCallback(online=False, tags=["a"], project_name="mine", save_checkpoints=True)
    settings = {"num_samples": 2, "storage_path": tmp_path, "callbacks": [tracker], "scheduler": PauseOnce()}
    grid = fit(counting(3), {"a": {"b": 3}}, **settings)
    for result in grid:
        (path,) = Path(result.path).glob("*.zip")
        assert metric(path, "training_iteration") == [(1, 1), (2, 2), (3, 3)]
        assert parameters(path)["a/b"] == 3
        others = {each["payload"].get("key"): each["payload"].get("value") for each in messages(path)}
        assert (others["trial_id"], others["end"]) == (result.metrics["trial_id"], "finished")
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "COMET INFO" not in captured.err


def test_a_restored_run_continues_its_experiments(tmp_path: Path) -> None:
    tracker = CometLoggerCallback(online=False, project_name="mine", api_key="secret-of-mine")
    with pytest.raises(tune.TuneError):
        fit(counting(4), storage_path=tmp_path, name="run", callbacks=[CutAfter(2), tracker])
    assert not [path for path in (tmp_path / "run").glob("*.pkl") if b"secret-of-mine" in path.read_bytes()]
    (result,) = resume(counting(4), path=tmp_path / "run")  # with the saved callback
    first, second = sorted(Path(result.path).glob("*.zip"), key=lambda path: path.stat().st_mtime_ns)
    with zipfile.ZipFile(first) as one, zipfile.ZipFile(second) as other:
        made, gone_on = (json.loads(each.read("experiment.json")) for each in (one, other))
    assert made["offline_id"] == gone_on["offline_id"]
    assert metric(second, "training_iteration")[-1] == (4, 4)
