"""Trials that still wait when a stopper ends the run: every view, count and exit status names them."""

from __future__ import annotations

import json
import os
import re

import pytest
from kit import fit

from minitune import ExperimentAnalysis, Result, ResultGrid, Stopper, grid_search, report, uniform


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


def end_early(storage, name, space=None, **settings):
    """Of six trials one ends, the second is cut short, and four wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINITUNE_NUM_CPUS", "1")
        patch.setenv("MINITUNE_MAX_PENDING_TRIALS", "10")
        settings = {"metric": "loss", "mode": "min", "stop": AfterTheFirst(), "storage_path": storage, **settings}
        return fit(train, space or {"x": grid_search(list(range(6)))}, name=name, **settings)


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    """The directory of two runs: `drawn` has drawn all six trials, `lazy` only as many as may run at a time."""
    path = tmp_path_factory.mktemp("storage")
    end_early(path, "lazy", max_concurrent_trials=1)
    end_early(path, "drawn")
    return path


def listed(minitune, *arguments):
    """The rows of a list as JSON."""
    status, out, _ = minitune(*arguments, "--json")
    assert status == 0
    (rows,) = [value for value in json.loads(out).values() if isinstance(value, list)]
    return list(rows)


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


def test_a_run_whose_trials_all_had_a_turn_counts_none():
    grid = fit(lambda config: None, {"x": grid_search([0, 1])})
    assert (grid.num_terminated, grid.num_not_started) == (2, 0), "a trial without a report has started, too"


def test_a_trial_that_fails_first_ends_the_run_before_the_others(monkeypatch):
    def failing(config):
        raise ValueError("at once")

    monkeypatch.setenv("MINITUNE_NUM_CPUS", "1")
    monkeypatch.setenv("MINITUNE_MAX_PENDING_TRIALS", "10")
    grid = fit(failing, {"x": grid_search([0, 1, 2])}, fail_fast=True)
    assert (grid.num_errors, grid.num_terminated, grid.num_not_started) == (1, 0, 2)


def test_the_console_shows_trials_without_a_turn(tmp_path, capsys):
    end_early(tmp_path, "run", verbose=2)
    out = capsys.readouterr().out
    assert "s: 1 finished, 1 interrupted, 4 not started" in out
    assert len(re.findall(r"\| not started +\|", out)) == 4
    assert out.count(" ended after ") == 2


def test_ls_shows_trials_without_a_turn_and_no_directory(minitune):
    rows = listed(minitune, "ls", "drawn")
    assert [row["status"] for row in rows] == ["finished", "interrupted"] + ["not started"] * 4
    assert [row["ended"] for row in rows] == ["finished", "interrupted at 1"] + ["not started"] * 4
    assert [row["logdir"] is None for row in rows] == [False] * 2 + [True] * 4
    waiting = listed(minitune, "ls", "drawn", "--filter", "status == 'not started'", "--columns", "trial,logdir")
    assert [row["trial"] for row in waiting] == [2, 3, 4, 5]
    assert "6 trials, stopped" in minitune("ls", "drawn")[1]


def test_trials_that_were_not_drawn_are_a_number(minitune):
    drawn = len(listed(minitune, "ls", "lazy"))
    assert drawn < 6
    assert f": {drawn} trials, {6 - drawn} more not started, stopped" in minitune("ls", "lazy")[1]
    assert f", {6 - drawn} not started\n" in minitune("show", "lazy")[1]


def test_ls_counts_trials_without_a_turn(minitune):
    drawn, lazy = sorted(listed(minitune, "ls"), key=lambda row: str(row["name"]))
    names = ("total_trials", "finished", "interrupted", "failed", "not_started", "pending")
    assert [drawn[name] for name in names] == [6, 1, 1, 0, 4, 0]
    assert [lazy[name] for name in names] == [6, 1, 1, 0, 4, 0]


def test_show_names_trials_without_a_turn(minitune):
    assert "1 finished, 1 interrupted, 4 not started\n" in minitune("show", "drawn")[1]
    state = json.loads(minitune("show", "lazy", "--json")[1])
    assert (state["total_trials"], state["counts"]["finished"], state["counts"]["not_started"]) == (6, 1, 4)
    status, out, _ = minitune("show", "drawn", "5", "--json")
    trial = json.loads(out)
    assert (status, trial["status"], trial["directory"]) == (0, "not started", None)
    assert minitune("show", "drawn", "--why")[1].count(" not started at the start: stopped: ") == 4
    status, _, errors = minitune("logs", "drawn", "5")
    assert (status, "has no directory: it is not started" in errors) == (1, True)


@pytest.mark.parametrize("name", ["drawn", "lazy"])
def test_watch_tells_by_its_exit_status_that_trials_had_no_turn(minitune, name):
    status, out, _ = minitune("watch", name)
    assert status == 4
    assert "s: 1 finished, 1 interrupted, 4 not started" in out
    assert "Ended early: " in out


def test_a_search_without_end_has_no_trials_that_it_owes(minitune, tmp_path):
    grid = end_early(tmp_path, "endless", {"x": uniform(0, 1)}, num_samples=-1)
    assert minitune("watch", grid.experiment_path)[0] == 0


def test_a_failed_trial_is_told_before_trials_without_a_turn(minitune, tmp_path):
    def failing(config):
        raise ValueError("at once")

    grid = fit(failing, {"x": grid_search([0, 1, 2])}, fail_fast=True, storage_path=tmp_path, max_concurrent_trials=1)
    assert minitune("watch", grid.experiment_path)[0] == 3


def test_resume_says_why_no_trial_goes_on(minitune, tmp_path, caplog):
    grid = end_early(tmp_path, "run")
    status, _, _ = minitune("resume", grid.experiment_path)
    assert "no trial starts: the stopper has ended the run: AfterTheFirst" in caplog.text
    assert status == 4


def test_a_table_may_have_one_column(minitune):
    assert minitune("ls", "drawn", "--columns", "trial")[0] == 0
