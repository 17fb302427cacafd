"""TrialExecutor: the protocol of executors, which run actors; and the events that an executor returns.

An actor is an object in another process or thread, with at most one call in flight. Actor ids are never used again, so
the driver recognises late events of an actor that it has stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from minitune.actor.messages import STOP_SWALLOWED_EXIT, CallRaised, CallReturned, Event, Exited, Placed, Started
from minitune.base.shared_values import ObjectRef
from minitune.clock import Clock
from minitune.resources import Resources

# from lower layers
__all__ = ["STOP_SWALLOWED_EXIT", "CallRaised", "CallReturned", "Event", "Exited", "Placed", "Started"]

ActorFactory = Callable[..., Any]
"""Creates the actor's object, in its own process or thread: `factory(host, *args, allocation=allocation)`.

`args` are those of the `ActorSpec`, and `allocation` is the actor's `Allocation`. The object's methods are called one
at a time, all on one thread; they may block. `host` lets a method answer before it returns (`host.exchange`), and tells
whether the actor must end (`host.is_stopped`); see `Host`. When the actor ends, its method `stop` is called, if it has
one. A parked actor gets `reset` instead, which returns whether the object can be used again. On a machine that does not
see the actor's directory, `factory` and `reset` also get `directory=`, the path of a directory that stands for it
there.
"""


class ActorSpec(NamedTuple):
    """An actor to start.

    Attributes:
        factory: Creates the object. It must be picklable, and must not be changed. If many actors have the same one,
            it may be pickled only once.
        directory: A directory for the actor's output files, and its working directory. Unless the executor
            `makes_directories`, it must exist.
        reuse_key: A parked actor with this key and this request may be reused: its `reset(*args, allocation)` is
            called. `allocation` may be None if the actor keeps the allocation that it had. If `reset` returns False,
            raises or takes longer than 2 s, a new actor is started instead.
    """

    actor_id: str
    factory: ActorFactory
    request: Resources
    directory: str | None = None
    reuse_key: str | None = None
    args: tuple[Any, ...] = ()


class TrialExecutor(Protocol):
    """Runs actors and returns their events. Not thread-safe, except for `wake`."""

    clock: Clock
    """The clock of the run. Its `monotonic` is the time of all limits."""
    isolates: bool
    """Whether each actor has its own process."""
    has_queue: bool
    """Whether an actor may have to wait for its resources after `start`. If so, `Placed` is its first event."""
    makes_directories: bool
    """Whether an actor's process makes its directory if that does not exist, and works in it from the beginning."""

    def resources(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """The total and the free amounts, by resource name."""
        ...

    def share(self, value: Any) -> ObjectRef:
        """Store `value` once for all actors of this executor.

        Large buffers, such as those of arrays, may be private to each `get` of the handle. Other values are loaded at
        most once per process.

        Raises:
            TypeError: If `value` cannot be pickled. The text names the path to the part that causes this.
        """
        ...

    def can_start(self, request: Resources, waiter: str | None = None) -> bool:
        """Whether there is room for `start` with this request now, or the waiter may wait in the queue.

        Args:
            request: The resources.
            waiter: The caller's id. If a waiter is overtaken too often, resources are reserved for it as they become
                free. `start` for an actor whose id begins with `<waiter>#`, or `forget`, ends the wait.

        Raises:
            TuneError: If the request can never fit. The text names the request and the totals.
        """
        ...

    def forget(self, waiter: str) -> None:
        """Remove a waiter that no longer needs resources."""
        ...

    def start(self, spec: ActorSpec) -> Started | None:
        """Start an actor. It holds its resources from now on. Does not block.

        The event that follows is `Started`, or `CallRaised` if the factory raised an error, or `Exited`.

        Returns:
            `Started` if a parked actor is taken that is ready at once. Then no such event follows.

        Raises:
            RuntimeError: If there is no room (call `can_start` first), or there is an actor with this id.
        """
        ...

    def call(self, actor_id: str, method: str, *args: Any) -> None:
        """Call a method of the object. Does not block. `CallReturned`, `CallRaised` or `Exited` follows.

        An actor may be called until the next `wait` after the one that returned its `Exited`.

        Raises:
            RuntimeError: If the actor does not exist or has a call in flight.
        """
        ...

    def stop(self, actor_id: str, grace_s: float, keep: bool = False, dump: bool = False) -> Exited | None:
        """Stop an actor. Does not block; only `Exited` follows.

        Args:
            actor_id: The actor. Does nothing if it has already exited.
            grace_s: Seconds for its running call and its `stop()`. After that, it is terminated, then killed with all
                its descendants.
            keep: Park the actor for reuse, if it stops in time, has no child process left, and was started with a key.
            dump: If possible, first write the stacks of its threads, at the end of `Exited.last_lines`.

        Returns:
            `Exited` if the actor has exited already, its resources are free, and the caller has taken all events. Then
            no event follows.
        """
        ...

    def wait(self, timeout_s: float | None) -> list[Event]:
        """Wait for events: the only blocking call. 0 never blocks, None waits without limit. Returns the events in
        order of arrival; none after a timeout or `wake()`.
        """
        ...

    def wake(self) -> None:
        """Let the current or the next `wait` return. Safe in signal handlers and in other threads."""
        ...

    def shutdown(self, grace_s: float = 0.0) -> None:
        """Stop all actors, wait until they have exited, and free everything. Blocks for at most `grace_s` + 2 s."""
        ...
