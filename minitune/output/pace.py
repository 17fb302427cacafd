"""The pace of trials by the clock: how long each has worked, whether it is silent, and how long the run will take.

All views count on from a trial's last report by these rules.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from minitune import clock
from minitune.base.numbers import known_number
from minitune.experiment.lifecycle import ERROR, RUNNING, TERMINATED
from minitune.experiment.trial import Trial
from minitune.record.standing import RUNNING_RUN, Standing
from minitune.record.story import Story
from minitune.result import TIME_TOTAL_S, TIMESTAMP, TRAINING_ITERATION

SILENT_TIMES = 10
"""A trial is silent from so many of its usual pauses on. Not measured: with fewer, one that saves a model is named."""
_LEAST_SILENCE_S = 10.0
"""A shorter pause is no news: a fast trial that saves a model is not silent."""

_LATEST = 200
"""Views are drawn often, so the pause of a run comes from so many trials."""


@dataclass(frozen=True)
class Pace:
    """How long a trial has worked, and how often it reports.

    Attributes:
        counted_s: The seconds that it had worked at `since_s`, or at its end.
        since_s: From when on its time counts by the clock; None if it does not run.
        reported_s: The time of its last report, or of its start before one; None if it does not run.
        usual_s: The mean seconds between two of its reports; None before the first one.
    """

    counted_s: float
    since_s: float | None
    reported_s: float | None
    usual_s: float | None
    has_reported: bool

    def worked_s(self, now_s: float) -> float:
        """The seconds that it has worked."""
        if self.since_s is None:
            return self.counted_s
        return self.counted_s + max(0.0, now_s - self.since_s)

    def quiet_s(self, now_s: float) -> float | None:
        """The seconds since its last report, or since its start; None if it does not run."""
        if self.reported_s is None:
            return None
        return max(0.0, now_s - self.reported_s)

    def is_silent(self, now_s: float, usual_s: float | None) -> bool:
        """Whether it runs, and has been quiet for too long. `usual_s` is that of the run, for a first report."""
        limit_s = silent_after_s(usual_s if self.usual_s is None else self.usual_s)
        quiet_s = self.quiet_s(now_s)
        return limit_s is not None and quiet_s is not None and quiet_s >= limit_s


def silent_after_s(usual_s: float | None) -> float | None:
    """After how many seconds without a report a trial is silent; None if its usual pause is not known."""
    return None if usual_s is None else max(_LEAST_SILENCE_S, SILENT_TIMES * usual_s)


def pace_of(trial: Trial) -> Pace:
    """The pace of a trial."""
    metrics = trial.progress.metrics
    total_s = trial.progress.training_s
    reports = trial.progress.num_reports
    usual_s = total_s / reports if reports and total_s > 0 else None
    begun_s = trial.start_time
    if trial.status != RUNNING or begun_s is None:
        return Pace(total_s, None, None, usual_s, reports > 0)
    # A `timestamp` has whole seconds, and may be that of an earlier worker.
    reported_s = max(begun_s, known_number(metrics.get(TIMESTAMP)) or begun_s)
    if trial.attempt.number <= 1:  # it has had one worker, so its time is that of this worker
        return Pace(0.0, begun_s, reported_s, usual_s, reports > 0)
    return Pace(total_s, reported_s, reported_s, usual_s, reports > 0)


def usual_pause_s(trials: Sequence[Trial]) -> float | None:
    """The median of the usual pauses between reports of the latest trials, in seconds; None before the first report."""
    known = [usual_s for usual_s in (pace_of(trial).usual_s for trial in trials[-_LATEST:]) if usual_s is not None]
    if not known and len(trials) > _LATEST:  # they have not reported yet
        known = [usual_s for usual_s in (pace_of(trial).usual_s for trial in trials[:_LATEST]) if usual_s is not None]
    return statistics.median(known) if known else None


def silent_trials(trials: Sequence[Trial], now_s: float) -> list[Trial]:
    """The running trials that have not reported for ten times their usual pause, in their order."""
    running = [trial for trial in trials if trial.status == RUNNING]
    if not running:
        return []
    usual_s = usual_pause_s(trials)
    return [trial for trial in running if pace_of(trial).is_silent(now_s, usual_s)]


def rest_s_at_speed(
    elapsed_s: float, ended: int, total: int | None, running: Sequence[float | None], silent: int = 0
) -> float | None:
    """Estimate how many seconds a run will still take, at its speed so far; None for an endless run, before any
    progress, or if it only waits for silent trials. `running` has the part of each running one that is done (None: a
    half), without silent ones.
    """
    if total is None or not (ended or any(part for part in running)):
        return None
    if silent and not running:
        return None
    # A running trial counts by its part, so that the estimate does not jump when trials end together.
    done = ended + sum(0.5 if part is None else min(1.0, max(0.0, part)) for part in running)
    return max(0.0, (total - silent - done) * elapsed_s / done)


def rest_of_run_s(
    trials: Sequence[Trial],
    now_s: float,
    elapsed_s: float,
    total: int | None,
    ended_before: int = 0,
    time_budget_s: float | None = None,
) -> float | None:
    """Estimate how many seconds a run will still take; see `rest_s_at_speed`. The trials `ended_before` took none of
    it.
    """
    silent = silent_trials(trials, now_s)
    left_out = {trial.trial_id for trial in silent}
    ended = sum(trial.status in (TERMINATED, ERROR) for trial in trials) - ended_before
    parts = [_part_done(trial) for trial in trials if trial.status == RUNNING and trial.trial_id not in left_out]
    to_end = None if total is None else total - ended_before
    rest_s = rest_s_at_speed(elapsed_s, ended, to_end, parts, len(silent))
    if time_budget_s is None:
        return rest_s
    budget_s = max(0.0, time_budget_s - elapsed_s)
    return budget_s if rest_s is None else min(rest_s, budget_s)


@dataclass(frozen=True)
class RunTimes:
    """How long the drivers of a run have worked until a time, and an estimate of how long it will still take; None if
    it does not go on.
    """

    now_s: float
    worked_s: float
    rest_s: float | None = None


def times_of(run: Story, state: Standing) -> RunTimes:
    """The times of a run, as of now if it goes on."""
    if state.name != RUNNING_RUN:
        return RunTimes(run.updated_s, run.worked_s)
    now_s = clock.current.time()
    driver = run.driver
    elapsed_s = max(0.0, now_s - driver.opened_s)
    rest_s = rest_of_run_s(
        run.trials, now_s, elapsed_s, run.total_samples, len(driver.ended_before), driver.time_budget_s
    )
    return RunTimes(now_s, driver.earlier_s + elapsed_s, rest_s)


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
