"""A failure is shown once: either the exception shows it, or the screen or the log does."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from kit import fit, make_tuner, resume

import minitune as tune
from minitune import Callback, TuneError
from minitune.output.live_reporter import LiveReporter

SCRIPTS = Path(__file__).with_name("scripts")

LINE = 'raise ValueError(f"no'
"""A source line in the traceback."""


def told(script, way, **environment):
    """Exit status, standard output and standard error of a script that runs failing trials in this way."""
    process = script.start(SCRIPTS / "failing_trials.py", way, **{"MINITUNE_EXECUTOR": "inline", **environment})
    stdout, stderr = script.finish(process)
    return process.returncode, stdout, stderr


def test_a_run_that_does_not_raise_shows_one_traceback(script):
    status, stdout, stderr = told(script, "fit")
    assert (status, stderr) == (0, "")
    assert stdout.count(LINE) == 1


@pytest.mark.parametrize(
    ("way", "verbose"),
    [("fit_and_raise", "1"), ("fit_interrupted_and_raise", "1"), ("run_train", "0")],
)
def test_a_failure_that_is_raised_is_shown_by_the_exception(script, way, verbose):
    status, stdout, stderr = told(script, way, VERBOSE=verbose)
    assert status == 1
    assert stderr.count(LINE) == 1
    assert stderr.count("The above exception") == 1
    assert LINE not in stdout
    assert ("with the same error" in stdout) is (way == "fit_and_raise")
    assert (stdout == "") is (verbose == "0")


@pytest.mark.parametrize(("executor", "verbose"), [("inline", "0"), ("local", "1")])
def test_the_failure_that_ends_the_run_at_once_is_shown_by_the_exception(script, executor, verbose):
    status, stdout, stderr = told(script, "fail_fast", MINITUNE_EXECUTOR=executor, VERBOSE=verbose)
    assert status == 1
    assert stderr.count(LINE) == stderr.count('raise KeyError("its own") from error') == 1
    assert stderr.rstrip().endswith("KeyError: 'its own'")
    assert LINE not in stdout


def test_a_trial_that_lacks_the_metric_is_told_at_once_and_shown_at_the_end(capsys):
    def lacks(config):
        tune.report({"loss": 1} if config["x"] else {"los": 1})

    fit(lacks, {"x": tune.grid_search([1, 0])}, metric="loss", mode="min", verbose=None)
    assert capsys.readouterr().out.count("but reported were: los.") == 2


# -- the log -----------------------------------------------------------------------------------------------------------


def fails(config):
    tune.report({"n": 1})
    if config["x"]:
        raise ValueError(f"no {config['x']}")


def fit_failing(raises=False, **run):
    tuner = make_tuner(fails, {"x": tune.grid_search([0, 1, 1, 2])}, **{"name": None, "verbose": None, **run})
    tuner.fit(raise_on_failed_trial=raises)


@pytest.mark.parametrize("silent", [{"verbose": 0}, {"progress": False}])
def test_a_run_that_shows_nothing_leaves_one_record_of_its_failures(tmp_path, caplog, silent):
    fit_failing(storage_path=tmp_path, **silent)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("minitune", logging.ERROR)
    begin = "3 of 4 trials failed: 3 x ValueError: no 1 ("
    assert record.getMessage().startswith(begin + str(tmp_path))


def test_a_run_that_shows_or_raises_its_failures_logs_none(caplog):
    fit_failing(verbose=1)
    with pytest.raises(TuneError, match=r"3 of 4 trials failed; the first of them: trial .* ValueError: no 1"):
        fit_failing(raises=True, verbose=0)
    with pytest.raises(TuneError):
        tune.run(fails, config={"x": 1}, verbose=0)
    assert caplog.messages == []


def test_without_a_log_a_silent_run_prints_nothing(script):
    assert told(script, "fit", VERBOSE="0") == (0, "", "")


def test_without_a_log_a_run_without_progress_tells_its_failures_in_one_line(script):
    status, stdout, stderr = told(script, "fit_without_progress")
    assert (status, stdout) == (0, "")
    (line,) = stderr.splitlines()
    assert line.startswith("2 of 3 trials failed: 2 x ValueError: no 2 (")


# -- after a resume ----------------------------------------------------------------------------------------------------


class Broken(Callback):
    def on_trial_result(self, iteration, trials, trial, result, **info):
        if trial.config["x"] == 5:
            raise KeyboardInterrupt


class Views(LiveReporter):
    """Keeps the first snapshot of the live view."""

    first = None

    def report(self, trials, done, *sys_info):
        self.first = self.first or self._snapshot(trials)


@pytest.mark.parametrize("executor", ["inline", "local"])
def test_errors_of_the_part_before_are_told_by_their_own_lines(executor):
    def failing(config):
        tune.report({"n": 1})
        if config["x"] in (1, 2):
            raise ValueError(f"no {config['x']}\nmore of it")
        if config["x"] == 3:
            raise OSError("another one")
        if config["x"] == 4 and executor == "local":
            os._exit(3)

    space = {"x": tune.grid_search([1, 2, 3, 4, 5])}
    settings = {"executor": executor, "max_concurrent_trials": 1}
    with pytest.raises(KeyboardInterrupt):
        fit(failing, space, callbacks=[Broken()], **settings)

    views = Views()
    resume(failing, progress_reporter=views, verbose=None, **settings)
    assert views.first is not None
    errors = views.first.errors
    assert errors[:2] == [(2, "ValueError: no 2"), (1, "OSError: another one")]
    if executor == "local":
        assert errors[2][1].startswith("the worker of trial failing_")
