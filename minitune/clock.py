"""The current clock: the real one, or the executor's.

Everything that reads or spends time in a run (controller, stoppers, schedulers, reporters, trainables) takes
`clock.current`. The driver sets it from its executor for the length of a run. So the same code runs thousands of
trials in a second of real time on a virtual clock.
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
        """Seconds since the epoch, for people."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, never going back: for limits and durations."""
        ...

    def sleep(self, duration_s: float) -> None:
        """Let `duration_s` seconds pass. The real clock blocks, a virtual one jumps."""
        ...


class RealClock:
    """The machine's own clock."""

    monotonic = staticmethod(time.monotonic)
    time = staticmethod(time.time)

    def sleep(self, duration_s: float) -> None:
        """See `Clock.sleep`."""
        time.sleep(duration_s)


class VirtualClock:
    """A clock that moves only when told to.

    Args:
        start_s: The first reading, in seconds, of both `time()` and `monotonic()`.
    """

    def __init__(self, start_s: float = 0.0):
        self.now_s = start_s

    def time(self) -> float:
        """See `Clock.time`."""
        return self.now_s

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        """Move the clock on by `duration_s` seconds; negative durations are ignored.

        A duration that is lost in rounding moves it by the least that it can move: who waits for a rest must not wait
        for ever.
        """
        if duration_s > 0:
            self.now_s = max(self.now_s + duration_s, math.nextafter(self.now_s, math.inf))


REAL = RealClock()
current: Clock = REAL
"""The clock of the run that this process is in; the real one outside of runs. Read it anew each time: it changes."""


@contextmanager
def use(clock: Clock) -> Iterator[None]:
    """Make `clock` the current one inside a `with` block, for all threads of this process.

    Args:
        clock: The clock to install. The previous one comes back at the end.
    """
    global current
    previous, current = current, clock
    try:
        yield
    finally:
        current = previous
