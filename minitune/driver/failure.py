"""Failures of trials and losses of workers: their consequences, the time of the next attempt, and their errors.

A failure is the trial's own fault: its trainable raises, its worker dies, it breaks a time limit, a metric is missing.
`after_failure` decides whether the trial is retried. A loss is probably not the trial's fault: the parent process of
the workers has died, or a signal has ended the worker that may be meant for the whole run. The trial goes back to
PENDING. `Backoff` slows down losses and endless retries, and ends a run in which no attempt brings anything new.
"""

from __future__ import annotations

import logging
import math
import signal
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from minitune.base.checks import shown
from minitune.config import FailureConfig
from minitune.error import (
    CrashLoopError,
    MissingMetricError,
    RemoteError,
    TrialError,
    TrialTimeoutError,
    WorkerDiedError,
    WorkerStartError,
    trial_error,
)
from minitune.executors.trial_executor import Exited
from minitune.experiment.lifecycle import Phase
from minitune.experiment.trial import Trial
from minitune.result import AUTO_RESULT_KEYS, DEFAULT_METRIC, TRAINING_ITERATION, flatten

logger = logging.getLogger("minitune")

BACKOFF_S = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""How long a trial waits after its first attempt in vain, after the second one in a row, and so on. The last value
holds for all later ones."""
BACKOFF_AFTER_SIGNAL_S = 1.0
"""How long it waits at least if a signal has ended the attempt. If the signal was meant for the whole run, the driver's
own copy arrives in that time, and ends the run before the trial starts again."""
_MAX_LOSSES = 10
"""A trial that loses its worker so many times in a row, without a new report in between, has failed."""
_MAX_LOSSES_BY_SIGNAL = 3
"""The same if a signal has ended the last one."""
_MAX_IN_VAIN = 30
"""After so many attempts in a row without a new report of any trial, the run ends if nothing runs."""
_NEVER_UP = 3
"""The run also ends if the workers of so many trials could not start, and no worker has started."""
REPORT = "report"
TRIAL = "trial"
"""The kinds of time limits: from one pull to the next report, and for a whole attempt."""
_SIGNALS = frozenset(
    getattr(signal, name)
    for name in ("SIGHUP", "SIGINT", "SIGTERM")
    if hasattr(signal, name)  # not all on Windows
)
"""The signals that are often sent to all processes of a run."""
_KILLED = "SIGKILL (9)"
_MEMORY_HINT = "possibly out of memory"
_NO_ACCIDENT = 2
"""If so many trials lack a metric and no trial has it, its name is wrong."""


# -- what follows a failure --------------------------------------------------------------------------------------------
class AfterFailure(Enum):
    """What the trial and the run do after an attempt has failed."""

    RETRY = "retry"
    GIVE_UP = "give up"
    END_RUN = "end the run"


def after_failure(config: FailureConfig, trial: Trial, *, final: bool) -> AfterFailure:
    """The consequence of a failure that `trial.num_failures` already counts.

    Args:
        config: Whether a failure ends the run.
        trial: The trial.
        final: True if another attempt cannot help.
    """
    if config.fail_fast:
        return AfterFailure.END_RUN
    allowed = trial.max_failures
    if not final and (allowed < 0 or trial.num_failures <= allowed):
        return AfterFailure.RETRY
    return AfterFailure.GIVE_UP


# -- losses and retries ------------------------------------------------------------------------------------------------
class Backoff:
    """Says how long trials wait after attempts in vain, and when another attempt is of no use.

    An attempt is *in vain* if its worker was lost, or if it has failed and its trial has unlimited retries. The count
    of a trial's attempts in a row starts again with a report number that the trial never had: a trial that repeats its
    first reports again and again makes no progress.

    A worker that could not be started says nothing about its trial. Then *no* worker is started for a while, because
    the next one would be refused, too.

    Times are seconds of the executor's clock.

    Attributes:
        is_active: Whether some trial or the next start of a worker may have to wait. If not, most calls can be skipped.
        has_come_up: Whether a worker of the run was ever ready.
    """

    def __init__(self) -> None:
        self.is_active = False
        self.has_come_up = False
        self._in_row: Counter[str] = Counter()  # by trial: its attempts in vain since its last progress
        self._in_vain: deque[str] = deque(maxlen=_MAX_IN_VAIN)  # causes of attempts in a row without a new report
        self._num_refused = 0
        self._no_start_before_s = -math.inf
        self._never_up: set[str] = set()  # the trials that have failed at their start before any worker was ready
        self._told: set[str] = set()

    def num_in_row(self, trial_id: str) -> int:
        """How many attempts of a trial were in vain since its last progress."""
        return self._in_row.get(trial_id, 0)

    def has_lost_too_many(self, trial_id: str, *, by_signal: bool) -> bool:
        """Whether a trial has failed if it now loses its worker once more."""
        limit = _MAX_LOSSES_BY_SIGNAL if by_signal else _MAX_LOSSES
        return self.num_in_row(trial_id) + 1 >= limit

    def in_vain(self, trial_id: str, cause: str, *, by_signal: bool = False) -> float:
        """An attempt was in vain.

        Args:
            trial_id: The trial.
            cause: The cause, in one line.
            by_signal: Whether a signal has ended it that may be meant for the whole run. That is no reason to end the
                run as hopeless: the driver waits for its own copy of the signal.

        Returns:
            How many seconds the trial should wait.
        """
        self.is_active = True
        wait_s = _step(self._in_row[trial_id])
        self._in_row[trial_id] += 1
        if by_signal:
            return max(wait_s, BACKOFF_AFTER_SIGNAL_S)
        self._in_vain.append(cause)
        return wait_s

    def progressed(self, trial_id: str) -> None:
        """A trial has reported a number that it never had, or has finished."""
        self._in_row.pop(trial_id, None)
        self._in_vain.clear()
        self.is_active = bool(self._in_row) or self._num_refused > 0

    def failed_to_start(self, trial_id: str, cause: str) -> None:
        """A trial with unlimited retries has failed while its trainable was loaded or set up.

        Raises:
            CrashLoopError: If no worker of the run was ready so far, and three trials have failed so.
        """
        if self.has_come_up:
            return
        self._never_up.add(trial_id)
        if len(self._never_up) >= _NEVER_UP:
            raise CrashLoopError(
                f"no worker has started, and the workers of {_NEVER_UP} trials have failed at their start: {cause}. "
                "Fix the cause, or limit max_failures; the run can be resumed"
            )

    def is_new(self, cause: str) -> bool:
        """Whether this cause of a loss was not told yet. Each cause gets one warning."""
        is_new = cause not in self._told
        self._told.add(cause)
        return is_new

    # -- workers that could not be started --------------------------------------------------------------------------

    def refused(self, cause: str, now_s: float) -> None:
        """A worker could not be started. Several at a time count once: they say the same."""
        if now_s < self._no_start_before_s:
            return
        self.is_active = True
        self._no_start_before_s = now_s + _step(self._num_refused)
        self._num_refused += 1
        self._in_vain.append(cause)

    def started(self) -> None:
        """A worker is ready."""
        self.has_come_up = True
        self._num_refused = 0

    def has_room(self) -> None:
        """A worker has exited, so there may be room for another one at once."""
        self._no_start_before_s = -math.inf

    def seconds_left(self, now_s: float) -> float:
        """How long no worker should be started because the last one was refused; 0 if one may be started."""
        return max(0.0, self._no_start_before_s - now_s)

    # -- the end ----------------------------------------------------------------------------------------------------

    @property
    def is_hopeless(self) -> bool:
        """Whether so many attempts in a row have brought no new report that the run ends if nothing runs."""
        return len(self._in_vain) == _MAX_IN_VAIN

    def error(self) -> CrashLoopError:
        """The error of a run that ends because it is hopeless and nothing runs."""
        common, count = Counter(self._in_vain).most_common(1)[0]
        return CrashLoopError(
            f"{_MAX_IN_VAIN} attempts in a row have brought no new report, and no trial runs: {common} ({count} "
            "times). Fix the cause, then resume the run. If processes cannot be started, look at the limits on "
            "processes, memory and open files (ulimit -u, -v and -n, those of the container), or let fewer trials run "
            "at a time"
        )


def _step(num_before: int) -> float:
    return BACKOFF_S[min(num_before, len(BACKOFF_S) - 1)]


# -- time limits -------------------------------------------------------------------------------------------------------
class Overdue(NamedTuple):
    """A limit that an actor has exceeded.

    Attributes:
        actor_id: The actor.
        kind: `REPORT` or `TRIAL`.
        limit_s: The limit, in seconds.
    """

    actor_id: str
    kind: str
    limit_s: float


class Deadlines:
    """The time that each actor has left. Each operation is O(1), and does nothing if there is no limit.

    Args:
        report_timeout_s: Seconds from a pull to the report that answers it, or None.
        trial_timeout_s: Seconds for one attempt of a trial, from the start of its worker, or None.

    Attributes:
        are_set: Whether there is any limit. If not, a caller can skip all calls.
    """

    def __init__(self, report_timeout_s: float | None, trial_timeout_s: float | None):
        self._limits_s = {
            kind: limit_s for kind, limit_s in ((REPORT, report_timeout_s), (TRIAL, trial_timeout_s)) if limit_s
        }
        # By kind and actor. All limits of a kind have the same length, so they are in the order of their ends.
        self._ends_s: dict[str, dict[str, float]] = {kind: {} for kind in self._limits_s}
        self.are_set = bool(self._limits_s)

    def begin(self, actor_id: str, kind: str, now_s: float) -> None:
        """Start, or restart, the clock of one limit for an actor."""
        ends_s = self._ends_s.get(kind)
        if ends_s is not None:
            ends_s.pop(actor_id, None)
            ends_s[actor_id] = now_s + self._limits_s[kind]

    def end(self, actor_id: str, kind: str) -> None:
        """Stop the clock: the actor has met the limit."""
        if kind in self._ends_s:
            self._ends_s[kind].pop(actor_id, None)

    def forget(self, actor_id: str) -> None:
        """Drop all limits of an actor that has ended."""
        for ends_s in self._ends_s.values():
            ends_s.pop(actor_id, None)

    def overdue(self, now_s: float) -> list[Overdue]:
        """Return the limits that are exceeded now, and drop all limits of their actors."""
        found = []
        for kind, ends_s in self._ends_s.items():
            while ends_s:
                actor_id, end_s = next(iter(ends_s.items()))
                if end_s > now_s:
                    break
                self.forget(actor_id)
                found.append(Overdue(actor_id, kind, self._limits_s[kind]))
        return found

    def seconds_left(self, now_s: float) -> float | None:
        """Seconds until the next limit is exceeded; None if no clock runs."""
        ends_s = [next(iter(ends_s.values())) for ends_s in self._ends_s.values() if ends_s]
        return max(0.0, min(ends_s) - now_s) if ends_s else None


# -- errors ------------------------------------------------------------------------------------------------------------
def raised_error(remote: RemoteError, *, starting: bool) -> TrialError:
    """The error of a trial whose trainable has raised.

    Args:
        remote: The worker's error.
        starting: True if the trainable could not even be loaded or set up.
    """
    remote = remote.with_sources()
    text = "\n".join(filter(None, (remote.traceback.rstrip(), remote.hint)))
    if starting:
        return trial_error(remote, f"the trainable could not be loaded or set up:\n{text}", WorkerStartError)
    return trial_error(remote, text)


def died_by_signal(event: Exited) -> bool:
    """Whether a worker was ended by a signal that may be meant for the whole run."""
    return event.exit_code is not None and -event.exit_code in _SIGNALS


def raised_by_signal(remote: RemoteError) -> bool:
    """The same for an exception: SIGINT raises it in Python code."""
    return remote.type_name == KeyboardInterrupt.__name__


def died_error(trial: Trial, event: Exited) -> TrialError:
    """The error of a trial whose worker has died.

    Args:
        trial: The trial.
        event: The end of the worker.

    Returns:
        An error with cause, process, last report, peak memory, last lines of output, and the path of the whole output.
        It is a `WorkerStartError` if the trainable was still being loaded or set up.
    """
    kind = WorkerStartError if trial.phase is Phase.STARTING else WorkerDiedError
    when = " while the trainable was loaded or set up" if kind is WorkerStartError else ""
    hint = f", {_MEMORY_HINT}" if event.cause == _KILLED else ""  # not if the cause is known
    peak = f", peak memory {event.peak_bytes / 2**20:.0f} MiB" if event.peak_bytes else ""
    what = f"the worker of trial {trial.name} (pid {event.pid or trial.pid}) died{when}: {event.cause}{hint}{peak}"
    error = kind("\n".join([what, f"last report: {_last_report(trial)}", *_where_and_last_lines(trial, event)]))
    error.cause = f"the worker died{when}: {event.cause}"
    return error


def lost_error(trial: Trial, event: Exited, num_losses: int) -> TrialError:
    """The error of a trial that has lost its worker too often in a row.

    Args:
        trial: The trial.
        event: The last loss.
        num_losses: How many there were.
    """
    what = (
        f"trial {trial.name} has lost its worker {num_losses} times in a row without a new report, the last one (pid "
        f"{event.pid or trial.pid}) because of this: {event.cause}"
    )
    error = WorkerDiedError(
        "\n".join([what, f"last report: {_last_report(trial)}", *_where_and_last_lines(trial, event)])
    )
    error.cause = event.cause
    return error


def timeout_error(trial: Trial, overdue: Overdue, event: Exited) -> TrialError:
    """The error of a trial that was ended because it has exceeded a time limit.

    Args:
        trial: The trial.
        overdue: The limit.
        event: The end of its worker. Its last lines have the stacks of that time.
    """
    what = (
        f"no report for {overdue.limit_s:.1f} s"
        if overdue.kind == REPORT
        else f"not done after {overdue.limit_s:.1f} s"
    )
    cause = f"{what} (last: {_last_report(trial)})"
    limit = f"{overdue.kind}_timeout_s={overdue.limit_s:g}"
    first = (
        f"trial {trial.name} (pid {event.pid or trial.pid}) has exceeded {limit}: {cause}; its worker has ended: "
        f"{event.cause}"
    )
    error = TrialTimeoutError("\n".join([first, *_where_and_last_lines(trial, event)]))
    error.cause = cause
    return error


def _last_report(trial: Trial) -> str:
    iteration = trial.last_metrics.get(TRAINING_ITERATION)
    return "none" if iteration is None else f"iteration {iteration}"


def _where_and_last_lines(trial: Trial, event: Exited) -> list[str]:
    lines = [f"its output: {trial.local_path}"]
    return [*lines, "last lines of its output:", event.last_lines.rstrip()] if event.last_lines else lines


# -- missing metrics ---------------------------------------------------------------------------------------------------
class RequiredMetrics:
    """Finds results that lack a metric. A wrong name of a metric ends the run before every trial fails.

    Args:
        names: The flattened names of the metrics that run, scheduler and searcher go by.
        is_bare: Whether they use the number that a trainable returns without a name.

    Attributes:
        is_over: Whether no result needs to be looked at any more.
    """

    def __init__(self, names: Iterable[str], *, is_bare: bool = False):
        self._names = tuple(names)
        self._is_bare = is_bare
        self.is_over = not (self._names or is_bare)
        self._num_failed: Counter[str] = Counter()
        self._reported: set[str] = set()

    def error_of(self, result: Mapping[str, Any]) -> MissingMetricError | None:
        """The error of a trial whose result lacks a metric, or has a text in its place.

        Args:
            result: The result, nested.

        Returns:
            The error, or None. A result with automatic keys only is no error.
        """
        if not self._is_bare:
            for name in self._names:
                if name not in result or isinstance(result[name], (Mapping, str)):
                    break
            else:
                return None
        flat = flatten(result)
        for name in self._names:
            if isinstance(flat.get(name), str):
                self._reported.add(name)  # the name is right, so this is no reason to end the run
                return self._error(name, f"the metric {name!r} must be a number, but got the text {shown(flat[name])}")
        metric = next((name for name in self._names if name not in flat), None)
        if metric is None and not self._is_bare:
            return None
        reported = sorted(key for key in flat if key.partition("/")[0] not in AUTO_RESULT_KEYS)
        if not reported:
            return None
        if metric is None:  # the first result tells what the trials report
            self._is_bare = False
            self.is_over = not self._names
            if DEFAULT_METRIC not in flat:
                logger.warning(
                    "there is a mode but no metric, so each trial must return a number; but reported were: %s. Name "
                    "the metric, such as metric=%r",
                    ", ".join(reported),
                    reported[0],
                )
            return None
        from difflib import get_close_matches

        self._reported.update(name for name in self._names if name in flat)
        close = get_close_matches(metric, reported, 1)
        hint = f". Did you mean {close[0]!r}? " if close else ". "
        return self._error(
            metric,
            f"the metric {metric!r} must be in every reported result, but reported were: {', '.join(reported)}{hint}"
            "MINITUNE_DISABLE_STRICT_METRIC_CHECKING=1 allows results without it",
        )

    @staticmethod
    def _error(metric: str, text: str) -> MissingMetricError:
        error = MissingMetricError(text)
        error.metric = metric
        return error

    def has_failed(self, error: MissingMetricError, trials: Iterable[Trial]) -> None:
        """A trial has failed with an error of `error_of`.

        Args:
            error: The error.
            trials: All trials of the run.

        Raises:
            MissingMetricError: If it is the second one for this metric, and no trial has ever reported it.
        """
        metric = error.metric
        self._num_failed[metric] += 1
        if self._num_failed[metric] < _NO_ACCIDENT or metric in self._reported:
            return
        if any(metric in trial.metric_analysis or metric in flatten(trial.last_metrics) for trial in trials):
            self._reported.add(metric)
            return
        raised = MissingMetricError(
            f"the run has ended: {self._num_failed[metric]} trials have failed without a metric that no trial has "
            f"reported: {error}"
        )
        raised.metric = metric
        raise raised
