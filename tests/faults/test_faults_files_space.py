"""A disk that refuses: the run ends with an error that names path, reason and way out; a resume loses nothing.

A real full disk needs root. So the same is tried with system calls that fail, and with a limit on the size of files.
"""

import errno
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import kit
import pytest
from kit import (
    Injured,
    file_size_limit,
    live_reports,
    raiser,
    records_in,
    report_state,
    restored_state,
    resume,
    run_path,
)

from minitune import Checkpoint, TuneError, get_context, grid_search, report
from minitune.base.disk import disk_error
from minitune.record.housekeeper import Housekeeper
from minitune.result import TRIAL_ID

SPACE = {"x": grid_search([1, 2, 3, 4])}
REPORTS = 12
CULPRIT = 2
"""The value of `x` of the trial in which it happens."""

_happens = []


def happen():
    """What happens, happens once: not again after a resume."""
    if _happens:
        _happens.pop()()


def plain(config, before=3):
    for n in range(1, REPORTS + 1):
        if config["x"] == CULPRIT and n == before:
            happen()
        report({"n": n, "text": "x" * 300})


def at_its_end(config):
    plain(config, before=0)
    if config["x"] == 4:
        happen()


def saving(config):
    for n in range(restored_state() + 1, REPORTS + 1):
        if config["x"] == CULPRIT and n == 3:
            happen()
        report_state(n, {"n": n})


def fit(trainable, what=None, **settings):
    _happens[:] = [what] if what is not None else []
    return kit.fit(trainable, SPACE, **{"max_concurrent_trials": 2, **settings})


def check(grid):
    """Every trial has ended well, with each report once, also in the files of the loggers."""
    assert (grid.num_terminated, grid.num_errors) == (4, 0), grid
    records = records_in(run_path() / "journal")
    live = live_reports(records)
    for result in grid:
        trial_id = result.metrics[TRIAL_ID]
        assert [metrics["n"] for metrics in live[trial_id]] == list(range(1, REPORTS + 1))
        recorded = [r["metrics"]["n"] for r in records if r["type"] == "result" and r["trial"] == trial_id]
        lines = Path(result.path, "result.json").read_text().splitlines()
        assert [json.loads(line)["n"] for line in lines] == recorded
        assert len(Path(result.path, "progress.csv").read_text().splitlines()) == len(recorded) + 1
    assert not list(run_path().glob("**/.tmp*"))


def tells(path, reason):
    """The pattern of the error that ends a run."""
    way_out = re.escape(
        f"Tuner.restore({str(run_path())!r}, trainable).fit(), or on the command line: minitune resume "
    )
    return rf"{path}.* could not be .*{reason}.*\. The run has ended.*{way_out}"


# -- a real disk that is full ------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(storage_of_its_own, tmp_path, monkeypatch):
    """A file system of 600 kB in memory, on which the run lies."""
    directory = tmp_path / "small"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "none", str(directory)]
    if not sys.platform.startswith("linux") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only an administrator of a Linux system can mount a small disk")
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(directory))
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


def filler():
    return run_path().parent / "filler"


def fill(left_bytes=0):
    with filler().open("wb", buffering=0) as file:
        for size in (1 << 16, 4096, 512, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass
        file.truncate(file.tell() - left_bytes)


@pytest.mark.parametrize("trainable", [plain, saving, at_its_end], ids=["at a report", "at a checkpoint", "at the end"])
def test_a_full_disk_ends_the_run_and_a_resume_loses_nothing(trainable, small_disk):
    full = tells(str(run_path()), r"No space left on device \(ENOSPC\)")
    with pytest.raises(TuneError, match=full):
        fit(trainable, fill)
    acknowledged = live_reports(records_in(run_path() / "journal"))
    with pytest.raises(TuneError, match="No space left on device"):
        resume(trainable)
    assert live_reports(records_in(run_path() / "journal")) == acknowledged
    filler().unlink()
    check(resume(trainable))


@pytest.mark.parametrize("left_bytes", [0, 8192, 16384, 20480])
def test_full_disk_at_the_start_names_its_file(left_bytes, small_disk):
    fill(left_bytes)
    with pytest.raises(TuneError, match=rf"{run_path()}.*No space left on device \(ENOSPC\)"):
        fit(plain)
    filler().unlink()
    check(resume(plain) if (run_path() / "tuner.pkl").exists() else fit(plain))


def test_full_disk_at_a_checkpoint_ends_the_run_and_removes_the_partial_copy(small_disk):
    """The workers hear of a full disk first. After the removal of a half copy there is space for other files."""

    def trainable(config):
        for n in range(restored_state() + 1, REPORTS + 1):
            directory = Path(get_context().get_trial_dir(), "own")
            directory.mkdir(exist_ok=True)
            (directory / "state").write_text(str(n))
            (directory / "weights").write_bytes(bytes(100_000))
            report({"n": n}, checkpoint=Checkpoint.from_directory(directory))

    with pytest.raises(TuneError, match=tells(str(run_path()), "No space left on device")):
        fit(trainable, executor="local", max_concurrent_trials=1)
    subprocess.run(["mount", "-o", "remount,size=9m", str(small_disk)], check=True)
    check(resume(trainable))


# -- system calls that fail --------------------------------------------------------------------------------------------


def is_journal(descriptor, *arguments):
    path = run_path() / "journal"
    return path.exists() and os.path.samestat(os.fstat(descriptor), os.stat(path))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("at", [1, 2, 5, 30])
def test_a_write_to_the_journal_that_fails_ends_the_run(number, at, monkeypatch):
    """Whichever write it is: the first record, that of a trial, or that of a result."""
    refused = Injured(os.write, OSError(number, os.strerror(number)), [at], is_journal)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refused)
        with pytest.raises(TuneError, match=tells(f"{run_path()}/journal", os.strerror(number))):
            fit(plain)
    assert refused.calls == at, "nothing is written after it"
    check(resume(plain))


@pytest.mark.parametrize("name", ["result.json", "progress.csv"])
def test_a_write_to_a_loggers_file_that_fails_ends_the_run(name, monkeypatch):
    def is_loggers(descriptor, data):
        return any(os.path.samestat(os.fstat(descriptor), path.stat()) for path in run_path().glob(f"*/{name}"))

    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", Injured(os.write, full, [REPORTS + 3], is_loggers))
        with pytest.raises(TuneError, match=tells(name, r"No space left on device \(ENOSPC\)")):
            fit(plain)
    check(resume(plain))


@pytest.mark.parametrize("what", ["sync", "rename", "directory", "checkpoint"])
def test_a_sync_or_a_rename_that_fails_ends_the_run(what, monkeypatch):
    broken = OSError(errno.EIO, os.strerror(errno.EIO))
    with monkeypatch.context() as patch:
        if what == "sync":
            patch.setattr(os, "fdatasync", Injured(os.fdatasync, broken, [3]))
        elif what == "rename":
            is_state = lambda source, target, **directories: "plugins-" in str(target)  # noqa: E731
            patch.setattr(os, "replace", Injured(os.replace, broken, [1], is_state))
        elif what == "directory":
            patch.setattr(os, "mkdir", Injured(os.mkdir, broken, [2], lambda path, *rest, **more: "x=" in str(path)))
        else:
            patch.setattr(Housekeeper, "sync_checkpoint", lambda self, path: self.disk_failed(path, broken))
        with pytest.raises(TuneError, match=tells(str(run_path()), r"Input/output error \(EIO\)")):
            fit(saving)
    check(resume(saving))


def test_a_limit_on_the_size_of_files_ends_the_run_and_loses_nothing():
    with file_size_limit(20_000), pytest.raises(TuneError, match=tells("journal", r"File too large \(EFBIG\)")):
        fit(plain)
    check(resume(plain))


def test_workers_are_stopped_as_at_an_interrupt(tmp_path, monkeypatch):
    """They have the whole grace period for their `finally` blocks."""

    def trainable(config):
        try:
            saving(config)
        finally:
            if not (tmp_path / "resumed").exists():
                time.sleep(1.5)
            (tmp_path / f"{config['x']} cleaned up").touch()

    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", Injured(os.write, full, [9], is_journal))
        with pytest.raises(TuneError, match="No space left on device"):
            fit(trainable, executor="local")
    reported = {record["trial"] for record in records_in(run_path() / "journal") if record["type"] == "result"}
    trials = [record for record in records_in(run_path() / "journal") if record["type"] == "trial"]
    assert reported
    for trial in trials:
        assert trial["trial"] not in reported or (tmp_path / f"{trial['config']['x']} cleaned up").exists()
    (tmp_path / "resumed").touch()
    check(resume(trainable))


# -- who is to blame ---------------------------------------------------------------------------------------------------


ELSEWHERE = {
    "full": OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/dev/shm/mine"),
    "broken": OSError(errno.EIO, os.strerror(errno.EIO), "/dev/shm/mine"),
    "that of a nested run": disk_error("/dev/shm", "/dev/shm/journal", "written", OSError(errno.ENOSPC, "full")),
}


@pytest.mark.parametrize("disk", ELSEWHERE)
def test_a_disk_elsewhere_fails_the_trial(disk):
    def trainable(config):
        if config["x"] == CULPRIT:
            raise ELSEWHERE[disk]
        plain(config)

    grid = fit(trainable)
    assert (grid.num_terminated, grid.num_errors) == (3, 1)
    assert isinstance(grid.errors[0].__cause__, type(ELSEWHERE[disk]))


def test_a_trial_that_meets_the_runs_full_disk_stays_unfinished(monkeypatch, caplog):
    """Its failure cannot be written, either; so it is not on record."""
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def trainable(config):
        if config["x"] == CULPRIT and _happens:
            happen()
            raise full
        plain(config)

    with monkeypatch.context() as patch, pytest.raises(TuneError, match=tells("x=2", "No space left on device")):
        fit(trainable, lambda: patch.setattr("minitune.record.trial_directories.append_error", raiser(full)))
    assert not [record for record in records_in(run_path() / "journal") if record.get("status") == "ERROR"]
    check(resume(trainable))
