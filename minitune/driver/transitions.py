"""A transition of a trial: the one function that takes it, records it, and tells the plug-ins, in this order.

Some hooks are called before it, because plug-ins see the trial as it was, others after it and its record. Two tables
say which, for a run and for the replay of its journal: a plug-in hears the same in both.

The retry of a worker that was lost, or could not start, is told to no plug-in. After a signal, trials end without this:
`TrialActions` calls `Hooks.interrupted`, and the record keeps them unfinished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from minitune.driver.hooks import Hooks
from minitune.driver.state import RunState
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.lifecycle import RUNNING, STATUS, Transition
from minitune.experiment.trial import Trial

BEFORE: Mapping[Transition, Callable[[Hooks, Trial], object]] = {
    Transition.STOP: Hooks.ends,
    Transition.FAIL: Hooks.failed,
    Transition.RETRY: Hooks.failed,
}
"""What plug-ins hear before a transition."""

AFTER: Mapping[Transition, Callable[[Hooks, Trial], object]] = {
    Transition.PAUSE: Hooks.paused,
    Transition.UNPAUSE: Hooks.unpaused,
    Transition.RETRY: Hooks.recovers,
    Transition.REVIVE: Hooks.added,
    Transition.FAIL: Hooks.errored,
}
"""What plug-ins hear after a transition, which is on record then."""


class StatusLog(Protocol):
    """The part of a `Recorder` that transitions need."""

    def status(self, trial: Trial, cause: str | Ending) -> None:
        """Record the status of a trial."""


class TransitionTarget(Protocol):
    """What a transition changes: a `Run`, or the replay of one, which records nothing."""

    @property
    def state(self) -> RunState:
        """The trials."""

    @property
    def hooks(self) -> Hooks:
        """The plug-ins."""

    @property
    def recorder(self) -> StatusLog:
        """Records the transition."""


def take(run: TransitionTarget, trial: Trial, transition: Transition, why: str | Ending) -> None:
    """Take a transition of a trial, record it, and tell the plug-ins.

    A retry is recorded, and each change of the public status. One to RUNNING is not: the record of the start says it.
    """
    is_told = transition is not Transition.RETRY or (isinstance(why, Ending) and why.kind is EndKind.FAILED)
    if is_told and transition in BEFORE:
        BEFORE[transition](run.hooks, trial)
    has_changed = run.state.move(trial, transition, why)
    if transition is Transition.RETRY or (has_changed and STATUS[trial.phase] != RUNNING):
        run.recorder.status(trial, why)
    if is_told and transition in AFTER:
        AFTER[transition](run.hooks, trial)
