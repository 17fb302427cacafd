"""Endings: why a trial, an attempt or a run has ended, as data.

An `Ending` has a kind, a text for people, and the facts that the text mentions. Code asks kind and facts, never the
text, so texts can be reworded.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple


class EndKind(Enum):
    """A kind of ending. Its value stands in journals and `--json`."""

    text: str

    __hash__ = object.__hash__  # the hash of Enum is written in Python and slow

    def __new__(cls, value: str, text: str = "") -> EndKind:
        member = object.__new__(cls)
        member._value_ = value
        member.text = text
        return member

    # A trial is complete: `Hooks.decide` says so of a report, `Events` of a return. `Outcomes.end` ends it.
    RETURNED = "returned", "the trainable has returned"
    DONE = "done", "the trainable has ended"
    CRITERION = "criterion", "the stop criterion was met"
    MAX_T = "max_t", "it has reached the scheduler's max_t"

    # A trial ends although it could go on: at a request, `Outcomes.end` ends it, at a resume `Replay`.
    SCHEDULER = "scheduler", "at the request of the scheduler"
    REQUEST = "request", "at the request of the user"
    SKIPPED = "skipped", "skipped by a resume"
    REPLACED = "replaced", "a resume starts it over"

    # A run ends early, and its unfinished trials end with it: `TuneController.end_run` ends each by `Outcomes.end`. Of
    # an error only the run's record tells: its trials have no record of an end, as if the driver had been killed.
    STOPPER = "stopper", "the stopper has ended the run"
    FAIL_FAST = "fail_fast", "fail_fast"
    INTERRUPTED = "interrupted", "interrupted"
    ERROR = "error", "an error outside of its trials ended it"

    # All trials of a run have ended.
    FINISHED = "finished", "finished"

    # An attempt of a trial ends, and `Failures` decides whether another one follows. If not, the trial has failed.
    FAILED = "failed", "failed"
    LOST = "lost", "lost"
    REFUSED = "refused", "its worker could not be started"

    # An attempt ends with its driver, and a resume follows; or `Outcomes.end` ends a trial before its worker is ready.
    DRIVER_ENDED = "driver_ended", "the driver ended"
    NOT_READY = "not_ready", "its worker was not ready yet"

    @property
    def is_complete(self) -> bool:
        """Whether a trial with such an end has trained for its full time."""
        return self in _COMPLETE

    @property
    def is_early(self) -> bool:
        """Whether a run with such an end has ended before its trials, and has cut them short."""
        return self in _EARLY

    @property
    def is_for_good(self) -> bool:
        """Whether a run with such an end has nothing left to do for a resume."""
        return self in _FOR_GOOD


_COMPLETE = frozenset((EndKind.RETURNED, EndKind.DONE, EndKind.CRITERION, EndKind.MAX_T))
_EARLY = frozenset((EndKind.STOPPER, EndKind.FAIL_FAST, EndKind.INTERRUPTED))
_FOR_GOOD = frozenset((EndKind.FINISHED, EndKind.STOPPER, EndKind.FAIL_FAST))


class Ending(NamedTuple):
    """Why a trial, an attempt or a run has ended.

    Attributes:
        text: The reason for people, which no code may read.
        facts: The facts of this kind, as plain data. `CRITERION` has `criterion`, `SCHEDULER` has `scheduler` and the
            facts of its decision, `INTERRUPTED` has `signal`, `STOPPER` may have `is_goal`, `FAIL_FAST` has `trial`
            (the failed one), and `FAILED` and `LOST` have `died_at` if the process has died (seconds since the epoch).
    """

    kind: EndKind
    text: str
    facts: Mapping[str, Any]

    @classmethod
    def of(cls, kind: EndKind, detail: str = "", **facts: Any) -> Ending:
        """An ending with the text of its kind, and after a colon the detail."""
        return cls(kind, f"{kind.text}: {detail}" if detail else kind.text, facts)


def interruption(signal_name: str) -> Ending:
    """The ending of a run that a signal ends."""
    return Ending(EndKind.INTERRUPTED, f"interrupted by {signal_name}", {"signal": signal_name})
