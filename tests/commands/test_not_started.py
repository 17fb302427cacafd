"""Trials that still wait when a stopper ends the run: every view, count and exit status names them."""

from __future__ import annotations

import json
import os
import re

import pytest
from kit import fit

from minitune import ExperimentAnalysis, Result, ResultGrid, Stopper, grid_search, report


class AfterTheFirst(Stopper):
    """Ends the run with the first report of the second trial."""

    def __init__(self):
        self.trials = set()

    def __call__(self, trial_id, result):
        self.trials.add(trial_id)
        return False

    def stop_all(self):
        return len(self.trials) == 2


def train(config):
    for step in range(2):
        report({"loss": config["x"] + step})


def end_early(storage, name, **settings):
    """Of six trials one ends, the second is cut short, and four wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINITUNE_NUM_CPUS", "1")
        patch.setenv("MINITUNE_MAX_PENDING_TRIALS", "10")
        settings = {"metric": "loss", "mode": "min", "stop": AfterTheFirst(), "storage_path": storage, **settings}
        return fit(train, {"x": grid_search(list(range(6)))}, name=name, **settings)


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    """The directory of a run that has drawn all six trials; `tests/view` has runs with some that were not drawn."""
    path = tmp_path_factory.mktemp("storage")
    end_early(path, "drawn")
    return path


def test_a_grid_counts_trials_without_a_turn_and_plug_ins_see_them_pending(tmp_path):
    grid = end_early(tmp_path, "run")
    assert (len(grid), grid.num_terminated, grid.num_not_started, grid.num_errors) == (6, 2, 4, 0)
    trials = ExperimentAnalysis(grid.experiment_path).trials
    assert {trial.status for trial in trials} == {"TERMINATED"}
    assert [trial.has_started for trial in trials] == [True] * 2 + [False] * 4
    assert ResultGrid(ExperimentAnalysis(grid.experiment_path)).num_not_started == 4
    assert [os.path.isdir(result.path) for result in grid] == [True] * 2 + [False] * 4
    with pytest.raises(RuntimeError, match="does not"):
        Result.from_path(grid[5].path)


def test_a_trial_that_fails_first_ends_the_run_before_the_others(minitune, tmp_path, monkeypatch):
    def failing(config):
        raise ValueError("at once")

    monkeypatch.setenv("MINITUNE_NUM_CPUS", "1")
    monkeypatch.setenv("MINITUNE_MAX_PENDING_TRIALS", "10")
    grid = fit(failing, {"x": grid_search([0, 1, 2])}, fail_fast=True, storage_path=tmp_path)
    assert (grid.num_errors, grid.num_terminated, grid.num_not_started) == (1, 0, 2)
    assert minitune("watch", grid.experiment_path)[0] == 3


def test_the_console_shows_trials_without_a_turn(tmp_path, capsys):
    end_early(tmp_path, "run", verbose=2)
    out = capsys.readouterr().out
    assert "s: 1 finished, 1 interrupted, 4 not started" in out
    assert len(re.findall(r"\| not started +\|", out)) == 4
    assert out.count(" ended after ") == 2


def test_commands_show_trials_without_a_turn_and_no_directory(minitune):
    rows = json.loads(minitune("ls", "drawn", "--json")[1])["trials"]
    assert [row["status"] for row in rows] == ["finished", "interrupted"] + ["not started"] * 4
    assert [row["ended"] for row in rows] == ["finished", "interrupted at 1"] + ["not started"] * 4
    assert [row["logdir"] is None for row in rows] == [False] * 2 + [True] * 4
    assert "6 trials, stopped" in minitune("ls", "drawn", "--filter", "status == 'not started'")[1]
    (run,) = json.loads(minitune("ls", "--json")[1])["runs"]
    names = ("total_trials", "finished", "interrupted", "failed", "not_started", "pending")
    assert [run[name] for name in names] == [6, 1, 1, 0, 4, 0]
    trial = json.loads(minitune("show", "drawn", "5", "--json")[1])
    assert (trial["status"], trial["directory"]) == ("not started", None)
    shown = minitune("show", "drawn", "--why")[1]
    assert shown.count(" not started at the start: stopped: ") == 4
    status, _, errors = minitune("logs", "drawn", "5")
    assert (status, "has no directory: it is not started" in errors) == (1, True)
    status, watched, _ = minitune("watch", "drawn")
    assert status == 4
    for text in (shown, watched):
        assert "1 finished, 1 interrupted, 4 not started\n" in text


def test_resume_says_why_no_trial_goes_on(minitune, tmp_path, caplog):
    grid = end_early(tmp_path, "run")
    status, _, _ = minitune("resume", grid.experiment_path)
    assert "no trial starts: the stopper has ended the run: AfterTheFirst" in caplog.text
    assert status == 4
