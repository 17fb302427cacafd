"""Runs of Weights & Biases as its package writes them without a network."""

from __future__ import annotations

import json
import logging
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wandb
from kit import CutAfter, PauseOnce, counting, fit, resume
from wandb.proto.wandb_internal_pb2 import Record

import minitune as tune
from minitune.integration.wandb import WandbLoggerCallback, setup_wandb


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("WANDB_MODE", "offline")
    yield
    wandb.teardown()  # its service would live as long as this process


def records(data: bytes) -> Iterator[Record]:
    """The records in one of W&B's files: 32 KiB blocks of parts. A part has a checksum, a length and its position."""
    block, at, whole = 1 << 15, 7, b""
    while at < len(data):
        if block - at % block < 7:
            at += block - at % block
        length, place = struct.unpack_from("<HB", data, at + 4)
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if place in (1, 4):  # all of it, or its end
            record = Record()
            record.ParseFromString(whole)
            whole = b""
            yield record


class Written:
    """The contents of one of W&B's files."""

    def __init__(self, path: Path) -> None:
        self.history: list[dict[str, Any]] = []
        self.config: dict[str, Any] = {}
        self.exit_code: int | None = None
        self.artifacts = 0
        for record in records(path.read_bytes()):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                self.id, self.name, self.group = record.run.run_id, record.run.display_name, record.run.run_group
                self.project = record.run.project
                self._take_config(record.run.config)
            elif kind == "config":
                self._take_config(record.config)
            elif kind == "history":
                items = record.history.item
                self.history.append(
                    {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
                )
            elif kind == "exit":
                self.exit_code = record.exit.exit_code
            elif kind == "artifact" or (kind == "request" and record.request.HasField("log_artifact")):
                self.artifacts += 1

    def _take_config(self, config: Any) -> None:
        for item in config.update:
            self.config[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)


def written(result: tune.Result) -> list[Written]:
    """The trial's runs. The service may still write to their files after `finish()`, so this ends it first."""
    wandb.teardown()
    return [Written(path) for path in sorted(Path(result.path).glob("wandb/offline-run-*/*.wandb"))]


def test_each_trial_is_one_run_also_when_it_pauses(tmp_path: Path) -> None:
    tracker = WandbLoggerCallback("mine", excludes=["time_total_s"], upload_checkpoints=True)
    space = {"a": {"b": 3}, "s": "text"}
    settings = {"num_samples": 2, "storage_path": tmp_path, "callbacks": [tracker], "scheduler": PauseOnce()}
    grid = fit(counting(3), space, **settings)
    for result in grid:
        (run,) = written(result)
        assert (run.id, run.project, run.group) == (result.metrics["trial_id"], "mine", "run")
        assert run.id in run.name
        assert (run.config["a"], run.config["s"], run.exit_code) == ({"b": 3}, "text", 0)
        assert [row["training_iteration"] for row in run.history] == [1, 2, 3]
        assert "time_total_s" not in run.history[0]
        assert run.artifacts


def test_a_failed_trial_is_a_failed_run(tmp_path: Path) -> None:
    def fail(config: dict[str, Any]) -> None:
        tune.report({"n": 1})
        raise ValueError("no")

    (result,) = fit(fail, storage_path=tmp_path, callbacks=[WandbLoggerCallback("mine")])
    (run,) = written(result)
    assert (len(run.history), run.exit_code) == (1, 1)


def test_a_restored_run_keeps_its_ids(tmp_path: Path) -> None:
    settings = {"storage_path": tmp_path, "name": "run"}
    with pytest.raises(tune.TuneError):
        fit(counting(4), callbacks=[CutAfter(2), WandbLoggerCallback("mine", api_key="secret-of-mine")], **settings)
    assert not [path for path in (tmp_path / "run").glob("*.pkl") if b"secret-of-mine" in path.read_bytes()]
    (result,) = resume(counting(4), path=tmp_path / "run")  # with the saved callback
    first, second = written(result)
    assert first.id == second.id
    assert [row["training_iteration"] for row in [*first.history, *second.history]][-1] == 4


def test_without_an_account_the_run_warns_once_and_ends_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with caplog.at_level(logging.WARNING, logger="minitune"):
        grid = fit(counting(2), num_samples=2, storage_path=tmp_path, callbacks=[WandbLoggerCallback("mine")])
    assert grid.num_terminated == 2
    (text,) = [line for line in caplog.messages if line.startswith("WandbLoggerCallback")]
    assert "opens no more records in wandb (RuntimeError: no API key was found: run `wandb login`" in text


def test_a_trial_writes_its_own_run_and_ends_it(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        run = setup_wandb(config, project="mine", tags=["a"])
        run.log({"y": config["x"]})
        tune.report({"loss": 1})

    grid = fit(train, {"x": tune.grid_search([1, 2])}, storage_path=tmp_path, executor="local")
    for result in grid:
        assert result.error is None
        (run,) = written(result)
        assert (run.id, run.group, run.exit_code) == (result.metrics["trial_id"], "run", 0)
        assert [row["y"] for row in run.history] == [result.config["x"]]


def test_outside_of_a_trial_it_is_an_ordinary_run(tmp_path: Path) -> None:
    run = setup_wandb({"x": 1}, project="mine", dir=str(tmp_path))
    assert run.config["x"] == 1
    run.finish()


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("abc\n")
    assert WandbLoggerCallback(api_key_file=os.fspath(path))._key == "abc"
    with pytest.raises(ValueError, match="only one of api_key and api_key_file"):
        WandbLoggerCallback(api_key="x", api_key_file=os.fspath(path))


def test_old_names_of_a_runs_id_and_name(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        setup_wandb(config, project="mine", trial_id="its-id", trial_name="its name").log({"n": 1})

    (result,) = fit(train, {"a": 1}, storage_path=tmp_path)
    (run,) = written(result)
    assert (run.id, run.name) == ("its-id", "its name")
