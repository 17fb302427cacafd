"""The user's thread: a one-thread executor on the main thread, and an actor for objects that know nothing of it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from minitune.error import TrialStopped

_T = TypeVar("_T")


class _Task:
    """One callable, and the Future that stands for it if anybody asks what becomes of it."""

    __slots__ = ("function", "future", "is_begun")

    def __init__(self, function: Callable[[], Any], future: Future[Any] | None):
        self.function, self.future = function, future
        self.is_begun = False


class TurnQueue:
    """A queue of tokens: waiting for one, the user's thread may do what the control thread would have to do.

    Args:
        wait_otherwise: Called on the main thread with what tells whether there is still no token; returns soon after
            one was put, or when it can do no more.
    """

    def __init__(self, wait_otherwise: Callable[[Callable[[], bool]], object]):
        self._tokens: SimpleQueue[None] = SimpleQueue()
        self._wait_otherwise = wait_otherwise
        self.put = self._tokens.put

    def get(self) -> None:
        """Take a token. Blocks until there is one."""
        if self._tokens.empty() and threading.current_thread() is threading.main_thread():
            self._wait_otherwise(self._tokens.empty)
        self._tokens.get()


class MainThreadExecutor(Executor):
    """Runs what is submitted, in order, on the thread that calls `run`: the main thread of a worker.

    So `signal`, `asyncio` and libraries that insist on the main thread work in user code. An exception that a signal
    handler raises while no user code runs is dropped.

    Attributes:
        new_turns: Makes a queue of tokens for whoever waits on the user's thread in the midst of a call.
    """

    def __init__(self) -> None:
        self.new_turns: Callable[[], SimpleQueue[None] | TurnQueue] = SimpleQueue
        self._tasks: deque[_Task] = deque()
        self._tokens: SimpleQueue[None] = SimpleQueue()
        self._is_shut = False
        self._is_interruptible = False

    def submit(self, function: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """Queue a call. Never blocks.

        Args:
            function: What to call on the user's thread.
            args: Its arguments.
            kwargs: Its keyword arguments.

        Returns:
            The Future of its value.

        Raises:
            RuntimeError: After `shutdown`.
        """
        if self._is_shut:
            raise RuntimeError("nothing can be submitted to the user's thread any more: the worker is leaving")
        future: Future[_T] = Future()
        self._put(_Task(partial(function, *args, **kwargs) if args or kwargs else function, future))
        return future

    def post(self, function: Callable[..., object], /, *args: Any) -> None:
        """The same for a call whose outcome nobody asks for; what it raises is dropped."""
        self._put(_Task(partial(function, *args), None))

    def _put(self, task: _Task) -> None:
        self._tasks.append(task)
        self._tokens.put(None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Make `run` return once the calls that are queued are done.

        Args:
            wait: Of no effect here: the thread that runs cannot wait for itself, so this never blocks.
            cancel_futures: Whether to cancel what has not begun.
        """
        self._is_shut = True
        if cancel_futures:
            for task in list(self._tasks):
                if task.future is not None:
                    task.future.cancel()
        self._tokens.put(None)

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing is queued."""
        return not self._tasks

    @property
    def has_more(self) -> bool:
        """Whether something is queued behind what runs."""
        return len(self._tasks) > 1

    def interrupt(self) -> None:
        """Raise `TrialStopped` if user code runs. For signal handlers, which run on the main thread."""
        if self._is_interruptible:
            self._is_interruptible = False
            raise TrialStopped("the actor was told to stop and its grace period is over")

    def run(self, settle: Callable[[], object]) -> None:
        """Serve until `shutdown`. Blocks; what a signal handler raises between two pieces of user code is dropped.

        Args:
            settle: Called after each piece, and after such an exception: it may have hit the sending of an answer.
        """
        while True:
            try:
                self._serve_on(settle)
                return
            except BaseException:  # raised in the few instructions that handle another one
                continue

    def _serve_on(self, settle: Callable[[], object]) -> None:
        is_clean = True
        while True:
            try:
                if not is_clean:
                    settle()
                    is_clean = True
                self._serve(settle)
                return
            except BaseException:
                is_clean = self._is_interruptible = False

    def _serve(self, settle: Callable[[], object]) -> None:
        """The loop. A task leaves the queue only when it is answered, so that none is lost to a stray exception."""
        while True:
            while self._tasks:
                self._run_one(self._tasks[0])
                self._tasks.popleft()
                settle()
            if self._is_shut:
                return
            self._tokens.get()

    def _run_one(self, task: _Task) -> None:
        future = task.future
        if task.is_begun:  # a stray exception came between its end and its answer
            if future is not None and not future.done():
                future.set_exception(RuntimeError("the call was interrupted by a signal handler that raised"))
            return
        task.is_begun = True
        if future is not None and not future.set_running_or_notify_cancel():
            return
        try:
            value = self._call(task)
        except BaseException as error:
            self._is_interruptible = False
            if future is not None:
                future.set_exception(error)
        else:
            if future is not None:
                future.set_result(value)

    def _call(self, task: _Task) -> Any:
        self._is_interruptible = True
        try:
            return task.function()
        finally:
            self._is_interruptible = False


class Hosted:
    """An actor made of a plain object: each of its methods runs on the user's thread.

    Args:
        executor: The user's thread.
        factory: Makes the object. It is called at once, on the calling thread, which is the user's in a worker.

    Example:
        `group.start("a", functools.partial(Hosted, factory=Counter))`
    """

    def __init__(self, executor: Executor, factory: Callable[[], Any]):
        self._executor = executor
        self._object = factory()

    def __getattr__(self, name: str) -> Callable[..., Future[Any]]:
        method = getattr(self._object, name)
        if not callable(method):
            raise TypeError(f"only methods can be called, but {name!r} is a {type(method).__name__}")

        def call(*args: Any) -> Future[Any]:
            return self._executor.submit(method, *args)

        return call
