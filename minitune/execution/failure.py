"""FailurePolicy: retry, give up, fail fast; and the error that says how a trial ended."""

from __future__ import annotations

import logging
import re
import signal
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from minitune.config import FailureConfig
from minitune.error import (
    MissingMetricError,
    RemoteError,
    TrialError,
    TrialTimeoutError,
    WorkerDiedError,
    WorkerStartError,
    trial_error,
)
from minitune.execution.deadlines import REPORT, Overdue
from minitune.execution.trial_executor import Exited
from minitune.experiment.lifecycle import Phase
from minitune.experiment.trial import Trial
from minitune.result import AUTO_RESULT_KEYS, DEFAULT_METRIC, TRAINING_ITERATION, flatten

logger = logging.getLogger("minitune")

LOST = "lost: "
"""What the cause of a return to PENDING begins with if the trial was not to blame."""

BY_SIGNAL = f"{LOST}by a signal that may be meant for the whole run: "
"""The same if it is not yet known whether the trial is to blame."""

VERDICT_S = 2.25
"""How long a trial that a signal has ended for good waits for its verdict. Where all processes of a run get a signal,
the driver's may come up to 2 s after those of the workers; and it takes a moment to be heard."""

_ENDING = [
    (name, int(number))
    for name in ("SIGHUP", "SIGINT", "SIGKILL", "SIGTERM", "SIGUSR1")
    if (number := getattr(signal, name, None)) is not None
]
"""The signals that end a run, and the one that follows where they do not."""
_BY_SIGNAL = frozenset(f"{name} ({number})" for name, number in _ENDING)
_EXIT_BY_SIGNAL = frozenset(128 + number for _, number in _ENDING)
"""Exit codes by which a program says that a signal has ended it: those of a shell."""
_INTERRUPTED = re.compile(r"^KeyboardInterrupt\b", re.MULTILINE)
"""A line of a traceback; also in that of an exception that was raised on the way out."""

DRIVER_ENDED = "the driver ended"
"""Why a trial waits again that had a worker when its driver ended."""

_KILLED = "SIGKILL (9)"
_MEMORY_HINT = "possibly out of memory"


class AfterFailure(Enum):
    """What becomes of a trial whose attempt has failed, and of the run."""

    RETRY = "retry"
    GIVE_UP = "give up"
    END_RUN = "end the run"


class FailurePolicy:
    """Decides what follows a failure.

    Args:
        config: How many retries there are, and whether a failure ends the run.
    """

    def __init__(self, config: FailureConfig):
        self._config = config

    @property
    def raises(self) -> bool:
        """Whether the first failure is to come out of `fit`."""
        return self._config.fail_fast == "raise"

    def after(self, trial: Trial, *, final: bool) -> AfterFailure:
        """What to do now that `trial.num_failures` counts the new failure.

        Args:
            trial: The trial.
            final: True if trying again cannot help.
        """
        if self._config.fail_fast:
            return AfterFailure.END_RUN
        allowed = trial.max_failures
        if not final and (allowed < 0 or trial.num_failures <= allowed):
            return AfterFailure.RETRY
        return AfterFailure.GIVE_UP


def raised_error(remote: RemoteError, *, starting: bool) -> TrialError:
    """The error of a trial whose trainable has raised.

    Args:
        remote: What the worker said.
        starting: True if the trainable could not even be loaded or set up.
    """
    remote = remote.with_sources()
    text = "\n".join(filter(None, (remote.traceback.rstrip(), remote.hint)))
    if starting:
        return trial_error(remote, f"the trainable could not be loaded or set up:\n{text}", WorkerStartError)
    return trial_error(remote, text)


def died_by_signal(event: Exited) -> bool:
    """Whether a signal has ended a worker that others may have got, too, and nothing more is known of it."""
    return event.cause in _BY_SIGNAL or (
        event.cause == f"exit code {event.exit_code}" and event.exit_code in _EXIT_BY_SIGNAL
    )


def raised_by_signal(remote: RemoteError) -> bool:
    """The same of an exception: what SIGINT raises, or an exit with the code for a signal."""
    if remote.type_name == SystemExit.__name__:
        return remote.message.isdecimal() and int(remote.message) in _EXIT_BY_SIGNAL
    return _INTERRUPTED.search(remote.traceback) is not None


def died_error(trial: Trial, event: Exited) -> TrialError:
    """The error of a trial whose worker is gone.

    Args:
        trial: The trial.
        event: How it ended.

    Returns:
        An error that names cause, process, last report, peak memory, last lines of output and where the rest is: a
        `WorkerStartError` if the trainable was still being loaded or set up.
    """
    kind = WorkerStartError if trial.phase is Phase.STARTING else WorkerDiedError
    when = " while the trainable was loaded or set up" if kind is WorkerStartError else ""
    hint = f", {_MEMORY_HINT}" if event.cause == _KILLED else ""  # not if somebody knows better
    peak = f", peak memory {event.peak_bytes / 2**20:.0f} MiB" if event.peak_bytes else ""
    what = f"the worker of trial {trial.name} (pid {event.pid or trial.pid}) died{when}: {event.cause}{hint}{peak}"
    error = kind("\n".join([what, f"last report: {_last_report(trial)}", *_where_and_last_lines(trial, event)]))
    error.cause = f"the worker died{when}: {event.cause}"
    return error


def carrier_error(trial: Trial, event: Exited) -> TrialError:
    """The error of a trial that ran each time when what carries the workers died.

    Args:
        trial: The trial.
        event: How its worker was lost the last time.
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
    """The error of a trial that has broken a time limit and was ended for it.

    Args:
        trial: The trial.
        overdue: Which limit.
        event: How its worker ended; the stacks at the time are in its last lines.
    """
    what = (
        f"no report for {overdue.limit_s:.1f} s"
        if overdue.kind == REPORT
        else f"not done after {overdue.limit_s:.1f} s"
    )
    cause = f"{what} (last: {_last_report(trial)})"
    limit = f"{overdue.kind}_timeout_s={overdue.limit_s:g}"
    first = f"trial {trial.name} (pid {event.pid or trial.pid}) has broken {limit}: {cause}; its worker: {event.cause}"
    error = TrialTimeoutError("\n".join([first, *_where_and_last_lines(trial, event)]))
    error.cause = cause
    return error


def _last_report(trial: Trial) -> str:
    iteration = trial.last_result.get(TRAINING_ITERATION)
    return "none" if iteration is None else f"iteration {iteration}"


def _where_and_last_lines(trial: Trial, event: Exited) -> list[str]:
    lines = [f"its output: {trial.local_path}"]
    return [*lines, "last lines of its output:", event.last_lines.rstrip()] if event.last_lines else lines


_NO_ACCIDENT = 2
"""So many trials without a metric, and not one with it, show that its name is wrong."""


class RequiredMetrics:
    """Finds results that lack a metric, and the metric whose name is wrong, so that not every trial fails for it.

    Args:
        names: The flattened names of the metrics that run, scheduler and searcher go by.
        is_bare: Whether they go by the bare number that a trainable returns, for want of a name.

    Attributes:
        is_over: Whether no result needs to be looked at any more.
    """

    def __init__(self, names: Iterable[str], *, is_bare: bool = False):
        self._names = tuple(names)
        self._is_bare = is_bare
        self.is_over = not (self._names or is_bare)
        self._num_failed: Counter[str] = Counter()
        self._reported: set[str] = set()

    def error_of(self, flat: Mapping[str, Any]) -> MissingMetricError | None:
        """The error of a trial whose result lacks a metric.

        Args:
            flat: The flattened result.

        Returns:
            The error, or None if all is well. A result that holds nothing but automatic keys is well.
        """
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
                    "a mode is given and no metric, so trials are compared by the number that they return in place of "
                    "a dict; but reported were: %s. Name the metric, such as metric=%r",
                    ", ".join(reported),
                    reported[0],
                )
            return None
        from difflib import get_close_matches

        self._reported.update(name for name in self._names if name in flat)
        close = get_close_matches(metric, reported, 1)
        error = MissingMetricError(
            f"the metric {metric!r} must be in every reported result, but reported were: {', '.join(reported)}"
            + (f". Did you mean {close[0]!r}? " if close else ". ")
            + "MINITUNE_DISABLE_STRICT_METRIC_CHECKING=1 allows results without it"
        )
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
        if any(metric in trial.metric_analysis or metric in flatten(trial.last_result) for trial in trials):
            self._reported.add(metric)
            return
        raised = MissingMetricError(
            f"the run has ended, because {self._num_failed[metric]} trials have failed for want of a metric that no "
            f"trial has ever reported: {error}"
        )
        raised.metric = metric
        raise raised
