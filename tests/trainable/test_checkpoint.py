"""Checkpoint objects: directories by reference, their metadata, and what older scripts do with them."""

from __future__ import annotations

import copy
import errno
import gc
import os
import pickle
import stat
from pathlib import Path
from typing import Any

import pytest
from kit import Injured, SavedCounter, fit

from minitune import Callback, Trial, report
from minitune.checkpoint import Checkpoint, commit_copy


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


def test_what_is_gone_is_named(tmp_path: Path) -> None:
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


def test_it_is_no_path(source: Path) -> None:
    for use in (os.fspath, os.listdir, open):
        with pytest.raises(TypeError, match="as_directory"):
            use(Checkpoint(source))  # type: ignore[operator]


@pytest.mark.parametrize(
    "name", ["from_bytes", "to_bytes", "from_uri", "to_uri", "uri", "set_preprocessor", "get_internal_representation"]
)
def test_what_older_versions_had_says_what_to_do(source: Path, name: str) -> None:
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
    with pytest.raises(AttributeError, match="is no dict"):
        Checkpoint(source).to_dict()


# -- as they are kept -------------------------------------------------------------------------------------------------


def test_a_copy_has_the_modes_of_its_source(source: Path, tmp_path: Path) -> None:
    """Who else may read a model, and whether a script in it can be run, is the user's choice."""
    (source / "sub" / "weights").chmod(0o600)
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "read_only").touch(mode=0o444)
    trial = tmp_path / "trial"
    trial.mkdir()
    copy = trial / commit_copy(source, trial, 0, 1).directory
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in copy.rglob("*") if path.is_file()}
    assert modes == {"weights": 0o600, "run.sh": 0o755, "read_only": 0o444}


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
    monkeypatch.setattr(os, "chmod", Injured(os.chmod, FULL, at=[2]))
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
