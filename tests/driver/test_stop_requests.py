"""Requests from another process to stop a trial: it ends as if a scheduler had stopped it, and the run goes on."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from kit import Log, LoggingScheduler, LoggingSearcher, cut, fit, journal_of, listening, restore, run_path

from minitune import get_checkpoint, grid_search, report
from minitune.record import stop_requests
from minitune.record.layout import RunDirectory

RUN = {"metric": "loss", "mode": "min"}
SENDING = listening(on_trial_result=lambda **info: os.kill(os.getpid(), stop_requests.SIGNAL))
"""Sends the signal at each result, without a request."""
EXECUTORS = pytest.mark.parametrize("executor", ["inline", "local"])


def ask(trial_id):
    """Ask the driver, which is this process."""
    stop_requests.ask_to_stop(RunDirectory(str(run_path())), trial_id, os.getpid())


def asking(when):
    """Asks at a result to stop the trial whose id the function returns."""

    def look(trial, result, **info):
        trial_id = when(trial, result)
        if trial_id is not None:
            ask(trial_id)

    return listening(on_trial_result=look)


def second_of_trial_1(trial, result):
    return trial.trial_id if trial.number == 1 and result["training_iteration"] == 2 else None


def states(grid):
    return [trial.state for trial in grid._run.trials]


def steps(config):
    for step in range(4):
        report({"loss": config["x"] + step})


def hangs(config):
    report({"loss": 1})
    report({"loss": 2})
    while config["x"] == 1:
        time.sleep(0.05)


# -- a trial -----------------------------------------------------------------------------------------------------------
@EXECUTORS
def test_a_trial_ends_with_its_results_and_the_others_go_on(executor):
    space = {"x": grid_search([0, 1, 2])}
    grid = fit(steps, space, executor=executor, callbacks=[asking(second_of_trial_1)], **RUN)

    assert states(grid) == ["finished", "stopped", "finished"]
    assert 2 <= grid[1].metrics["training_iteration"] < 4
    assert grid[1].metrics["loss"] == grid[1].metrics["training_iteration"]
    assert grid.num_errors == 0
    ended = [record for record in journal_of() if record["type"] == "status" and record.get("ending") == "request"]
    assert [record["trial"] for record in ended] == [grid[1].metrics["trial_id"]]
    assert not os.path.exists(RunDirectory(str(run_path())).requests)


def test_a_trial_that_hangs_ends_after_the_time_for_its_clean_up(monkeypatch):
    monkeypatch.setenv("MINITUNE_FORCE_TRIAL_CLEANUP_S", "0.2")
    grid = fit(hangs, {"x": grid_search([0, 1])}, executor="local", callbacks=[asking(second_of_trial_1)], **RUN)
    assert states(grid) == ["finished", "stopped"]
    assert grid[1].metrics["loss"] == 2


def test_a_trial_that_waits_is_not_started(monkeypatch):
    monkeypatch.setenv("MINITUNE_MAX_PENDING_TRIALS", "10")
    monkeypatch.setenv("MINITUNE_NUM_CPUS", "1")

    def look(trial, trials, result, **info):
        if trial.number == 0 and result["training_iteration"] == 1:
            ask(trials[2].trial_id)

    space = {"x": grid_search([0, 1, 2])}
    grid = fit(steps, space, callbacks=[listening(on_trial_result=look)], **RUN)
    assert states(grid) == ["finished", "finished", "not started"]


def test_plug_ins_hear_the_end_as_that_of_a_trial_that_is_complete():
    log = Log()
    grid = fit(
        lambda config: steps({"x": 0}),
        search_alg=LoggingSearcher(log),
        scheduler=LoggingScheduler(log),
        num_samples=2,
        max_concurrent_trials=1,
        callbacks=[asking(lambda trial, result: trial.trial_id if trial.number == 0 else None)],
        **RUN,
    )
    assert states(grid) == ["stopped", "finished"]
    assert [line.split()[1] for line in log.of("searcher.on_trial_complete")] == ["0", "1"]
    assert "0" in [line.split()[1] for line in log.of("scheduler.on_trial_")]


def test_a_trial_that_was_stopped_stays_so_after_a_resume():
    def train(config):
        assert get_checkpoint() is None
        steps(config)

    space = {"x": grid_search([0, 1, 2])}
    settings = {"max_concurrent_trials": 1, **RUN}
    cut(train, space, results=7, callbacks=[asking(second_of_trial_1)], **settings)
    grid = restore(train).fit()
    assert states(grid) == ["finished", "stopped", "finished"]


# -- who hears ---------------------------------------------------------------------------------------------------------
def test_a_run_in_another_thread_hears_no_requests_and_says_so():
    heard = []
    look = listening(
        on_trial_result=lambda trial, **info: heard.append(stop_requests.is_heard(RunDirectory(trial.experiment_path)))
    )
    thread = threading.Thread(target=fit, args=(steps, {"x": 1}), kwargs={"callbacks": [look], **RUN})
    thread.start()
    thread.join()
    fit(steps, {"x": 1}, callbacks=[look], **RUN)
    assert heard == [False] * 4 + [True] * 4


def test_a_handler_of_the_user_s_stays():
    got = []
    before = signal.signal(stop_requests.SIGNAL, lambda number, frame: got.append(number))
    try:
        fit(steps, {"x": 1}, callbacks=[SENDING])
    finally:
        signal.signal(stop_requests.SIGNAL, before)
    assert got == [stop_requests.SIGNAL] * 4


def test_a_request_to_a_driver_that_was_killed_is_dropped():
    cut(steps, {"x": grid_search([0, 1])}, results=5, max_concurrent_trials=1, **RUN)
    (trial_id,) = {one["trial"] for one in journal_of() if one["type"] == "trial" and one["number"] == 1}
    directory = Path(RunDirectory(str(run_path())).requests)
    directory.mkdir(exist_ok=True)
    (directory / trial_id).touch()

    assert states(restore(steps, callbacks=[SENDING]).fit()) == ["finished", "finished"]
