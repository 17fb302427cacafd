"""The words for a trial's state that all views show: tables, the page, commands and `--json`.

The statuses of the Python API are Ray Tune's, and do not tell how a trial has ended; see `Trial.state`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

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


def tally(
    found: Iterable[str] | Mapping[str, int], not_drawn: int = 0, not_drawn_state: str = NOT_STARTED
) -> Counter[str]:
    """How many trials are in each of these states, with those that the search has not drawn, in the order in which
    views show states.
    """
    counts = Counter(found)
    counts[not_drawn_state] += not_drawn
    return Counter({state: counts[state] for state in STATES if counts[state]})
