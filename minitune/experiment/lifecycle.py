"""The life of a trial: one phase, moved only through one table.

Theory
------
A trial waits (QUEUED), is given a worker (STARTING), loads a checkpoint if it has one (RESTORING), and is then pulled
(TRAINING) one result at a time. A class trainable is saved between two pulls (SAVING). It is put aside (PAUSED), or
ends (TERMINATED, ERROR). A retry and a resume go back to QUEUED, so that the way to a running trial is always the
same::

    QUEUED -> STARTING -> [RESTORING] -> TRAINING <-> SAVING -> PAUSED | TERMINATED | ERROR
      ^                                                            |
      +------------- RETRY, UNPAUSE, REVIVE (of a later driver) ----+

Invariant: in STARTING, RESTORING, TRAINING and SAVING the trial owns exactly one actor, with exactly one call in
flight; in every other phase it owns none. So no flag such as "is saving" is needed, and an event of an actor that was
let go finds no trial. The five statuses that users know are derived from the phase.
"""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """Where a trial is in its life."""

    __hash__ = object.__hash__  # that of Enum is written in Python, and phases are looked up all the time

    QUEUED = "queued"
    STARTING = "starting"
    RESTORING = "restoring"
    TRAINING = "training"
    SAVING = "saving"
    PAUSED = "paused"
    TERMINATED = "terminated"
    ERROR = "error"


class Step(Enum):
    """The steps of a trial from one phase to another."""

    __hash__ = object.__hash__

    START = "start"
    """A worker was asked for."""
    RESTORE = "restore"
    """The worker is ready and loads a checkpoint."""
    TRAIN = "train"
    """The next result is pulled."""
    SAVE = "save"
    """The worker is asked to save."""
    PAUSE = "pause"
    """The trial is put aside, its worker let go."""
    UNPAUSE = "unpause"
    """A paused trial waits for a worker again."""
    RETRY = "retry"
    """The attempt failed, or its worker was lost; there will be another one."""
    REVIVE = "revive"
    """A later part of the run goes on with a trial that had ended."""
    STOP = "stop"
    """The trial has finished, or was ended."""
    FAIL = "fail"
    """The trial has ended badly, for good."""


PENDING = "PENDING"
RUNNING = "RUNNING"
PAUSED = "PAUSED"
TERMINATED = "TERMINATED"
ERROR = "ERROR"

NOT_STARTED = "not started"
"""The status, in views and counts, of a TERMINATED trial that never had a worker: the run ended while it waited."""

TRANSITIONS: dict[Phase, dict[Step, Phase]] = {
    Phase.QUEUED: {
        Step.START: Phase.STARTING,
        Step.PAUSE: Phase.PAUSED,
        Step.STOP: Phase.TERMINATED,
        Step.FAIL: Phase.ERROR,
    },
    Phase.STARTING: {
        Step.RESTORE: Phase.RESTORING,
        Step.TRAIN: Phase.TRAINING,
        Step.PAUSE: Phase.PAUSED,
        Step.RETRY: Phase.QUEUED,
        Step.STOP: Phase.TERMINATED,
        Step.FAIL: Phase.ERROR,
    },
    Phase.RESTORING: {
        Step.TRAIN: Phase.TRAINING,
        Step.PAUSE: Phase.PAUSED,
        Step.RETRY: Phase.QUEUED,
        Step.STOP: Phase.TERMINATED,
        Step.FAIL: Phase.ERROR,
    },
    Phase.TRAINING: {
        Step.TRAIN: Phase.TRAINING,
        Step.SAVE: Phase.SAVING,
        Step.PAUSE: Phase.PAUSED,
        Step.RETRY: Phase.QUEUED,
        Step.STOP: Phase.TERMINATED,
        Step.FAIL: Phase.ERROR,
    },
    Phase.SAVING: {
        Step.TRAIN: Phase.TRAINING,
        Step.PAUSE: Phase.PAUSED,
        Step.RETRY: Phase.QUEUED,
        Step.STOP: Phase.TERMINATED,
        Step.FAIL: Phase.ERROR,
    },
    Phase.PAUSED: {
        Step.UNPAUSE: Phase.QUEUED,
        Step.STOP: Phase.TERMINATED,
        Step.FAIL: Phase.ERROR,
    },
    Phase.TERMINATED: {Step.REVIVE: Phase.QUEUED},
    Phase.ERROR: {Step.REVIVE: Phase.QUEUED},
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
"""The status that users, plug-ins and files see."""

STAGES: dict[Phase | None, str] = {
    None: "Initialization",
    Phase.QUEUED: "PENDING",
    Phase.STARTING: "PENDING",
    Phase.RESTORING: "RUNNING",
    Phase.TRAINING: "RUNNING",
    Phase.SAVING: "RUNNING",
    Phase.PAUSED: "PAUSED",
    Phase.TERMINATED: "TERMINATED",
    Phase.ERROR: "ERRORED",
}
"""The six stages of Ray Tune's documentation; a trial is in Initialization (None) before it is queued."""

OWNS_ACTOR = frozenset({Phase.STARTING, Phase.RESTORING, Phase.TRAINING, Phase.SAVING})
FINISHED = frozenset({Phase.TERMINATED, Phase.ERROR})
