"""A directory of `checkpoint_dir` is renamed when it is reported, so a large checkpoint costs no copy."""

import os
from pathlib import Path

import pytest
from kit import Checkpoint, fit, journal_of

import minitune as tune


def fill(directory, text="weights"):
    """Write a file, and return the number that tells whether it is still the same file later."""
    path = Path(directory, "weights")
    path.write_text(text)
    return path.stat().st_ino


def inode_in(checkpoint):
    return Path(checkpoint.path, "weights").stat().st_ino


def committed(result):
    """The checkpoints in a trial's directory, and what is left of others."""
    return sorted(name for name in os.listdir(result.path) if name.startswith(("checkpoint", ".tmp")))


def recorded():
    """The numbers of the checkpoints that the journal names, in order."""
    found = [record.get("checkpoint") for record in journal_of() if record["type"] in ("result", "checkpoint")]
    return [checkpoint["number"] for checkpoint in found if checkpoint]


@pytest.mark.parametrize(
    ("reports_within", "names_it", "executor"),
    [(True, True, "inline"), (True, True, "local"), (False, True, "inline"), (False, False, "inline")],
)
def test_a_report_in_the_block_or_after_it_renames_the_directory(reports_within, names_it, executor):
    def train(config):
        for n in range(3):
            with tune.checkpoint_dir() as directory:
                inode = fill(directory, str(n))
                if reports_within:
                    tune.report({"inode": inode}, checkpoint=Checkpoint(directory))
                    assert not os.path.exists(directory)
                    assert inode_in(tune.get_checkpoint()) == inode
            if not reports_within:
                tune.report({"inode": inode}, checkpoint=Checkpoint(directory) if names_it else None)

    [result] = fit(train, executor=executor)
    assert result.error is None
    assert committed(result) == ["checkpoint_000000", "checkpoint_000001", "checkpoint_000002"]
    assert inode_in(result.checkpoint) == result.metrics["inode"]
    assert recorded() == [0, 1, 2]


def test_the_directory_is_on_the_file_system_of_the_run(tmp_path, monkeypatch):
    places = [path for path in (Path("/dev/shm"), Path("/var/tmp")) if os.access(path, os.W_OK)]
    others = [path for path in places if path.stat().st_dev != tmp_path.stat().st_dev]
    if not others:
        pytest.skip("temporary files cannot be on another file system than the run here")
    monkeypatch.setenv("TMPDIR", str(others[0]))

    def train(config):
        with tune.checkpoint_dir() as directory:
            inode = fill(directory)
            tune.report({"inode": inode, "device": os.stat(directory).st_dev}, checkpoint=Checkpoint(directory))

    [result] = fit(train, executor="local")
    assert result.metrics["device"] == os.stat(result.path).st_dev
    assert inode_in(result.checkpoint) == result.metrics["inode"]


def test_a_checkpoint_stays_when_its_report_stops_the_trial_or_the_block_fails_afterwards():
    def train(config):
        start = tune.get_checkpoint()
        n = 0 if start is None else int(Path(start.path, "weights").read_text()) + 1
        while True:
            with tune.checkpoint_dir() as directory:
                fill(directory, str(n))
                tune.report({"n": n}, checkpoint=Checkpoint(directory))
                if n == 1:
                    raise RuntimeError("after the report")
            n += 1

    [result] = fit(train, executor="local", stop={"n": 3}, failure_config=tune.FailureConfig(max_failures=1))
    assert result.error is None
    assert committed(result) == [f"checkpoint_00000{n}" for n in range(4)]
    assert result.metrics["training_iteration"] == 4
    assert Path(result.checkpoint.path, "weights").read_text() == "3"


def test_a_block_that_fails_before_its_report_leaves_nothing():
    def train(config):
        try:
            with tune.checkpoint_dir() as directory:
                fill(directory)
                tune.report(5, checkpoint=Checkpoint(directory))
        except TypeError:
            pass
        tune.report({"left": sorted(os.listdir(tune.get_context().get_trial_dir()))})

    [result] = fit(train, executor="inline")
    assert [name for name in result.metrics["left"] if "checkpoint" in name or name.startswith(".tmp-0")] == []
    assert result.checkpoint is None


def test_numbers_grow_in_the_order_of_reports(tmp_path):
    fill(str(tmp_path), "first")

    def train(config):
        with tune.checkpoint_dir() as directory:
            fill(directory, "second")
            tune.report({"n": 1}, checkpoint=Checkpoint(tmp_path))
            tune.report({"n": 2}, checkpoint=Checkpoint(directory))
        with tune.checkpoint_dir() as directory:
            fill(directory, "third")
        tune.report({"n": 3})

    [result] = fit(train, executor="inline")
    assert recorded() == sorted(recorded())
    texts = [Path(checkpoint.path, "weights").read_text() for checkpoint, _ in result.best_checkpoints]
    assert texts == ["first", "second", "third"]
    assert len(committed(result)) == 3


def test_a_checkpoint_directory_can_be_reported_once():
    def train(config):
        with tune.checkpoint_dir() as directory:
            fill(directory)
            tune.report({"n": 1}, checkpoint=Checkpoint(directory))
            with pytest.raises(FileNotFoundError, match=r"is renamed when it is reported, so it can be reported once"):
                tune.report({"n": 2}, checkpoint=Checkpoint(directory))

    [result] = fit(train, executor="inline")
    assert result.error is None
    assert committed(result) == ["checkpoint_000000"]


def test_a_directory_with_a_pipe_is_refused_and_removed():
    def train(config):
        with tune.checkpoint_dir() as directory:
            os.mkfifo(os.path.join(directory, "pipe"))
            tune.report({"n": 1}, checkpoint=Checkpoint(directory))

    [result] = fit(train, executor="inline")
    assert "must consist of files" in str(result.error)
    assert committed(result) == []


def test_a_trial_that_has_to_stop_begins_no_checkpoint():
    begun = []

    def train(config):
        try:
            for n in range(9):
                tune.report({"n": n})
        finally:
            with tune.checkpoint_dir() as directory:
                begun.append(directory)

    [result] = fit(train, stop={"n": 1})
    assert (result.metrics["n"], begun, committed(result)) == (1, [], [])


def test_a_report_with_another_checkpoint_keeps_the_one_that_waits_for_a_report(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "weights").write_text("other")

    def train(config):
        tune.report({"n": 0})
        with tune.checkpoint_dir() as directory:
            fill(directory)
        tune.report({"n": 1}, checkpoint=Checkpoint(tmp_path / "other"))

    [result] = fit(train)
    assert (result.error, recorded(), committed(result)) == (None, [0, 1], ["checkpoint_000000", "checkpoint_000001"])
