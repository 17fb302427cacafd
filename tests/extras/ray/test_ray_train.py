"""Ray Train inside a trial reports to the run."""

from __future__ import annotations

import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import ray.train
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

import minitune as tune
from minitune import RunConfig, TuneConfig, Tuner
from minitune.integration.ray_train import TuneReportCallback

pytestmark = pytest.mark.usefixtures("connection")
NAMES = ("ray::TrainController", "ray::RayTrainWorker", "ray::PlacementGroupCleaner")


def actors_of_train():
    """The processes of Ray Train on the cluster of this process, whose nodes are its children."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            found += [name for name in process.cmdline()[:1] if name.startswith(NAMES)]
    return found


def test_each_report_of_the_workers_is_one_of_the_trial(tmp_path: Path) -> None:
    """Also the last ones. A trial that is stopped ends Ray Train's actors."""

    def work(config):
        """On a worker of Ray Train: reports the steps 1 to 4, the second one with a checkpoint."""
        for step in range(1, 5):
            checkpoint = None
            if step == 2:
                directory = Path(tempfile.mkdtemp())
                (directory / "step").write_text("2")
                checkpoint = ray.train.Checkpoint.from_directory(str(directory))
            ray.train.report({"step": step, "loss": config["x"] / step}, checkpoint=checkpoint)

    def train(config):
        trainer = DataParallelTrainer(
            work,
            train_loop_config={"x": config["x"]},
            scaling_config=ray.train.ScalingConfig(num_workers=2),
            run_config=ray.train.RunConfig(storage_path=str(tmp_path / "train"), callbacks=[TuneReportCallback()]),
        )
        trainer.fit()

    grid = Tuner(
        tune.with_resources(train, {"cpu": 1}),
        param_space={"x": tune.grid_search([1, 2])},
        tune_config=TuneConfig(metric="loss", mode="min", executor="ray"),
        run_config=RunConfig(
            storage_path=str(tmp_path / "runs"),
            verbose=0,
            stop=lambda trial_id, result: result["config"]["x"] == 2 and result["step"] == 3,
        ),
    ).fit()

    until_s = time.monotonic() + 120
    while actors_of_train() and time.monotonic() < until_s:
        time.sleep(0.1)
    assert not actors_of_train()
    assert [result.error for result in grid] == [None, None]
    rows = [[(row["step"], row["loss"]) for row in result.get_rows()] for result in grid]
    assert rows == [[(step, x / step) for step in range(1, last + 1)] for x, last in ((1, 4), (2, 3))]
    (path,) = [row["checkpoint_path"] for row in grid[0].get_rows() if row.get("checkpoint_path")]
    assert Path(path, "step").read_text() == "2"


def test_outside_of_a_trial_it_is_refused() -> None:
    with pytest.raises(RuntimeError, match="must be made in a trial"):
        TuneReportCallback()
