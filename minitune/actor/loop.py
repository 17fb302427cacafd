"""The event loop of a driver: descriptors, timers, and calls from other threads. It never polls.

A signal handler, and any other thread, may wake the loop through a socket pair that it watches.
"""

from __future__ import annotations

import heapq
import itertools
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE


class Timer:
    """A call at a later time, unless it is cancelled."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]):
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Cancel the call. May be called any number of times, also after the call."""
        self.callback = None


class Loop:
    """Waits for descriptors and timers, and calls back. For one thread; others may call `wake`, `post` and `halt`."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._posted: deque[Callable[[], object]] = deque()
        self._wake_out, self._wake_in = socket.socketpair()
        for end in (self._wake_out, self._wake_in):
            end.setblocking(False)
        self._selector.register(self._wake_out, READ, lambda mask: self._drain())
        self._was_woken = False
        self._halted_by = 0

    def watch(self, descriptor: int, callback: Callable[[int], object], events: int = READ) -> None:
        """Call `callback(events)` whenever a descriptor is ready; replaces an earlier callback."""
        try:
            self._selector.modify(descriptor, events, callback)
        except KeyError:
            self._selector.register(descriptor, events, callback)

    def unwatch(self, descriptor: int) -> None:
        """Stop watching a descriptor; call this before the descriptor is closed."""
        try:
            self._selector.unregister(descriptor)
        except (KeyError, ValueError):
            pass

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        """Call `callback` in `delay_s` seconds."""
        timer = Timer(callback)
        heapq.heappush(self._timers, (time.monotonic() + delay_s, next(self._order), timer))
        return timer

    @staticmethod
    def time() -> float:
        """Return the time of the clock of the timers, in seconds."""
        return time.monotonic()

    def post(self, callback: Callable[[], object]) -> None:
        """Call `callback` in the next turn. From any thread."""
        self._posted.append(callback)
        self._poke()

    def wake(self) -> None:
        """Make the current or the next `turn` return True. Safe in any thread and in signal handlers."""
        self._was_woken = True
        self._poke()

    def _poke(self) -> None:
        try:
            self._wake_in.send(b"w")
        except OSError:  # the buffer is full, so the loop wakes up anyway; or the loop is closed
            pass

    def _drain(self) -> None:
        try:
            while len(self._wake_out.recv(4096)) == 4096:
                pass
        except OSError:
            pass

    def turn(self, timeout_s: float | None) -> bool:
        """Wait until a descriptor or timer is ready and handle it. Blocks at most `timeout_s` seconds; None sets no
        limit.

        Returns:
            Whether `wake` was called.
        """
        timers = self._timers
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
        if timers:
            due_s = max(0.0, timers[0][0] - time.monotonic())
            timeout_s = due_s if timeout_s is None else min(due_s, timeout_s)
        try:
            ready = self._selector.select(timeout_s)
        except (OSError, ValueError):  # the descriptor may have been closed meanwhile
            self.stand_still_if_halted()
            raise
        if self._halted_by:
            self.stand_still_if_halted()
        for key, mask in ready:
            key.data(mask)
        while self._posted:
            self._posted.popleft()()
        # Timers come last: messages that have arrived are read before a time limit is checked, even if this process
        # was stopped for a while.
        if timers:
            now = time.monotonic()
            while timers and timers[0][0] <= now:
                callback = heapq.heappop(timers)[2].callback
                if callback is not None:
                    callback()
        if self._halted_by:
            self.stand_still_if_halted()  # the callbacks may have seen ends of workers that are not real
        was_woken = self._was_woken
        self._was_woken = False
        return was_woken

    def halt(self) -> None:
        """Stop the loop for good: the calling thread ends the run, and no other thread may continue with this loop."""
        self._halted_by = threading.get_ident()

    def stand_still_if_halted(self) -> None:
        """In a thread that drives the loop: never return if another thread is ending the interpreter.

        Such a thread is a daemon thread, otherwise it would have been joined. It must not treat the effects of the exit
        as deaths of workers.
        """
        if self._halted_by and self._halted_by != threading.get_ident():
            while True:
                time.sleep(3600)

    def close(self) -> None:
        """Close the loop's own descriptors. May be called any number of times."""
        self._timers.clear()
        self._posted.clear()
        self._selector.close()
        self._wake_out.close()
        self._wake_in.close()
