"""A full disk: the record stays, the run waits or ends in order, and nothing is lost after a resume."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kit
import pytest
from kit import file_size_limit, live_reports, records_in, restored_state, resume, run_path

from minitune import Checkpoint, ResultGrid, TuneError, grid_search, report
from minitune.record import disk

pytestmark = pytest.mark.usefixtures("hurried")

SPACE = {"x": grid_search([1, 2, 3, 4])}


@pytest.fixture
def small_disk(storage_of_its_own: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of 600 kB in memory, on which the run lies."""
    directory = tmp_path / "small"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "none", str(directory)]
    if not sys.platform.startswith("linux") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only an administrator of a Linux system can mount a small disk")
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(directory))
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run does not wait long for space."""
    monkeypatch.setattr(disk, "PATIENCE_S", 0.5)


def filler() -> Path:
    return run_path().parent / "filler"


def fill() -> None:
    with filler().open("wb", buffering=0) as file:
        for size in (1 << 16, 4096, 512, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass


def reporting(fill_at: int = 0, free_at: int = 0, size: int = 300) -> Any:
    """A function that reports 30 texts; its second trial fills the disk, and makes room again, at these reports."""

    def trainable(config: dict[str, Any]) -> None:
        for n in range(1, 31):
            if config["x"] == 2 and n == fill_at:
                fill()
            if config["x"] == 2 and n == free_at:
                filler().unlink()
            report({"n": n, "text": "x" * size})

    return trainable


def fit(trainable: Any) -> ResultGrid:
    return kit.fit(trainable, SPACE, max_concurrent_trials=1)


def check(grid: ResultGrid) -> None:
    assert grid.num_terminated == 4, grid
    assert not (run_path() / "reserve").exists()
    records = records_in(run_path() / "journal")
    live = live_reports(records)
    for result in grid:
        trial_id = result.metrics["trial_id"]
        assert [metrics["n"] for metrics in live[trial_id]] == list(range(1, 31))
        recorded = [r["metrics"]["n"] for r in records if r["type"] == "result" and r["trial"] == trial_id]
        lines = Path(result.path, "result.json").read_text().splitlines()
        assert [json.loads(line)["n"] for line in lines] == recorded
        assert len(Path(result.path, "progress.csv").read_text().splitlines()) == len(recorded) + 1


def test_the_run_ends_in_order_and_goes_on_when_there_is_space(
    small_disk: Path, impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    grid = fit(reporting(fill_at=3))
    assert (grid.interrupted, grid.num_errors) == (True, 0)
    assert f"no space is left at {small_disk}/run (0 bytes free): no new trials are started" in caplog.text
    assert f"resume it with Tuner.restore('{small_disk}/run', trainable).fit()" in caplog.text
    assert "result.json could not be written (No space left on device)" in caplog.text
    with pytest.raises(TuneError, match="free some space"):  # a disk that is still full is named at once
        resume(reporting())
    filler().unlink()
    check(resume(reporting()))


def test_a_run_that_finds_space_in_time_goes_on(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    grid = fit(reporting(fill_at=3, free_at=8))
    assert not grid.interrupted
    assert grid.num_terminated == 4
    assert "there is space again" in caplog.text
    check(resume(reporting()))


def test_trials_that_fail_for_want_of_space_are_not_to_blame(
    small_disk: Path, impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    def trainable(config: dict[str, Any]) -> None:
        for n in range(restored_state() + 1, 6):
            with tempfile.TemporaryDirectory() as directory:
                Path(directory, "state").write_text(str(n))
                Path(directory, "weights").write_bytes(bytes(40_000))
                report({"n": n}, checkpoint=Checkpoint.from_directory(directory))

    grid = fit(trainable)
    assert (grid.interrupted, grid.num_errors) == (True, 0)
    assert "failed while no space is left at" in caplog.text
    subprocess.run(["mount", "-o", "remount,size=3m", str(small_disk)], check=True)
    grid = resume(trainable)
    assert (grid.num_terminated, grid.num_errors) == (4, 0)
    assert [[row["n"] for row in result.get_rows()] for result in grid] == [[1, 2, 3, 4, 5]] * 4


def test_a_full_disk_at_the_start_is_an_error_before_any_trial(small_disk: Path) -> None:
    fill()
    with filler().open("r+b") as file:
        file.truncate(filler().stat().st_size - 16384)
    with pytest.raises(TuneError, match=f"bytes cannot be reserved in {small_disk}/run") as caught:
        fit(reporting())
    assert "free some space, or choose another storage_path" in str(caught.value)


def test_a_limit_on_the_size_of_files_ends_the_run_with_its_name_and_loses_nothing() -> None:
    text = r"journal could not be written: File too large \(EFBIG\)"
    with file_size_limit(80_000), pytest.raises(TuneError, match=text):
        fit(reporting(size=1000))
    check(resume(reporting(size=1000)))
