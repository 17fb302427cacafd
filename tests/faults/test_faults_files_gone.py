"""A run's directory or journal that goes away during the run: no trial is blamed, and the run ends resumable."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import kit
import pytest
from kit import RUN, SavedCounter, live_reports, report_state, restored_state, run_path

from minitune import TuneError, grid_search, report
from minitune.record import journal

BY_REFERENCE = True  # see `conftest`
REPORTS = 6
CULPRIT = 1
"""The value of `x` of the trial in which it happens, at its second report."""


def storage_path():
    return Path(os.environ["MINITUNE_STORAGE_PATH"])


@pytest.fixture(autouse=True)
def watchful(monkeypatch):
    """Every write looks at the journal."""
    monkeypatch.setattr(journal, "LOOK_S", 0.0)


class Large:
    """An object that has a file of its own in a run."""

    def __init__(self, n):
        self.data = bytes([n]) * 100_000

    def __eq__(self, other):
        return isinstance(other, Large) and other.data == self.data


_happens = []


def happen(config, n):
    if config["x"] == CULPRIT and n == 2 and _happens:
        _happens.pop()()


def plain(config):
    for n in range(1, REPORTS + 1):
        happen(config, n)
        report({"n": n, "large": Large(n)})


def saving(config):
    for n in range(restored_state() + 1, REPORTS + 1):
        happen(config, n)
        report_state(n, {"n": n, "large": Large(n)})


class Class(SavedCounter):
    def step(self):
        result = super().step()
        happen(self.config, self.n)
        assert self.logdir  # must not make it again
        return {**result, "large": Large(self.n), "done": self.n == REPORTS, "should_checkpoint": True}


SPACE = {"x": grid_search([0, CULPRIT, 2, 3])}
GONE = f"/{RUN} was removed or moved during the run"


def fit(trainable, what, **settings):
    _happens[:] = [what]
    return kit.fit(trainable, SPACE, max_concurrent_trials=2, **settings)


def check_resumed(trainable, path):
    """The run goes on, and nothing was lost, done twice or blamed on a trial."""
    records = list(journal.read(path / "journal"))
    assert not [record for record in records if record.get("status") == "ERROR"]
    grid = kit.resume(trainable, path=path, callbacks=())
    assert grid.num_terminated == 4, grid.errors
    live = live_reports(journal.read(path / "journal")).values()
    assert [[metrics["n"] for metrics in reports] for reports in live] == [list(range(1, REPORTS + 1))] * 4
    for result in grid:
        assert result.metrics["large"] == Large(REPORTS)
        assert sorted({row["n"] for row in result.get_rows() or []}) == list(range(1, REPORTS + 1))


@pytest.mark.parametrize(
    ("trainable", "what"),
    [(plain, "run"), (plain, "storage"), (saving, "run"), (saving, "storage"), (Class, "run"), (Class, "storage")],
)
def test_a_run_that_was_moved_ends_with_an_error_and_can_be_resumed(trainable, what, tmp_path):
    moved = tmp_path / "moved"
    source = run_path() if what == "run" else storage_path()
    here = moved if what == "run" else moved / RUN

    with pytest.raises(TuneError, match=GONE) as caught:
        fit(trainable, lambda: source.rename(moved))

    assert f"Tuner.restore({str(run_path())!r}, trainable).fit()" in str(caught.value)
    assert not source.exists(), "nothing of it was made again"
    check_resumed(trainable, here)


@pytest.mark.parametrize("trainable", [plain, saving, Class])
def test_a_run_that_was_removed_ends_without_blaming_its_trials(trainable):
    with pytest.raises(TuneError, match=GONE):
        fit(trainable, lambda: shutil.rmtree(run_path()))
    assert not run_path().exists(), "nothing of it was made again"


@pytest.fixture
def mounted(tmp_path):
    """A storage path that is a file system of its own."""
    directory = storage_path()
    directory.mkdir()
    (tmp_path / "disk").mkdir()
    mount = ["mount", "--bind", str(tmp_path / "disk"), str(directory)]
    if not sys.platform.startswith("linux") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only an administrator of a Linux system can mount a file system")
    yield tmp_path / "disk"
    subprocess.run(["umount", "--lazy", str(directory)], check=False, capture_output=True)


def test_a_run_whose_mount_is_lost_ends_and_can_be_resumed(mounted):
    with pytest.raises(TuneError, match=GONE):
        fit(saving, lambda: subprocess.run(["umount", "--lazy", str(storage_path())], check=True))
    assert os.listdir(storage_path()) == []
    check_resumed(saving, mounted / RUN)


@pytest.mark.parametrize("name", ["journal", "lock"])
def test_a_run_whose_journal_or_lock_was_removed_ends_and_can_be_resumed(name):
    with pytest.raises(TuneError, match=f"{run_path()}/{name} was removed or moved during the run"):
        fit(plain, lambda: (run_path() / name).unlink())
    check_resumed(plain, run_path())


def test_workers_that_cannot_write_are_not_to_blame(tmp_path):
    moved = tmp_path / "moved"

    def trainable(config):
        for n in range(restored_state() + 1, REPORTS + 1):
            print("report", n)
            if config["x"] == CULPRIT and n == 3 and run_path().exists():
                run_path().rename(moved)
            report_state(n, {"n": n, "large": Large(n)})

    with pytest.raises(TuneError, match=GONE):
        fit(trainable, lambda: None, executor="local")
    assert not run_path().exists()
    check_resumed(trainable, moved)
