"""Watch: drives an executor in a test, one event at a time and never without a bound."""

from __future__ import annotations

import functools
import time
from collections import deque
from typing import Any, TypeVar

from minitune.error import RemoteError
from minitune.execution.trial_executor import (
    ActorFactory,
    CallRaised,
    CallReturned,
    Event,
    Exited,
    Started,
    TrialExecutor,
)
from minitune.resources import Resources
from minitune.testing.executor_actors import Account

ONE_CPU = Resources([{"CPU": 1}])
NOTHING = Resources([{}])
_EventKind = TypeVar("_EventKind", Started, CallReturned, CallRaised, Exited)

GRACE_S = 10.0
"""How long a test lets an actor unwind; none of them needs it."""


class Watch:
    """An executor and the events that it has told but a test has not yet looked at.

    Args:
        executor: The executor.
        bound_s: How long an event may take, in seconds of real time.
    """

    def __init__(self, executor: TrialExecutor, bound_s: float):
        self.executor = executor
        self._bound_s = bound_s
        self._events: deque[Event] = deque()
        self._fences = 0

    def next(self) -> Event:
        """The next event.

        Raises:
            AssertionError: If none comes in time.
        """
        until_s = time.monotonic() + self._bound_s
        while not self._events:
            assert time.monotonic() < until_s, f"no event came within {self._bound_s:g} s"
            self._events.extend(self.executor.wait(self._bound_s))
        return self._events.popleft()

    def take(self, count: int) -> list[Event]:
        """The next `count` events."""
        return [self.next() for _ in range(count)]

    def start(
        self, actor_id: str, factory: ActorFactory = Account, request: Resources = ONE_CPU, **kwargs: Any
    ) -> Started:
        """Start an actor and take its `Started`, which must be the next event."""
        self.executor.start(actor_id, factory, request, **kwargs)
        return self.expect(Started, actor_id)

    def value(self, actor_id: str, method: str, *args: Any) -> Any:
        """Call a method; what it returned."""
        self.executor.call(actor_id, method, *args)
        return self.expect(CallReturned, actor_id).value

    def error(self, actor_id: str, method: str, *args: Any) -> RemoteError:
        """Call a method; what it raised."""
        self.executor.call(actor_id, method, *args)
        return self.expect(CallRaised, actor_id).error

    def stop(self, actor_id: str, keep: bool = False) -> Exited:
        """Stop an actor and take its `Exited`, which must be the next event."""
        self.executor.stop(actor_id, GRACE_S, keep)
        return self.expect(Exited, actor_id)

    def expect(self, kind: type[_EventKind], actor_id: str) -> _EventKind:
        """The next event, which must be of this kind and of this actor."""
        event = self.next()
        assert isinstance(event, kind), f"{kind.__name__} of {actor_id!r} was expected, but got {event}"
        assert event.actor_id == actor_id, f"an event of {actor_id!r} was expected, but got {event}"
        return event

    def rest(self) -> list[Event]:
        """All events that are still to come of what a test has done so far: those before the end of a new actor."""
        self._fences += 1
        fence = f"fence-{self._fences}#1"
        self.executor.start(fence, functools.partial(Account, balance=0), NOTHING)
        self.executor.stop(fence, GRACE_S)
        others: list[Event] = []
        while True:
            event = self.next()
            if event.actor_id != fence:
                others.append(event)
            elif isinstance(event, Exited):
                return others
