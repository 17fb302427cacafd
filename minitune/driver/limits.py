"""Limits of attempts: how long a trial waits before its next attempt, and how long an attempt may take.

The numbers were chosen, not measured: with smaller ones a run gives up where a machine is busy for a while, with larger
ones a run that cannot succeed goes on for longer.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from typing import NamedTuple

from minitune.error import CrashLoopError

BACKOFF_S = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""How long a trial waits after its first attempt in vain, the second one in a row, and so on. The last value holds for
all later ones.
"""
BACKOFF_AFTER_SIGNAL_S = 1.0
"""The least wait after a signal. If it was meant for the whole run, the driver's own copy arrives in that time."""
_MAX_LOSSES = 10
"""A trial that loses its worker so many times in a row, without a new report, has failed."""
_MAX_LOSSES_BY_SIGNAL = 3
"""The same if a signal has ended the last one."""
_MAX_IN_VAIN = 30
"""After so many attempts in a row without a new report of any trial, the run ends if nothing runs."""
_MAX_REFUSED = 8
"""Or if so many starts in a row were refused, and no worker has started: that is after a minute."""
_REFUSALS = ""
"""Their key beside the ids of trials."""
REPORT_LIMIT = "report"
TRIAL_LIMIT = "trial"
"""The kinds of time limits: from one pull to the next report, and for a whole attempt."""


class Backoff:
    """Says how long trials wait after attempts in vain, and when another attempt is of no use.

    An attempt is *in vain* if its worker was lost or could not start, or if it has failed and its trial has unlimited
    retries. The count starts again with a report number that the trial never had: one that repeats its first reports
    makes no progress.

    A worker that could not be started says nothing about its trial, so *no* worker is started for a while: the
    next one would be refused, too.

    Attributes:
        is_active: Whether some trial or the next start of a worker may have to wait.
        has_come_up: Whether a worker of the run was ever ready.
    """

    def __init__(self) -> None:
        self.is_active = False
        self.has_come_up = False
        # By trial: its attempts in vain since its last progress. And the refused starts since a worker was ready.
        self._in_row: Counter[str] = Counter()
        self._reached: dict[str, int] = {}  # by trial: the most reports that it had before its present attempt
        self._in_vain: deque[str] = deque(maxlen=_MAX_IN_VAIN)  # causes of attempts in a row without a new report
        self._no_start_before_s: float | None = None  # None if the last worker was not refused

    def num_in_row(self, trial_id: str) -> int:
        """How many attempts of a trial were in vain since its last progress."""
        return self._in_row.get(trial_id, 0)

    def has_lost_too_many(self, trial_id: str, *, by_signal: bool) -> bool:
        """Whether a trial has failed if it loses its worker once more."""
        limit = _MAX_LOSSES_BY_SIGNAL if by_signal else _MAX_LOSSES
        return self.num_in_row(trial_id) + 1 >= limit

    def in_vain(self, trial_id: str, cause: str, *, by_signal: bool = False) -> float:
        """An attempt was in vain; return how many seconds the trial should wait. `by_signal`: no reason to end the run
        as hopeless.
        """
        self.is_active = True
        wait_s = BACKOFF_S[min(self._in_row[trial_id], len(BACKOFF_S) - 1)]
        self._in_row[trial_id] += 1
        if by_signal:
            return max(wait_s, BACKOFF_AFTER_SIGNAL_S)
        self._in_vain.append(cause)
        return wait_s

    def begins_again(self, trial_id: str, num_reports: int) -> None:
        """A trial with so many reports begins another attempt."""
        self._reached[trial_id] = max(num_reports, self._reached.get(trial_id, 0))

    def reported(self, trial_id: str, num_reports: int, *, is_done: bool) -> None:
        """A trial that had so many reports has reported once more."""
        # A report that it only repeats is no progress: it may fail at the same place again.
        if is_done or num_reports >= self._reached.get(trial_id, 0):
            self.progressed(trial_id)

    def progressed(self, trial_id: str) -> None:
        """A trial has reported a number that it never had, or has finished."""
        self._in_row.pop(trial_id, None)
        self._in_vain.clear()
        self.is_active = bool(self._in_row)

    # -- workers that could not be started --------------------------------------------------------------------------

    def refused(self, cause: str, now_s: float) -> None:
        """A worker could not be started. Several at a time count once."""
        if self.may_start(now_s):
            self._no_start_before_s = now_s + self.in_vain(_REFUSALS, cause)

    def started(self) -> None:
        """A worker is ready."""
        self.has_come_up = True
        self._in_row.pop(_REFUSALS, None)

    def has_room(self) -> None:
        """A worker has exited: there may be room for another one."""
        self._no_start_before_s = None

    def may_start(self, now_s: float) -> bool:
        """Whether another worker may be tried now; if so, the last refusal is over."""
        if self._no_start_before_s is not None and now_s < self._no_start_before_s:
            return False
        self._no_start_before_s = None
        return True

    def seconds_left(self, now_s: float) -> float:
        """How long no worker should be started after a refusal; infinite without one."""
        if self._no_start_before_s is None:
            return math.inf
        return max(0.0, self._no_start_before_s - now_s)

    # -- the end ----------------------------------------------------------------------------------------------------

    @property
    def is_hopeless(self) -> bool:
        """Whether so many attempts in a row were in vain that the run ends if nothing runs."""
        if len(self._in_vain) == _MAX_IN_VAIN:
            return True
        # Shortages pass. But if no worker ever came up, the cause is probably in the settings of the machines.
        return self._in_row[_REFUSALS] >= _MAX_REFUSED and not self.has_come_up

    def error(self) -> CrashLoopError:
        """The error of a hopeless run."""
        common, count = Counter(self._in_vain).most_common(1)[0]
        return CrashLoopError(
            f"{len(self._in_vain)} attempts in a row have brought no new report, and no trial runs: {common} ({count} "
            "times). Fix the cause, then resume the run. If processes cannot be started, look at the limits on "
            "processes and memory (ulimit -u and -v, those of the container), or let fewer trials run "
            "at a time"
        )


# -- time limits -------------------------------------------------------------------------------------------------------
class Overdue(NamedTuple):
    """A limit that an actor has exceeded."""

    actor_id: str
    kind: str
    limit_s: float


class Deadlines:
    """The time that each actor has left, in O(1)."""

    def __init__(self, report_timeout_s: float | None, trial_timeout_s: float | None):
        self._limits_s = {
            kind: limit_s
            for kind, limit_s in ((REPORT_LIMIT, report_timeout_s), (TRIAL_LIMIT, trial_timeout_s))
            if limit_s
        }
        # By kind and actor. All limits of a kind have the same length, so they are in the order of their ends.
        self._ends_s: dict[str, dict[str, float]] = {kind: {} for kind in self._limits_s}
        self.are_set = bool(self._limits_s)

    def begin(self, actor_id: str, kind: str, now_s: float) -> None:
        """Start, or restart, the clock of one limit."""
        ends_s = self._ends_s.get(kind)
        if ends_s is not None:
            ends_s.pop(actor_id, None)
            ends_s[actor_id] = now_s + self._limits_s[kind]

    def end(self, actor_id: str, kind: str) -> None:
        """Stop the clock."""
        if kind in self._ends_s:
            self._ends_s[kind].pop(actor_id, None)

    def forget(self, actor_id: str) -> None:
        """Drop all limits of an actor that has ended."""
        for ends_s in self._ends_s.values():
            ends_s.pop(actor_id, None)

    def overdue(self, now_s: float) -> list[Overdue]:
        """Return the limits that are exceeded now, and drop all limits of their actors."""
        found = []
        for kind, ends_s in self._ends_s.items():
            while ends_s:
                actor_id, end_s = next(iter(ends_s.items()))
                if end_s > now_s:
                    break
                self.forget(actor_id)
                found.append(Overdue(actor_id, kind, self._limits_s[kind]))
        return found

    def seconds_left(self, now_s: float) -> float:
        """Seconds until the next limit is exceeded; infinite if no clock runs."""
        ends_s = [next(iter(ends_s.values())) for ends_s in self._ends_s.values() if ends_s]
        return max(0.0, min(ends_s, default=math.inf) - now_s)
