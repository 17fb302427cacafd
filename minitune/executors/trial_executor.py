"""TrialExecutor: the protocol of executors, which run actors; and the events that an executor returns.

An actor is an object in another process or thread, with at most one call in flight. Actor ids are never used again, so
late events of a stopped actor are recognised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from minitune.actor.messages import STOP_SWALLOWED_EXIT, CallRaised, CallReturned, Event, Exited, Placed, Started
from minitune.base.clock import Clock
from minitune.base.shared_values import Handle
from minitune.resources import Resources

# from lower layers
__all__ = ["STOP_SWALLOWED_EXIT", "CallRaised", "CallReturned", "Event", "Exited", "Placed", "Started"]

TRAIN = "train"
SAVE = "save"
RESTORE = "restore"
"""The methods that the driver calls: run until the next report, write a checkpoint, load one."""

ActorFactory = Callable[..., Any]
"""Creates the actor's object, in its own process or thread: `factory(host, *args, allocation=allocation)`.

`args` are those of the `ActorSpec`. The driver calls the object's methods `train`, `save` and `restore`, one at a time.
They run on one thread, and may block.
`host.exchange` answers before a method returns, `host.is_stopped` tells whether the actor must end; see `Host`. At the
end, its method `stop` is called, if it has one; a parked actor gets `reset`, which returns whether it can be used
again.
"""


class ActorSpec(NamedTuple):
    """An actor to start.

    Attributes:
        factory: Creates the object; picklable, not to be changed, and pickled perhaps once for many actors.
        directory: For output files, and the working directory; it must exist.
        reuse_key: A parked actor with this key and request may be reused by `reset(*args, allocation)`. `allocation` is
            None if it keeps its own. If `reset` returns False, raises or takes longer than 2 s, a new actor is started.
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
    """The clock of the run, whose `monotonic` is the time of all limits."""
    isolates: bool
    """Whether each actor has its own process."""
    has_queue: bool
    """Whether an actor may wait after `start`; then `Placed` is its first event."""
    only_events_count: bool
    """Whether plug-ins are asked after an event only, and never after a `wait` that has timed out."""

    def resources(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """The total and the free amounts, by resource name."""
        ...

    def share(self, value: Any) -> Handle:
        """Store `value` once for all actors of this executor.

        Large buffers may be private to each `get` of the handle; other values are loaded at most once per process.

        Raises:
            TypeError: If `value` cannot be pickled. With the path to the part.
        """
        ...

    def can_start(self, request: Resources, waiter: str | None = None) -> bool:
        """Whether there is room for `start` with this request now, or the waiter may wait in the queue.

        Args:
            request: The resources.
            waiter: The caller's id. Resources are reserved for one that is overtaken too often. `start` for an actor
                whose id begins with `<waiter>#`, or `forget`, ends the wait.

        Raises:
            TuneError: If the request can never fit, and the executor has no queue.
        """
        ...

    def check_room(self, request: Resources) -> None:
        """Refuse a request that all trials have, if the run could not begin with it.

        Raises:
            TuneError: As by `can_start`, or if there is no room for as many actors as must run side by side.
        """
        ...

    def forget(self, waiter: str) -> None:
        """Remove a waiter that no longer needs resources."""
        ...

    def start(self, spec: ActorSpec) -> Started | None:
        """Start an actor. It holds its resources from now on. Does not block.

        `Started` follows, or `CallRaised` by the factory, or `Exited`.

        Returns:
            `Started` if a parked actor is ready at once.

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

    def is_late(self, actor_id: str) -> bool:
        """Whether an answer has come that `wait` does not return yet, because it is not its turn."""
        ...

    def stop(self, actor_id: str, grace_s: float, keep: bool = False, dump: bool = False) -> Exited | None:
        """Stop an actor. Does not block; only `Exited` follows.

        Args:
            actor_id: The actor, which may have exited.
            grace_s: Seconds for its running call and its `stop()`, before it is terminated, then killed with all
                descendants.
            keep: Park it, if it stops in time, has no child process left, and was started with a key.
            dump: If possible, first write its stacks, at the end of `Exited.last_lines`.

        Returns:
            `Exited` if the actor has exited already and all its events were taken.
        """
        ...

    def wait(self, timeout_s: float | None) -> list[Event]:
        """Wait for events, in order of arrival: the only blocking call. 0 never blocks, None waits without limit. None
        come after a timeout or `wake()`.
        """
        ...

    def wake(self) -> None:
        """Let the current or the next `wait` return. Safe in signal handlers and threads."""
        ...

    def shutdown(self, grace_s: float = 0.0) -> None:
        """Stop all actors, wait until they have exited, and free everything. Blocks for at most `grace_s` + 2 s."""
        ...
