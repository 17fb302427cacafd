"""The lifecycle of a trial: a trial has one phase, and only the transitions in one table change it.

Theory
------
A trial waits (QUEUED), gets a worker (STARTING), and loads a checkpoint if it has one (RESTORING). Then the driver
pulls results from it (TRAINING), and saves a class between two pulls (SAVING). The trial pauses (PAUSED) or ends
(TERMINATED, ERROR). A retry and a resume lead back to QUEUED::

    QUEUED -> STARTING -> [RESTORING] -> TRAINING <-> SAVING -> PAUSED | TERMINATED | ERROR
      ^                                                            |
      +------------- RETRY, UNPAUSE, REVIVE (of a later driver) ----+

Invariant: in STARTING, RESTORING, TRAINING and SAVING the trial owns exactly one actor, with at most one call in
flight. In every other phase it owns no actor. The statuses that users see follow from the phase.
"""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """The phase of a trial's lifecycle."""

    __hash__ = object.__hash__  # the hash of Enum is written in Python and slow, and phases are dict keys

    QUEUED = "queued"
    STARTING = "starting"
    RESTORING = "restoring"
    TRAINING = "training"
    SAVING = "saving"
    PAUSED = "paused"
    TERMINATED = "terminated"
    ERROR = "error"


class Transition(Enum):
    """A transition of a trial from one phase to another."""

    __hash__ = object.__hash__

    START = "start"
    """The driver requests a worker for the trial."""
    RESTORE = "restore"
    """The worker is ready and loads a checkpoint."""
    TRAIN = "train"
    """The driver pulls the next result."""
    SAVE = "save"
    """The driver asks the worker to save the trial."""
    PAUSE = "pause"
    """The trial pauses and releases its worker."""
    UNPAUSE = "unpause"
    """A paused trial waits for a worker again."""
    RETRY = "retry"
    """The attempt failed, or its worker was lost: the trial waits for another one."""
    REVIVE = "revive"
    """A resumed run continues a trial that had ended."""
    STOP = "stop"
    """The trial finished, or was ended."""
    FAIL = "fail"
    """The trial failed for good."""


PENDING = "PENDING"
RUNNING = "RUNNING"
PAUSED = "PAUSED"
TERMINATED = "TERMINATED"
ERROR = "ERROR"

_RELEASES = {
    Transition.PAUSE: Phase.PAUSED,
    Transition.RETRY: Phase.QUEUED,
    Transition.STOP: Phase.TERMINATED,
    Transition.FAIL: Phase.ERROR,
}
"""The transitions by which a trial releases its actor, allowed in each phase that owns one."""

TRANSITIONS: dict[Phase, dict[Transition, Phase]] = {
    Phase.QUEUED: {
        Transition.START: Phase.STARTING,
        Transition.PAUSE: Phase.PAUSED,
        Transition.STOP: Phase.TERMINATED,
        Transition.FAIL: Phase.ERROR,
    },
    Phase.STARTING: {Transition.RESTORE: Phase.RESTORING, Transition.TRAIN: Phase.TRAINING, **_RELEASES},
    Phase.RESTORING: {Transition.TRAIN: Phase.TRAINING, **_RELEASES},
    Phase.TRAINING: {Transition.TRAIN: Phase.TRAINING, Transition.SAVE: Phase.SAVING, **_RELEASES},
    Phase.SAVING: {Transition.TRAIN: Phase.TRAINING, **_RELEASES},
    Phase.PAUSED: {
        Transition.UNPAUSE: Phase.QUEUED,
        Transition.STOP: Phase.TERMINATED,
        Transition.FAIL: Phase.ERROR,
    },
    Phase.TERMINATED: {Transition.REVIVE: Phase.QUEUED},
    Phase.ERROR: {Transition.REVIVE: Phase.QUEUED},
}

STATUS: dict[Phase, str] = {
    Phase.QUEUED: PENDING,
    Phase.STARTING: PENDING,
    Phase.RESTORING: RUNNING,
    Phase.TRAINING: RUNNING,
    Phase.SAVING: RUNNING,
    Phase.PAUSED: PAUSED,
    Phase.TERMINATED: TERMINATED,
    Phase.ERROR: ERROR,
}
"""The status of each phase, as users, plug-ins and files see it."""

OWNS_ACTOR = frozenset({Phase.STARTING, Phase.RESTORING, Phase.TRAINING, Phase.SAVING})
ENDED_PHASES = frozenset({Phase.TERMINATED, Phase.ERROR})
