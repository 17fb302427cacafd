"""A transition of a trial: the one function that takes it, records it, and tells the plug-ins, in this order.

Some hooks are called before it, because plug-ins see the trial as it was, others after it and its record. Two tables
say which, for a run and for the replay of its journal: a plug-in hears the same in both.

The retry of a worker that was lost, or could not start, is told to no plug-in. After a signal, trials end without this:
`Outcomes.end` calls `Hooks.interrupted`, and the record keeps them unfinished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from minitune.driver.hooks import Hooks
from minitune.driver.state import RunState
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.lifecycle import RUNNING, STATUS, Transition
from minitune.experiment.trial import Trial
from minitune.record.recorder import Recorder

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


def take(
    state: RunState,
    hooks: Hooks,
    recorder: Recorder | None,
    trial: Trial,
    transition: Transition,
    why: str | Ending = "",
) -> None:
    """Take a transition of a trial, record it, and tell the plug-ins. A replay has no recorder.

    A retry is recorded, and each change of the public status. One to RUNNING is not: the record of the start says it.
    """
    is_told = transition is not Transition.RETRY or (isinstance(why, Ending) and why.kind is EndKind.FAILED)
    if is_told and transition in BEFORE:
        BEFORE[transition](hooks, trial)
    has_changed = state.move(trial, transition, why)
    is_recorded = transition is Transition.RETRY or (has_changed and STATUS[trial.phase] != RUNNING)
    if recorder is not None and is_recorded:
        recorder.status(trial, why)
    if is_told and transition in AFTER:
        AFTER[transition](hooks, trial)
