"""The order of syncs and renames. A power cut loses what is not synced, and what was synced in the wrong order.

So no name may refer to a content that is not on the disk yet, and no only copy may be removed before there is another.
No test can cut the power; so these tests check the order of the calls.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kit import Injured, SavedCounter, Trace, counting, cut, fit, journal_of, resume, run_path

from minitune import TuneError, grid_search
from minitune.base import files
from minitune.error import DiskError
from minitune.record.codec import ObjectStore, encode
from minitune.record.housekeeper import Housekeeper
from minitune.record.journal import Journal, repair

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="descriptors are named by /proc")


def name_of(descriptor: int) -> str:
    name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
    return "a new file" if files.WRITE_TEMPORARY.fullmatch(name) else name


@pytest.fixture
def housekeeper() -> Iterator[Housekeeper]:
    """It syncs batched journals."""
    with closing(Housekeeper()) as one:
        yield one


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> Trace:
    """Syncs of files and of directories, and renames, by the names of the files."""
    trace = Trace(monkeypatch)
    trace.watch(files, "sync_descriptor", lambda descriptor: f"sync {name_of(descriptor)}")
    trace.watch(files, "sync_directory", lambda path: f"sync names in {os.path.basename(path)}")
    trace.watch(os, "replace", lambda source, target, **directories: f"rename to {os.path.basename(target)}")
    return trace


def test_a_file_is_on_the_disk_before_its_name_and_the_name_before_it_counts(tmp_path: Path, trace: Trace) -> None:
    with files.new_file(str(tmp_path / "file"), sync=True) as file:
        file.write(b"new")
    assert trace.lines == ["sync a new file", "rename to file", f"sync names in {tmp_path.name}"]
    trace.lines.clear()
    files.atomic_write(tmp_path / "file", b"newer")
    assert trace.lines == ["rename to file"], "nothing that was not asked for"


def test_a_checkpoint_is_settled_from_the_inside_out(tmp_path: Path, trace: Trace) -> None:
    directory = tmp_path / "run" / "trial" / "checkpoint_000000"
    (directory / "sub").mkdir(parents=True)
    (directory / "sub" / "inner").touch()
    (directory / "outer").touch()
    (directory / "link").symlink_to("nowhere")
    files.settle(str(directory))
    assert trace.lines == [
        "sync inner",
        "sync names in sub",
        "sync outer",
        "sync names in checkpoint_000000",
        "sync a new file",
        "rename to .settled",
        "sync names in trial",
        "sync names in run",
    ]
    assert files.settled_name(str(directory.parent)) == "checkpoint_000000"


def test_a_torn_end_is_copied_for_good_before_it_is_cut_off(
    tmp_path: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    with closing(Journal(path, "process", Housekeeper(), is_new=True)) as journal:
        journal.append({"type": "run", "schema": 2})
        good = journal.offset
    with path.open("ab") as file:
        file.write(b"0123 torn")
    torn = path.stat().st_size

    def length(descriptor: int) -> str:
        return f"sync {name_of(descriptor)} while the journal has {'all' if path.stat().st_size == torn else good}"

    monkeypatch.undo()
    trace = Trace(monkeypatch)
    trace.watch(files, "sync_descriptor", length)
    trace.watch(files, "sync_directory", lambda path: f"sync names in {os.path.basename(path)}")
    assert repair(path) == f"{path}.torn-1"
    assert trace.lines == [
        "sync journal.torn-1 while the journal has all",
        f"sync names in {tmp_path.name}",
        f"sync journal while the journal has {good}",
    ]
    assert (tmp_path / "journal.torn-1").read_bytes() == b"0123 torn"


@pytest.mark.parametrize("durability", ["process", "batched", "strict"])
def test_the_beginning_of_a_run_is_on_the_disk_before_its_first_trial(durability: str, trace: Trace) -> None:
    lines: list[str] = []
    fit(lambda config: lines.extend(trace.lines), durability=durability)
    if durability == "process":
        assert [line for line in lines if line.startswith("sync")] == []
        return
    assert [line for line in dict.fromkeys(lines) if line.startswith("sync") or line.endswith("tuner.pkl")] == [
        "sync names in run",
        "sync a new file",
        "rename to tuner.pkl",
        "sync journal",
        f"sync names in {run_path().parent.name}",
    ]
    assert lines.count("sync names in run") == 2, "once for the journal, once for the settings"


def test_a_large_object_is_on_the_disk_before_the_record_that_names_it(tmp_path: Path, trace: Trace) -> None:
    (tmp_path / "run").mkdir()
    store = ObjectStore(str(tmp_path / "run" / "objects"), "strict")
    name = store.put(b"x" * 100, "x...").name
    assert trace.lines == [
        "sync names in run",
        "sync a new file",
        f"rename to {name}.pkl",
        "sync names in objects",
    ]
    trace.lines.clear()
    assert store.put(b"x" * 100, "x...").name == name
    assert trace.lines == []
    line = encode({"type": "x", "value": {"o": Large()}}, ObjectStore(str(tmp_path / "run" / "objects"), "strict"))
    assert trace.lines[0] == "sync a new file"
    assert len(line) < 1000


def test_batched_journal_syncs_a_large_object_before_itself_in_the_background(
    housekeeper: Housekeeper, tmp_path: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Housekeeper, "sync_soon", lambda *arguments: None)  # no other thread syncs
    with closing(Journal(tmp_path / "journal", "batched", housekeeper, is_new=True)) as log:
        log.append({"type": "run", "schema": 2})
        log.sync()
        trace.lines.clear()
        log.append({"type": "x", "value": {"o": Large()}})
        (mark,) = (tmp_path / "objects").glob("*.unsynced")
        assert [line for line in trace.lines if line.startswith("sync ") and "names" not in line] == []
        log.sync()
        assert [line for line in trace.lines if line.startswith("sync ") and "names" not in line] == [
            f"sync {mark.name.removesuffix('.unsynced')}",
            "sync journal",
        ]
        assert not mark.exists()


def test_a_background_sync_that_fails_because_the_directory_has_gone_says_so(
    housekeeper: Housekeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Housekeeper, "sync_soon", lambda *arguments: None)  # the sync comes when this test calls it
    run = tmp_path / "run"
    run.mkdir()
    log = Journal(run / "journal", "batched", housekeeper, is_new=True)
    log.append({"type": "x", "value": {"o": Large()}})  # the sync opens its file by its path
    run.rename(tmp_path / "moved")
    log.sync()
    for use in (lambda: log.append({"type": "x"}), log.close):
        with pytest.raises(DiskError, match=f"{run} was removed, moved or replaced"):
            use()


class Large:
    """Too large for a record."""

    def __init__(self) -> None:
        self.data = os.urandom(100_000)


# -- strict: nothing is lost ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trainable", [counting(3), SavedCounter])
def test_a_strict_checkpoint_is_on_the_disk_before_the_record_that_names_it(
    trainable: Any, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kind(journal: Journal, record: dict[str, Any]) -> str | None:
        number = (record.get("checkpoint") or {}).get("number") if record["type"] in ("result", "checkpoint") else None
        return None if number is None else f"record of checkpoint {number}"

    trace.watch(Journal, "add", kind)
    settings = {"checkpoint_frequency": 1} if trainable is SavedCounter else {}
    (result,) = fit(trainable, {"end": 3}, durability="strict", **settings)
    lines = [line for line in trace.lines if line.startswith(("record", "sync names in checkpoint", "sync journal"))]
    assert result.metrics["n"] == 3
    for number in range(3):
        begin = lines.index(f"sync names in checkpoint_{number:06d}")
        assert lines[begin : begin + 3] == [
            f"sync names in checkpoint_{number:06d}",
            f"record of checkpoint {number}",
            "sync journal",
        ]


def test_strict_checkpoint_that_cannot_be_synced_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Injured(
        files.sync_descriptor,
        OSError(errno.EIO, "Input/output error"),
        at=[2],
        where=lambda descriptor: name_of(descriptor) == "state",
    )
    monkeypatch.setattr(files, "sync_descriptor", broken)
    with pytest.raises(TuneError, match="checkpoint_000001 could not be synced to the disk: Input/output error"):
        fit(counting(4), durability="strict")
    assert [record["number"] for record in journal_of() if record["type"] == "result"] == [1]
    assert resume(counting(4))[0].metrics["n"] == 4


def test_unsettled_checkpoint_does_not_replace_a_settled_one() -> None:
    """One is kept, and the newest that would outlive a power cut besides; at the end all is on the disk."""
    cut(counting(9), {"i": grid_search([1])}, results=5, durability="batched", num_to_keep=1)
    assert [path.name for path in sorted(run_path().glob("*/checkpoint_*"))][-1] == "checkpoint_000004"
    (result,) = resume(counting(9), durability="batched", num_to_keep=1)
    assert [Path(kept.path).name for kept, _ in result.best_checkpoints] == ["checkpoint_000008"]
