"""A step of a trial: the one place that takes it, records it, and tells the plug-ins, in this order.

Some hooks are called before the step, because plug-ins see the trial as it was, others after it and its record. Two
tables say which, for a run and for the replay of its journal: a plug-in hears the same in both.

The retry of a worker that was lost, or could not start, is told to no plug-in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from minitune.driver.hooks import Hooks
from minitune.driver.state import RunState
from minitune.executors.trial_executor import TrialExecutor
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.lifecycle import RUNNING, STATUS, Step
from minitune.experiment.trial import Trial
from minitune.record.recorder import Recorder


@dataclass(frozen=True)
class Run:
    """The run that the parts of the driver work on."""

    executor: TrialExecutor
    state: RunState
    hooks: Hooks
    recorder: Recorder


BEFORE: Mapping[Step, Callable[[Hooks, Trial], object]] = {
    Step.STOP: Hooks.ends,
    Step.FAIL: Hooks.failed,
    Step.RETRY: Hooks.failed,
}
"""What plug-ins hear before a step."""

AFTER: Mapping[Step, Callable[[Hooks, Trial], object]] = {
    Step.PAUSE: Hooks.paused,
    Step.UNPAUSE: Hooks.unpaused,
    Step.RETRY: Hooks.recovers,
    Step.REVIVE: Hooks.added,
    Step.FAIL: Hooks.errored,
}
"""What plug-ins hear after a step, which is on record then."""


class StatusLog(Protocol):
    """The part of a `Recorder` that steps need."""

    def status(self, trial: Trial, cause: str | Ending) -> None:
        """Record the status of a trial."""


class Told(Protocol):
    """What a step changes: a `Run`, or the replay of one, which records nothing."""

    @property
    def state(self) -> RunState:
        """The trials."""

    @property
    def hooks(self) -> Hooks:
        """The plug-ins."""

    @property
    def recorder(self) -> StatusLog:
        """Records the step."""


def take(run: Told, trial: Trial, step: Step, why: str | Ending) -> None:
    """Take a step of a trial, record it, and tell the plug-ins.

    A retry is recorded, and each change of the public status. One to RUNNING is not: the record of the start says it.
    """
    is_told = step is not Step.RETRY or (isinstance(why, Ending) and why.kind is EndKind.FAILED)
    if is_told and step in BEFORE:
        BEFORE[step](run.hooks, trial)
    has_changed = run.state.move(trial, step, why)
    if step is Step.RETRY or (has_changed and STATUS[trial.phase] != RUNNING):
        run.recorder.status(trial, why)
    if is_told and step in AFTER:
        AFTER[step](run.hooks, trial)
