"""Checkpoint objects: directories by reference, their metadata, and the forms of older scripts."""

import copy
import errno
import gc
import os
import pickle
import shutil
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from kit import Injured, SavedCounter, fit, raiser

from minitune import Callback, report
from minitune.checkpoint import (
    METADATA_FILE,
    Checkpoint,
    commit_copy,
    commit_prepared,
    matches,
    prepared,
    temporary_directory,
    written_by_us,
)
from minitune.error import DiskError


@pytest.fixture
def source(tmp_path):
    directory = tmp_path / "source"
    (directory / "sub").mkdir(parents=True)
    (directory / "sub" / "weights").write_text("w")
    return directory


def test_checkpoint_refers_to_its_directory(source):
    checkpoint = Checkpoint.from_directory(source)
    assert checkpoint.path == os.fspath(checkpoint) == checkpoint.value == str(source)
    assert os.path.join(checkpoint, "a") == os.path.join(source, "a")
    assert checkpoint.to_air_checkpoint() is checkpoint
    assert checkpoint.filesystem is None
    with checkpoint.as_directory() as directory:
        assert directory == str(source)
    assert (source / "sub" / "weights").exists()
    assert repr(checkpoint) == str(checkpoint) == f"Checkpoint(filesystem=local, path={source})"
    assert checkpoint == Checkpoint(str(source) + "/") == Checkpoint(f"file://{source}")
    assert len({checkpoint, Checkpoint(source)}) == 1
    assert checkpoint != Checkpoint(source / "sub")


def test_checkpoint_can_be_pickled_and_copied(source):
    checkpoint = Checkpoint(source)
    for other in (pickle.loads(pickle.dumps(checkpoint)), copy.copy(checkpoint), copy.deepcopy(checkpoint)):
        assert (type(other), other.path) == (Checkpoint, str(source))


def test_a_relative_path_is_kept_absolute(source, monkeypatch):
    monkeypatch.chdir(source.parent)
    checkpoint = Checkpoint("source")
    monkeypatch.chdir("/")
    assert checkpoint.path == str(source)


def test_checkpoint_is_copied_to_a_given_path(source, tmp_path):
    checkpoint = Checkpoint(source)
    target = tmp_path / "a" / "b"
    assert checkpoint.to_directory(target) == str(target)
    assert (target / "sub" / "weights").read_text() == "w"
    (target / "more").write_text("m")
    assert checkpoint.to_directory(str(target)) == str(target)  # what is there stays
    assert sorted(os.listdir(target)) == ["more", "sub"]
    temporary = checkpoint.to_directory()
    assert temporary != str(source)
    assert os.listdir(temporary) == ["sub"]


def test_a_copy_into_the_same_place_has_the_content_of_the_last_one(tmp_path):
    first, second, target, outside = (tmp_path / name for name in ("first", "second", "target", "outside"))
    for directory in (first, second, outside):
        directory.mkdir()
        (directory / "weights").write_text(directory.name)
    (first / "weights").chmod(0o444)
    (first / "latest").symlink_to("weights")
    (second / "latest").symlink_to("../second")
    (first / "was a file").touch()
    (second / "was a file").mkdir()
    (second / "was a file" / "x").touch()
    for checkpoint in (first, first, second):
        Checkpoint(checkpoint).to_directory(target)
        assert (target / "weights").read_text() == checkpoint.name
    assert os.readlink(target / "latest") == "../second"
    assert (target / "was a file" / "x").exists()


def test_a_copy_does_not_write_to_what_links_in_the_target_name(source, tmp_path):
    (source / "weights").write_text("new")
    (source / "link").symlink_to("weights")
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("weights", "other"):
        (outside / name).write_text("old")
    target = tmp_path / "target"
    target.mkdir()
    (target / "sub").symlink_to(outside)
    (target / "weights").symlink_to(outside / "weights")
    (target / "link").symlink_to(outside / "nowhere")
    (target / "alike").hardlink_to(outside / "other")
    (source / "alike").write_text("new")
    Checkpoint(source).to_directory(target)
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"weights": "old", "other": "old"}
    assert (target / "weights").read_text() == (target / "link").read_text() == (target / "alike").read_text() == "new"
    assert [path.name for path in target.iterdir() if path.is_symlink()] == ["link"]


def test_a_copy_of_a_checkpoint_to_its_own_place_changes_nothing(source, tmp_path):
    (tmp_path / "link").symlink_to(source)
    for target in (source, tmp_path / "link"):
        Checkpoint(source).to_directory(target)
        assert (source / "sub" / "weights").read_text() == "w"


def test_a_copy_removes_no_directory_of_the_user(source, tmp_path):
    (tmp_path / "target" / "sub" / "weights").mkdir(parents=True)
    with pytest.raises(IsADirectoryError, match="sub/weights"):
        Checkpoint(source).to_directory(tmp_path / "target")


def test_a_temporary_copy_that_fails_leaves_nothing(source, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("minitune.checkpoint._copy_file", raiser(OSError(errno.ENOSPC, "full")))
    before = os.listdir(tmp_path)
    with pytest.raises(OSError, match="full"):
        Checkpoint(source).to_directory()
    assert os.listdir(tmp_path) == before


def test_a_missing_directory_is_named(tmp_path):
    missing = Checkpoint(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="none"), missing.as_directory():
        pass
    with pytest.raises(FileNotFoundError, match="none"):
        missing.to_directory()
    assert missing.get_metadata() == {}


def test_metadata_is_written_beside_the_checkpoint(source):
    checkpoint = Checkpoint(source)
    assert checkpoint.get_metadata() == {}
    checkpoint.set_metadata({"epoch": 3, "tags": ["a"]})
    assert checkpoint.get_metadata() == {"epoch": 3, "tags": ["a"]}
    checkpoint.update_metadata({"epoch": 4, "loss": 0.5})
    assert checkpoint.get_metadata() == {"epoch": 4, "tags": ["a"], "loss": 0.5}
    checkpoint.set_metadata({"b": 1})
    assert (source / ".metadata.json").read_text() == '{"b": 1}'
    assert Checkpoint(checkpoint.to_directory()).get_metadata() == {"b": 1}


def test_metadata_that_json_cannot_hold_changes_nothing(source):
    checkpoint = Checkpoint(source)
    checkpoint.set_metadata({"a": 1})
    for change in (checkpoint.set_metadata, checkpoint.update_metadata):
        for bad in ([("a", 1), 2], None, {"a": {1, 2}}):
            with pytest.raises(TypeError, match=r"metadata must be a dict of what JSON can hold, but got "):
                change(bad)
    with pytest.raises(TypeError, match="metadata must be a dict"):
        checkpoint.update_metadata([("b", 2)])
    assert checkpoint.get_metadata() == {"a": 1}
    assert sorted(os.listdir(source)) == [METADATA_FILE, "sub"]


def test_a_checkpoint_is_on_this_machine_and_compared_by_its_path_alone(source):
    class FileSystem:
        type_name = "local"

    local = FileSystem()
    checkpoint = Checkpoint(source, local)
    assert (checkpoint.filesystem, checkpoint.path) == (local, str(source))
    assert checkpoint == Checkpoint(source)
    assert (checkpoint == str(source), checkpoint == source, checkpoint is None) == (False, False, False)


def test_a_dict_lives_as_long_as_its_checkpoint():
    checkpoint = Checkpoint.from_dict({"step": 3, "state": {"w": [1.0]}})
    path = checkpoint.path
    copied = copy.deepcopy(checkpoint)
    assert checkpoint.to_dict() == copied.to_dict() == {"step": 3, "state": {"w": [1.0]}}
    del checkpoint
    gc.collect()
    assert copied.to_dict()["step"] == 3
    del copied
    gc.collect()
    assert not os.path.exists(path)


def test_a_directory_is_no_dict(source):
    with pytest.raises(AttributeError, match="is not a dict"):
        Checkpoint(source).to_dict()


def test_a_forked_child_does_not_remove_the_files_of_a_dict():
    checkpoint = Checkpoint.from_dict({"step": 3})
    child = os.fork()
    if child == 0:
        del checkpoint
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert checkpoint.to_dict() == {"step": 3}


# -- what a directory may hold --------------------------------------------------------------------------------------


def commit(source, tmp_path, number=0):
    trial = tmp_path / "run" / "trial"
    trial.mkdir(parents=True, exist_ok=True)
    return commit_copy(source, trial, number, attempt=1), trial


def test_trial_directory_is_copied_while_checkpoints_are_removed(source, tmp_path, monkeypatch):
    _, trial = commit(source, tmp_path)
    (trial / "checkpoint_000000").rename(trial / ".tmp-000000-0")  # as the driver does before it removes one
    (trial / "own").mkdir()
    (trial / "own" / "checkpoint_000000").mkdir()
    (trial / "own" / "file").write_text("1")
    gone = FileNotFoundError(errno.ENOENT, "removed by now")
    monkeypatch.setattr(os, "scandir", Injured(os.scandir, gone, where=lambda path: ".tmp-000000-0" in str(path)))

    commit_copy(trial, trial, 1, attempt=1)

    copied = trial / "checkpoint_000001"
    assert sorted(str(path.relative_to(copied)) for path in copied.rglob("*")) == [
        "own",
        "own/checkpoint_000000",
        "own/file",
    ]


def test_a_committed_checkpoint_is_recorded_with_its_files_and_bytes(source, tmp_path):
    (source / "more").write_bytes(bytes(41))
    (source / "link").symlink_to("more")
    (source / "sub" / "empty").mkdir()
    record, trial = commit(source, tmp_path, number=1_234_567)
    assert (record.number, record.file_count, record.total_bytes) == (1_234_567, 3, 42)
    assert record.directory == "checkpoint_1234567"
    assert sorted(os.listdir(trial / record.directory)) == ["link", "more", "sub"]
    assert os.listdir(trial / record.directory / "sub" / "empty") == []
    directory = temporary_directory(trial, 7, attempt=1)
    shutil.copytree(source, directory, symlinks=True, dirs_exist_ok=True)
    again = commit_prepared(directory, trial, 7)
    assert again == replace(record, number=7)
    assert matches(again, trial)
    assert not matches(replace(again, number=8), trial)


def test_a_checkpoint_is_prepared_in_an_empty_directory_of_its_attempt(tmp_path):
    first = Path(temporary_directory(tmp_path, 3, attempt=2))
    assert first == tmp_path / ".tmp-000003-2"
    (first / "left over").touch()
    assert temporary_directory(tmp_path, 3, attempt=2) == str(first)
    assert os.listdir(first) == []
    assert temporary_directory(tmp_path, 3, attempt=1) == str(tmp_path / ".tmp-000003-1")
    with pytest.raises(FileNotFoundError):
        temporary_directory(tmp_path / "removed", 0, attempt=1)
    assert not (tmp_path / "removed").exists()


def test_a_reported_directory_that_is_gone_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the reported checkpoint's directory '.*/none' does not exist$"):
        commit(tmp_path / "none", tmp_path)
    with pytest.raises(
        FileNotFoundError, match=r"does not exist; a directory of checkpoint_dir\(\) is renamed when it"
    ):
        commit(tmp_path / ".tmp-000000-1", tmp_path)
    assert os.listdir(tmp_path / "run" / "trial") == []


def test_anything_but_files_directories_and_links_is_refused(source, tmp_path):
    record, trial = commit(source, tmp_path)
    os.mkfifo(source / "sub" / "odd")
    refusal = f"must consist of files, directories and links, but {source}/sub/odd is none of them; leave it out"

    with pytest.raises(ValueError, match=refusal):
        commit(source, tmp_path, number=1)
    with pytest.raises(ValueError, match=refusal):
        Checkpoint(source).to_directory(tmp_path / "copy")
    directory = temporary_directory(trial, 2, attempt=1)
    os.mkfifo(Path(directory) / "odd")
    with pytest.raises(ValueError, match=f"{directory}/odd is none"):
        commit_prepared(directory, trial, 2)
    assert not (tmp_path / "copy").exists()
    assert sorted(os.listdir(trial)) == [os.path.basename(directory), "checkpoint_000000"]

    os.mkfifo(trial / "checkpoint_000000" / "odd")
    assert not matches(record, trial)


@pytest.mark.parametrize(
    ("damage", "still_matches"),
    [
        (lambda sub: (sub / "weights").unlink(), False),
        (lambda sub: os.truncate(sub / "weights", 0), False),
        (lambda sub: (sub / "weights").rename(sub / "other"), False),
        (lambda sub: (sub / "more").touch(), False),
        (shutil.rmtree, False),
        (lambda sub: (sub / "weights").write_text("x"), True),
    ],
    ids=["removed", "shortened", "renamed", "added", "the directory removed", "other content"],
)
def test_names_and_sizes_are_the_manifest(source, tmp_path, damage, still_matches):
    record, trial = commit(source, tmp_path)
    assert matches(record, trial)

    damage(trial / record.directory / "sub")

    assert matches(record, trial) == still_matches


# -- as they are kept -------------------------------------------------------------------------------------------------


def test_a_copy_has_the_modes_of_its_source(source, tmp_path):
    """The user chooses who else may read a model, and whether a script in it can be run.

    But the owner can remove each directory of the copy.
    """
    (source / "sub" / "weights").chmod(0o600)
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "read_only").touch(mode=0o444)
    (source / "sub").chmod(0o555)
    trial = tmp_path / "trial"
    trial.mkdir()
    try:
        copy = trial / commit_copy(source, trial, 0, 1).directory
    finally:
        (source / "sub").chmod(0o755)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in copy.rglob("*") if path.is_file()}
    assert modes == {"weights": 0o600, "run.sh": 0o755, "read_only": 0o444}
    assert stat.S_IMODE((copy / "sub").stat().st_mode) & stat.S_IRWXU == stat.S_IRWXU


class Failures(Callback):
    """Notes what is in a trial's directory when it has failed."""

    def __init__(self):
        self.seen = []

    def note(self, trial, **info):
        self.seen.append(sorted(os.listdir(trial.local_path)))

    on_trial_recover = on_trial_error = note

    def left_over(self):
        return [name for names in self.seen for name in names if name.startswith((".tmp", "checkpoint_"))]


FULL = OSError(errno.ENOSPC, "No space left on device")
BROKEN = OSError(errno.EIO, "Input/output error")


def test_a_copy_that_fails_leaves_nothing_behind(source, monkeypatch):
    """The second file cannot be read; at the next attempt it can."""
    monkeypatch.setattr(os, "chmod", Injured(os.chmod, BROKEN, at=[2]))
    (source / "more").write_text("m")

    def trainable(config):
        report({"n": 1}, checkpoint=Checkpoint(source))

    failures = Failures()
    (result,) = fit(trainable, max_failures=1, callbacks=[failures])
    assert result.error is None
    assert len(failures.seen) == 1
    assert failures.left_over() == []
    assert "Input/output error" in Path(result.path, "error.txt").read_text()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_copy_refused_by_the_disk_is_an_error_of_the_run(number, source, tmp_path, monkeypatch):
    trial = tmp_path / "trial"
    trial.mkdir()
    monkeypatch.setattr(os, "chmod", Injured(os.chmod, OSError(number, os.strerror(number)), at=[1]))
    with pytest.raises(DiskError, match=os.strerror(number)) as caught:
        commit_copy(source, trial, 0, 1)
    assert caught.value.run_path == str(tmp_path)
    assert list(trial.iterdir()) == []


def test_a_save_that_fails_leaves_nothing_behind():
    class Saves(SavedCounter):
        def save_checkpoint(self, checkpoint_dir):
            Path(checkpoint_dir, "half").touch()
            raise FULL

    failures = Failures()
    (result,) = fit(Saves, {"end": 2}, callbacks=[failures])
    assert "No space left" in str(result.error)
    assert len(failures.seen) == 1
    assert failures.left_over() == []


@pytest.mark.parametrize("is_full", [False, True])
def test_an_error_of_the_disk_ends_the_run_if_the_disk_refuses_us_too(tmp_path, monkeypatch, is_full):
    trial = tmp_path / "trial"
    trial.mkdir()
    if is_full:
        monkeypatch.setattr(os, "urandom", Injured(os.urandom, FULL, where=lambda size: size > 100))  # a block
    with pytest.raises((OSError, DiskError), match="No space left") as caught, prepared(trial, 0, 1):
        raise FULL
    assert isinstance(caught.value, DiskError) == is_full
    assert (caught.value.__cause__ if is_full else caught.value) is FULL
    assert os.listdir(trial) == []


def test_an_error_that_says_nothing_of_the_disk_stays_as_it_is(tmp_path):
    for error in (BROKEN, PermissionError(errno.EACCES, "Permission denied")):
        with pytest.raises(OSError, match=error.strerror) as caught, written_by_us(str(tmp_path / "trial")):
            raise error
        assert caught.value is error
