"""Failures of trials and losses of workers: their consequences, the time of the next attempt, and their errors.

A failure is the trial's own fault: its trainable raises, its worker dies, it breaks a time limit, a metric is missing.
`after_failure` decides whether the trial is retried, and `CrashLoop` slows down endless retries. A loss is not the
trial's fault: the system has no process or descriptor left, or the parent process of the workers has died. `Setbacks`
decides when workers are started again. A start at once would only keep the driver busy. No start at all would waste
resources that become free.
"""

from __future__ import annotations

import logging
import math
import re
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

_PAUSES_S = (0.2, 2.0, 5.0, 10.0, 30.0)
"""The pause after the first loss, after the second one in a row, and so on. The last value holds for all later ones."""
_IN_VAIN = 3
"""After so many losses in a row without an answer of any trial, the run ends if no worker runs."""
_LOSSES = 3
"""A trial is to blame if so many of its attempts in a row were lost because the parent process of their workers died.
In the last of them, that process had no other worker. If several trials are lost and none has answered in between, the
cause may be another one, and twice as many losses are needed."""
_RESTS_S = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""The rest after a trial's first failure, after its second one without a result in between, and so on."""
_STORM, _STORM_S = 100, 10.0
"""More restarts within so many seconds, without a result in between, end the run. A slow machine may take longer for
them, so the same number of *quick* failures also ends the run. A failure is quick if neither the attempt nor the rests
of the trial since its last result took longer than these seconds."""
_NEVER_UP = 3
"""The run also ends if the workers of so many trials could not start, and no worker has started."""
REPORT, TRIAL = "report", "trial"
"""The kinds of time limits: from one pull to the next report, and for a whole attempt."""
LOST = "lost: "
"""The prefix of the cause of a return to PENDING if the trial is not to blame."""
BY_SIGNAL = f"{LOST}by a signal that may be meant for the whole run: "
"""The same prefix if the driver does not know yet whether the trial is to blame."""
VERDICT_S = 2.25
"""After a signal has ended a trial, the driver waits so long for a signal of its own before the trial fails. If all
processes of a run get a signal, the driver may get it up to 2 s after the workers, and needs a moment to handle it."""
_INTERRUPTED = re.compile(r"^KeyboardInterrupt\b", re.MULTILINE)
"""Matches a traceback with an interrupt, even if another exception was raised while the interrupt was handled."""
_ENDING = [
    (name, int(number))
    for name in ("SIGHUP", "SIGINT", "SIGKILL", "SIGTERM", "SIGUSR1")
    if (number := getattr(signal, name, None)) is not None
]
"""The signals that end a run, and SIGKILL, which often follows them."""
_BY_SIGNAL = frozenset(f"{name} ({number})" for name, number in _ENDING)
_EXIT_BY_SIGNAL = frozenset(128 + number for _, number in _ENDING)
"""The exit codes that a shell uses for a program that was ended by one of these signals."""
DRIVER_ENDED = "the driver ended"
"""The cause of a return to PENDING if the trial had a worker when its driver ended."""
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


# -- losses and restarts -----------------------------------------------------------------------------------------------
class Setbacks:
    """Counts losses of workers in a row. It says how long to wait after a loss, and when to give up.

    A loss during a pause belongs to the loss that has caused the pause. So does the loss of a worker that was requested
    before the pause. The count only grows when a worker is lost that was requested later.

    Times are seconds of the executor's clock.

    Attributes:
        are_there: Whether a worker was ever lost. Before that, no other method needs a call.
    """

    def __init__(self) -> None:
        self.are_there = False
        self._num_in_row = 0
        self._num_in_vain = 0
        self._not_before_s = self._last_s = -math.inf
        self._cause = ""
        self._told: set[str] = set()
        self._losses: Counter[str] = Counter()  # by trial: the number of attempts in a row
        self._lost_in_vain: set[str] = set()

    def lost(self, cause: str, now_s: float, begun_s: float = math.inf) -> bool:
        """A worker was lost, or could not be started.

        Args:
            cause: Why.
            now_s: The time.
            begun_s: When the worker was requested.

        Returns:
            Whether this cause is new: each cause gets one warning.
        """
        self.are_there = True
        if now_s >= self._not_before_s and begun_s >= self._last_s:
            self._last_s = now_s
            self._not_before_s = now_s + _PAUSES_S[min(self._num_in_row, len(_PAUSES_S) - 1)]
            self._num_in_row += 1
            self._num_in_vain += 1
            self._cause = cause
        is_new = cause not in self._told
        self._told.add(cause)
        return is_new

    def started(self) -> None:
        """A worker has started."""
        self._num_in_row = 0

    def lives(self) -> None:
        """A trial has answered, so the next loss is the first one in a row."""
        self._num_in_vain = 0
        self._lost_in_vain.clear()

    def carrier_died(self, trial_id: str) -> bool:
        """The parent process of a trial's worker has died; `lost` was called before.

        Returns:
            Whether this has happened so often in a row that the trial must be the cause.
        """
        self._losses[trial_id] += 1
        self._lost_in_vain.add(trial_id)
        is_general = self.is_hopeless and len(self._lost_in_vain) > 1
        if self._losses[trial_id] < (2 * _LOSSES if is_general else _LOSSES):
            return False
        del self._losses[trial_id]
        self.lives()
        return True

    def left(self, trial_id: str) -> None:
        """An attempt of a trial has ended in any other way. There may be room for another worker at once."""
        self._losses.pop(trial_id, None)
        self._not_before_s = -math.inf
        self._num_in_vain = min(self._num_in_vain, _IN_VAIN - 1)

    def pause_s(self, now_s: float) -> float:
        """How long to wait before the next start of a worker; 0 for no wait."""
        return self._not_before_s - now_s if self._not_before_s > now_s else 0.0

    @property
    def is_hopeless(self) -> bool:
        """Whether no worker should be started until a running one answers or exits. If none runs, the run ends."""
        return self._num_in_vain >= _IN_VAIN

    def why_hopeless(self) -> str:
        """The error text for a run without workers; empty if workers may still be started."""
        if not self.is_hopeless:
            return ""
        return (
            f"workers were lost {self._num_in_vain} times in a row before a trial could start, and no trial runs: "
            f"{self._cause}. Look at the limits on processes, memory and open files (ulimit -u, -v and -n, those of "
            "the container), or let fewer trials run at a time; the run can be resumed"
        )


class CrashLoop:
    """Slows down trials that fail again and again, and ends the run if no trial ever succeeds.

    Times are seconds of the executor's clock.

    Attributes:
        counts: Whether such a trial has failed since the last result.
        has_come_up: Whether a worker of the run was ever ready. The controller sets it.
    """

    def __init__(self) -> None:
        self.counts = False
        self.has_come_up = False
        self._in_row: dict[str, tuple[int, float]] = {}  # by trial, since its last result: failures, seconds of rest
        self._never_up: set[str] = set()  # the trials that have failed at their start before any worker was ready
        self._restarts: deque[tuple[float, str]] = deque(maxlen=_STORM + 1)
        self._num_quick = 0

    def rest_s(
        self, trial_id: str, cause: str, now_s: float, starting: bool = False, lived_s: float = math.inf
    ) -> float:
        """A trial has failed and will be retried.

        Args:
            trial_id: The trial.
            cause: The cause, in one line.
            now_s: The time.
            starting: Whether it failed while the trainable was loaded or set up.
            lived_s: Seconds from the time when the worker was ready to the failure.

        Returns:
            How many seconds it should wait.

        Raises:
            CrashLoopError: If there were more than 100 restarts within 10 s, or more than 100 quick failures, and no
                result; or if no worker of the run was ready so far and three trials have failed so. It names the
                common cause.
        """
        if starting and not self.has_come_up:
            self._never_up.add(trial_id)
            if len(self._never_up) >= _NEVER_UP:
                raise CrashLoopError(
                    f"no worker has started, and the workers of {_NEVER_UP} trials have failed at their start: "
                    f"{cause}. Fix the cause, or limit max_failures; the run can be resumed"
                )
        self.counts = True
        times, rested_s = self._in_row.get(trial_id, (0, 0.0))
        rest_s = _RESTS_S[min(times, len(_RESTS_S) - 1)]
        self._in_row[trial_id] = times + 1, rested_s + rest_s
        self._num_quick += (starting or lived_s <= _STORM_S) and rested_s <= _STORM_S
        self._restarts.append((now_s, cause))
        span_s = now_s - self._restarts[0][0]
        if len(self._restarts) > _STORM and (span_s <= _STORM_S or self._num_quick > _STORM):
            common, count = Counter(cause for _, cause in self._restarts).most_common(1)[0]
            raise CrashLoopError(
                f"trials were restarted {len(self._restarts)} times within {max(_STORM_S, math.ceil(span_s)):g} s, and "
                f"none reported a result: {common} ({count} times). Fix the cause, or limit max_failures; the run "
                "can be resumed"
            )
        return rest_s

    def reported(self, trial_id: str) -> None:
        """A trial has reported a result."""
        self._in_row.pop(trial_id, None)
        self._restarts.clear()
        self._num_quick = 0
        self.counts = bool(self._in_row)


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
    """Whether a signal has ended a worker, and its sender may have sent it to other processes, too."""
    return event.cause in _BY_SIGNAL or (
        event.cause == f"exit code {event.exit_code}" and event.exit_code in _EXIT_BY_SIGNAL
    )


def raised_by_signal(remote: RemoteError) -> bool:
    """The same for an exception: a `KeyboardInterrupt`, or an exit with the code of a signal."""
    if remote.type_name == SystemExit.__name__:
        return remote.message.isdecimal() and int(remote.message) in _EXIT_BY_SIGNAL
    return _INTERRUPTED.search(remote.traceback) is not None


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


def carrier_error(trial: Trial, event: Exited) -> TrialError:
    """The error of a trial that was running each time the parent process of the workers died.

    Args:
        trial: The trial.
        event: The last loss of its worker.
    """
    what = (
        f"the worker of trial {trial.name} (pid {event.pid}) was lost again: {event.cause}. The zygote is the parent "
        "process of the workers. It has ended in several attempts of this trial in a row, and in the last one it was "
        "the parent of this trial alone. A trial must not kill its parent process (os.getppid())"
    )
    error = WorkerDiedError(
        "\n".join([what, f"last report: {_last_report(trial)}", *_where_and_last_lines(trial, event)])
    )
    error.cause = f"{event.cause}, in several attempts of this trial in a row"
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
            self._is_bare, self.is_over = False, not self._names
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
