"""Time that goes on between reports: in the live view, and in what it says about the rest of the run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kit import make_trial, run_trial

from minitune.base import clock
from minitune.base.clock import VirtualClock
from minitune.experiment.lifecycle import Transition
from minitune.output.live import render, render_html
from minitune.output.live_reporter import default_reporter
from minitune.output.reporters import RunInfo
from minitune.record.standing import Standing
from minitune.view.pace import (
    quiet_s,
    rest_of_run_s,
    times_of,
)


def reporting(number, began_s, reports, each_s, attempt=1):
    """A running trial that has reported so often, after this pause each time."""
    trial = make_trial(number)
    for _ in range(attempt):
        trial = trial if trial.attempt.number else run_trial(trial)
    trial.attempt.number = attempt
    trial.attempt.start_time = began_s
    if reports:
        trial.progress.num_reports = reports
        trial.progress.metrics = {
            "training_iteration": reports,
            "time_total_s": reports * each_s,
            "timestamp": int(began_s + reports * each_s),
        }
    return trial


def test_the_last_report_of_a_running_trial_is_that_of_its_present_worker():
    assert quiet_s(reporting(0, 1000.0, 3, 2.0), 1013.0) == 7
    assert quiet_s(reporting(0, 1000.0, 0, 2.0), 1013.0) is None, "it has not reported"
    assert quiet_s(reporting(0, 1000.0, 4, 0.5), 900.0) == 0, "the clock has gone back"
    again = reporting(0, 2000.0, 3, 2.0, attempt=2)
    again.progress.metrics["timestamp"] = 1006  # of the worker before
    assert quiet_s(again, 2004.0) == 4
    again.move(Transition.STOP)
    assert quiet_s(again, 9999.0) is None


def view_of(trials, at_s):
    """What a terminal and a notebook show at this time, in a run that began at 1000."""
    now = VirtualClock()
    now.sleep(at_s - now.time())
    with clock.use(now):
        reporter = default_reporter()
        reporter.setup(start_time=1000.0, total_samples=4, metric="loss", mode="min")
        reporter.note_run(RunInfo("/runs/it"))
        snapshot = reporter._snapshot(trials)
        reporter.close()
    return "\n".join(render(snapshot, 160, 40)), render_html(snapshot)


@pytest.mark.parametrize(("budget_s", "left"), [(30.0, "20 s"), (9000.0, "4 min 36 s")])
def test_a_time_budget_limits_what_is_left(budget_s, left):
    now = VirtualClock()
    now.sleep(1010.0 - now.time())
    with clock.use(now):
        reporter = default_reporter()
        reporter.setup(start_time=1000.0, total_samples=100)
        reporter.note_run(RunInfo(time_budget_s=budget_s))
        trials = [reporting(number, 1000.0, 4, 0.5) for number in range(4)]
        for trial in trials[1:]:
            trial.move(Transition.STOP)
        assert f"about {left} to go" in render(reporter._snapshot(trials), 160, 40)[1]


def test_a_terminal_and_a_notebook_show_the_time_by_the_clock():
    trials = [reporting(0, 1000.0, 4, 0.5), reporting(1, 1000.0, 0, 0)]
    assert not any("ago" in text for text in view_of(trials, 1004.9)), "it reports often"
    assert all("3 s ago" in text for text in view_of(trials[:1], 1005.0))
    for text in view_of(trials, 1728.0):
        assert text.count("12 min 6 s ago") == text.count("ago") == 1, "the other one has not reported"


@pytest.mark.parametrize(
    ("ended", "total", "running", "rest_s"),
    [
        (2, 10, 0, 400.0),
        (2, None, 1, None),  # an endless search
        (0, 10, 2, None),  # nothing is known yet
        (1, 4, 2, 100.0),
        (5, 4, 0, 0.0),
        (4, 4, 0, 0.0),
    ],
)
def test_a_running_trial_counts_as_a_half(ended, total, running, rest_s):
    trials = [make_trial(number) for number in range(ended)]
    for trial in trials:
        trial.move(Transition.STOP)
    trials += [reporting(number, 1000.0, 4, 0.5) for number in range(ended, ended + running)]
    assert rest_of_run_s(trials, 100.0, total) == rest_s


def test_trials_that_had_ended_before_took_none_of_the_time():
    trials = [make_trial(number) for number in range(4)]
    for trial, how in zip(trials, (Transition.STOP, Transition.STOP, Transition.STOP, None), strict=True):
        if how is not None:
            trial.move(how)
    assert rest_of_run_s(trials, 30.0, 6, ended_before=2) == 90.0
    assert rest_of_run_s(trials, 30.0, 6, ended_before=3) is None
    assert rest_of_run_s(trials, 30.0, 6, ended_before=2, time_budget_s=50.0) == 20.0
    assert rest_of_run_s(trials, 30.0, 6, ended_before=2, time_budget_s=20.0) == 0.0
    assert rest_of_run_s(trials, 30.0, None, time_budget_s=50.0) == 20.0
    assert rest_of_run_s(trials, 30.0, None) is None


def test_a_run_that_goes_on_has_worked_until_now_and_any_other_until_its_last_record():
    now = VirtualClock(1040.0)
    trials = [reporting(0, 1000.0, 4, 0.5), make_trial(1)]
    trials[1].move(Transition.STOP)
    driver = SimpleNamespace(opened_s=1030.0, earlier_s=7.0, ended_before=[], time_budget_s=None)
    run = SimpleNamespace(trials=trials, total_samples=2, driver=driver, worked_s=12.0)
    with clock.use(now):
        assert times_of(run, Standing("killed", "")) == (12.0, None)
        assert times_of(run, Standing("running", "")) == (17.0, pytest.approx(0.5 * 10 / 1.5))
        driver.ended_before, driver.time_budget_s = ["t0001"], 14.0
        assert times_of(run, Standing("running", ""))[1] == 4.0
        driver.opened_s = 1050.0
        assert times_of(run, Standing("running", ""))[0] == 7.0
