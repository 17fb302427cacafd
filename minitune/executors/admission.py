"""What executors share: the ids of actors, their resources, and the parked ones; and waiting on a loop.

An actor holds its resources until its end is reported, because only then its last process is gone. A parked actor holds
nothing: a new actor takes it over and acquires its own.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from minitune.actor.loop import Loop
from minitune.base import clock as clocks
from minitune.base.clock import Clock
from minitune.base.forks import Origin, only_here
from minitune.base.shared_values import Handle, Held, hold, let_go
from minitune.executors.devices import Machine
from minitune.executors.ledger import Ledger
from minitune.executors.trial_executor import CallReturned, Event, Exited
from minitune.resources import Resources

_Actor = TypeVar("_Actor")
_Parked = TypeVar("_Parked")


class Admission(Generic[_Actor, _Parked]):
    """The base of the executors."""

    isolates = False
    has_queue = False
    only_events_count = False

    def __init__(self, ledger: Ledger):
        self._ledger = ledger
        self._actors: dict[str, _Actor] = {}
        self._parked: dict[tuple[Any, ...], list[_Parked]] = {}
        self._held: list[Held] = []

    def share(self, value: Any) -> Handle:
        """Keep `value` in this process by reference, even if it cannot be pickled: a debugger shows the user's own."""
        ref = hold(value)
        self._held.append(ref)
        return ref

    def resources(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """See `TrialExecutor.resources`."""
        return self._ledger.totals(), self._ledger.free()

    def can_start(self, request: Resources, waiter: str | None = None) -> bool:
        """See `TrialExecutor.can_start`."""
        return self._ledger.can_acquire(request, waiter)

    def check_room(self, request: Resources) -> None:
        """See `TrialExecutor.check_room`."""
        self.can_start(request)

    def is_late(self, actor_id: str) -> bool:
        """See `TrialExecutor.is_late`."""
        return False

    def forget(self, waiter: str) -> None:
        """See `TrialExecutor.forget`."""
        self._ledger.forget(waiter)

    def _drop_held(self) -> None:
        """Drop the shared values, or a trainable in a reference cycle keeps the user's data in memory."""
        for ref in self._held:
            let_go(ref)

    def _park(self, reuse_key: str | None, request: Resources, parked: _Parked) -> None:
        """Keep what served an actor with this key and request."""
        self._parked.setdefault((reuse_key, request), []).append(parked)

    def _take_parked(self, reuse_key: str | None, request: Resources) -> _Parked | None:
        """The actor that was parked last with this key and request, or None."""
        if reuse_key is None or not self._parked:
            return None
        parked = self._parked.get((reuse_key, request))
        if not parked:
            return None
        return parked.pop()


class LoopExecutor(Admission[_Actor, _Parked]):
    """The base of executors whose actors are elsewhere, so that their events come through a loop.

    Args:
        end_all: Ends what this process must not leave behind. Called once: at the shutdown, at exit, or when this
            object is collected, so it must not refer to it.
    """

    isolates = True

    def __init__(self, ledger: Ledger, loop: Loop, end_all: Callable[[], object]):
        super().__init__(ledger)
        self.clock: Clock = clocks.REAL
        self._loop = loop
        self._told: deque[Any] = deque()  # events that have come, and what only `_complete` of a subclass knows
        self._just_ended: set[str] = set()  # actors whose Exited the last `wait` has returned
        self._origin = Origin()
        self._finalizer = weakref.finalize(self, only_here(_release), loop, end_all)

    def wait(self, timeout_s: float | None) -> list[Event]:
        """See `TrialExecutor.wait`."""
        if not self._finalizer.alive:
            self._check_open()
        # The caller has handled the events of the last `wait`, so it knows that these actors have ended.
        if self._just_ended:
            self._just_ended.clear()
        told = self._told
        until_s = None if timeout_s is None else self._loop.time() + timeout_s
        events: list[Event] = []
        while True:
            was_woken = False
            if not told or timeout_s == 0:  # 0 requests a look at the channels even if there are events
                was_woken = self._loop.turn(0.0 if told else timeout_s)
            while told:
                event = told.popleft()
                if not isinstance(event, CallReturned):  # which needs nothing, and nearly all events are of this kind
                    event = self._complete(event)
                    if isinstance(event, Exited) and event.kind not in ("stopped", "parked"):
                        self._just_ended.add(event.actor_id)
                if event is not None:
                    events.append(event)
            if events or was_woken:
                return events
            if until_s is not None:
                timeout_s = until_s - self._loop.time()
                if timeout_s <= 0:
                    return events

    def wake(self) -> None:
        """See `TrialExecutor.wake`."""
        self._loop.wake()

    def _complete(self, event: Any) -> Event | None:
        """Handle an event, and return the one for the caller, or None."""
        completed: Event = event
        return completed

    def _require_just_ended(self, actor_id: str) -> None:
        self._check_open()
        if actor_id not in self._just_ended:
            raise RuntimeError(f"actor {actor_id!r} is not there")

    def _check_open(self) -> None:
        """Raise RuntimeError after the shutdown. A daemon thread never returns while the interpreter exits."""
        # First: at the exit of the interpreter, another thread has closed the loop, and this one must not report that.
        self._loop.stand_still_if_halted()
        if not self._finalizer.alive:
            raise RuntimeError("the executor is shut down")


class _HasCalls(Protocol):
    @property
    def is_busy(self) -> bool:
        """Whether a call is in flight."""
        ...


_Called = TypeVar("_Called", bound=_HasCalls)


def idle(actors: Mapping[str, _Called], actor_id: str) -> _Called:
    """The actor, for a call: it must exist, and have no call in flight."""
    actor = actors.get(actor_id)
    if actor is None:
        raise RuntimeError(f"actor {actor_id!r} is not there")
    if actor.is_busy:
        raise RuntimeError(f"actor {actor_id!r} has a call in flight")
    return actor


def ledger_of(machine: Machine) -> Ledger:
    """An empty ledger with a machine's totals."""
    return Ledger(machine.totals, machine.gpu_ids)


def _release(loop: Loop, end_all: Callable[[], object]) -> None:
    if not threading.main_thread().is_alive():  # the interpreter is exiting
        loop.halt()  # before the workers are killed: their deaths are not news for a thread that drives the loop
    end_all()
    loop.close()
