"""A disk that is full: what is on record stays, the run waits or ends in order, and nothing is lost after a resume."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
    import json, logging, os, shutil, sys
    from minitune import RunConfig, TuneConfig, Tuner, grid_search, report
    from minitune.record import disk

    logging.basicConfig(format="%(levelname)s %(message)s")
    STORAGE = os.environ["MINITUNE_STORAGE_PATH"]
    RUN = os.path.join(STORAGE, "run")
    FILLER = os.path.join(STORAGE, "filler")

    def fill():
        with open(FILLER, "wb", buffering=0) as file:
            for size in (1 << 16, 4096, 512, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    pass

    def trainable(config):
        for n in range(1, 31):
            if config["x"] == 2 and n == 3 and os.environ.get("FILL"):
                fill()
            if config["x"] == 2 and n == int(os.environ.get("FREE_AT", 0)):
                os.remove(FILLER)
            report({"n": n, "text": "x" * int(os.environ.get("TEXT", 300))})

    def fit(**tune):
        return Tuner(
            trainable,
            param_space={"x": grid_search([1, 2, 3, 4])},
            tune_config=TuneConfig(executor="inline", max_concurrent_trials=1, **tune),
            run_config=RunConfig(name="run", verbose=0, durability=os.environ.get("DURABILITY", "batched")),
        ).fit()

    def resume():
        return Tuner.restore(RUN, trainable).fit()

    def check(grid):
        assert grid.num_terminated == 4, grid
        assert not os.path.exists(os.path.join(RUN, "reserve"))
        with open(os.path.join(RUN, "journal")) as file:
            records = [json.loads(line[9:]) for line in file]
        for result in grid:
            own = [r for r in records if r.get("trial") == result.metrics["trial_id"]]
            reported = [r["metrics"]["n"] for r in own if r["type"] == "result"]
            assert reported[-30:] == list(range(1, 31))
            with open(os.path.join(result.path, "result.json")) as file:
                assert [json.loads(line)["n"] for line in file] == reported
            with open(os.path.join(result.path, "progress.csv")) as file:
                assert len(file.readlines()) == len(reported) + 1
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 600 kB in memory."""
    directory = tmp_path / "small"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "none", str(directory)]
    if not sys.platform.startswith("linux") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only an administrator of a Linux system can mount a small disk")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


def run(script: Any, source: str, disk: Path, **environment: str) -> tuple[int, str, str]:
    process = script.start(SCRIPT + source, MINITUNE_STORAGE_PATH=str(disk), **environment)
    stdout, stderr = script.finish(process)
    return process.returncode, stdout, stderr


def test_the_run_ends_in_order_and_goes_on_when_there_is_space(script: Any, small_disk: Path) -> None:
    code, stdout, stderr = run(
        script,
        """
    disk.PATIENCE_S, disk.RETRY_S = 0.5, 0.1
    grid = fit()
    print(grid.interrupted, grid.num_errors, len(grid))
    """,
        small_disk,
        FILL="1",
    )
    assert code == 0, stderr
    assert stdout.split()[:2] == ["True", "0"]
    assert f"no space is left at {small_disk}/run (0 bytes free): no new trials are started" in stderr
    assert f"resume it with Tuner.restore('{small_disk}/run', trainable).fit()" in stderr
    assert "result.json could not be written (No space left on device)" in stderr

    code, stdout, stderr = run(script, "    resume()\n", small_disk)
    assert code == 1
    assert "free some space" in stderr, "a disk that is still full is named at once"

    (small_disk / "filler").unlink()
    code, _, stderr = run(script, "    check(resume())\n", small_disk)
    assert code == 0, stderr


def test_a_run_that_finds_space_in_time_goes_on(script: Any, small_disk: Path) -> None:
    code, _, stderr = run(
        script,
        """
    disk.RETRY_S = 0.05
    grid = fit()
    assert not grid.interrupted and grid.num_terminated == 4
    check(resume())
    """,
        small_disk,
        FILL="1",
        FREE_AT="8",
    )
    assert code == 0, stderr
    assert "there is space again" in stderr


def test_trials_that_fail_for_want_of_space_are_not_to_blame(script: Any, small_disk: Path) -> None:
    source = """
    import tempfile
    from minitune import Checkpoint, get_checkpoint
    disk.PATIENCE_S, disk.RETRY_S = 0.5, 0.1

    def trainable(config):
        checkpoint = get_checkpoint()
        done = int(open(os.path.join(checkpoint.path, "n")).read()) if checkpoint else 0
        for n in range(done + 1, 6):
            with tempfile.TemporaryDirectory() as directory:
                with open(os.path.join(directory, "n"), "w") as file:
                    file.write(str(n))
                with open(os.path.join(directory, "weights"), "wb") as file:
                    file.write(bytes(40_000))
                report({"n": n}, checkpoint=Checkpoint.from_directory(directory))
    """
    code, stdout, stderr = run(
        script, source + "grid = fit()\n    print(grid.interrupted, grid.num_errors)\n", small_disk
    )
    assert code == 0, stderr
    assert stdout.split() == ["True", "0"]
    assert "failed while no space is left at" in stderr
    subprocess.run(["mount", "-o", "remount,size=3m", str(small_disk)], check=True)
    code, _, stderr = run(
        script,
        source
        + """
    grid = resume()
    assert grid.num_terminated == 4 and grid.num_errors == 0, grid
    assert [[row["n"] for row in result.get_rows()] for result in grid] == [[1, 2, 3, 4, 5]] * 4
    """,
        small_disk,
    )
    assert code == 0, stderr


def test_a_full_disk_at_the_start_is_an_error_before_any_trial(script: Any, small_disk: Path) -> None:
    code, _, stderr = run(
        script,
        """
    fill()
    with open(FILLER, "r+b") as file:
        file.truncate(os.path.getsize(FILLER) - 16384)
    fit()
    """,
        small_disk,
    )
    assert code == 1
    assert f"bytes cannot be reserved in {small_disk}/run" in stderr
    assert "free some space, or choose another storage_path" in stderr


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit on the size of files")
def test_a_limit_on_the_size_of_files_ends_the_run_with_its_name_and_loses_nothing(script: Any) -> None:
    code, _, stderr = run(
        script,
        """
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (80_000, resource.RLIM_INFINITY))
    fit()
    """,
        script.storage,
        TEXT="1000",
    )
    assert code == 1
    assert "journal could not be written: File too large (EFBIG)" in stderr
    code, _, stderr = run(script, "    check(resume())\n", script.storage, TEXT="1000")
    assert code == 0, stderr
