"""Checkpoint objects: directories by reference, their metadata, and the forms of older scripts."""

from __future__ import annotations

import copy
import errno
import gc
import os
import pickle
import stat
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from kit import Injured, SavedCounter, fit, make_socket

from minitune import Callback, Trial, report
from minitune.checkpoint import (
    DICT_CHECKPOINT_FILE,
    METADATA_FILE,
    Checkpoint,
    CheckpointRecord,
    _crc_after_zeros,
    commit_copy,
    commit_prepared,
    has_its_size,
    matches,
    temporary_directory,
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "source"
    (directory / "sub").mkdir(parents=True)
    (directory / "sub" / "weights").write_text("w")
    return directory


def test_it_is_a_directory_by_reference(source: Path) -> None:
    checkpoint = Checkpoint.from_directory(source)
    assert checkpoint.path == str(source)
    assert checkpoint.filesystem is None
    with checkpoint.as_directory() as directory:
        assert directory == str(source)
    assert (source / "sub" / "weights").exists()
    assert repr(checkpoint) == str(checkpoint) == f"Checkpoint(filesystem=local, path={source})"
    assert checkpoint == Checkpoint(str(source) + "/") == Checkpoint(f"file://{source}")
    assert len({checkpoint, Checkpoint(source)}) == 1
    assert checkpoint != Checkpoint(source / "sub")


def test_it_travels(source: Path) -> None:
    checkpoint = Checkpoint(source)
    for other in (pickle.loads(pickle.dumps(checkpoint)), copy.copy(checkpoint), copy.deepcopy(checkpoint)):
        assert (type(other), other.path) == (Checkpoint, str(source))


def test_a_relative_path_is_kept_absolute(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(source.parent)
    checkpoint = Checkpoint("source")
    monkeypatch.chdir("/")
    assert checkpoint.path == str(source)


def test_it_is_copied_to_where_one_says(source: Path, tmp_path: Path) -> None:
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


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    missing = Checkpoint(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="none"), missing.as_directory():
        pass
    with pytest.raises(FileNotFoundError, match="none"):
        missing.to_directory()
    assert missing.get_metadata() == {}


def test_metadata(source: Path) -> None:
    checkpoint = Checkpoint(source)
    assert checkpoint.get_metadata() == {}
    checkpoint.set_metadata({"epoch": 3, "tags": ["a"]})
    assert checkpoint.get_metadata() == {"epoch": 3, "tags": ["a"]}
    checkpoint.update_metadata({"epoch": 4, "loss": 0.5})
    assert checkpoint.get_metadata() == {"epoch": 4, "tags": ["a"], "loss": 0.5}
    checkpoint.set_metadata({"b": 1})
    assert (source / ".metadata.json").read_text() == '{"b": 1}'
    assert Checkpoint(checkpoint.to_directory()).get_metadata() == {"b": 1}


@pytest.mark.parametrize("path", [None, 3, b"x"])
def test_only_paths(path: Any) -> None:
    with pytest.raises(TypeError, match="path must be a directory's path"):
        Checkpoint(path)


def test_only_this_machine(source: Path) -> None:
    class FileSystem:
        type_name = "local"

    assert Checkpoint(source, FileSystem()).path == str(source)
    with pytest.raises(ValueError, match="'s3'"):
        Checkpoint(source, "s3")
    with pytest.raises(ValueError, match=r"'s3://bucket/x'.*mount"):
        Checkpoint("s3://bucket/x")


def test_it_is_the_path_of_its_directory(source: Path) -> None:
    checkpoint = Checkpoint(source)
    assert os.path.join(checkpoint, "a") == os.path.join(source, "a")
    assert os.fspath(checkpoint) == checkpoint.value == checkpoint.path == str(source)
    assert checkpoint.to_air_checkpoint() is checkpoint


@pytest.mark.parametrize(
    "name", ["from_bytes", "to_bytes", "from_uri", "to_uri", "uri", "set_preprocessor", "get_internal_representation"]
)
def test_a_method_of_older_versions_says_what_to_do(source: Path, name: str) -> None:
    for holder in (Checkpoint, Checkpoint(source)):
        assert not hasattr(holder, name)
        with pytest.raises(AttributeError, match=rf"Checkpoint\.{name} is gone: .*directory"):
            getattr(holder, name)


def test_a_dict_lives_as_long_as_its_checkpoint() -> None:
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


def test_only_a_dict_is_one(source: Path) -> None:
    with pytest.raises(TypeError, match="but got list"):
        Checkpoint.from_dict([1])  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="is not a dict"):
        Checkpoint(source).to_dict()


# -- what a directory may hold --------------------------------------------------------------------------------------


def commit(source: Path, tmp_path: Path, number: int = 0) -> tuple[CheckpointRecord, Path]:
    trial = tmp_path / "run" / "trial"
    trial.mkdir(parents=True, exist_ok=True)
    return commit_copy(source, trial, number, attempt=1), trial


def test_checkpoints_that_are_removed_meanwhile_do_not_matter_to_a_copy_of_the_trials_directory(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def special_file(kind: str, path: Path) -> None:
    """A FIFO or a socket, or a device, which only an administrator can make."""
    if kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a socket":
        make_socket(path)
    else:
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero, which has no end
        except PermissionError:
            pytest.skip("only an administrator can make a device")


@pytest.mark.parametrize("kind", ["a FIFO", "a socket", "a device"])
def test_anything_but_files_directories_and_links_is_refused_by_name(source: Path, tmp_path: Path, kind: str) -> None:
    record, trial = commit(source, tmp_path)
    special_file(kind, source / "sub" / "odd")
    refusal = f"must consist of files, directories and links, but {source}/sub/odd is {kind}; leave it out"

    with pytest.raises(ValueError, match=refusal):
        commit(source, tmp_path, number=1)
    with pytest.raises(ValueError, match=refusal):
        Checkpoint(source).to_directory(tmp_path / "copy")
    prepared = temporary_directory(trial, 2, attempt=1)
    special_file(kind, Path(prepared) / "odd")
    with pytest.raises(ValueError, match=f"{prepared}/odd is {kind}"):
        commit_prepared(prepared, trial, 2)
    assert not (tmp_path / "copy").exists()
    assert sorted(os.listdir(trial)) == [os.path.basename(prepared), "checkpoint_000000"]

    special_file(kind, trial / "checkpoint_000000" / "odd")  # to look at it does not block, either
    assert not matches(record, trial)
    assert not has_its_size(record, trial)


def test_a_fifo_in_the_place_of_our_own_files_is_not_waited_for(source: Path) -> None:
    for name in (METADATA_FILE, DICT_CHECKPOINT_FILE):
        os.mkfifo(source / name)
    for read in (Checkpoint(source).get_metadata, Checkpoint(source).to_dict):
        with pytest.raises(OSError, match="is a FIFO, but it must be a regular file"):
            read()


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the blocks that files take up on Linux")
def test_holes_stay_holes_and_are_not_read(source: Path, tmp_path: Path) -> None:
    sizes = {"only a hole": 1 << 40, "begins with one": (1 << 38) + 5, "ends with one": 1 << 39}
    for name, size in sizes.items():
        with (source / name).open("wb") as file:
            if name != "only a hole":
                file.seek(size - 5 if name == "begins with one" else 0)
                file.write(b"12345")
            file.truncate(size)

    record, trial = commit(source, tmp_path)

    assert record.total_bytes == sum(sizes.values()) + 1
    assert matches(record, trial)
    copy = Checkpoint(trial / record.directory).to_directory(tmp_path / "copy")
    for directory in (str(trial / record.directory), copy):
        for name, size in sizes.items():
            found = os.stat(os.path.join(directory, name))
            assert found.st_size == size
            assert found.st_blocks < 1000
        with open(os.path.join(directory, "begins with one"), "rb") as file:
            file.seek(-10, os.SEEK_END)
            assert file.read() == bytes(5) + b"12345"
    with (trial / record.directory / "ends with one").open("r+b") as file:
        file.seek(1 << 38)
        file.write(b"x")
    assert not matches(record, trial), "what lies in a hole counts"


@pytest.mark.parametrize("count", [0, 1, 2, 255, 4096, 1_000_003])
def test_zeros_that_are_not_read_have_the_checksum_of_those_that_are(count: int) -> None:
    for begin in (b"", b"x", b"\0\0", os.urandom(100)):
        assert _crc_after_zeros(zlib.crc32(begin), count) == zlib.crc32(begin + bytes(count))


def test_a_file_with_holes_has_the_record_of_the_same_file_without(source: Path, tmp_path: Path) -> None:
    content = bytes(300_000) + b"x" + bytes(700_000) + b"y" + bytes(100_000)
    (source / "weights").write_bytes(content)
    whole, _ = commit(source, tmp_path)
    with (source / "weights").open("wb") as file:
        for place in (300_000, 1_000_001):
            file.seek(place)
            file.write(content[place : place + 1])
        file.truncate(len(content))
    sparse, trial = commit(source, tmp_path, number=1)

    assert (trial / sparse.directory / "weights").read_bytes() == content
    assert sparse.listing_crc == whole.listing_crc


# -- as they are kept -------------------------------------------------------------------------------------------------


def test_a_copy_has_the_modes_of_its_source(source: Path, tmp_path: Path) -> None:
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

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    def note(self, trial: Trial, **info: Any) -> None:
        self.seen.append(sorted(os.listdir(trial.local_path)))

    on_trial_recover = on_trial_error = note

    def left_over(self) -> list[str]:
        return [name for names in self.seen for name in names if name.startswith((".tmp", "checkpoint_"))]


FULL = OSError(errno.ENOSPC, "No space left on device")


def test_a_copy_that_fails_leaves_nothing_behind(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full after the first file; at the next attempt there is space again."""
    monkeypatch.setattr(os, "fchmod", Injured(os.fchmod, FULL, at=[2]))
    (source / "more").write_text("m")

    def trainable(config: dict[str, Any]) -> None:
        report({"n": 1}, checkpoint=Checkpoint(source))

    failures = Failures()
    (result,) = fit(trainable, max_failures=1, callbacks=[failures])
    assert result.error is None
    assert len(failures.seen) == 1
    assert failures.left_over() == []
    assert "No space left" in Path(result.path, "error.txt").read_text()


def test_a_save_that_fails_leaves_nothing_behind() -> None:
    class Saves(SavedCounter):
        def save_checkpoint(self, checkpoint_dir: str) -> None:  # type: ignore[override]  # files of its own
            Path(checkpoint_dir, "half").touch()
            raise FULL

    failures = Failures()
    (result,) = fit(Saves, {"end": 2}, callbacks=[failures])
    assert "No space left" in str(result.error)
    assert len(failures.seen) == 1
    assert failures.left_over() == []
