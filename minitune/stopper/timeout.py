"""TimeoutStopper: a time budget for the whole run."""

from __future__ import annotations

import datetime
import logging
import math
from typing import Any

from minitune import clock
from minitune._checks import is_real
from minitune.stopper.stopper import Stopper


class TimeoutStopper(Stopper):
    """Ends the run when its time is used up. The time runs from the first `stop_all()`; a resumed run has the rest.

    Args:
        timeout: Seconds, or a timedelta; infinity for no limit.

    Raises:
        ValueError: If it is neither, or negative.
    """

    def __init__(self, timeout: float | datetime.timedelta):
        seconds: Any = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else timeout
        if not (is_real(seconds) and seconds >= 0):
            raise ValueError(f"timeout must be seconds (timeout >= 0) or a timedelta, but got {timeout!r}")
        self._timeout_s = float(seconds)
        self._remaining_s = self._timeout_s
        self._last_check_s: float | None = None
        self._has_told = False

    def stop_all(self) -> bool:
        """See `Stopper.stop_all`."""
        self._settle(start=True)
        if self._remaining_s > 0:
            return False
        if not self._has_told:
            self._has_told = True
            logging.getLogger("minitune").info(
                "The time budget of %g s is used up: all trials are stopped.", self._timeout_s
            )
        return True

    def describe(self) -> str:
        """See `Stopper.describe`."""
        return f"the time budget of {round(self._timeout_s, 2) or self._timeout_s:g} s is used up"

    def seconds_left(self) -> float | None:
        """Seconds until the time is used up; None if it never is."""
        self._settle()
        return max(0.0, self._remaining_s) if math.isfinite(self._remaining_s) else None

    def get_state(self) -> dict[str, Any]:
        """The time that is left, in seconds."""
        self._settle()
        return {"remaining_s": self._remaining_s}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on with the time that was left; what passed in between does not count."""
        self._remaining_s = state["remaining_s"]
        self._last_check_s = None

    def __getstate__(self) -> dict[str, Any]:
        # A reading of this process's clock means nothing in another one.
        self._settle()
        return {**self.__dict__, "_last_check_s": None}

    def _settle(self, start: bool = False) -> None:
        """Take the time since the last reading off the budget, once the clock runs."""
        if self._last_check_s is None and not start:
            return
        now_s = clock.current().monotonic()
        self._remaining_s -= now_s - (now_s if self._last_check_s is None else self._last_check_s)
        self._last_check_s = now_s
