"""InlineTrialExecutor: an executor without processes, for debugging, tests and simulations.

Only one thread runs at a time: `wait` runs the next call until the user's thread has finished it or reports. In a run
with a seed, each actor draws the same numbers as in its own process. Arguments, configurations and replies are pickled,
so that code that works here works with processes, too. But an actor has no working directory, environment or captured
output of its own, and cannot be killed.

Time may be virtual. Then the calls of all actors run side by side, on a clock that jumps to the next end of a call. A
call lasts as long as its code spends in `clock.current.sleep(seconds)`. `wait` advances the clock by at most its
timeout, so time limits work as in a real run.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import logging
import math
import os
import pickle
import random
import socket
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from minitune.base import clock as clocks
from minitune.base.actor_thread import ActorThread
from minitune.base.clock import Clock, VirtualClock
from minitune.base.forks import Origin
from minitune.base.pickling import PROTOCOL, dump_answer, dumps
from minitune.base.randomness import GlobalDraws
from minitune.base.settings import number_setting
from minitune.base.user_code import runs
from minitune.error import RemoteError
from minitune.executors.admission import Admission, idle, ledger_of
from minitune.executors.devices import Machine
from minitune.executors.trial_executor import (
    ActorFactory,
    ActorSpec,
    CallRaised,
    CallReturned,
    Event,
    Exited,
    Started,
)
from minitune.resources import Allocation, Resources

logger = logging.getLogger("minitune")

UNWIND_S = 1.0
"""How many seconds a stopped actor gets after its grace period; others are killed in that time."""


@dataclass(frozen=True)
class InProcessError(RemoteError):
    """A `RemoteError` with the original exception and its traceback, for a post-mortem debugger."""

    exception: BaseException | None = None

    def load(self) -> BaseException | None:
        return self.exception

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process does not have the original exception, so a plain `RemoteError` is pickled.
        return RemoteError, (self.type_name, self.message, self.traceback, self.pickled)


@dataclass
class _ThreadActor:
    """One actor: its object, the thread of its user code, its random draws, and whether it has work to run."""

    actor_id: str
    thread: ActorThread
    allocation: Allocation
    request: Resources
    reuse_key: str | None
    draws: GlobalDraws
    object: Any = None
    is_busy: bool = False


@dataclass
class _Work:
    actor: _ThreadActor
    run: Callable[[], Event]
    begins_s: float


_End = tuple[float, int, Event, _ThreadActor]
"""The virtual time of an end, a number that orders simultaneous ones, and the event."""


class InlineTrialExecutor(Admission[_ThreadActor, _ThreadActor]):
    """Runs actors as threads of this process, one at a time."""

    def __init__(self, machine: Machine, clock: Clock = clocks.REAL):
        super().__init__(ledger_of(machine))
        self.clock = clock
        self._work: deque[_Work] = deque()
        self._ends: list[_End] = []
        self._sequence = itertools.count()
        self._wakes: SimpleQueue[None] = SimpleQueue()  # its put() is reentrant, so signal handlers may call it
        self._stop_deadline_s = math.inf
        self._origin = Origin()

    # -- actors --------------------------------------------------------------------------------------------------

    def start(self, spec: ActorSpec) -> None:
        """The directory is not used."""
        actor_id = spec.actor_id
        # Pickle before anything is acquired: a value that cannot be pickled changes nothing.
        make = _packed(spec.factory, "the factory")
        load_args = _packed(spec.args, "an argument of the factory")
        allocation = self._ledger.acquire(actor_id, spec.request)
        actor = self._take_parked(spec.reuse_key, spec.request)
        if actor is not None:
            actor.actor_id = actor_id
            actor.allocation = allocation
            run = functools.partial(self._reset, actor, make, load_args)
        else:
            thread = ActorThread(f"minitune-{actor_id}")
            draws = GlobalDraws(random.Random(actor_id))
            actor = _ThreadActor(actor_id, thread, allocation, spec.request, spec.reuse_key, draws)
            run = functools.partial(self._build, actor, make, load_args)
        self._actors[actor_id] = actor
        self._enqueue(actor, run)

    def call(self, actor_id: str, method: str, *args: Any) -> None:
        """See `TrialExecutor.call`."""
        actor = idle(self._actors, actor_id)
        load_args = _packed(args, f"an argument of {method}()")
        self._enqueue(actor, lambda: self._call(actor, method, load_args))

    def stop(self, actor_id: str, grace_s: float, keep: bool = False, dump: bool = False) -> None:
        """See `TrialExecutor.stop`. Code that ignores the stop keeps its thread, with a warning."""
        actor = self._actors.pop(actor_id, None)
        if actor is None:
            return
        if actor.is_busy:
            self._drop(actor)
        self._work.append(_Work(actor, lambda: self._stop(actor, grace_s, keep), self.clock.monotonic()))

    def wait(self, timeout_s: float | None) -> list[Event]:
        """Runs user code, and blocks until the running call has finished or reports."""
        if self._take_wakes():
            return []
        if isinstance(self.clock, VirtualClock):
            # All work that has begun is run before time goes on, because any of it may end first.
            while self._work:
                self._run(self._work.popleft())
            ends = self._ends
            if ends and (timeout_s is None or ends[0][0] <= self.clock.now_s + timeout_s):
                self.clock.now_s = max(self.clock.now_s, ends[0][0])
                return [self._deliver()]
        elif self._work:
            self._run(self._work.popleft())
            return [self._deliver()]
        self._idle(timeout_s)
        return []

    def wake(self) -> None:
        """See `TrialExecutor.wake`."""
        self._wakes.put(None)

    def shutdown(self, grace_s: float = 0.0) -> None:
        """See `TrialExecutor.shutdown`."""
        if not self._origin.is_here():  # a forked child does not have the threads
            return
        self._stop_deadline_s = time.monotonic() + grace_s + UNWIND_S
        for actor_id in list(self._actors):
            self.stop(actor_id, grace_s)
        while self._work:
            self._run(self._work.popleft())
        while self._ends:
            self._deliver()
        # A parked actor has no event to come, but its object has a `stop`, and its thread must end.
        for parked in self._parked.values():
            for actor in parked:
                self._stop(actor, grace_s, keep=False)
        self._parked.clear()
        self._drop_held()

    # -- running -------------------------------------------------------------------------------------------------

    def _enqueue(self, actor: _ThreadActor, run: Callable[[], Event]) -> None:
        actor.is_busy = True
        self._work.append(_Work(actor, run, self.clock.monotonic()))

    def _run(self, work: _Work) -> None:
        """Run one piece of work, whose event is due at its end."""
        ends_s = 0.0
        with clocks.use(self.clock), work.actor.draws.lent():
            if isinstance(self.clock, VirtualClock):
                # The calls of all actors run side by side: each one starts at its own beginning, whatever the calls
                # before it in this loop have slept.
                now_s = self.clock.now_s
                self.clock.now_s = work.begins_s
                try:
                    event = work.run()
                finally:
                    ends_s = self.clock.now_s
                    self.clock.now_s = now_s
            else:
                event = work.run()
        heapq.heappush(self._ends, (ends_s, next(self._sequence), event, work.actor))

    def _deliver(self) -> Event:
        """Take the next event; the last one of an actor frees its resources."""
        _, _, event, actor = heapq.heappop(self._ends)
        actor.is_busy = False
        if isinstance(event, Exited):
            self._ledger.release(actor.actor_id)
            if event.kind == "parked":
                self._park(actor.reuse_key, actor.request, actor)
        return event

    def _drop(self, actor: _ThreadActor) -> None:
        """Drop the call in flight: only `Exited` follows a stop."""
        self._work = deque(work for work in self._work if work.actor is not actor)
        answers = [end for end in self._ends if end[3] is not actor]
        heapq.heapify(answers)
        self._ends = answers

    def _idle(self, timeout_s: float | None) -> None:
        """Wait until `timeout_s` or a wake: no work can run, or none ends in time."""
        if timeout_s is not None and isinstance(self.clock, VirtualClock):
            self.clock.sleep(timeout_s)  # time limits of the driver come due although no work ends
        elif timeout_s is None or timeout_s > 0:
            try:
                self._wakes.get(timeout=timeout_s)
            except Empty:
                return
            self._take_wakes()

    def _take_wakes(self) -> bool:
        was_woken = False
        while not self._wakes.empty():
            self._wakes.get_nowait()
            was_woken = True
        return was_woken

    def _build(
        self, actor: _ThreadActor, make: Callable[[], ActorFactory], load_args: Callable[[], tuple[Any, ...]]
    ) -> Event:
        thread = actor.thread
        made, error = _outcome(
            actor, thread.ask("make", lambda: make()(thread, *load_args(), allocation=actor.allocation))
        )
        if error is not None:
            return CallRaised(actor.actor_id, _describe(error))
        actor.object = made
        return Started(actor.actor_id, os.getpid(), socket.gethostname(), actor.allocation)

    def _reset(
        self, actor: _ThreadActor, make: Callable[[], ActorFactory], load_args: Callable[[], tuple[Any, ...]]
    ) -> Event:
        """Reuse a parked actor; code cannot be killed here, so a slow reset is waited for."""
        began_s = self.clock.monotonic()
        actor.thread.is_stopped = False  # by the stop that has parked it
        usable, error = _outcome(
            actor, actor.thread.ask("reset", lambda: actor.object.reset(*load_args(), actor.allocation))
        )
        if error is not None:
            logger.debug("the worker of %s is not used again: %r", actor.actor_id, error)
        if usable and self.clock.monotonic() - began_s <= number_setting("FUNCTION_THREAD_TIMEOUT_S"):
            return Started(actor.actor_id, os.getpid(), socket.gethostname(), actor.allocation, reused=True)
        actor.thread.end(UNWIND_S)
        actor.object = None
        actor.thread = ActorThread(f"minitune-{actor.actor_id}")
        return self._build(actor, make, load_args)

    def _call(self, actor: _ThreadActor, method: str, load_args: Callable[[], tuple[Any, ...]]) -> Event:
        value, error = _outcome(actor, actor.thread.ask(method, lambda: getattr(actor.object, method)(*load_args())))
        if error is not None:
            return CallRaised(actor.actor_id, _describe(error))
        try:
            # Through a pickle, as from another process: the driver gets a copy that the user's code cannot change.
            return CallReturned(actor.actor_id, pickle.loads(dump_answer(value)))
        except Exception as broken:
            return CallRaised(actor.actor_id, _describe(broken))

    def _stop(self, actor: _ThreadActor, grace_s: float, keep: bool) -> Event:
        left_s = max(0.0, min(grace_s + UNWIND_S, self._stop_deadline_s - time.monotonic()))
        parks = keep and actor.reuse_key is not None and actor.object is not None
        actor.thread.stop()  # the next `report` of the user's code raises, so that the thread comes to the call below
        ending = actor.thread.ask("stop", lambda: None if parks else _stop_object(actor.object))
        with runs(actor.actor_id):
            ended = bool(wait_for([ending], left_s).done)
        if ended and parks:
            return Exited(actor.actor_id, "parked")
        if not ended:
            logger.warning(
                "%s did not return within %g s after it was stopped; an inline trial cannot be killed, so its thread "
                "stays",
                actor.actor_id,
                left_s,
            )
        elif ending.exception() is not None:
            logger.warning("stopping %s raised %r", actor.actor_id, ending.exception())
        actor.thread.end(UNWIND_S if ended else 0.0)
        return Exited(actor.actor_id, "stopped", "stopped")


def _stop_object(stopped: Any) -> None:
    stop = getattr(stopped, "stop", None)
    if stop is not None:
        stop()


def _outcome(actor: _ThreadActor, answer: Future[Any]) -> tuple[Any, BaseException | None]:
    """Wait for the value of an actor's answer, and the exception of the call, or None. Blocks.

    A KeyboardInterrupt that is raised is the driver's own. One of the user's code is returned.
    """
    with runs(actor.actor_id):
        error = answer.exception()
    if error is not None:
        return None, error
    return answer.result(), None


def _packed(value: Any, what: str) -> Callable[[], Any]:
    """Pickle a value; the returned function loads it."""
    if value == ():
        return tuple
    try:
        data = pickle.dumps(value, PROTOCOL)
    except Exception:
        data = dumps(value, what)
    return lambda: pickle.loads(data)


def _describe(error: BaseException) -> InProcessError:
    remote = RemoteError.of(error)
    return InProcessError(remote.type_name, remote.message, remote.traceback, remote.pickled, exception=error)
