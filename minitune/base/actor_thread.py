"""ActorThread: runs the code of one actor on a thread, for executors whose actors have no main thread to themselves.

The control side asks, and the thread answers. A call may answer before it returns: `exchange` hands over a report, and
blocks until the same call is made again. Other calls are made meanwhile::

    control   ask("train") -----> (answer) ........ ask("train") -----> (answer)
    thread         runs ... exchange()                     returns ... exchange()
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, NamedTuple

from minitune.base.process_limits import start_thread


class _Call(NamedTuple):
    name: str
    function: Callable[[], Any]
    answer: Future[Any]


class ActorThread:
    """A thread, its calls, and the answers.

    It is a daemon, so that code that never ends does not delay the exit.
    """

    def __init__(self, name: str):
        self.is_stopped = False
        self.at_stop: Callable[[], object] = lambda: None
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()  # None wakes the thread
        self._running: _Call | None = None  # the outermost call, with the answer that is due
        self._has_ended = False
        self._reporting = threading.RLock()  # one report at a time; a call's end waits for it
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # -- the control side ----------------------------------------------------------------------------------------

    def ask(self, name: str, function: Callable[[], Any]) -> Future[Any]:
        """Queue a call, and return its value, or its next report. Never blocks. A call of this name that has reported
        and waits continues, without `function`.

        Raises:
            TuneError: If the system does not allow another thread.
        """
        if not self._thread.ident:
            start_thread(self._thread)
        call = _Call(name, function, Future())
        self._calls.put(call)
        return call.answer

    def stop(self) -> None:
        """Make each report return False. Never blocks."""
        self.is_stopped = True
        self._calls.put(None)
        self.at_stop()

    def end(self, timeout_s: float) -> bool:
        """End the thread after the calls in its queue. Blocks at most `timeout_s` seconds. Returns whether it has
        ended.
        """
        self._has_ended = True
        self._calls.put(None)
        if self._thread.ident:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # -- the threads of the actor --------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            call = self._calls.get()
            if call is not None:
                self._running = call
                outcome = _outcome_of(call.function)
                with self._reporting:
                    _tell(self._running.answer, outcome)  # of the call that was asked last, or of a stopped one
                    self._running = None
            elif self._has_ended:
                return

    def exchange(self, make: Callable[[], tuple[Any, Callable[[], object]]]) -> bool:
        """Answer the running call with a report, and block until the control side makes the same call again. `make`
        makes the report, and a function for when it counts. Returns whether the call may continue; if not, no report
        counts any more.
        """
        with self._reporting:
            running = self._running
            if running is None or self.is_stopped:
                return False
            report, commit = make()
            commit()
            running.answer.set_result(report)
            while not self.is_stopped:
                call = self._calls.get()
                if call is None:
                    continue
                if call.name == running.name:
                    self._running = call
                    return True
                _tell(call.answer, _outcome_of(call.function))
            return False

    def abandon(self) -> None:
        """Do nothing: a thread that ignores its stop cannot be ended by force."""


_Outcome = tuple[Any, BaseException | None]


def _outcome_of(function: Callable[[], Any]) -> _Outcome:
    try:
        return function(), None
    except BaseException as error:
        return None, error


def _tell(answer: Future[Any], outcome: _Outcome) -> None:
    value, error = outcome
    if answer.done():  # it was answered by a report, after which the call was stopped
        return
    if error is None:
        answer.set_result(value)
    else:
        answer.set_exception(error)
