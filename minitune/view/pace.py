"""Time that goes on between reports: when a trial reported last, and how long the run will take."""

from __future__ import annotations

from collections.abc import Sequence

from minitune.base import clock
from minitune.base.numbers import known_number
from minitune.experiment.lifecycle import ERROR, RUNNING, TERMINATED
from minitune.experiment.trial import Trial
from minitune.record.standing import RUNNING_RUN, Standing
from minitune.record.story import Story
from minitune.result import TIMESTAMP


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
    """Estimate how many seconds a run will still take, at its speed so far; None for an endless run, or before a
    trial has ended. The trials `ended_before` took none of its time.
    """
    ended = sum(trial.status in (TERMINATED, ERROR) for trial in trials) - ended_before
    # A running trial counts as a half, so that the estimate does not jump when trials end together.
    done = ended + 0.5 * sum(trial.status == RUNNING for trial in trials)
    rest_s = None
    if total is not None and ended:  # halves alone say nothing about the speed
        rest_s = max(0.0, (total - ended_before - done) * elapsed_s / done)
    if time_budget_s is None:
        return rest_s
    budget_s = max(0.0, time_budget_s - elapsed_s)
    return budget_s if rest_s is None else min(rest_s, budget_s)


def times_of(run: Story, state: Standing) -> tuple[float, float | None]:
    """How long the drivers of a run have worked, as of now if it goes on, and an estimate of how long it will still
    take; None if it does not go on.
    """
    if state.name != RUNNING_RUN:
        return run.worked_s, None
    driver = run.driver
    elapsed_s = max(0.0, clock.current.time() - driver.opened_s)
    rest_s = rest_of_run_s(run.trials, elapsed_s, run.total_samples, len(driver.ended_before), driver.time_budget_s)
    return driver.earlier_s + elapsed_s, rest_s
