"""The order of syncs and renames. A power cut loses what is not synced, and what was synced in the wrong order.

So no name may refer to a content that is not on the disk yet, and no only copy may be removed before there is another.
No test can cut the power; so these tests check the order of the calls.
"""

import os
import sys
from contextlib import closing
from pathlib import Path

import pytest
from kit import NoThread, Trace, counting, cut, fit, resume, run_path

from minitune import grid_search
from minitune.base import files
from minitune.error import DiskError
from minitune.record import housekeeper as housekeeper_module
from minitune.record.checkpoint_manager import CheckpointManager
from minitune.record.housekeeper import Housekeeper
from minitune.record.journal import Journal

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="descriptors are named by /proc")


def name_of(descriptor):
    name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
    return "a new file" if files.WRITE_TEMPORARY.fullmatch(name) else name


@pytest.fixture
def housekeeper():
    """It syncs batched journals."""
    with closing(Housekeeper()) as one:
        yield one


@pytest.fixture
def trace(monkeypatch):
    """Syncs of files and of directories, and renames, by the names of the files."""
    trace = Trace(monkeypatch)
    trace.watch(files, "sync_descriptor", lambda descriptor: f"sync {name_of(descriptor)}")
    trace.watch(files, "sync_directory", lambda path: f"sync names in {os.path.basename(path)}")
    trace.watch(os, "replace", lambda source, target, **directories: f"rename to {os.path.basename(target)}")
    return trace


def test_a_file_is_on_the_disk_before_its_name_and_the_name_before_it_counts(tmp_path, trace):
    with files.new_file(str(tmp_path / "file"), sync=True) as file:
        file.write(b"new")
    assert trace.lines == ["sync a new file", "rename to file", f"sync names in {tmp_path.name}"]
    trace.lines.clear()
    files.atomic_write(tmp_path / "file", b"newer")
    assert trace.lines == ["rename to file"], "nothing that was not asked for"


def test_a_torn_end_is_copied_for_good_before_it_is_cut_off(tmp_path, trace, monkeypatch):
    path = tmp_path / "journal"
    with closing(Journal(path, NoThread(), is_new=True)) as journal:
        journal.append({"type": "run", "schema": 2})
        good = journal.offset
    with path.open("ab") as file:
        file.write(b"0123 torn")
    torn = path.stat().st_size

    def length(descriptor):
        return f"sync {name_of(descriptor)} while the journal has {'all' if path.stat().st_size == torn else good}"

    monkeypatch.undo()
    trace = Trace(monkeypatch)
    trace.watch(files, "sync_descriptor", length)
    trace.watch(files, "sync_directory", lambda path: f"sync names in {os.path.basename(path)}")
    journal = Journal(path, NoThread(), is_new=False)
    assert trace.lines == [
        "sync journal.torn-1 while the journal has all",
        f"sync names in {tmp_path.name}",
        f"sync journal while the journal has {good}",
    ]
    journal.close()
    assert (tmp_path / "journal.torn-1").read_bytes() == b"0123 torn"


def test_the_beginning_of_a_run_is_on_the_disk_before_its_first_trial(trace):
    lines = []
    fit(lambda config: lines.extend(trace.lines))
    assert [line for line in dict.fromkeys(lines) if line.startswith("sync") or line.endswith("tuner.pkl")] == [
        "sync names in run",
        "sync a new file",
        "rename to tuner.pkl",
        "sync journal",
        f"sync names in {run_path().parent.name}",
    ]
    assert lines.count("sync names in run") == 2, "once for the journal, once for the settings"


def test_a_journal_syncs_a_large_object_before_itself_in_the_background(housekeeper, tmp_path, trace, monkeypatch):
    monkeypatch.setattr(Housekeeper, "sync_soon", lambda *arguments: None)  # no other thread syncs
    with closing(Journal(tmp_path / "journal", housekeeper, is_new=True)) as log:
        log.append({"type": "run", "schema": 2})
        log.sync()
        trace.lines.clear()
        log.append({"type": "x", "value": {"o": Large()}})
        (stored,) = (tmp_path / "objects").iterdir()
        assert [line for line in trace.lines if line.startswith("sync ") and "names" not in line] == []
        log.sync()
        assert [line for line in trace.lines if line.startswith("sync ") and "names" not in line] == [
            f"sync {stored.name}",
            "sync journal",
        ]


def test_a_background_sync_that_fails_because_the_directory_has_gone_says_so(housekeeper, tmp_path, monkeypatch):
    monkeypatch.setattr(Housekeeper, "sync_soon", lambda *arguments: None)  # the sync comes when this test calls it
    run = tmp_path / "run"
    run.mkdir()
    log = Journal(run / "journal", housekeeper, is_new=True)
    log.append({"type": "x", "value": {"o": Large()}})  # the sync opens its file by its path
    run.rename(tmp_path / "moved")
    log.sync()
    for use in (lambda: log.append({"type": "x"}), log.close):
        with pytest.raises(DiskError, match=f"{run} was removed or moved"):
            use()


class Large:
    """Too large for a record."""

    def __init__(self):
        self.data = os.urandom(100_000)


# -- checkpoints -------------------------------------------------------------------------------------------------------


def test_an_older_checkpoint_is_removed_after_a_newer_one_is_on_the_disk(trace, monkeypatch):
    """Else a power cut could leave none."""
    monkeypatch.setattr(housekeeper_module, "CHECKPOINT_PERIOD_S", 0.0)
    trace.watch(CheckpointManager, "remove", lambda manager, surplus: f"remove {surplus.record.directory}")
    (result,) = fit(counting(9), {"i": grid_search([1])}, num_to_keep=1)
    assert result.metrics["n"] == 9
    on_disk = set()
    for line in trace.lines:
        what, _, directory = line.rpartition(" ")
        if what == "sync names in" and directory.startswith("checkpoint_"):
            on_disk.add(directory)
        elif what == "remove" and on_disk:
            on_disk.discard(directory)
            assert on_disk, f"{directory} was the only one on the disk"
    assert on_disk == {"checkpoint_000008"}


def test_a_checkpoint_that_waits_for_its_sync_replaces_none():
    """One is kept, and the newest that would outlive a power cut besides; at the end all is on the disk."""
    cut(counting(9), {"i": grid_search([1])}, results=5, num_to_keep=1)
    assert [path.name for path in sorted(run_path().glob("*/checkpoint_*"))][-1] == "checkpoint_000004"
    (result,) = resume(counting(9), num_to_keep=1)
    assert [Path(kept.path).name for kept, _ in result.best_checkpoints] == ["checkpoint_000008"]
