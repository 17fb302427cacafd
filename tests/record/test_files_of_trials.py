"""Which files a trial has, and which of them the driver makes: only those that it writes itself."""

import shutil
import sys
from pathlib import Path

import pytest
from kit import cut, report_n, resume, run_path

SCRIPTS = Path(__file__).with_name("scripts")

MADE = SCRIPTS / "files_of_trials.py"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems start and reuse workers in other ways")
@pytest.mark.parametrize("kind", ["fresh", "reused"])
def test_the_driver_makes_only_the_files_that_it_writes(kind, script):
    trials = [line.split() for line in script.run(MADE, kind).splitlines()]

    for trial_id, *made in trials:
        own = sorted("directory" if trial_id in name else name for name in made)
        assert own == ["directory", "params.json", "progress.csv", "result.json"]
    for directory in script.trial_directories():
        names = {"params.json", "progress.csv", "result.json", "stderr", "stdout"}
        assert {path.name for path in directory.iterdir()} == names


def test_a_trial_whose_directory_a_power_cut_has_taken_starts_at_a_resume(caplog):
    cut(report_n(2), {"x": 1}, results=1)
    lines = (run_path() / "journal").read_bytes().splitlines(keepends=True)
    (run_path() / "journal").write_bytes(b"".join(lines[: _place_of_start(lines) + 1]))
    for path in list(run_path().glob("*/result.json")):
        shutil.rmtree(path.parent)

    grid = resume(report_n(2), callbacks=())

    assert [result.metrics["n"] for result in grid] == [2]
    assert "starts over" not in caplog.text


def _place_of_start(lines):
    return next(place for place, line in enumerate(lines) if b'{"type":"start"' in line)
