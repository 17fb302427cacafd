"""Setbacks: when to try again after workers were lost and no trial was to blame, and when that is in vain.

Workers are lost where the system has no processes or descriptors left, or where what carries them has died. To try
again at once would only keep the driver busy, and never to try again would waste what becomes free.
"""

from __future__ import annotations

import math

_PAUSES_S = (0.2, 2.0, 5.0, 10.0, 30.0)
"""After the first loss, the second one in a row, and so on; the last one counts for all that follow."""
_IN_VAIN = 3
"""So many losses in a row, without any sign of life of a trial in between, and with nothing running, are enough."""


class Setbacks:
    """Counts losses. Those that come during a pause belong to the loss that has caused it.

    Times are seconds of the executor's clock.
    """

    def __init__(self) -> None:
        self._num_in_row = 0
        self._num_in_vain = 0
        self._not_before_s = -math.inf
        self._cause = ""
        self._told: set[str] = set()

    def lost(self, cause: str, now_s: float) -> bool:
        """A worker was lost.

        Returns:
            Whether this cause is new: each is worth one warning.
        """
        if now_s >= self._not_before_s:
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

    def left(self) -> None:
        """A worker has left, so there may be room for another one at once."""
        self._not_before_s = -math.inf

    def pause_s(self, now_s: float) -> float:
        """How long no worker should be started; 0 if nothing stands in the way."""
        return max(0.0, self._not_before_s - now_s)

    def why_hopeless(self) -> str:
        """What to tell the user if nothing runs now; empty as long as there is hope."""
        if self._num_in_vain < _IN_VAIN:
            return ""
        return (
            f"workers were lost {self._num_in_vain} times in a row before any trial could do anything, and none runs: "
            f"{self._cause}. Look at the limits on processes, memory and open files (ulimit -u, -v and -n, those of "
            "the container), or let fewer trials run at a time; the run can be resumed"
        )
