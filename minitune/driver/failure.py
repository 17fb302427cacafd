"""Failures of trials and losses of workers: what follows from them, and their errors.

A failure is the trial's own fault: its trainable raises, its worker dies, it breaks a time limit, a metric is missing
(`Objectives`).
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from minitune.base.numbers import as_objective
from minitune.base.settings import is_on
from minitune.base.text import cut, one_line, warn_once
from minitune.driver.limits import REPORT_LIMIT
from minitune.driver.outcomes import Outcomes, about
from minitune.driver.state import RunningTrial, RunState
from minitune.error import (
    HINT,
    CrashLoopError,
    DiskError,
    MissingMetricError,
    RemoteError,
    TrialError,
    TrialTimeoutError,
    WorkerDiedError,
    WorkerStartError,
    as_cause,
    trial_error,
)
from minitune.executors.trial_executor import Exited
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.lifecycle import TERMINATED, Phase, Transition
from minitune.experiment.trial import Trial
from minitune.result import DEFAULT_METRIC, MISSING, TRAINING_ITERATION, assign, flatten, own_metrics
from minitune.space.domains import is_same

logger = logging.getLogger("minitune")

_MEMORY_HINT = "possibly out of memory"
_NAMES_SHOWN = 20


# -- what follows ------------------------------------------------------------------------------------------------------
class Failures:
    """Decides and carries out what follows from a failed attempt, a lost worker, or a trial that can never start."""

    def __init__(
        self,
        outcomes: Outcomes,
        end_run: Callable[[Ending], None],
    ):
        self._outcomes = outcomes
        self._executor = outcomes.executor
        self._state = outcomes.state
        self._recorder = outcomes.recorder
        plan = outcomes.state.plan
        self._fail_fast = plan.failure_config.fail_fast
        metric = plan.tune_config.metric
        names = outcomes.hooks.objectives(metric)
        if is_on("DISABLE_STRICT_METRIC_CHECKING"):
            names = dict.fromkeys(names, False)
        self.failed_fast: Trial | None = None
        self._backoff = outcomes.state.backoff
        self._end_run = end_run
        self._objectives = Objectives(names, is_bare=outcomes.hooks.goes_by_bare_number(metric))
        self._equal = EqualFailures(outcomes.state, plan.failure_config.give_up_after, outcomes.recorder.run.path)

    def is_sound(self, running: RunningTrial, result: dict[str, Any]) -> bool:
        """Whether the result has the objectives, which become plain numbers; if not, the trial fails."""
        if self._objectives.is_over:
            return True
        wrong = self._objectives.settle(result)
        if wrong is not None:
            self.failed(running, wrong, final=True)
        return wrong is None

    def raised(self, running: RunningTrial, remote: RemoteError) -> None:
        """The trainable has raised, or could not be loaded or set up.

        Raises:
            DiskError: If the disk of the run has refused a file: no trial is to blame, so this one stays unfinished.
        """
        error = _raised_error(remote, running.trial.current_config, starting=running.trial.phase is Phase.STARTING)
        refused = error.__cause__
        if isinstance(refused, DiskError) and refused.run_path == self._recorder.run.path:
            raise refused
        if remote.type_name == KeyboardInterrupt.__name__:  # by SIGINT
            self.lost(running, error, by_signal=True)
        else:
            self.failed(running, error)

    def exited(self, running: RunningTrial, event: Exited) -> None:
        """The worker has ended, although it was not stopped, or because of a time limit."""
        trial = running.trial
        if event.kind == "refused":  # it could not be started, so the trial waits for its turn again
            self._backoff.refused(event.cause, self._outcomes.now_s())
            self._lose(trial, Ending.of(EndKind.REFUSED, event.cause), event.cause)
            return
        self._backoff.has_room()
        error = _exit_error(running, event, self._backoff.num_in_row(trial.trial_id) + 1)
        # Signals that are often sent to all processes of a run.
        by_signal = event.counts and event.exit_code in (-signal.SIGHUP, -signal.SIGINT, -signal.SIGTERM)
        if running.overdue is None and (by_signal or not event.counts):
            self.lost(running, error, by_signal=by_signal, gone=True)
        else:
            self.failed(running, error, gone=True)

    def lost(self, running: RunningTrial, error: TrialError, *, by_signal: bool = False, gone: bool = False) -> None:
        """The worker was lost. The trial is probably not to blame, so it waits for another one, and plug-ins are not
        told.

        After too many losses in a row it has failed, with `error`. `by_signal`: the signal may be meant for the whole
        run. `gone`: the actor has exited.
        """
        trial = running.trial
        # After so many losses in a row the trial itself is probably the cause.
        if self._backoff.has_lost_too_many(trial.trial_id, by_signal=by_signal):
            self.failed(running, error, gone=gone)
            return
        # Before the trial is QUEUED again: its next attempt must not start beside the last worker.
        if not gone:
            self._outcomes.let_go(running, keep=False)
        cause = error.summary()
        wait_s = self._backoff.in_vain(trial.trial_id, cause, by_signal=by_signal)
        self._lose(trial, Ending.of(EndKind.LOST, cause, **facts_of(error)), cause, wait_s)

    def _lose(self, trial: Trial, ending: Ending, cause: str, wait_s: float = 0.0) -> None:
        """A trial goes on after a loss, which is told once for each cause."""
        warn_once(f"trial {trial.name} lost its worker ({cause}); it is started again (logged once)", about=cause)
        self._try_again(trial, ending, wait_s)

    def _try_again(self, trial: Trial, ending: Ending, wait_s: float) -> None:
        """A trial waits for another attempt, at least so long. If the run is ending, it ends."""
        self._outcomes.take(trial, Transition.RETRY, ending)
        if self._state.ending is not None:
            self._outcomes.end(trial, self._state.ending)
        elif wait_s > 0:
            self._state.waiting.rest(trial, self._outcomes.now_s() + wait_s)

    def failed(self, running: RunningTrial, error: TrialError, *, final: bool = False, gone: bool = False) -> None:
        """An attempt has failed, and its process may be in any state, so it is not reused. `final`: another attempt
        cannot help. `gone`: the actor has exited.
        """
        trial = running.trial
        if not gone:
            self._outcomes.let_go(running, keep=False)
        trial.num_failures += 1
        # The file first, and then the record: a full disk may be the cause, and then the trial stays unfinished.
        self._recorder.directories.write_error(trial, error)
        is_tried_again = trial.max_failures < 0 or trial.num_failures <= trial.max_failures
        if is_tried_again and not (final or self._fail_fast):
            self._retry(trial, error)
        else:
            self._give_up(trial, error, error.summary())

    def _retry(self, trial: Trial, error: TrialError) -> None:
        cause = error.summary()
        most: int | str = "any number"
        if trial.max_failures >= 0:
            most = trial.max_failures + 1
        logger.warning(
            "trial %s failed (%s); attempt %d of %s starts from %s",
            trial.name,
            cause,
            trial.num_failures + 1,  # for users, a start after a pause is not another attempt
            most,
            trial.start_point().name,
            extra=about(trial),
        )
        wait_s = 0.0
        # Limited retries end by themselves. Without a limit, a trial that fails at once would take all of the machine.
        if trial.max_failures < 0:
            wait_s = self._backoff.in_vain(trial.trial_id, cause)
        self._try_again(trial, Ending(EndKind.FAILED, cause, facts_of(error)), wait_s)

    def cannot_start(self, trial: Trial, error: TrialError) -> None:
        """A trial that can never start ends in ERROR."""
        trial.num_failures += 1
        # It may wait in the ledger, which would keep resources free for it.
        self._executor.forget(trial.trial_id)
        self._recorder.directories.write_error(trial, error)
        self._give_up(trial, error, str(error))

    def _give_up(self, trial: Trial, error: TrialError, cause: str) -> None:
        """A trial has failed for good. With `fail_fast`, or after too many `EqualFailures`, the run ends."""
        trial.error = error  # before the hooks: it shows schedulers that the trial will not be retried
        self._outcomes.take(trial, Transition.FAIL, Ending(EndKind.FAILED, cause, facts_of(error)))
        self._outcomes.release(trial)
        if self._fail_fast:
            self.failed_fast = self.failed_fast or trial
            self._end_run(Ending.of(EndKind.FAIL_FAST, f"trial {trial.name} failed", trial=trial.trial_id))
        elif self._state.ending is None:
            self._equal.add(trial, error)


class Objectives:
    """Makes the objectives of each result plain numbers, and finds results without them.

    Args:
        names: The flattened names of the objectives; True for one that each result must have.
        is_bare: Whether there is a mode but no metric, so that the first result is looked at.

    Attributes:
        is_over: Whether there is nothing to look for in results.
    """

    def __init__(self, names: Mapping[str, bool], *, is_bare: bool = False):
        self._names = dict(names)
        self._is_bare = is_bare
        self.is_over = not (self._names or is_bare)

    def settle(self, result: dict[str, Any]) -> MissingMetricError | None:
        """Make the objectives plain numbers, in place; return an error if one is missing or no number. A result with
        automatic keys only is no error.
        """
        if not self._is_bare:
            for name in self._names:
                if type(result.get(name)) is not float:
                    break
            else:
                return None
        flat = flatten(result)
        for name, is_required in self._names.items():
            value = flat.get(name, MISSING)
            if value is MISSING or (value is None and not is_required):
                continue
            try:
                number = as_objective(value, name)
            except ValueError as error:
                return MissingMetricError(str(error))
            if number is not value:
                assign(result, name, number)
        metric = next((name for name, is_required in self._names.items() if is_required and name not in flat), None)
        if metric is None and not self._is_bare:
            return None
        reported = sorted(own_metrics(flat))
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
        return MissingMetricError(
            f"the metric {metric!r} must be in every reported result, but reported were: {', '.join(reported)}. "
            "MINITUNE_DISABLE_STRICT_METRIC_CHECKING=1 allows results without it",
        )


class EqualFailures:
    """Ends the run if its first trials all fail with the same error.

    A good run must never end this way. It goes on if a trial has a result or has finished; if one still runs that began
    before the first failure; if the failed trials share a value of a parameter, as at the beginning of a grid; or if
    two of them have different errors.
    """

    def __init__(self, state: RunState, limit: int, run_path: str):
        self._state = state
        self._run_path = run_path
        self._limit = limit
        self._is_over = not limit
        self._count = 0
        self._cause = ""
        self._same: dict[str, Any] = {}  # the parameters of which all these trials have one value
        self._elders: set[str] = set()  # the ids of the trials that were running at the first of these failures

    def add(self, trial: Trial, error: TrialError) -> None:
        """A trial has failed for good.

        Raises:
            CrashLoopError: If it was the last one of too many.
        """
        if self._is_over:
            return
        state = self._state
        # Not the kind of errors that views show as one: a number in the text may be the value of a parameter, and with
        # another value the trial may work.
        cause = error.summary()
        values = trial.evaluated_params
        if cause != self._cause:
            self._count = 0
            self._cause = cause
            self._same = dict(values)
            self._elders = {running.trial.trial_id for running in state.running.values()}
        self._count += 1
        self._elders.discard(trial.trial_id)
        self._same = {name: one for name, one in self._same.items() if name in values and is_same(one, values[name])}
        if self._count < self._limit or self._elders or self._same:
            return
        self._is_over = any(one.progress.num_reports or one.status == TERMINATED for one in state.trials)
        if self._is_over:
            return
        import shlex

        path = self._run_path
        raise CrashLoopError(
            f"{self._count} trials have failed with the same error, and no trial of the run has a result: {cause}\n"
            f"{HINT}correct the code; `minitune resume SCRIPT.py` continues the run, for a program `minitune resume "
            f"{shlex.quote(path)} --restart-errored`\n"
            f"{HINT}Tuner.restore({path!r}, trainable, restart_errored=True).fit() also starts the failed ones again\n"
            f"{HINT}FailureConfig(give_up_after=0) lets all trials run"
        ) from as_cause(error)


# -- errors ------------------------------------------------------------------------------------------------------------
def _raised_error(remote: RemoteError, config: Mapping[str, Any], *, starting: bool) -> TrialError:
    """The error of a trial whose trainable has raised, or could not be loaded or set up (`starting`)."""
    remote = remote.with_sources()
    text = "\n".join(filter(None, (remote.traceback.rstrip(), remote.hint, _missing_key_hint(remote, config))))
    if starting:
        return trial_error(remote, f"the trainable could not be loaded or set up:\n{text}", WorkerStartError)
    return trial_error(remote, text)


def _missing_key_hint(remote: RemoteError, config: Mapping[str, Any]) -> str:
    """The names in the configuration, for a KeyError with a key that it lacks; else empty."""
    if remote.type_name != KeyError.__name__ or not config:
        return ""
    error = remote.load()
    key = error.args[0] if error is not None and len(error.args) == 1 else None
    if not isinstance(key, str) or key in config:
        return ""
    # The key may also be one of another dict of the user's.
    names = ", ".join(one_line(str(name)) for name in islice(config, _NAMES_SHOWN))
    more = ", ..." if len(config) > _NAMES_SHOWN else ""
    return f"{HINT}the configuration has no {cut(repr(key), 80)}; it has {names}{more}"


def _exit_error(running: RunningTrial, event: Exited, num_losses: int) -> TrialError:
    """The error of a trial whose worker has ended, because of a time limit, too many losses in a row or by itself. It
    has the cause, peak memory, last lines of output (with the stacks after a time limit) and the path of the rest.
    """
    trial = running.trial
    pid = event.pid or trial.attempt.pid
    kind: type[TrialError] = WorkerDiedError
    lines = []
    if running.overdue is not None:
        kind = TrialTimeoutError
        _, limit, limit_s = running.overdue
        what = "no report for" if limit == REPORT_LIMIT else "not done after"
        cause = f"{what} {limit_s:.1f} s (last: {_last_report(trial)})"
        lines.append(
            f"trial {trial.name} (pid {pid}) has exceeded {limit}_timeout_s={limit_s:g}: {cause}; its worker "
            f"has ended: {event.cause}"
        )
    elif not event.counts:
        cause = event.cause
        lines.append(
            f"trial {trial.name} has lost its worker {num_losses} times in a row without a new report, the last one "
            f"(pid {pid}) because of this: {cause}"
        )
    else:
        when = ""
        if trial.phase is Phase.STARTING:
            kind = WorkerStartError
            when = " while the trainable was loaded or set up"
        cause = f"the worker died{when}: {event.cause}"
        what = f"the worker of trial {trial.name} (pid {pid}) died{when}: {event.cause}"
        if event.signal == signal.SIGKILL:  # without a word on memory: the kernel's counters gave no evidence
            what += f", {_MEMORY_HINT}"
        if event.peak_bytes:
            what += f", peak memory {event.peak_bytes / 2**20:.0f} MiB"
        lines.append(what)
    if running.overdue is None:
        lines.append(f"last report: {_last_report(trial)}")
    lines.append(f"its output: {trial.local_path}")
    if event.last_lines:
        lines += ["last lines of its output:", event.last_lines.rstrip()]
    error = kind("\n".join(lines))
    error.cause = cause
    if running.overdue is None:
        error.died_s = event.ended_s
    return error


def facts_of(error: TrialError) -> dict[str, Any]:
    """The facts of an attempt's end: `died_at`, the time of death of its process."""
    if not error.died_s:
        return {}
    return {"died_at": error.died_s}


def _last_report(trial: Trial) -> str:
    iteration = trial.progress.metrics.get(TRAINING_ITERATION)
    if iteration is None:
        return "none"
    return f"iteration {iteration}"
