"""Whether there are colours, and the colours of states on a terminal.

A trial that a scheduler has stopped is as normal as one that waits, so both are grey. Red is trouble only.
"""

from __future__ import annotations

from typing import Any

from minitune.base.settings import shared_variable
from minitune.base.text import is_terminal
from minitune.experiment import states
from minitune.record import standing

NO_CODES = ("dumb", "unknown")
"""The values of `TERM` of terminals that know no codes."""
_GREEN = "32"
_CYAN = "36"
_GREY = "90"
_YELLOW = "33"
_RED = "31"

DAMAGED = "damaged"
"""The state of a run whose journal cannot be read."""

_CODES = {
    states.RUNNING: _CYAN,
    states.PENDING: _GREY,
    states.FINISHED: _GREEN,
    states.STOPPED: _GREY,
    states.FAILED: _RED,
    states.INTERRUPTED: _YELLOW,
    states.NOT_STARTED: _GREY,
    standing.KILLED_RUN: _RED,
    DAMAGED: _RED,
}
"""The numbers of the colours in the codes of terminals, of the states of trials and runs."""


def has_color(stream: Any) -> bool:
    """Whether texts on a stream get colours: as `NO_COLOR` or else `FORCE_COLOR` says, otherwise on a terminal."""
    if shared_variable("NO_COLOR"):
        return False
    if shared_variable("FORCE_COLOR"):
        return True
    return is_terminal(stream) and shared_variable("TERM") not in NO_CODES


def color_of(state: object) -> str:
    """The colour of a state of a trial or a run; empty for other texts."""
    return _CODES.get(str(state), "")
