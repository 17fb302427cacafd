"""report(), get_checkpoint() and get_context() inside a trial."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from kit import pull, reports_of, settle

from minitune.checkpoint import Checkpoint, matches
from minitune.train import CheckpointUploadMode
from minitune.trainable import get_checkpoint, report
from minitune.trainable.context import get_context
from minitune.trainable.session import checkpoint_dir

SCRIPTS = Path(__file__).with_name("scripts")


# -- checkpoints -------------------------------------------------------------------------------------------------------


def test_the_source_of_a_checkpoint_may_go_or_change(driver):
    contents = []

    def fn(config):
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


def test_only_a_report_of_a_returned_value_says_so(driver):
    def fn(config):
        report({"x": 1})
        return 2

    assert [one.has_returned for one in reports_of(driver.start(fn))] == [False, True, False]


def test_the_trials_own_directory_is_saved_without_its_checkpoints(driver):
    def train(config):
        for step in range(3):
            Path(get_context().get_trial_dir(), "model").write_text(str(step))
            report({"step": step}, checkpoint=Checkpoint(get_context().get_trial_dir()))

    actor = driver.start(train)
    reports = [pull(actor) for _ in range(3)]
    directory = driver.directory / "t_00000" / reports[-1].checkpoint.directory
    assert sorted(os.listdir(directory)) == ["model"]
    assert (directory / "model").read_text() == "2"


def test_a_vanished_checkpoint_or_a_running_function_cannot_be_restored(driver):
    actor = driver.start(lambda config: 1)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        actor.restore(str(driver.directory / "gone"), {})
    pull(actor)
    with pytest.raises(RuntimeError, match="before its first train"):
        actor.restore(str(driver.directory), {})


def test_a_checkpoint_is_committed_before_the_report_crosses(driver, tmp_path):
    found = []

    def fn(config):
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


def test_checkpoints_that_wait_for_a_report_are_recorded_in_their_order(driver):
    found = []

    def fn(config):
        for _ in range(2):
            with checkpoint_dir() as directory:
                Path(directory, "weights").touch()
            found.append(os.path.basename(get_checkpoint().path))
        report({"x": 1})
        with checkpoint_dir():
            pass

    actor = driver.start(fn)
    first = pull(actor)
    assert settle(actor.save()).number == 0
    assert (first.metrics, first.checkpoint.number) == (None, 0)
    second = pull(actor)
    assert (second.metrics["x"], second.checkpoint.number) == (1, 1)
    assert found == ["checkpoint_000000", "checkpoint_000001"]
    last = pull(actor)
    assert (last.metrics, last.checkpoint.number, last.done) == (None, 2, False)
    assert pull(actor).done


def test_the_users_directory_stays_also_with_arguments_of_ray_train(driver, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "weights").write_text("w")
    options = {"checkpoint_upload_mode": CheckpointUploadMode.ASYNC, "delete_local_checkpoint_after_upload": True}

    def fn(config):
        report({"x": 1}, checkpoint=Checkpoint(tmp_path / "mine"), checkpoint_dir_name="at_1", **options)
        report({"x": 2}, **options)

    actor = driver.start(fn)
    record = pull(actor).checkpoint
    assert pull(actor).checkpoint is None
    for directory in (tmp_path / "mine", tmp_path / "t_00000" / record.directory):
        assert (directory / "weights").read_text() == "w"


def test_a_checkpoint_without_directory_is_refused(driver, tmp_path):
    actor = driver.start(lambda config: report({"x": 1}, checkpoint=Checkpoint(tmp_path / "none")))
    with pytest.raises(FileNotFoundError):
        pull(actor)


# -- the arguments -----------------------------------------------------------------------------------------------------


def test_metrics_may_be_keywords_which_are_told_to_be_old(driver, caplog):
    assert pull(driver.start(lambda config: report(loss=1))).metrics["loss"] == 1
    assert "report(loss=...) is deprecated" in caplog.text
    for number, metrics in enumerate(({"loss": 1}, {})):
        with pytest.raises(TypeError, match="unexpected keywords"):
            pull(driver.start(lambda config, metrics=metrics: report(metrics, acc=1), name=f"t_1{number}"))


# -- context -----------------------------------------------------------------------------------------------------------


def test_a_program_saves_in_the_directory_that_it_was_given(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITUNE_PROGRAM", "1")
    monkeypatch.delenv("MINITUNE_CHECKPOINT_DIR", raising=False)
    assert get_checkpoint() is None
    monkeypatch.setenv("MINITUNE_CHECKPOINT_DIR", str(tmp_path / "mine"))
    assert get_checkpoint() is None, "it does not exist"
    (tmp_path / "mine").mkdir()
    assert get_checkpoint() is None, "it is empty"
    (tmp_path / "mine" / "weights").touch()
    assert get_checkpoint() == Checkpoint(tmp_path / "mine")
    with pytest.raises(ValueError, match=r"saves its checkpoint in the directory .MINITUNE_CHECKPOINT_DIR"):
        report({"x": 1}, checkpoint=Checkpoint(tmp_path))


def test_reporting_loads_no_heavy_module():
    script = "import sys, minitune.trainable.trial_actor; print(sorted({'cloudpickle', 'psutil', 'numpy', 'torch', "
    script += "'multiprocessing', 'socket', 'asyncio'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_a_forked_child_of_the_trial_does_not_report(script):
    stdout = script.run(SCRIPTS / "forked_child.py")
    assert "'parent'" in stdout
    assert "'child'" not in stdout
