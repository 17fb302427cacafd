"""A group of actors as the tests drive it: every wait for an event has a bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from actor_samples import Counter
from kit import BOUND_S

from minitune.actor.launcher import start_method
from minitune.actor.messages import Ended, GroupEvent, Ready, Replied
from minitune.actor.process import ActorGroup
from minitune.actor.worker import Hosted

however_it_started = pytest.mark.parametrize("start_method", [start_method()], indirect=True)
"""For tests of what is the same for every worker: they run with the usual start method only."""


class Driver:
    """A group, and the waiting that tests do with it."""

    def __init__(self, group: ActorGroup):
        self.group = group
        self.events: list[GroupEvent] = []

    def start(self, actor_id: str, factory: Callable[[], Any] = Counter, **options: Any) -> int:
        """Start a plain object's actor and wait until it is ready; returns its pid."""
        self.group.start(actor_id, partial(Hosted, factory=factory), **options)
        event = self.next(actor_id)
        assert isinstance(event, Ready), event
        assert event.pid > 1  # tests send signals to it, and 0 would be this process and all its group
        return event.pid

    def next(self, actor_id: str) -> GroupEvent:
        """Wait for the next event of an actor; those of others are kept."""
        until = time.monotonic() + BOUND_S
        while True:
            for event in self.events:
                if event.actor_id == actor_id:
                    self.events.remove(event)
                    return event
            left_s = until - time.monotonic()
            assert left_s > 0, f"no event of {actor_id!r} within {BOUND_S} s"
            self.events += self.group.wait(left_s)

    def call(self, actor_id: str, method: str, *args: Any) -> Any:
        """Call and wait for the value."""
        self.group.call(actor_id, method, *args)
        event = self.next(actor_id)
        assert isinstance(event, Replied), event
        return event.value

    def ended(self, actor_id: str) -> Ended:
        """Wait for the end, which must be the next event, and see that nothing follows."""
        event = self.next(actor_id)
        assert isinstance(event, Ended), event
        self.events += self.group.wait(0)
        assert not [e for e in self.events if e.actor_id == actor_id]
        return event

    def stop(self, actor_id: str, grace_s: float = BOUND_S) -> Ended:
        self.group.stop(actor_id, grace_s)
        return self.ended(actor_id)
