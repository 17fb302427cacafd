"""The files of a run."""

import json
import os
import re
from pathlib import Path

import pytest
from kit import (
    SavedCounter,
    Spy,
    counting,
    fit,
    journal_of,
    make_tuner,
    report_n,
    report_state,
    restored_state,
    run_path,
)

from minitune import (
    Checkpoint,
    grid_search,
    report,
)
from minitune.error import TuneError
from minitune.executors.inline import InlineTrialExecutor
from minitune.record import layout
from minitune.record.journal import Journal


def test_making_a_tuner_writes_nothing():
    make_tuner(report_n(1))
    assert not run_path().parent.exists()


def test_a_run_has_a_directory_for_each_trial_with_its_files():
    grid = fit(counting(2), {"lr": grid_search([0.00001, 100]), "fixed": 1})
    assert Path(grid.experiment_path) == run_path()
    directories = sorted(path.name for path in run_path().iterdir() if path.is_dir() and path.name != "objects")
    ids = [result.metrics["trial_id"] for result in grid]
    date = r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d"
    assert re.fullmatch(rf"counter_{ids[0]}_0_lr=1e-05_{date}", directories[0])
    assert re.fullmatch(rf"counter_{ids[1]}_1_lr=100_{date}", directories[1])
    assert [os.path.basename(result.path) for result in grid] == directories
    assert {path.name for path in run_path().iterdir() if path.is_file()} >= {"journal", "tuner.pkl"}
    assert {path.name for path in Path(grid[0].path).iterdir()} == {
        "params.json",
        "result.json",
        "progress.csv",
        "checkpoint_000000",
        "checkpoint_000001",
    }


def test_the_automatic_keys_come_in_their_order(tmp_path):
    source = tmp_path / "source"
    source.mkdir()

    def trainable(config):
        report({"n": 1, "timesteps_this_iter": 5}, checkpoint=Checkpoint(source))

    (result,) = fit(trainable, {"x": 3})
    keys = list(json.loads(Path(result.path, "result.json").read_text()))
    assert keys == [
        "n",
        "timesteps_this_iter",
        "timestamp",
        "checkpoint_dir_name",
        "should_checkpoint",
        "done",
        "timesteps_total",
        "training_iteration",
        "trial_id",
        "date",
        "time_this_iter_s",
        "time_total_s",
        "pid",
        "hostname",
        "node_ip",
        "config",
        "time_since_restore",
        "iterations_since_restore",
        "timesteps_since_restore",
    ]


def test_the_journal_tells_the_story_in_order():
    failed = []

    def trainable(config):
        for n in range(restored_state() + 1, 3):
            if n == 2 and not failed:
                failed.append(n)
                report({"n": -1})
                raise ValueError("once")
            report_state(n, {"n": n})

    fit(trainable, max_failures=1, num_to_keep=1)
    story = [
        (record["type"], record.get("status") or record.get("number") or record.get("checkpoint"))
        for record in journal_of()
        if record["type"] not in ("drop", "state")
    ]
    assert story == [
        ("run", None),
        ("open", None),
        ("trial", None),
        ("start", None),
        ("result", 1),
        ("result", 2),
        ("status", "PENDING"),
        ("rollback", 1),
        ("start", None),
        ("result", 2),
        ("status", "TERMINATED"),
        ("close", None),
    ]
    assert [record["checkpoint"] for record in journal_of() if record["type"] == "drop"] == [0]


def test_the_journal_is_written_before_the_trial_goes_on():
    seen = []

    def trainable(config):
        for n in (1, 2, 3):
            report({"n": n})
            seen.append(max(record["metrics"]["n"] for record in journal_of() if record["type"] == "result"))

    fit(trainable)
    assert seen == [1, 2, 3]


def test_a_checkpoint_leaves_the_record_before_it_leaves_the_disk(monkeypatch):
    """A driver that dies in between must not have named one that is gone."""
    seen = []
    retire = layout.retire_checkpoint

    def look_first(directory, number):
        seen.append((number, number in [record["checkpoint"] for record in journal_of() if record["type"] == "drop"]))
        return retire(directory, number)

    monkeypatch.setattr(layout, "retire_checkpoint", look_first)
    fit(SavedCounter, {"end": 3}, checkpoint_frequency=1, num_to_keep=1)
    assert sorted(seen) == [(0, True), (1, True)]


def test_a_worker_is_asked_for_nothing_before_its_reason_is_on_record(monkeypatch):
    """Else a killed driver would leave a worker that has gone further than the record."""
    seen = []

    def asking(name):
        real = getattr(InlineTrialExecutor, name)

        def ask(self, *arguments, **more):
            seen.append((name, journal_of()[-1]["type"]))
            real(self, *arguments, **more)

        return ask

    for name in ("start", "call", "stop"):
        monkeypatch.setattr(InlineTrialExecutor, name, asking(name))
    fit(report_n(2))
    assert seen == [("start", "start"), ("call", "start"), ("call", "result"), ("call", "result"), ("stop", "status")]


@pytest.fixture
def results_of_writes(monkeypatch):
    """How many results each write of a journal holds, in runs whose trials all report in the same turns."""
    real_wait, real_write = InlineTrialExecutor.wait, Journal.write
    counts = []

    def wait_for_all(self, timeout_s):
        events = real_wait(self, timeout_s)
        while self._work:
            events += real_wait(self, 0.0)
        return events

    def write(self):
        before = len(journal_of())
        real_write(self)
        if count := sum(record["type"] == "result" for record in journal_of()[before:]):
            counts.append(count)

    monkeypatch.setattr(InlineTrialExecutor, "wait", wait_for_all)
    monkeypatch.setattr(Journal, "write", write)
    return counts


def test_a_report_is_written_before_callbacks_hear_of_the_next_one(results_of_writes):
    fit(report_n(3), num_samples=4, max_concurrent_trials=4)
    assert results_of_writes == [1] * 12


def test_results_before_that_of_a_plugin_that_raises_are_on_record(results_of_writes):
    def raise_at_two(trial, result):
        if trial.number == 2:
            raise ValueError("enough")

    with pytest.raises(TuneError, match="enough"):
        fit(report_n(3), num_samples=4, max_concurrent_trials=4, callbacks=[Spy(raise_at_two)])
    numbers = {record["trial"]: record["number"] for record in journal_of() if record["type"] == "trial"}
    assert [numbers[record["trial"]] for record in journal_of() if record["type"] == "result"] == [0, 1]
