"""report(), get_checkpoint() and get_context() inside a trial."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from kit import FakeDriver, Script, pull, reports_of, settle

from minitune.checkpoint import Checkpoint, matches
from minitune.context import get_context, get_gpu_ids, get_trial_dir, get_trial_id, get_trial_name, get_trial_resources
from minitune.resources import Allocation, BundleAllocation, GpuShare, Resources
from minitune.trainable import get_checkpoint, report

SCRIPTS = Path(__file__).with_name("scripts")


def in_trial(driver: FakeDriver, body: Any, **kwargs: Any) -> Any:
    """Call `body` in a trial; returns its value."""
    found: list[Any] = []
    actor = driver.start(lambda config: found.append(body()), **kwargs)
    reports_of(actor)
    return found[0]


# -- checkpoints -------------------------------------------------------------------------------------------------------


def test_each_report_of_a_function_says_which_checkpoint_came_with_it(driver: FakeDriver, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()

    def fn(config: dict[str, Any]) -> None:
        report({"i": 0})
        report({"i": 1}, checkpoint=Checkpoint(tmp_path / "source"))

    actor = driver.start(fn)
    seen = [pull(actor).metrics for _ in range(2)]
    assert [one["checkpoint_dir_name"] for one in seen] == [None, "checkpoint_000000"]
    assert ["should_checkpoint" in one for one in seen] == [False, True]


def test_the_source_of_a_checkpoint_may_go_or_change(driver: FakeDriver) -> None:
    contents: list[str] = []

    def fn(config: dict[str, Any]) -> None:
        directory = Path(get_context().get_trial_dir(), "model")  # inside the trial's own
        directory.mkdir()
        for i in range(2):
            (directory / "i").write_text(str(i))
            report({"i": i}, checkpoint=Checkpoint(directory))
        with tempfile.TemporaryDirectory() as temporary:
            Path(temporary, "i").write_text("2")
            report({"i": 2}, checkpoint=Checkpoint.from_directory(temporary))
        report({"i": 3}, checkpoint=Checkpoint.from_dict({"i": "3"}))
        contents.append(get_checkpoint().to_dict()["i"])

    actor = driver.start(fn)
    records = [pull(actor).checkpoint for _ in range(4)]
    reports_of(actor)
    trial_directory = driver.directory / "t_00000"
    assert [(trial_directory / one.directory / "i").read_text() for one in records[:3]] == ["0", "1", "2"]
    assert contents == ["3"]


def test_a_running_function_cannot_be_restored(driver: FakeDriver) -> None:
    actor = driver.start(lambda config: 1)
    pull(actor)
    with pytest.raises(RuntimeError, match="before its first train"):
        actor.restore(str(driver.directory), {})


def test_the_trials_own_directory_is_saved_without_its_checkpoints(driver: FakeDriver) -> None:
    def train(config: dict[str, Any]) -> None:
        for step in range(3):
            Path(get_context().get_trial_dir(), "model").write_text(str(step))
            report({"step": step}, checkpoint=Checkpoint(get_context().get_trial_dir()))

    actor = driver.start(train)
    reports = [pull(actor) for _ in range(3)]
    directory = driver.directory / "t_00000" / reports[-1].checkpoint.directory
    assert sorted(os.listdir(directory)) == ["model"]
    assert (directory / "model").read_text() == "2"


def test_a_vanished_checkpoint_is_an_error(driver: FakeDriver) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        driver.start(lambda config: 1).restore(str(driver.directory / "gone"), {})


def test_a_checkpoint_is_committed_before_the_report_crosses(driver: FakeDriver, tmp_path: Path) -> None:
    found: list[Any] = []

    def fn(config: dict[str, Any]) -> None:
        assert get_checkpoint() is None
        for i in range(2):
            source = tmp_path / f"source{i}"
            source.mkdir()
            (source / "weights").write_text(str(i))
            report({"x": i}, checkpoint=Checkpoint.from_directory(source))
            found.append(get_checkpoint())

    actor = driver.start(fn, next_checkpoint=3)
    assert settle(actor.save()) is None
    one = pull(actor)
    trial_directory = tmp_path / "t_00000"
    assert one.checkpoint.number == 3
    assert one.metrics["checkpoint_dir_name"] == "checkpoint_000003"
    assert matches(one.checkpoint, trial_directory)
    assert settle(actor.save()) == one.checkpoint
    two = pull(actor)
    pull(actor)
    assert two.checkpoint.number == 4
    assert [one.path for one in found] == [str(trial_directory / f"checkpoint_00000{n}") for n in (3, 4)]
    assert (tmp_path / "source0" / "weights").exists()  # copied, not moved
    assert sorted(os.listdir(trial_directory)) == ["checkpoint_000003", "checkpoint_000004"]


@pytest.mark.parametrize("checkpoint", ["some/path", 3])
def test_a_checkpoint_must_be_one(driver: FakeDriver, checkpoint: Any) -> None:
    actor = driver.start(lambda config: report({"x": 1}, checkpoint=checkpoint))
    with pytest.raises(TypeError, match="must be a Checkpoint"):
        pull(actor)


def test_a_checkpoint_without_directory_is_refused(driver: FakeDriver, tmp_path: Path) -> None:
    actor = driver.start(lambda config: report({"x": 1}, checkpoint=Checkpoint(tmp_path / "none")))
    with pytest.raises(FileNotFoundError):
        pull(actor)


# -- the arguments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metrics", [None, 3, [("a", 1)], "text"])
def test_metrics_must_be_a_dict(driver: FakeDriver, metrics: Any) -> None:
    actor = driver.start(lambda config: report(metrics))
    with pytest.raises(TypeError, match="must be a dict"):
        pull(actor)


def test_metrics_may_be_keywords(driver: FakeDriver) -> None:
    assert pull(driver.start(lambda config: report(loss=1))).metrics["loss"] == 1
    with pytest.raises(TypeError, match="unexpected keywords"):
        pull(driver.start(lambda config: report({"loss": 1}, acc=1), name="t_1"))
    ignored = driver.start(lambda config: report({"loss": 2}, checkpoint_dir_name="mine"), name="t_2")
    assert pull(ignored).metrics["loss"] == 2


# -- context -----------------------------------------------------------------------------------------------------------


def test_the_context_tells_about_the_trial(driver: FakeDriver, tmp_path: Path) -> None:
    bundle = BundleAllocation({"CPU": 2, "GPU": 1}, (GpuShare("3", 1.0),), {"CUDA_VISIBLE_DEVICES": "3"})

    def look() -> dict[str, Any]:
        context = get_context()
        storage = context.get_storage()
        return {
            "id": context.get_trial_id(),
            "name": context.get_trial_name(),
            "dir": context.get_trial_dir(),
            "experiment": context.get_experiment_name(),
            "cpus": context.get_trial_resources().required_resources["CPU"],
            "trial_path": storage.trial_fs_path,
            "env": context.get_bundles()[0].env["CUDA_VISIBLE_DEVICES"],
            "gpus": get_gpu_ids(),
            "seed": context.get_trial_seed(),
            "attempt": context.get_attempt(),
            "ranks": (context.get_world_size(), context.get_world_rank(), context.get_local_rank()),
        }

    directory = str(tmp_path / "t_00000")
    assert in_trial(driver, look, allocation=Allocation((bundle,), gpu_ids=("3",)), attempt=2) == {
        "id": "t_00000",
        "name": "fn_t_00000",
        "dir": directory,
        "experiment": "exp",
        "cpus": 2,
        "trial_path": directory,
        "env": "3",
        "gpus": [3],
        "seed": 17,
        "attempt": 2,
        "ranks": (1, 0, 0),
    }


def test_the_old_getters_forward(driver: FakeDriver) -> None:
    def look() -> Any:
        return get_trial_id(), get_trial_name(), get_trial_dir(), get_trial_resources()

    expected = ("t_00000", "fn_t_00000", str(driver.directory / "t_00000"), Resources([{"CPU": 2}]))
    assert in_trial(driver, look) == expected


def test_outside_of_trials_everything_warns_once_and_gives_none(script: Script) -> None:
    _, stderr = script.finish(script.start(SCRIPTS / "outside_of_a_trial.py"))
    lines = stderr.splitlines()
    assert len(lines) == 4
    assert all("outside of a trial" in line for line in lines)


def test_reporting_loads_no_heavy_module() -> None:
    script = "import sys, minitune.trainable.trial_actor; print(sorted({'cloudpickle', 'psutil', 'numpy', 'torch', "
    script += "'multiprocessing', 'socket', 'asyncio'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_a_forked_child_of_the_trial_does_not_report(script: Script) -> None:
    stdout = script.run(SCRIPTS / "forked_child.py")
    assert "'parent'" in stdout
    assert "'child'" not in stdout
