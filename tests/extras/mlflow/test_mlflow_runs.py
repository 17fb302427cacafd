"""Runs of MLflow in a local database."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
from kit import CutAfter, PauseOnce, counting, fit, resume
from mlflow.entities import Run
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.tracking import MlflowClient

import minitune as tune
from minitune.integration.mlflow import MLflowLoggerCallback, setup_mlflow


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)  # MLflow stores artifacts in the working directory
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)  # MLflow sets it, so it must be restored
    yield uri
    for engine in SqlAlchemyStore._engine_map.values():  # MLflow keeps its connections
        engine.dispose()


def runs(store: str, experiment: str) -> list[Run]:
    """The runs, the first one first."""
    client = MlflowClient(store)
    found = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
    return sorted(found, key=lambda run: str(run.data.tags["minitune.trial"]))


def steps(store: str, run: Run, metric: str) -> list[tuple[int, float]]:
    return [(each.step, each.value) for each in MlflowClient(store).get_metric_history(run.info.run_id, metric)]


def test_each_trial_is_one_run_also_when_it_pauses(tmp_path: Path, store: str) -> None:
    tracker = MLflowLoggerCallback(store, experiment_name="mine", tags={"who": "me"}, save_artifact=True)
    space = {"a": {"b": 3}, "long": "x" * 9000, "x(1)": 1}
    settings = {"num_samples": 2, "storage_path": tmp_path, "callbacks": [tracker], "scheduler": PauseOnce()}
    grid = fit(counting(3), space, **settings)
    assert mlflow.active_run() is None
    for result, run in zip(grid, runs(store, "mine"), strict=True):
        assert run.data.tags["minitune.trial"] == result.metrics["trial_id"]
        assert (run.data.tags["who"], run.info.status) == ("me", "FINISHED")
        assert result.metrics["trial_id"] in run.info.run_name
        assert (run.data.params["a/b"], run.data.params["x_1_"]) == ("3", "1")
        assert steps(store, run, "training_iteration") == [(1, 1), (2, 2), (3, 3)]
        assert "result.json" in [item.path for item in MlflowClient(store).list_artifacts(run.info.run_id)]


def test_a_parameter_that_changes_becomes_a_tag(tmp_path: Path, store: str) -> None:
    class Change(PauseOnce):
        def on_trial_result(self, tune_controller: Any, trial: tune.Trial, result: dict[str, Any]) -> str:
            decision = super().on_trial_result(tune_controller, trial, result)
            if decision == self.PAUSE:
                trial.config = {**trial.config, "rate": 2}
            return decision

    tracker = MLflowLoggerCallback(store)
    fit(counting(2), {"rate": 1}, storage_path=tmp_path, callbacks=[tracker], scheduler=Change())
    (run,) = runs(store, "run")
    assert run.data.params["rate"] == "1"


def test_a_restored_run_continues_its_runs(tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_TOKEN", raising=False)
    tracker = MLflowLoggerCallback(store, experiment_name="mine", tracking_token="secret-of-mine")
    with pytest.raises(tune.TuneError):
        fit(counting(4), storage_path=tmp_path, name="run", callbacks=[CutAfter(2), tracker])
    assert "MLFLOW_TRACKING_TOKEN" not in os.environ
    assert not [path for path in (tmp_path / "run").glob("*.pkl") if b"secret-of-mine" in path.read_bytes()]
    assert [run.info.status for run in runs(store, "mine")] == ["KILLED"]
    resume(counting(4), path=tmp_path / "run")  # with the saved callback
    (run,) = runs(store, "mine")
    assert run.info.status == "FINISHED"
    assert steps(store, run, "training_iteration")[-1] == (4, 4)


def test_an_unreachable_server_costs_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with caplog.at_level(logging.WARNING, logger="minitune"):
        tracker = MLflowLoggerCallback("http://127.0.0.1:9")
        grid = fit(counting(2), num_samples=2, storage_path=tmp_path, callbacks=[tracker])
    assert grid.num_terminated == 2
    (text,) = [line for line in caplog.messages if line.startswith("MLflowLoggerCallback")]
    assert "opens no more records in mlflow" in text


def test_a_trial_writes_its_own_run_and_continues_it(tmp_path: Path, store: str) -> None:
    def train(config: dict[str, Any]) -> None:
        library = setup_mlflow(config, tracking_uri=store, experiment_name="own", create_experiment_if_not_exists=True)
        checkpoint = tune.get_checkpoint()
        first = 1 if checkpoint is None else 3
        for step in range(first, 5):
            library.log_metric("y", step, step=step)
            (Path.cwd() / "kept").mkdir(exist_ok=True)
            tune.report({"loss": 1}, checkpoint=tune.Checkpoint.from_directory(str(Path.cwd() / "kept")))

    (result,) = fit(train, {"x": 1}, storage_path=tmp_path, executor="local", scheduler=PauseOnce(at=2))
    assert result.error is None
    (run,) = runs(store, "own")
    assert (run.info.status, run.data.params["x"]) == ("FINISHED", "1")
    assert steps(store, run, "y") == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_a_missing_experiment_is_named(tmp_path: Path, store: str) -> None:
    with pytest.raises(ValueError, match="MLflow has no experiment 'none': create it, or pass create_exp"):
        setup_mlflow({}, tracking_uri=store, experiment_name="none")
