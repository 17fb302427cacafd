"""How a run stands: at work, at its end, or on the way and without a driver.

The journal says why its last driver has ended. If it says nothing, the run's lock says whether the driver lives.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from minitune.experiment.lifecycle import OWNS_ACTOR, Phase
from minitune.experiment.trial import Trial
from minitune.record import records
from minitune.record.layout import RunDirectory
from minitune.record.story import Decisions, Story, read_run

RUNNING, FINISHED_RUN, STOPPED, INTERRUPTED_RUN, FAILED, KILLED = (
    "running",
    "finished",
    "stopped",
    "interrupted",
    "failed",
    "killed",
)
"""How a run stands: at work, all trials had their way, a stopper or a failure has ended it, a signal has, a plug-in's
error has, or its process has died."""


_STANDS = {RUNNING: "goes on", FAILED: "has failed", FINISHED_RUN: "has ended"}


@dataclass(frozen=True)
class RunState:
    """How a run stands.

    Attributes:
        name: One of `RUNNING`, `FINISHED_RUN`, `STOPPED`, `INTERRUPTED_RUN`, `FAILED`, `KILLED`.
        text: The same with what else is known.
    """

    name: str
    text: str

    @property
    def said(self) -> str:
        """How it stands, as the end of a sentence about the run."""
        return _STANDS.get(self.name, f"was {self.name}")

    @property
    def can_go_on(self) -> bool:
        """Whether the run has ended before its trials, and can be resumed."""
        return self.name in (INTERRUPTED_RUN, FAILED, KILLED)


def state_of(path: str, close_reason: str | None) -> RunState:
    """How a run stands.

    Args:
        path: Its directory.
        close_reason: Why its last driver has ended, if it has said so.
    """
    go_on = f"`minitune resume {shlex.quote(path)}` continues it"
    if close_reason is None:
        from minitune.record.lock import read_holder  # needs psutil

        holder = read_holder(RunDirectory(path).lock)
        if holder is not None:
            return RunState(RUNNING, f"running ({holder})")
        return RunState(KILLED, f"killed: its process died before the end; {go_on}")
    if close_reason == records.INTERRUPTED:
        return RunState(INTERRUPTED_RUN, f"interrupted; {go_on}")
    if close_reason.startswith(records.ENDED):
        return RunState(STOPPED, f"stopped before its trials: {close_reason.removeprefix(records.ENDED)}")
    if close_reason == records.FINISHED:
        return RunState(FINISHED_RUN, "finished")
    return RunState(FAILED, f"failed: an error outside of its trials ended it; {go_on}")


def state_of_run(run: Story) -> RunState:
    """How a run stands that has been read."""
    return state_of(run.path, run.close_reason)


def read_standing(path: str, decisions: Decisions | None = None, *, unpickle: bool = False) -> tuple[Story, RunState]:
    """A run, and how it stands. Blocks while its journal is read.

    Where no driver is at work on the run, trials that had a worker are PENDING: a resume would find them so.

    Args:
        path: Its directory.
        decisions: Filled, if given.
        unpickle: See `read_run`.

    Raises:
        TuneError: If the journal cannot be read.
    """
    run = read_run(path, decisions=decisions, unpickle=unpickle)
    state = state_of_run(run)
    if state.name != RUNNING:
        put_back(run.trials)
    return run, state


def put_back(trials: Sequence[Trial]) -> None:
    """Set trials that had a worker to waiting: no driver is at work on them."""
    for trial in trials:
        if trial.phase in OWNS_ACTOR:
            trial.phase = Phase.QUEUED
