"""MainThreadExecutor: runs user code on the main thread of a process, in spite of signal handlers that raise.

`signal`, `asyncio` and some libraries work on the main thread only. So a worker leaves its main thread to user code,
and communicates with the driver on another one.

The exception of a signal handler
---------------------------------
Python runs signal handlers on the main thread, between any two instructions. If a handler of the user raises while user
code runs, the exception is the user's. But the main thread also runs our own code, before and after user code and
within `report()`. On a busy machine a handler of an interval timer may raise there again and again. So this code
follows three rules, in this module and in the report pipe (see `worker`):

- The work is a step that can be repeated. It stores its state where the next attempt finds it. An attempt that raises
  was interrupted, so the step is repeated until it returns.
- If a call must not be repeated, C code stores its result: `list.extend` over `map` or `starmap` makes the call without
  a Python instruction between the call and the storage.
- The main thread shares no lock with another thread, because an exception may leave it locked for ever. It shares the
  queues of C code and, for sending, one lock that `let_go` releases.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from itertools import starmap
from queue import SimpleQueue
from typing import Any, TypeVar

from minitune.error import TrialStopped

_T = TypeVar("_T")
_MOST_ATTEMPTS = 1000
"""Attempts for a step. A step that raises so often has an error of its own, and the process cannot continue."""


class Task(Future[Any]):
    """A call of user code, and the Future of its outcome.

    A Future has a lock, which the exception of a signal handler may leave locked. So in a worker only the main thread
    waits for a Task or reads it; the control thread queues a `Step` behind the Task instead.

    Attributes:
        function: The function to call.
        was_called: Whether it was called. It is called once, because user code cannot be repeated.
        returned: Its value once it has returned, in a list that C code fills.
    """

    def __init__(self, function: Callable[[], Any]):
        super().__init__()
        self.function = function
        self.was_called = False
        self.returned: list[Any] = []


class Step:
    """A call of our own code. It is repeated until it returns.

    Attributes:
        function: The function to call.
        is_done: Whether it has returned or was cancelled.
        attempts: How often it was called.
    """

    __slots__ = ("attempts", "function", "is_done")

    def __init__(self, function: Callable[[], Any]):
        self.function = function
        self.is_done = False
        self.attempts = 0


class MainThreadExecutor(Executor):
    """Runs tasks and steps in the order of their submission, on the thread that calls `run`.

    An exception of a signal handler that comes while no user code runs is dropped.

    Attributes:
        new_reports: Makes the report pipe for a function; None if reports take another way, as in an inline run.
        let_go: Called on the main thread after a dropped exception: releases the lock that it may have left locked.
    """

    def __init__(self) -> None:
        self.new_reports: Callable[[], Any] | None = None
        self.let_go: Callable[[], object] = lambda: None
        self._queue: deque[Task | Step] = deque()
        self._tokens: SimpleQueue[None] = SimpleQueue()  # one for each entry, and for `shutdown`: `run` waits for them
        self._is_shut = False
        self._is_interruptible = False

    def submit(self, function: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """Queue a call of user code. Never blocks.

        Args:
            function: The function to call on the main thread.
            args: Its arguments.
            kwargs: Its keyword arguments.

        Returns:
            The Future of its value.

        Raises:
            RuntimeError: After `shutdown`.
        """
        if self._is_shut:
            raise RuntimeError("the user's thread accepts no more calls: the worker is ending")
        task = Task(partial(function, *args, **kwargs) if args or kwargs else function)
        self._put(task)
        return task

    def post(self, function: Callable[..., object], /, *args: Any) -> Step:
        """Queue a call of our own code, which may be made several times."""
        step = Step(partial(function, *args) if args else function)
        self._put(step)
        return step

    def _put(self, entry: Task | Step) -> None:
        self._queue.append(entry)
        self._tokens.put(None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Make `run` return once the queued calls are done. Never blocks.

        Args:
            wait: Has no effect: the thread that runs the calls would wait for itself.
            cancel_futures: Whether to cancel the calls that were not made yet.
        """
        self._is_shut = True
        if cancel_futures:
            for entry in list(self._queue):
                if isinstance(entry, Step):
                    entry.is_done = True
                else:
                    entry.cancel()
        self._tokens.put(None)

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing is queued."""
        return not self._queue

    def interrupt(self) -> None:
        """Raise `TrialStopped` if user code runs. For signal handlers, which run on the main thread."""
        if self._is_interruptible:
            self._is_interruptible = False
            raise TrialStopped("the actor was told to stop and its grace period is over")

    def run(self, depth: int = 8) -> None:
        """Run tasks and steps until `shutdown`. Blocks.

        Args:
            depth: How many further loops to nest. While an `except` block handles one exception, a handler may raise a
                second one there, outside of this `try`. The loop around this one drops it.
        """
        while True:
            try:
                if depth:
                    self.run(depth - 1)
                else:
                    self.let_go()
                    self._serve()
                return
            except BaseException:
                self._is_interruptible = False

    def _serve(self) -> None:
        """Run what is queued. An entry leaves the queue only when it is done, so a dropped exception loses none."""
        while True:
            while self._queue:
                entry = self._queue[0]
                if isinstance(entry, Step):
                    _run_step(entry)
                elif not entry.done():
                    self._run_task(entry)
                self._queue.popleft()
            if self._is_shut:
                return
            self._tokens.get()

    def _run_task(self, task: Task) -> None:
        """Call user code, or, after a dropped exception, set the outcome of the call that was made before."""
        error: BaseException = RuntimeError("the call was interrupted by a signal handler that raised")
        if not task.was_called:
            task.was_called = True
            if not task.set_running_or_notify_cancel():
                return
            try:
                self._is_interruptible = True
                task.returned.extend(starmap(task.function, ((),)))
                self._is_interruptible = False
                error = StopIteration()  # counts if the list is empty: `extend` takes it for the end of its argument
            except BaseException as raised:
                self._is_interruptible = False
                error = raised
        if task.returned:
            task.set_result(task.returned[0])
        else:
            task.set_exception(error)


def _run_step(step: Step) -> None:
    if not step.is_done:
        step.attempts += 1
        if step.attempts > _MOST_ATTEMPTS:
            os._exit(1)
        step.function()
        step.is_done = True
