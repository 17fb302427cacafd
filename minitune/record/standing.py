"""The state of a run: running, ended, or interrupted and without a driver.

The last record says why the last driver ended; without one, the run's lock shows whether the driver is alive.
"""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass

from minitune.experiment import states
from minitune.experiment.endings import EndKind
from minitune.record import lock
from minitune.record.decisions import Decisions
from minitune.record.layout import RunDirectory
from minitune.record.reading import RunFollower
from minitune.record.story import Story

RUNNING_RUN = "running"
FINISHED_RUN = "finished"
STOPPED_RUN = "stopped"
INTERRUPTED_RUN = "interrupted"
FAILED_RUN = "failed"
KILLED_RUN = "killed"
"""The states of a run: a driver works on it; all trials ended on their own; a stopper or a failure ended it; a signal
did; an error outside of its trials did; its process died.
"""

_STANDS = {RUNNING_RUN: "goes on", FAILED_RUN: "has failed", FINISHED_RUN: "has ended"}


@dataclass(frozen=True)
class Standing:
    """The state of a run."""

    name: str
    text: str

    @property
    def said(self) -> str:
        """The state as the end of a sentence about the run, such as `was killed`."""
        return _STANDS.get(self.name, f"was {self.name}")

    @property
    def can_go_on(self) -> bool:
        """Whether the run ended before its trials and can be resumed."""
        return self.name in (INTERRUPTED_RUN, FAILED_RUN, KILLED_RUN)

    @property
    def undrawn(self) -> str:
        """The state of the trials that the search has not drawn."""
        if self.name == RUNNING_RUN:
            return states.PENDING
        return states.NOT_STARTED

    def counts(self, run: Story) -> Counter[str]:
        """The number of trials by state, in the order of the states, with those that the search has not drawn."""
        return states.tally((trial.state for trial in run.trials), run.not_drawn, self.undrawn)


def standing_of(run: Story) -> Standing:
    """The state of a run whose journal has been read."""
    path = run.path
    ending = run.driver.ending
    go_on = f"`minitune resume {shlex.quote(path)}` continues it"
    if ending is None:
        pid = lock.driver_pid(RunDirectory(path).lock)
        if pid is not None:
            return Standing(RUNNING_RUN, f"running ({lock.name_of(pid)})")
        return Standing(KILLED_RUN, f"killed: its process died before the end; {go_on}")
    if ending.kind is EndKind.FINISHED:
        return Standing(FINISHED_RUN, "finished")
    if ending.kind is EndKind.INTERRUPTED:
        return Standing(INTERRUPTED_RUN, f"interrupted; {go_on}")
    if ending.kind.is_early:
        return Standing(STOPPED_RUN, f"stopped before its trials: {ending.text}")
    return Standing(FAILED_RUN, f"failed: {ending.text}; {go_on}")


def settle(run: Story) -> Standing:
    """The state of a run whose journal has been read. Without a driver, none of its trials is RUNNING."""
    state = standing_of(run)
    if state.name != RUNNING_RUN:
        run.driver_has_gone()
    return state


def read_on(follower: RunFollower) -> tuple[bool, Standing]:
    """Read the new records; return whether there were any, and the state of the run; see `settle`. Blocks."""
    has_new = follower.read_new()
    state = standing_of(follower.run)
    if state.name == KILLED_RUN:
        # A driver writes why the run ends, and then releases the lock. It may have done both since the records were
        # read. Without a driver no more records come, so the second look is the last one.
        has_new = follower.read_new() or has_new
    return has_new, settle(follower.run)


def read_standing(path: str, decisions: Decisions | None = None, *, unpickle: bool = False) -> tuple[Story, Standing]:
    """Read a run and its state; see `read_run` and `settle`. Blocks."""
    follower = RunFollower(path, unpickle, None if decisions is None else decisions.tell)
    _, state = read_on(follower)
    return follower.run, state
