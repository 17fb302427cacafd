"""TuneReportCallback: a trial that calls `fit` of a trainer reports what the trainer's loop reports."""

import os
import signal

import pytest
from kit import fit

from minitune.record.reading import read_run
from minitune.record.standing import INTERRUPTED_RUN, standing_of
from minitune.train import Checkpoint, RunConfig, ScalingConfig, get_checkpoint, get_context, report
from minitune.train.data_parallel_trainer import DataParallelTrainer
from minitune.tune.integration.ray_train import TuneReportCallback

STEPS = 4


def loop(config):
    found = get_checkpoint()
    first = found.to_dict()["step"] + 1 if found else 0
    for step in range(first, STEPS):
        report({"step": step, "first": first}, checkpoint=Checkpoint.from_dict({"step": step}))
        if step == config.get("dies_at") and not found:
            os.kill(config["trial"], signal.SIGKILL)
            signal.pause()


def driver(config):
    run_config = RunConfig(
        name=f"of_{get_context().get_trial_id()}",
        storage_path=config["storage"],
        callbacks=[TuneReportCallback()],
        verbose=0,
    )
    DataParallelTrainer(
        loop,
        train_loop_config={**config, "trial": os.getpid()},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=run_config,
    ).fit()


def run_of_loop(storage):
    (path,) = storage.glob("of_*")
    return path


@pytest.mark.parametrize("executor", ["inline", "local"])
def test_a_trial_reports_what_its_training_reports(tmp_path, executor):
    (result,) = fit(driver, {"storage": str(tmp_path)}, executor=executor)
    assert result.error is None
    assert (result.metrics["step"], result.metrics["training_iteration"]) == (STEPS - 1, STEPS)
    assert result.config == {"storage": str(tmp_path)}
    path = result.metrics["checkpoint_path"]
    assert path.startswith(f"{run_of_loop(tmp_path)}/")
    assert Checkpoint(path).to_dict() == {"step": STEPS - 1}


def test_a_stopped_trial_interrupts_its_training(tmp_path):
    stop = {"training_iteration": 2}
    (result,) = fit(driver, {"storage": str(tmp_path)}, executor="local", stop=stop)
    assert (result.error, result.metrics["step"]) == (None, 1)
    assert standing_of(read_run(run_of_loop(tmp_path))).name == INTERRUPTED_RUN


def test_a_training_with_a_gpu_needs_a_trial_with_a_gpu():
    def asks(config):
        DataParallelTrainer(loop, scaling_config=ScalingConfig(use_gpu=True)).fit()

    (result,) = fit(asks, executor="inline")
    assert 'with_resources(function, {"gpu": 1})' in str(result.error)


def test_the_callback_is_made_in_a_trial():
    with pytest.raises(RuntimeError, match="must be made in a trial"):
        TuneReportCallback()
