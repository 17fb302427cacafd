"""TrialExecutor: who runs actors; and the events by which it tells what became of them.

An actor is an object somewhere else, called by method name, with at most one call in flight. Its id is the fence: an
event of an actor that was let go names an id that the driver no longer waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from minitune.actor.messages import CallRaised, CallReturned, Event, Exited, Started
from minitune.clock import Clock
from minitune.resources import Resources

__all__ = ["CallRaised", "CallReturned", "Event", "Exited", "Started"]  # what the actor layer tells

ActorFactory = Callable[..., Any]
"""Makes the actor's object, in its own process or thread: `factory(user_thread, allocation=allocation)`.

`user_thread` is a `concurrent.futures.Executor` with one thread, on which all user code is to run; the call itself is
made there. `allocation` is the actor's `Allocation`. The object's methods are called on the control side, must not
block, and return a value or a `concurrent.futures.Future`. A method named `stop` unwinds user code; `reset` (only
called on a parked actor) returns whether the object can be used again. `park`, if there is one, is called instead of
`stop` where the actor is to be kept: it unwinds user code but leaves the object usable.
"""


class Shared(Protocol):
    """A value that is stored once per run; the handle is small and can be pickled."""

    def get(self) -> Any:
        """The value. The first call in a process may block to load it; later ones return the same object."""
        ...


class TrialExecutor(Protocol):
    """Runs actors and tells what becomes of them. Not thread-safe, except `wake`."""

    clock: Clock
    isolates: bool
    """Whether each actor has a process of its own."""

    def resources(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Totals and what is free now, by resource name."""
        ...

    def share(self, value: Any) -> Shared:
        """Store `value` once for all actors of this executor.

        Large buffers in it, such as those of arrays, may be private to each `get` of the handle; all else is loaded at
        most once per process.

        Raises:
            TypeError: If it cannot be pickled; the text names the path to the offending member.
            OSError: If it cannot be stored.
        """
        ...

    def can_start(self, request: Resources, waiter: str | None = None) -> bool:
        """Whether `start` with this request would find room now.

        Args:
            request: The resources that would be reserved.
            waiter: The caller's id. If a waiter is overtaken too often, resources that become free are
                kept for it. `start` for an actor whose id begins with `<waiter>#`, or `forget`, ends the wait.

        Raises:
            TuneError: If the request can never fit; the text names it and the totals.
        """
        ...

    def forget(self, waiter: str) -> None:
        """`waiter` does not want to start any more; nothing is kept for it."""
        ...

    def start(
        self,
        actor_id: str,
        factory: ActorFactory,
        request: Resources,
        directory: str | None = None,
        reuse_key: str | None = None,
        reset_args: tuple[Any, ...] = (),
    ) -> None:
        """Ask for an actor; it holds its resources from now on. Does not block.

        Answered by `Started`, or by `CallRaised` if the factory raised, or by `Exited`.

        Args:
            actor_id: A name never used before with this executor.
            factory: Makes the object; it must be picklable.
            request: The resources to reserve.
            directory: An existing directory for the actor's output files, which is also its working directory.
            reuse_key: A parked actor with this key and this request may be taken: its `reset(*reset_args, allocation)`
                is called. If that returns False, raises or takes longer than 2 s, a fresh actor is made instead.
            reset_args: See `reuse_key`.

        Raises:
            RuntimeError: If there is no room; ask `can_start` first.
        """
        ...

    def call(self, actor_id: str, method: str, *args: Any) -> None:
        """Call a method of the object. Does not block; answered by `CallReturned`, `CallRaised` or `Exited`.

        An actor may be called until the `wait` after the one that has told its `Exited`: a caller that handles the
        events of one `wait` in turn comes to the last reply of an actor before it comes to its end.

        Raises:
            RuntimeError: If the actor is not there or has a call in flight.
        """
        ...

    def stop(self, actor_id: str, grace_s: float, keep: bool = False, dump: bool = False) -> None:
        """Let an actor go. Does not block; only `Exited` follows.

        Args:
            actor_id: The actor; nothing happens if it is gone already.
            grace_s: Seconds for its `stop()` before it is terminated, then killed with all its descendants.
            keep: Park it for reuse instead, if it ends in time, has no child left, and was started with a key.
            dump: Where it can be done, have the stacks of its threads written first: `Exited.last_lines` ends in them.
        """
        ...

    def wait(self, timeout_s: float | None) -> list[Event]:
        """Wait for events: the only blocking call.

        Args:
            timeout_s: Give up after so many seconds; 0 never blocks, None waits without limit.

        Returns:
            The events in order of arrival; empty after a timeout or `wake()`.
        """
        ...

    def wake(self) -> None:
        """Make the current or the next `wait` return. Safe in a signal handler and from other threads."""
        ...

    def now(self) -> float:
        """Seconds of this executor's monotonic clock."""
        ...

    def shutdown(self, grace_s: float = 0.0) -> None:
        """Stop all actors, wait until they are gone, and free everything. Blocks, at most `grace_s` + 2 s."""
        ...
