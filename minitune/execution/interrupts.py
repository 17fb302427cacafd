"""Interrupts: signals become a flag and a wake-up; what they mean is decided in the driver's loop.

Handlers are installed in the main thread only, for the length of a run, and the previous ones are put back. A signal
that is ignored (`nohup`) stays ignored. A handler writes nothing and sends nothing, so no record can be torn by it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from minitune.settings import is_on

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")
_DELIVERED_AGAIN = ("SIGTERM", "SIGHUP")


class Interrupts:
    """A context in which signals end the run instead of the process.

    Args:
        wake: Ends the driver's wait; called in the handler.
        raise_second: Raise KeyboardInterrupt out of a second SIGINT, for an executor that runs user code in the
            driver's own thread and cannot be woken.
    """

    def __init__(self, wake: Callable[[], None], raise_second: bool):
        self.name: str | None = None
        self.sigint_count = 0
        self._wake = wake
        self._raise_second = raise_second
        self._previous: dict[int, Any] = {}
        self._pid = os.getpid()

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is not threading.main_thread():
            return self
        for name in _NAMES:
            number = getattr(signal, name, None)
            if number is None or signal.getsignal(number) in (signal.SIG_IGN, None):
                continue
            if name == "SIGINT" and _is_sigint_left_alone():
                continue
            self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.restore()

    def restore(self) -> None:
        """Put the previous handlers back; may be called more than once."""
        while self._previous:
            number, handler = self._previous.popitem()
            signal.signal(number, handler)

    def check_second(self) -> None:
        """Raise KeyboardInterrupt if the user has pressed Ctrl-C twice: everything is to end now."""
        if self.sigint_count > 1:
            raise KeyboardInterrupt

    def deliver_again(self) -> None:
        """Let a SIGTERM or SIGHUP take its usual effect, now that everything is in order. May end the process."""
        if self.name in _DELIVERED_AGAIN:
            self.restore()
            os.kill(os.getpid(), getattr(signal, self.name))

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # a plug-in has forked, or has made a process that inherits this handler
            signal.signal(number, self._previous.get(number, signal.SIG_DFL))
            os.kill(os.getpid(), number)
            return
        name = signal.Signals(number).name
        if name == "SIGINT":
            self.sigint_count += 1
        self.name = self.name or name
        self._wake()
        if self._raise_second and self.sigint_count > 1:
            raise KeyboardInterrupt


def _is_sigint_left_alone() -> bool:
    return is_on("DISABLE_SIGINT_HANDLER")
