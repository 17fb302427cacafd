"""Setbacks: when to try again after workers were lost and no trial was to blame, and when that is in vain; CrashLoop:
the same for trials that are to blame and may be retried without end.

Workers are lost where the system has no processes or descriptors left, or where what carries them has died. To try
again at once would only keep the driver busy, and never to try again would waste what becomes free.
"""

from __future__ import annotations

import math
from collections import Counter, deque

from minitune.error import CrashLoopError

_PAUSES_S = (0.2, 2.0, 5.0, 10.0, 30.0)
"""After the first loss, the second one in a row, and so on; the last one counts for all that follow."""
_IN_VAIN = 3
"""So many losses in a row, without any sign of life of a trial in between, and with nothing running, are enough."""
_LOSSES = 3
"""So many attempts of a trial in a row that were lost with what carried them are held against the trial, the last of
them was carried alone. Where several trials are lost in vain the cause may lie elsewhere: then it takes twice as many.
"""
_RESTS_S = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""After a trial's first failure, its second one without a result in between, and so on."""
_STORM, _STORM_S = 100, 10.0
"""More restarts than these within so many seconds, without a result in between, lead nowhere. A machine that is too
slow for so many restarts must not hide it: there the same number of *quick* failures will do. A failure is quick if the
attempt has lived no longer than these seconds, and if the trial has rested no longer than that since its last result:
on a fast machine it would have come in time."""
_NEVER_UP = 3
"""Nor do more restarts when the workers of so many trials could not even start, and no worker has."""


class Setbacks:
    """Counts losses. Those that come during a pause belong to the loss that has caused it, and so do those of workers
    that had been asked for before it: only what was tried since then, and was lost again, is one more loss in a row.

    Times are seconds of the executor's clock.
    """

    def __init__(self) -> None:
        self._num_in_row = 0
        self._num_in_vain = 0
        self._not_before_s = self._last_s = -math.inf
        self._cause = ""
        self._told: set[str] = set()
        self._losses: Counter[str] = Counter()  # by trial: so many attempts in a row
        self._lost_in_vain: set[str] = set()

    def lost(self, cause: str, now_s: float, begun_s: float = math.inf) -> bool:
        """A worker was lost, or none could be had.

        Args:
            cause: Why.
            now_s: The time.
            begun_s: When the worker was asked for.

        Returns:
            Whether this cause is new: each is worth one warning.
        """
        if now_s >= self._not_before_s and begun_s >= self._last_s:
            self._last_s = now_s
            self._not_before_s = now_s + _PAUSES_S[min(self._num_in_row, len(_PAUSES_S) - 1)]
            self._num_in_row += 1
            self._num_in_vain += 1
            self._cause = cause
        is_new = cause not in self._told
        self._told.add(cause)
        return is_new

    def started(self) -> None:
        """A worker has come up."""
        self._num_in_row = 0

    def lives(self) -> None:
        """A trial has done something: what was tried was not in vain."""
        self._num_in_vain = 0
        self._lost_in_vain.clear()

    def carrier_died(self, trial_id: str) -> bool:
        """What carried a trial's worker has died under it; `lost` has been told.

        Returns:
            Whether that has happened so often in a row that the trial is to blame; then there is hope for the others.
        """
        self._losses[trial_id] += 1
        self._lost_in_vain.add(trial_id)
        is_general = self.is_hopeless and len(self._lost_in_vain) > 1
        if self._losses[trial_id] < (2 * _LOSSES if is_general else _LOSSES):
            return False
        del self._losses[trial_id]
        self.lives()
        return True

    def ended_otherwise(self, trial_id: str) -> None:
        """An attempt of a trial has ended in any other way."""
        self._losses.pop(trial_id, None)

    def left(self) -> None:
        """A worker has left, so there may be room for another one at once."""
        self._not_before_s = -math.inf
        self._num_in_vain = min(self._num_in_vain, _IN_VAIN - 1)

    def pause_s(self, now_s: float) -> float:
        """How long no worker should be started; 0 if nothing stands in the way."""
        return self._not_before_s - now_s if self._not_before_s > now_s else 0.0

    @property
    def is_hopeless(self) -> bool:
        """Whether no worker should be started until one that runs shows life or leaves; if none runs, it is over."""
        return self._num_in_vain >= _IN_VAIN

    def why_hopeless(self) -> str:
        """What to tell the user if nothing runs now; empty as long as there is hope."""
        if not self.is_hopeless:
            return ""
        return (
            f"workers were lost {self._num_in_vain} times in a row before any trial could do anything, and none runs: "
            f"{self._cause}. Look at the limits on processes, memory and open files (ulimit -u, -v and -n, those of "
            "the container), or let fewer trials run at a time; the run can be resumed"
        )


class CrashLoop:
    """Slows down trials that fail and may be retried without end, and ends the run if they do nothing else.

    Times are seconds of the executor's clock.
    """

    def __init__(self) -> None:
        self._in_row: dict[str, tuple[int, float]] = {}  # by trial, since its last result: failures, seconds of rest
        self._never_up: set[str] | None = set()
        self._restarts: deque[tuple[float, str]] = deque(maxlen=_STORM + 1)
        self._num_quick = 0

    def rest_s(
        self, trial_id: str, cause: str, now_s: float, starting: bool = False, lived_s: float = math.inf
    ) -> float:
        """A trial has failed and is to be tried again.

        Args:
            trial_id: The trial.
            cause: Why it has failed, in one line.
            now_s: The time.
            starting: Whether the trainable could not even be loaded or set up.
            lived_s: Seconds from the time at which the worker was ready until the failure.

        Returns:
            How long it should wait.

        Raises:
            CrashLoopError: If there were more than 100 restarts within 10 s, or more than 100 quick failures, and no
                result; or if no worker of the run has come up so far and three trials have failed so. It names the
                common cause.
        """
        if starting and self._never_up is not None:
            self._never_up.add(trial_id)
            if len(self._never_up) >= _NEVER_UP:
                raise CrashLoopError(
                    f"no worker has come up, and those of {_NEVER_UP} trials have failed at their start: {cause}. "
                    "Remove the cause, or limit max_failures; the run can be resumed"
                )
        times, rested_s = self._in_row.get(trial_id, (0, 0.0))
        rest_s = _RESTS_S[min(times, len(_RESTS_S) - 1)]
        self._in_row[trial_id] = times + 1, rested_s + rest_s
        self._num_quick += (starting or lived_s <= _STORM_S) and rested_s <= _STORM_S
        self._restarts.append((now_s, cause))
        span_s = now_s - self._restarts[0][0]
        if len(self._restarts) > _STORM and (span_s <= _STORM_S or self._num_quick > _STORM):
            common, count = Counter(cause for _, cause in self._restarts).most_common(1)[0]
            raise CrashLoopError(
                f"trials were restarted {len(self._restarts)} times within {max(_STORM_S, math.ceil(span_s)):g} s, and "
                f"none reported a result: {common} ({count} times). Remove the cause, or limit max_failures; the run "
                "can be resumed"
            )
        return rest_s

    def came_up(self) -> None:
        """A worker is ready."""
        self._never_up = None

    def reported(self, trial_id: str) -> None:
        """A trial has reported a result."""
        self._in_row.pop(trial_id, None)
        self._restarts.clear()
        self._num_quick = 0
