"""The event loop of a driver: descriptors, timers, and calls from other threads. It never polls."""

from __future__ import annotations

import _socket
import heapq
import itertools
import math
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE

Socket = _socket.socket
"""The C class behind `socket.socket`, which libraries for proxies replace."""


def socket_pair(kind: int = _socket.SOCK_STREAM) -> tuple[Socket, Socket]:
    """Two connected sockets of a kind, which block, whatever `socket.setdefaulttimeout` says, and which a new program
    does not inherit.
    """
    one, other = _socket.socketpair(_socket.AF_UNIX, kind)
    if _socket.getdefaulttimeout() is not None:  # usually there is none
        one.setblocking(True)
        other.setblocking(True)
    return one, other


class Timer:
    """A call at a later time, unless it is cancelled."""

    callback: Callable[[], object] | None

    def cancel(self) -> None:
        """Cancel the call; may be repeated."""
        self.callback = None


class TimeLimit:
    """At most one time limit at a time.

    A limit is set far more often than exceeded, so its timer stays in the loop when it is removed or replaced by a
    later one, and looks at the present limit when it is due.
    """

    def __init__(self, loop: Loop):
        self._loop = loop
        self._act: Callable[[], object]  # given by `set`
        self._due_s = math.inf
        self._timer: Timer | None = None
        self._timer_s = math.inf

    @property
    def is_set(self) -> bool:
        """Whether there is a limit now."""
        return self._due_s < math.inf

    def set(self, after_s: float, act: Callable[[], object]) -> None:
        """Set a limit, which replaces the previous one: `act` is called if it is exceeded."""
        self._act = act
        self._due_s = time.monotonic() + after_s
        if self._due_s < self._timer_s:
            self._move_timer()

    def follow(self, steps: Iterator[float]) -> None:
        """Take the first of some steps. Each value is the limit for what must happen before the next one."""
        after_s = next(steps, None)
        if after_s is not None:
            self.set(after_s, lambda: self.follow(steps))

    def clear(self) -> None:
        """Remove the limit."""
        self._due_s = math.inf

    def close(self) -> None:
        """Remove the limit for good, and its timer."""
        self._due_s = math.inf
        if self._timer is not None:
            self._timer.callback = None

    def _move_timer(self) -> None:
        if self._timer is not None:
            self._timer.callback = None
        self._timer_s = self._due_s
        self._timer = self._loop.call_later(self._due_s - time.monotonic(), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._timer_s = math.inf
        # The limit may have moved since the timer was set, or may be gone. Then only the timer is renewed.
        if self._due_s <= time.monotonic():
            self._due_s = math.inf
            self._act()
        if self._due_s < self._timer_s:
            self._move_timer()


class Loop:
    """Waits for descriptors and timers, and calls back. Other threads may call `wake`, `post` and `halt`."""

    time = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._posted: deque[Callable[[], object]] = deque()
        self._wake_out, self._wake_in = socket_pair()
        for end in (self._wake_out, self._wake_in):
            end.setblocking(False)
        self._selector.register(self._wake_out, READ, lambda mask: self._drain())
        self._was_woken = False
        self._halted_by = 0

    def watch(self, descriptor: int, callback: Callable[[int], object], events: int = READ) -> None:
        """Call `callback(events)` whenever a descriptor is ready; replaces an earlier callback."""
        # Nearly every descriptor is new: two calls fewer than to look first.
        try:
            self._selector.register(descriptor, events, callback)
        except KeyError:
            self._selector.modify(descriptor, events, callback)

    def unwatch(self, descriptor: int) -> None:
        """Stop watching a descriptor; call this before the descriptor is closed."""
        try:
            self._selector.unregister(descriptor)
        except (KeyError, ValueError):
            pass

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        """Call `callback` in `delay_s` seconds."""
        timer = Timer()
        timer.callback = callback
        heapq.heappush(self._timers, (time.monotonic() + delay_s, next(self._order), timer))
        return timer

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
        """Wait until a descriptor or timer is ready and handle it. Blocks at most `timeout_s` seconds; None: no limit.

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
        for key, mask in ready:  # a callback may unwatch a descriptor of this list; then it must bear one call more
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
        """Stop the loop for good: no other thread may continue with it, since the calling one ends the run."""
        self._halted_by = threading.get_ident()

    def stand_still_if_halted(self) -> None:
        """In a thread that drives the loop: never return if another thread is ending the interpreter.

        It must not treat the effects of the exit as deaths of workers.
        """
        if self._halted_by and self._halted_by != threading.get_ident():
            while True:
                time.sleep(3600)

    def close(self) -> None:
        """Close the loop's own descriptors; may be repeated."""
        self._timers.clear()
        self._posted.clear()
        self._selector.close()
        self._wake_out.close()
        self._wake_in.close()
