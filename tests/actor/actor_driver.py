"""What the tests of actors share: waiting for events and processes with a bound."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from actor_samples import Counter

from minitune.actor.group import ActorGroup
from minitune.actor.messages import Ended, GroupEvent, Ready, Replied
from minitune.actor.user_thread import Hosted

TIME_FACTOR = float(os.environ.get("MINITUNE_TEST_TIMEFACTOR", "1"))
BOUND_S = 20.0 * TIME_FACTOR
"""Ends a wait that hangs; no passing test waits for it."""


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


def marked_processes(marker: str) -> list[psutil.Process]:
    """The living processes that carry a marker in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(marker in value for value in process.environ().values()):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that nothing tells of."""
    until = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < until, f"waited {BOUND_S} s in vain until {what}"
        time.sleep(0.005)


def is_gone(pid: int) -> bool:
    """Whether a process is dead; a zombie is."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def read_pids(path: Path, count: int) -> list[int]:
    """Wait until `count` whole lines stand in a file, and read them as process ids."""
    wait_until(lambda: path.exists() and path.read_text().count("\n") >= count, f"{count} pids stand in {path}")
    return [int(line) for line in path.read_text().split()]
