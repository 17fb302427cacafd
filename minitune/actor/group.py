"""ActorGroup: starts actors, calls them, and tells what becomes of them."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from minitune.actor.launch import Launcher, new_run_id, search_path
from minitune.actor.limits import MESSAGE_BYTES, TERM_TO_KILL_S
from minitune.actor.loop import Loop
from minitune.actor.memory_kills import MemoryKills
from minitune.actor.messages import Boot, Ended, GroupEvent, Place
from minitune.actor.process import ActorProcess
from minitune.actor.start_method import make_launcher

if TYPE_CHECKING:
    from minitune.actor.template import Template

Factory = Callable[..., Any]
"""Makes an actor's object in its process: `factory(user_thread)`."""


class ActorGroup:
    """A group of actors under one driver. For one thread, except `wake`.

    Args:
        limit_bytes: The longest message, in either direction.
        keep_descendants: Leave alone what an actor has started, if the actor ends normally.
        needed: Modules that all actors need: they are imported once, where workers are copied from.
        ahead: Where the first ones are copied from, if that was started already; closed here.

    Raises:
        ValueError: If the start method that the environment asks for cannot be used.

    Example:
        ```
        with ActorGroup() as group:
            group.start("a", partial(Hosted, factory=Counter))
            [ready] = group.wait(None)
            group.call("a", "add", 2)
            [replied] = group.wait(None)
        ```
    """

    def __init__(
        self,
        limit_bytes: int = MESSAGE_BYTES,
        keep_descendants: bool = False,
        needed: Sequence[str] = (),
        ahead: Template | None = None,
    ):
        self.run_id = new_run_id()
        if sys.platform == "linux" and ahead is not None:
            self.run_id = ahead.run_id
        self._limit_bytes = limit_bytes
        self._loop = Loop()
        self._launcher = make_launcher(self._loop, self.run_id, keep_descendants, limit_bytes, needed, ahead)
        self._actors: dict[str, ActorProcess] = {}
        self._events: deque[GroupEvent] = deque()
        self._memory_kills = MemoryKills()
        # Nothing that the finaliser holds may refer to the group, or it would never be collected.
        self._on_ended = partial(_forget, self._actors)
        self._driver_pid = os.getpid()
        self._finalizer = weakref.finalize(self, _release, self._driver_pid, self._loop, self._launcher, self._actors)

    def start(
        self,
        actor_id: str,
        factory: Factory | bytes,
        *,
        place: Place | None = None,
        preload: bool = True,
        alone: bool = False,
    ) -> None:
        """Start an actor. Does not block. Answered by Ready, or by Failed if the factory raised, or by Ended.

        Args:
            actor_id: A name never used before in this group.
            factory: Makes the object: `factory(executor)`, where the executor stands for the user's thread. Bytes are
                one that was pickled with cloudpickle.
            place: The surroundings; by default the driver's.
            preload: Whether what was preloaded is of use to it. False where the process must choose its devices or
                thread limits before anything is imported.
            alone: Whether nothing that carries it may carry others, too: should it die, only this actor is lost.

        Raises:
            RuntimeError: If the name is in use, or the group is closed.
            TypeError: If the factory cannot be pickled.
            ValueError: If it is larger than the message limit.
        """
        self._check_open()
        if actor_id in self._actors:
            raise RuntimeError(f"there is an actor {actor_id!r} already")
        data = factory if isinstance(factory, bytes) else _pickled(factory, "the factory")
        boot = Boot(place or Place(), data, search_path(), tuple(sys.argv), self._limit_bytes)
        actor = ActorProcess(
            actor_id,
            self._loop,
            self._launcher,
            self._events.append,
            self._on_ended,
            self._memory_kills,
        )
        try:
            actor.start(boot, preload, alone)
        except OSError as error:
            self._events.append(Ended(actor_id, stopped=False, lost=True, cause=f"no channel could be made: {error}"))
        else:
            self._actors[actor_id] = actor

    def call(self, actor_id: str, method: str, *args: Any) -> None:
        """Call a method of an actor's object. Does not block. Answered by Replied, Failed or Ended.

        The method is called on the worker's control thread and must not block; it returns a value or a Future. If the
        arguments hold objects of classes that are not built in, they are loaded, and the method is called, on the
        user's thread as soon as that is free.

        Raises:
            RuntimeError: If there is no such actor, or it has a call in flight.
            TypeError: If the arguments cannot be pickled.
            ValueError: If they are larger than the message limit.
        """
        payload = _pickled(args, f"an argument of {method}()") if args else b""
        self._actor(actor_id).call(method, payload)

    def stop(self, actor_id: str, grace_s: float, keep: bool = False, dump: bool = False) -> None:
        """Let an actor go. Does not block; only Ended follows, or Parked.

        Its object's `stop()` is called (`park()` with `keep`), if it has one. After the grace period its stacks
        are dumped, it gets SIGTERM, which raises `TrialStopped` in its main thread, and one second later its whole
        process tree is killed.

        Args:
            actor_id: The actor; nothing happens if it is gone already.
            grace_s: Seconds for its own end; a second call may shorten it.
            keep: Park it for another use (see `move`), if its object's `stop()` ends in time and without exception,
                and no thread or process that it has started is left. Else Ended follows.
            dump: Have the stacks of its threads written at once: they are in the last lines that Ended holds.
        """
        actor = self._actors.get(actor_id)
        if actor is not None:
            actor.stop(grace_s, keep, dump)

    def kill(self, actor_id: str) -> None:
        """Kill an actor and all that it has started, at once. Does not block; Ended follows."""
        actor = self._actors.get(actor_id)
        if actor is not None:
            actor.kill()

    def move(
        self, actor_id: str, new_actor_id: str, place: Place | None = None, call: tuple[str, bytes] | None = None
    ) -> None:
        """Hand a parked actor on under another name, with the same object. Does not block.

        Everything that user code may have changed in the process is put back, then it takes the new place. The actor
        can be called at once: the call waits for that. Ended (lost) follows if it did not work.

        Args:
            actor_id: The parked actor.
            new_actor_id: A name never used before in this group.
            place: The new surroundings; by default the driver's.
            call: What to call there: a method and the tuple of its arguments, pickled with cloudpickle. Sent along, it
                costs each side one awakening less.

        Raises:
            RuntimeError: If it is not parked, or the new name is in use.
            ValueError: If the arguments are larger than the message limit.
        """
        if new_actor_id in self._actors:
            raise RuntimeError(f"there is an actor {new_actor_id!r} already")
        actor = self._actor(actor_id)
        actor.move(new_actor_id, place or Place(), call)
        del self._actors[actor_id]
        self._actors[new_actor_id] = actor

    def preload(self, action: Callable[[], object]) -> None:
        """Call `action` once in the process that all later actors are forked from. Does not block.

        Nothing happens where workers are not forked, and workers are started as if nothing had happened if it raises,
        starts a thread, opens a GPU or takes too long. So it should fill a cache, and workers should fill it too.

        Args:
            action: A small picklable function. Several are called in the order of the calls of this method.

        Raises:
            TypeError: If it cannot be pickled.
        """
        self._check_open()
        self._launcher.preload(_pickled(action, "the action to preload"))

    def wait(self, timeout_s: float | None) -> list[GroupEvent]:
        """Wait for events. The only call that blocks, `close` aside.

        Args:
            timeout_s: Give up after so many seconds; 0 never blocks, None waits without limit.

        Returns:
            The events in order of arrival; empty after a timeout or `wake()`.
        """
        self._check_open()
        return self._wait(timeout_s)

    def wake(self) -> None:
        """Make the current or the next `wait` return. Safe in a signal handler and from other threads."""
        self._loop.wake()

    def pids(self) -> dict[str, int]:
        """The process of each actor that has one."""
        return {actor_id: actor.pid for actor_id, actor in self._actors.items() if actor.pid}

    def close(self, grace_s: float = 0.0) -> None:
        """Stop all actors, wait until they are gone, and free everything. Blocks, `grace_s` + 2 s or so at most.

        Any number of times. Events that were not taken are dropped. In a process that was forked from the driver
        nothing happens.
        """
        if not self._finalizer.alive or os.getpid() != self._driver_pid:
            return
        try:
            for actor in list(self._actors.values()):
                actor.stop(grace_s, keep=False, dump=False)
            until = self._loop.time() + grace_s + TERM_TO_KILL_S + 1.0
            while self._actors and self._loop.time() < until:
                self._loop.turn(until - self._loop.time())
        finally:
            self._finalizer()
            self._events.clear()

    def __enter__(self) -> ActorGroup:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _wait(self, timeout_s: float | None) -> list[GroupEvent]:
        until = None if timeout_s is None else self._loop.time() + timeout_s
        pause_s = 0.0 if self._events else timeout_s
        while True:
            was_woken = self._loop.turn(pause_s)
            if self._events or was_woken:
                break
            if until is not None:
                pause_s = max(0.0, until - self._loop.time())
                if pause_s == 0.0:
                    break
        events = list(self._events)
        self._events.clear()
        return events

    def _actor(self, actor_id: str) -> ActorProcess:
        self._loop.stand_still_if_halted()
        try:
            return self._actors[actor_id]
        except KeyError:
            raise RuntimeError(f"there is no actor {actor_id!r} (any more)") from None

    def _check_open(self) -> None:
        self._loop.stand_still_if_halted()
        if not self._finalizer.alive:
            raise RuntimeError("the group is closed")


def _forget(actors: dict[str, ActorProcess], actor: ActorProcess) -> None:
    """An actor has ended."""
    actors.pop(actor.actor_id, None)


def _release(driver_pid: int, loop: Loop, launcher: Launcher, actors: dict[str, ActorProcess]) -> None:
    """Kill what is left and free everything; also for a group that nobody has closed, and at exit."""
    if os.getpid() != driver_pid:  # a process that was forked from the driver: none of this is its own
        return
    if not threading.main_thread().is_alive():  # the interpreter ends
        loop.halt()
    for actor in list(actors.values()):
        actor.close()
    actors.clear()
    launcher.close()
    loop.close()


def _pickled(value: Any, what: str) -> bytes:
    """Pickle for a worker.

    Raises:
        TypeError: If that does not work; the text names `what`.
    """
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(value)
    except Exception as error:
        raise TypeError(f"{what} cannot be pickled: {error}") from error
    return data
