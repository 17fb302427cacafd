"""Deadlines: the time limits that a user has set for a trial, kept in order of their ends."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

REPORT, TRIAL = "report", "trial"
"""What is limited: the time from one pull to the next report, or that of a whole attempt."""


@dataclass(order=True)
class Deadline:
    """A moment by which something must have happened.

    Attributes:
        at_s: When, by the executor's clock.
        actor_id: To whom it applies.
        kind: `REPORT` or `TRIAL`.
    """

    at_s: float
    actor_id: str = field(compare=False)
    kind: str = field(compare=False)


class Deadlines:
    """Who has how much time left. Each operation is O(log n) in the number of live actors, and nothing without limits.

    Args:
        report_timeout_s: Seconds from a pull to the report that answers it, or None.
        trial_timeout_s: Seconds for one attempt of a trial, from the start of its worker, or None.
    """

    def __init__(self, report_timeout_s: float | None, trial_timeout_s: float | None):
        self._limits_s = {REPORT: report_timeout_s, TRIAL: trial_timeout_s}
        self._heap: list[Deadline] = []
        self._current: dict[tuple[str, str], Deadline] = {}

    def begin(self, actor_id: str, kind: str, now_s: float) -> None:
        """The clock of one limit starts (anew) for an actor."""
        limit_s = self._limits_s[kind]
        if limit_s is not None:
            deadline = Deadline(now_s + limit_s, actor_id, kind)
            self._current[actor_id, kind] = deadline
            heapq.heappush(self._heap, deadline)

    def end(self, actor_id: str, kind: str) -> None:
        """What was waited for has come."""
        self._current.pop((actor_id, kind), None)

    def forget(self, actor_id: str) -> None:
        """The actor is let go."""
        self.end(actor_id, REPORT)
        self.end(actor_id, TRIAL)

    def overdue(self, now_s: float) -> list[Deadline]:
        """The deadlines that have passed; each is returned once."""
        passed = []
        while self._next() is not None and self._heap[0].at_s <= now_s:
            deadline = heapq.heappop(self._heap)
            del self._current[deadline.actor_id, deadline.kind]
            passed.append(deadline)
        return passed

    def seconds_left(self, now_s: float) -> float | None:
        """How long it is to the next deadline; None if there is none."""
        following = self._next()
        return None if following is None else max(0.0, following.at_s - now_s)

    def limit_s(self, kind: str) -> float:
        """The limit of a kind that has passed, in seconds."""
        return self._limits_s[kind] or 0.0

    def _next(self) -> Deadline | None:
        """The next deadline that still counts."""
        while self._heap:
            first = self._heap[0]
            if self._current.get((first.actor_id, first.kind)) is first:
                return first
            heapq.heappop(self._heap)
        return None
