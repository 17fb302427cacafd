"""Deadlines: the time limits that a user has set for a trial."""

from __future__ import annotations

from typing import NamedTuple

REPORT, TRIAL = "report", "trial"
"""What is limited: the time from one pull to the next report, or that of a whole attempt."""


class Overdue(NamedTuple):
    """A limit that an actor has broken.

    Attributes:
        actor_id: Who.
        kind: `REPORT` or `TRIAL`.
        limit_s: The limit, in seconds.
    """

    actor_id: str
    kind: str
    limit_s: float


class Deadlines:
    """Who has how much time left. Each operation is O(1), and nothing where there is no limit.

    Args:
        report_timeout_s: Seconds from a pull to the report that answers it, or None.
        trial_timeout_s: Seconds for one attempt of a trial, from the start of its worker, or None.
    """

    def __init__(self, report_timeout_s: float | None, trial_timeout_s: float | None):
        self._limits_s = {
            kind: limit_s for kind, limit_s in ((REPORT, report_timeout_s), (TRIAL, trial_timeout_s)) if limit_s
        }
        # By kind and actor. All of a kind have the same time, so they stand in the order of their ends.
        self._ends_s: dict[str, dict[str, float]] = {kind: {} for kind in self._limits_s}

    @property
    def are_set(self) -> bool:
        """Whether there is any limit."""
        return bool(self._limits_s)

    def begin(self, actor_id: str, kind: str, now_s: float) -> None:
        """The clock of one limit starts (anew) for an actor."""
        ends_s = self._ends_s.get(kind)
        if ends_s is not None:
            ends_s.pop(actor_id, None)
            ends_s[actor_id] = now_s + self._limits_s[kind]

    def end(self, actor_id: str, kind: str) -> None:
        """What was waited for has come."""
        if kind in self._ends_s:
            self._ends_s[kind].pop(actor_id, None)

    def forget(self, actor_id: str) -> None:
        """The actor is let go."""
        for ends_s in self._ends_s.values():
            ends_s.pop(actor_id, None)

    def overdue(self, now_s: float) -> list[Overdue]:
        """The limits that are broken by now; an actor that has broken one has none any more."""
        found = []
        for kind, ends_s in self._ends_s.items():
            while ends_s:
                actor_id, end_s = next(iter(ends_s.items()))
                if end_s > now_s:
                    break
                self.forget(actor_id)
                found.append(Overdue(actor_id, kind, self._limits_s[kind]))
        return found

    def seconds_left(self, now_s: float) -> float | None:
        """How long it is to the next end of a limit; None if there is none."""
        ends_s = [next(iter(ends_s.values())) for ends_s in self._ends_s.values() if ends_s]
        return max(0.0, min(ends_s) - now_s) if ends_s else None
