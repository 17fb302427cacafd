"""Plain files of trials that were lost, cut or scribbled on: they are as before when the run goes on."""

import csv
import json
import os
from pathlib import Path

import pytest
from kit import counting, cut, deciding, files_below, fit, resume, run_path, shorten

from minitune import get_context, grid_search, report
from minitune.experiment.decision import Decision

ALL_FILES = {"space": {"x": grid_search([1, 2]), "function": len}, "max_failures": 1}


def trainable(config):
    """Reports awkward values and late columns; the second trial fails once, so it has rows of two attempts."""
    for n in range(1, 4):
        report({"n": n, "loss": float("nan"), "nested": {"key": [n, "a\nb"]}, **({"late": n} if n == 3 else {})})
        if config["x"] == 2 and n == 2 and not (Path(get_context().get_trial_dir()) / "failed").exists():
            (Path(get_context().get_trial_dir()) / "failed").touch()
            raise ValueError("once")


def contents():
    """The plain files of all trials."""
    return {
        name: data
        for pattern in ("result.json", "progress.csv", "params.json")
        for name, data in files_below(run_path(), pattern).items()
    }


def go_on():
    assert resume(trainable).num_terminated == 2


def cut_last_line(path):
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def add_junk(path):
    with path.open("ab") as file:
        file.write(b"junk\nmore junk")


DAMAGES = [
    Path.unlink,
    lambda path: path.write_bytes(b""),
    cut_last_line,
    lambda path: shorten(path, 7),
    lambda path: path.write_bytes(path.read_bytes() + b"half"),
    add_junk,
]
DAMAGE_IDS = ["removed", "emptied", "a line less", "half a line less", "half a line more", "junk"]


@pytest.mark.parametrize("damage", DAMAGES, ids=DAMAGE_IDS)
def test_damaged_files_are_rebuilt_byte_by_byte(damage):
    fit(trainable, **ALL_FILES)
    before = contents()
    assert len(before) == 6
    assert sorted(len(data.splitlines()) for name, data in before.items() if "result.json" in name) == [3, 5]
    for pattern in ("*/result.json", "*/progress.csv"):
        for path in run_path().glob(pattern):
            damage(path)
    go_on()
    assert contents() == before


def test_only_damaged_files_are_written_again():
    fit(trainable, **ALL_FILES)
    first, second = sorted(path.parent for path in run_path().glob("*/result.json"))
    (first / "result.json").unlink()
    others = [first / "progress.csv", second / "result.json", second / "progress.csv"]
    untouched = [os.stat(path) for path in others]
    go_on()
    for path, before in zip(others, untouched, strict=True):
        assert (os.stat(path).st_ino, os.stat(path).st_mtime_ns) == (before.st_ino, before.st_mtime_ns), path
    assert len((first / "result.json").read_bytes().splitlines()) == 3


def test_a_report_that_the_journal_lacks_is_cut_off_the_files_of_an_unfinished_trial():
    """Loggers write a report before the journal does, so a killed driver may have logged one more."""
    cut(counting(4), {"x": 1}, results=2)
    paths = [next(run_path().glob(pattern)) for pattern in ("*/result.json", "*/progress.csv")]
    whole = [path.read_bytes() for path in paths]
    for path, data in zip(paths, whole, strict=True):
        path.write_bytes(data + data.splitlines(keepends=True)[-1])
    resume(counting(4))
    assert [path.read_bytes()[: len(data)] for path, data in zip(paths, whole, strict=True)] == whole
    assert [json.loads(line)["n"] for line in paths[0].read_text().splitlines()] == [1, 2, 3, 4]
    assert [row["n"] for row in csv.DictReader(paths[1].read_text().splitlines())] == ["1", "2", "3", "4"]


def test_a_directory_that_was_removed_stays_so(caplog):
    fit(trainable, **ALL_FILES)
    gone = sorted(run_path().glob("*/result.json"))[0].parent
    for path in gone.iterdir():
        path.unlink()
    gone.rmdir()
    caplog.clear()
    go_on()
    assert not gone.exists()
    assert caplog.text == ""


def test_a_run_without_loggers_writes_no_files_of_its_trials(monkeypatch):
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    fit(trainable, **ALL_FILES)
    go_on()
    assert contents() == {}


def test_rows_have_the_configuration_of_their_time():
    """A trial that goes on under another configuration has rows of both."""

    def exploit(context, trial, result):
        if trial.number == 1 and result["n"] == 2 and trial.config["x"] == "taker":
            return Decision("PAUSE", exploit=(context.get_trials()[0], {"x": "given"}))
        return "CONTINUE"

    fit(counting(4), {"x": grid_search(["donor", "taker"])}, scheduler=deciding(exploit))
    before = contents()
    taker = next(data for name, data in before.items() if name.endswith("result.json") and b"given" in data)
    assert b"taker" in taker
    for pattern in ("*/result.json", "*/progress.csv"):
        for path in run_path().glob(pattern):
            path.unlink()
    resume(counting(4))
    assert contents() == before
