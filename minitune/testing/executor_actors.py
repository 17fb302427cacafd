"""The actors that `TrialExecutorContract` runs. Workers import this module, so it needs no test framework."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from minitune import clock
from minitune.execution.trial_executor import Shared
from minitune.resources import Allocation

KILL: int = getattr(signal, "SIGKILL", signal.SIGTERM)
"""The signal that nobody survives; where there is no such signal, what ends a process at once there."""
PATIENCE_S = 20.0
"""How long an actor waits for what must come; it only ends a test that fails."""


class Account:
    """Keeps a sum. What counts as user code runs on the user's thread.

    Args:
        user_thread: The user's thread.
        balance: The first sum.
        allocation: What the actor was given.
    """

    def __init__(self, user_thread: Executor, balance: int = 0, *, allocation: Allocation):
        self._user_thread = user_thread
        self._balance = balance
        self._allocation = allocation
        self._made_on = threading.get_ident()

    def add(self, amount: int) -> Future[int]:
        """Add to the sum; the new sum."""
        return self._user_thread.submit(self._add, amount)

    def _add(self, amount: int) -> int:
        self._balance += amount
        return self._balance

    def balance(self) -> int:
        """The sum, at once."""
        return self._balance

    def allocation(self) -> Allocation:
        """What the actor was given."""
        return self._allocation

    def echo(self, *values: Any) -> Any:
        """The arguments."""
        return values

    def is_one_thread(self) -> Future[bool]:
        """Whether the object was made on the thread that runs user code."""
        return self._user_thread.submit(lambda: threading.get_ident() == self._made_on)

    def fail(self, kind: str, message: str) -> Future[None]:
        """Raise on the user's thread."""
        return self._user_thread.submit(fail_deep_inside, kind, message)

    def fail_at_once(self, kind: str, message: str) -> None:
        """Raise on the control side."""
        fail_deep_inside(kind, message)

    def lock(self) -> Future[Any]:
        """Something that cannot be pickled."""
        return self._user_thread.submit(threading.Lock)

    def spend(self, duration_s: float) -> Future[float]:
        """Let time pass on the current clock; what it shows then."""
        return self._user_thread.submit(self._spend, duration_s)

    def _spend(self, duration_s: float) -> float:
        clock.current().sleep(duration_s)
        return clock.current().monotonic()


def fail_deep_inside(kind: str, message: str) -> None:
    """Raise one of the exceptions that tests ask for by name."""
    kinds: Mapping[str, type[BaseException]] = {"ValueError": ValueError, "SystemExit": SystemExit}
    raise kinds[kind](message)


def refuse(user_thread: Executor, *, allocation: Allocation) -> Account:
    """A factory that raises."""
    raise ValueError("this factory makes nothing")


class Worker:
    """Runs until it is stopped, like a function in `report()`, and then notes that it has unwound.

    Args:
        user_thread: The user's thread.
        notes: A file that is appended to.
        allocation: What the actor was given.
    """

    def __init__(self, user_thread: Executor, notes: str, *, allocation: Allocation):
        self._user_thread = user_thread
        self._notes = Path(notes)
        self._stops: SimpleQueue[None] = SimpleQueue()
        self._unwound: Future[None] | None = None

    def begin(self) -> Future[str]:
        """Begin; answered from within the code that then runs on."""
        begun: Future[str] = Future()
        self._unwound = self._user_thread.submit(self._work, begun)
        return begun

    def hang(self) -> Future[str]:
        """Never answers, but lets itself be stopped."""
        self._unwound = self._user_thread.submit(self._work, Future())
        return Future()

    def _work(self, begun: Future[str]) -> None:
        try:
            begun.set_result("begun")
            self._stops.get(timeout=PATIENCE_S)
        finally:
            self._note("unwound")

    def _note(self, text: str) -> None:
        with self._notes.open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    def stop(self) -> Future[None] | None:
        """End what runs; done when it has unwound."""
        self._note("stop")
        self._stops.put(None)
        return self._unwound


class Mortal:
    """Ends its own process, or meets another actor's.

    Args:
        user_thread: The user's thread.
        allocation: What the actor was given.
    """

    def __init__(self, user_thread: Executor, *, allocation: Allocation):
        self._user_thread = user_thread

    def answer_and_exit(self, code: int) -> Future[str]:
        """Answer, and be gone before anything else can be asked."""
        answer = _WatchedFuture()
        self._user_thread.submit(self._answer_and_exit, answer, code)
        return answer

    def _answer_and_exit(self, answer: _WatchedFuture, code: int) -> None:
        # Only once somebody listens is the answer on its way when set_result() comes back.
        answer.has_listener.wait(PATIENCE_S)
        answer.set_result("last words")
        os._exit(code)

    def kill_itself(self) -> Future[None]:
        """Die of SIGKILL; there is no answer."""
        return self._user_thread.submit(os.kill, os.getpid(), KILL)

    def hang(self) -> Future[None]:
        """Never answer."""
        return Future()

    def meet(self, mine: str, other: str) -> Future[bool]:
        """Leave a file and wait for another's: whether it came."""
        return self._user_thread.submit(meet, Path(mine), Path(other))


class _WatchedFuture(Future[str]):
    """Tells when somebody listens to it."""

    def __init__(self) -> None:
        super().__init__()
        self.has_listener = threading.Event()

    def add_done_callback(self, fn: Callable[[Future[str]], object]) -> None:
        super().add_done_callback(fn)
        self.has_listener.set()


def meet(mine: Path, other: Path) -> bool:
    """Leave a file and wait for another's, at most `PATIENCE_S`: whether it came."""
    mine.touch()
    until_s = time.monotonic() + PATIENCE_S
    while not other.exists() and time.monotonic() < until_s:
        time.sleep(0.005)
    return other.exists()


class Counted:
    """A value that counts how often it is loaded in a process.

    Args:
        text: What it holds.
    """

    loads = 0

    def __init__(self, text: str):
        self.text = text

    def __reduce__(self) -> tuple[Any, ...]:
        return _load_counted, (self.text,)


def _load_counted(text: str) -> Counted:
    Counted.loads += 1
    return Counted(text)


class Reader:
    """Reads a shared value.

    Args:
        user_thread: The user's thread.
        shared: Its handle.
        allocation: What the actor was given.
    """

    def __init__(self, user_thread: Executor, shared: Shared, *, allocation: Allocation):
        self._user_thread = user_thread
        self._shared = shared

    def value(self) -> Future[Any]:
        """The value."""
        return self._user_thread.submit(self._shared.get)

    def read_twice(self) -> Future[tuple[str, bool, int]]:
        """The text of a `Counted`, whether it is the same object each time, and how often this process loaded it."""
        return self._user_thread.submit(self._read_twice)

    def _read_twice(self) -> tuple[str, bool, int]:
        first, second = self._shared.get(), self._shared.get()
        return first.text, first is second, Counted.loads


class Reusable:
    """Can be parked and reset.

    Args:
        user_thread: The user's thread.
        name: Whose actor it is.
        allocation: What the actor was given.
    """

    def __init__(self, user_thread: Executor, name: str, *, allocation: Allocation):
        self._user_thread = user_thread
        self._history = [name]
        self._is_done = True

    def history(self) -> list[str]:
        """Whose actor it was, one after the other."""
        return self._history

    def leave_busy(self) -> None:
        """Let the next `stop` fail."""
        self._is_done = False

    def stop(self) -> Future[None]:
        """End."""
        return self._user_thread.submit(self._stop)

    def _stop(self) -> None:
        if not self._is_done:
            raise RuntimeError("this actor cannot be stopped cleanly")

    def reset(self, name: str, outcome: str, allocation: Allocation) -> Future[bool]:
        """Become the actor of `name`.

        Args:
            name: Whose.
            outcome: `yes`, `no`, `raise`, `exit` or `slow`.
            allocation: What it is given.
        """
        return self._user_thread.submit(self._reset, name, outcome, allocation)

    def _reset(self, name: str, outcome: str, allocation: Allocation) -> bool:
        if outcome == "raise":
            raise ValueError("this actor cannot be reset")
        if outcome == "exit":
            raise SystemExit(3)
        if outcome == "slow":
            clock.current().sleep(0.75)
        if not isinstance(allocation, Allocation):
            raise TypeError(f"the last argument of reset() must be an Allocation, but got {allocation!r}")
        self._history.append(name)
        return outcome != "no"
