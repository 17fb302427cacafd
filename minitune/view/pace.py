"""Time that goes on between reports: when a trial reported last, and how long the run will take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minitune.base import clock
from minitune.base.numbers import known_number
from minitune.experiment.lifecycle import ERROR, RUNNING, TERMINATED
from minitune.experiment.trial import Trial
from minitune.record.standing import RUNNING_RUN, Standing
from minitune.record.story import Story
from minitune.result import TIME_TOTAL_S, TIMESTAMP, TRAINING_ITERATION


def quiet_s(trial: Trial, now_s: float) -> float | None:
    """The seconds since the last report of a running trial; None before one, or if it does not run."""
    begun_s = trial.start_time
    if trial.status != RUNNING or begun_s is None or not trial.progress.num_reports:
        return None
    # A `timestamp` has whole seconds, and may be that of an earlier worker.
    reported_s = known_number(trial.progress.metrics.get(TIMESTAMP)) or begun_s
    return max(0.0, now_s - max(begun_s, reported_s))


def rest_of_run_s(
    trials: Sequence[Trial],
    elapsed_s: float,
    total: int | None,
    ended_before: int = 0,
    time_budget_s: float | None = None,
) -> float | None:
    """Estimate how many seconds a run will still take, at its speed so far; None for an endless run, or before any
    progress. The trials `ended_before` took none of its time.
    """
    ended = sum(trial.status in (TERMINATED, ERROR) for trial in trials) - ended_before
    # A running trial counts by its part, so that the estimate does not jump when trials end together.
    parts = [_part_done(trial) for trial in trials if trial.status == RUNNING]
    done = ended + sum(0.5 if part is None else min(1.0, max(0.0, part)) for part in parts)
    rest_s = None
    # Halves of which nothing is known say nothing about the speed.
    if total is not None and (ended or any(parts)):
        rest_s = max(0.0, (total - ended_before - done) * elapsed_s / done)
    if time_budget_s is None:
        return rest_s
    budget_s = max(0.0, time_budget_s - elapsed_s)
    return budget_s if rest_s is None else min(rest_s, budget_s)


@dataclass(frozen=True)
class RunTimes:
    """How long the drivers of a run have worked, and an estimate of how long it will still take; None if it does not go
    on.
    """

    worked_s: float
    rest_s: float | None = None


def times_of(run: Story, state: Standing) -> RunTimes:
    """The times of a run, as of now if it goes on."""
    if state.name != RUNNING_RUN:
        return RunTimes(run.worked_s)
    driver = run.driver
    elapsed_s = max(0.0, clock.current.time() - driver.opened_s)
    rest_s = rest_of_run_s(run.trials, elapsed_s, run.total_samples, len(driver.ended_before), driver.time_budget_s)
    return RunTimes(driver.earlier_s + elapsed_s, rest_s)


def _part_done(trial: Trial) -> float | None:
    """The part of a running trial that is done, from 0 to 1; None if the trial has no limits that it must reach."""
    parts = []
    for name in (TRAINING_ITERATION, TIME_TOTAL_S):
        limit = trial.stopping_criterion.get(name)
        # Only a limit that a growing number reaches tells how much is left.
        if isinstance(limit, (tuple, list)):  # a pair of an operator and a limit, see `DictStopper`
            limit = limit[1] if limit[0] in (">=", ">") else None
        if end := known_number(limit):
            parts.append((known_number(trial.progress.metrics.get(name)) or 0.0) / end)
    return max(parts, default=None)
