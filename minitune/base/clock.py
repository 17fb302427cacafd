"""The current clock: the real one, or the executor's.

All code of a run that reads the time or waits uses `clock.current`. The driver sets it to its executor's clock. So the
same code can simulate thousands of trials in a second, on a virtual clock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def time(self) -> float:
        """Seconds since the epoch, to show to users."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary start. It never decreases: for limits and durations."""
        ...

    def sleep(self, duration_s: float, /) -> None:
        """Let `duration_s` seconds pass. The real clock blocks; a virtual clock jumps."""
        ...


class VirtualClock:
    """A clock that advances only by `sleep`.

    Args:
        start_s: The initial value, in seconds.
    """

    def __init__(self, start_s: float = 0.0):
        self.now_s = start_s

    def time(self) -> float:
        """See `Clock.time`."""
        return self.now_s

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self.now_s

    def sleep(self, duration_s: float, /) -> None:
        """Advance the clock by `duration_s` seconds. Negative ones are ignored.

        The clock advances at least to the next float.
        """
        if duration_s > 0:
            self.now_s = max(self.now_s + duration_s, math.nextafter(self.now_s, math.inf))


REAL: Clock = time
"""The clock of the machine: the module itself, whose functions freezegun replaces."""
current: Clock = REAL
"""The clock of the present run; outside of runs the real one. It changes: keep no copy."""


@contextmanager
def use(clock: Clock) -> Iterator[None]:
    """Make `clock` the current clock inside a `with` block, for all threads of this process."""
    global current
    previous = current
    current = clock
    try:
        yield
    finally:
        current = previous
