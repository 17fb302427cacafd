"""Interrupts: what signals do while a run goes on.

A signal handler sets a flag and wakes the driver's loop, which ends the run in order. The loop is not reached while a
plug-in or an inline trial hangs. So while the user's code runs, and only then, the handler may raise.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from minitune.base.forks import Origin
from minitune.base.plugin_calls import hook_name
from minitune.base.user_code import user_code
from minitune.record import stop_requests

logger = logging.getLogger("minitune")

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")
"""Signals that end a run."""

_DELIVERED_AGAIN = ("SIGTERM", "SIGHUP")
"""Signals that also end the process, after the run has ended."""

_TOLD_S = 0.1
"""A hook that has run for so many seconds is named when a signal comes; a shorter one is back before a user can read.
"""


class Interrupts:
    """Signals that end a run, and requests of other processes.

    In the user's code the second Ctrl-C raises a KeyboardInterrupt.

    Attributes:
        has_requests: Whether another process has asked for something since this was set to False; see `stop_requests`.
    """

    def __init__(self) -> None:
        self.name: str | None = None
        self.has_requests = False
        self._num_ctrl_c = 0
        self._again: int | None = None  # the signal to send to this process once more
        self._wake: Callable[[], None] = _do_nothing
        self._previous: dict[int, Any] = {}
        self._origin = Origin()

    @contextmanager
    def handled(self, wake: Callable[[], None]) -> Iterator[None]:
        """A context in which signals end the run instead of the process.

        An ignored one (`nohup`) stays ignored.
        """
        self._wake = wake
        outer = user_code.running
        user_code.running = None  # if this run is inside of a hook of another one, its own code is not the user's
        try:
            if threading.current_thread() is threading.main_thread():
                self._install()
            yield
        finally:
            self._restore()
            user_code.running = outer

    @property
    def hears_requests(self) -> bool:
        """Whether requests are noted: not in another thread, or if the user's program uses the signal."""
        return stop_requests.SIGNAL in self._previous

    def _install(self) -> None:
        if signal.getsignal(stop_requests.SIGNAL) is signal.SIG_DFL:
            self._previous[stop_requests.SIGNAL] = signal.signal(stop_requests.SIGNAL, self._on_signal)
        for name in _SIGNALS:
            number = getattr(signal, name)
            if signal.getsignal(number) in (signal.SIG_IGN, None):
                continue
            self._previous[number] = signal.signal(number, self._on_signal)

    def _restore(self) -> None:
        while self._previous:
            number, handler = self._previous.popitem()
            signal.signal(number, handler)

    def check_second(self) -> None:
        """Raise KeyboardInterrupt after the second Ctrl-C."""
        if self._num_ctrl_c > 1:
            raise KeyboardInterrupt

    def deliver_again(self) -> None:
        """Send a received SIGTERM or SIGHUP again, which may end the process."""
        if self._again is not None and self._origin.is_here():
            os.kill(os.getpid(), self._again)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal, perhaps between any two instructions of ours: so it sets fields, wakes the loop, and raises
        only while the user's code runs.
        """
        if not self._origin.is_here():  # a child that a plug-in forked inherited this handler
            signal.signal(number, self._previous.get(number, signal.SIG_DFL))
            os.kill(os.getpid(), number)
            return
        if number == stop_requests.SIGNAL:
            self.has_requests = True
            self._wake()
            return
        name = signal.Signals(number).name
        self.name = self.name or name
        self._wake()
        if name in _DELIVERED_AGAIN:
            self._again = self._again or number
        elif name == "SIGINT":
            self._num_ctrl_c += 1
        if user_code.running is None:
            return
        what, began_s = user_code.running
        taken_s = time.monotonic() - began_s
        if self._num_ctrl_c > 1:
            raise KeyboardInterrupt
        if taken_s >= _TOLD_S:
            logger.warning(
                "interrupted by %s: %s has run for %.1f s, and the run ends when it comes back%s",
                name,
                hook_name(what),
                taken_s,
                " or at a second Ctrl-C" if name == "SIGINT" else "",
            )


def _do_nothing() -> None:
    pass
