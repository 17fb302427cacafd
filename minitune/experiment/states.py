"""The words for a trial's state that all views show: tables, the page, commands and `--json`.

The statuses of the Python API are Ray Tune's, and do not tell how a trial has ended; see `Trial.state`.
"""

RUNNING = "running"
PENDING = "pending"
FINISHED = "finished"
STOPPED = "stopped"
FAILED = "failed"
INTERRUPTED = "interrupted"
NOT_STARTED = "not started"

STATES = (RUNNING, PENDING, FINISHED, STOPPED, FAILED, INTERRUPTED, NOT_STARTED)
"""All states, in the order in which they are shown."""

ENDED = frozenset((FINISHED, STOPPED, FAILED, INTERRUPTED, NOT_STARTED))
"""The states of trials that do not go on unless the run is resumed."""
