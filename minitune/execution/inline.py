"""InlineTrialExecutor: the executor's contract without processes, for debugging, tests and simulation.

Exactly one thread runs at a time: `wait` runs the next call and blocks until the user's thread hands over. So a
debugger in the user's function owns the terminal, and nothing is printed over it. Arguments, configurations and
replies still cross by pickle, so that what works here works with processes; but there is no working directory, no
environment, no output capture and no kill.

Time may be virtual: the calls of all actors then run side by side on a clock that jumps to the next end of a call.
How long a call takes is what its code spends by `clock.current().sleep(seconds)`.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import pickle
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any

from minitune import clock as clocks
from minitune.clock import Clock, VirtualClock
from minitune.error import RemoteError
from minitune.execution.devices import Machine
from minitune.execution.ledger import Ledger
from minitune.execution.trial_executor import ActorFactory, CallRaised, CallReturned, Event, Exited, Shared, Started
from minitune.resources import Allocation, Resources
from minitune.shared import SharedObject

logger = logging.getLogger("minitune")


@dataclass(frozen=True)
class InProcessError(RemoteError):
    """A `RemoteError` that still has the exception itself, with its traceback for a post-mortem debugger."""

    exception: BaseException | None = None

    def load(self) -> BaseException | None:
        """The exception itself."""
        return self.exception


@dataclass
class _Actor:
    """One actor: its object, the thread of its user code, and what is still to be run for it."""

    actor_id: str
    thread: ThreadPoolExecutor
    allocation: Allocation
    request: Resources
    reuse_key: str | None
    object: Any = None
    work: _Work | None = None


@dataclass
class _Work:
    """Something to run for an actor, and the virtual time at which it begins."""

    actor: _Actor
    run: Callable[[], Event]
    begins_s: float


class InlineTrialExecutor:
    """Runs actors as threads of this process, one at a time.

    Args:
        machine: What may be reserved.
        clock: The clock of the run; a `VirtualClock` simulates.
    """

    isolates = False

    def __init__(self, machine: Machine, clock: Clock = clocks.REAL):
        self.clock = clock
        self._ledger = Ledger(machine.totals, machine.gpu_ids, find_gpus=machine.find_gpus)
        self._actors: dict[str, _Actor] = {}
        self._parked: dict[tuple[str, Resources], list[_Actor]] = {}
        self._work: deque[_Work] = deque()
        self._ends: list[tuple[float, int, Event]] = []
        self._sequence = itertools.count()
        self._woken = threading.Event()

    # -- resources and values ----------------------------------------------------------------------------------

    def resources(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """See `TrialExecutor.resources`."""
        return self._ledger.totals(), self._ledger.free()

    def share(self, value: Any) -> Shared:
        """Keep `value` by reference: a debugger then sees the user's own objects."""
        return SharedObject(value)

    def can_start(self, request: Resources, waiter: str | None = None) -> bool:
        """See `TrialExecutor.can_start`."""
        return self._ledger.can_acquire(request, waiter)

    def forget(self, waiter: str) -> None:
        """See `TrialExecutor.forget`."""
        self._ledger.forget(waiter)

    # -- actors --------------------------------------------------------------------------------------------------

    def start(
        self,
        actor_id: str,
        factory: ActorFactory,
        request: Resources,
        directory: str | None = None,
        reuse_key: str | None = None,
        reset_args: tuple[Any, ...] = (),
    ) -> None:
        """See `TrialExecutor.start`; `directory` plays no part here."""
        if actor_id in self._actors:
            raise RuntimeError(f"an actor named {actor_id!r} exists already; actor ids must never be used again")
        allocation = self._ledger.acquire(actor_id, request)
        parked = self._parked.get((reuse_key, request)) if reuse_key else None
        if parked:
            actor = parked.pop()
            actor.actor_id, actor.allocation = actor_id, allocation
            run = lambda: self._reset(actor, factory, reset_args)  # noqa: E731 - one of two ways to start
        else:
            thread = ThreadPoolExecutor(1, thread_name_prefix=f"minitune-{actor_id}")
            actor = _Actor(actor_id, thread, allocation, request, reuse_key)
            run = lambda: self._build(actor, factory)  # noqa: E731
        self._actors[actor_id] = actor
        self._enqueue(actor, run)

    def call(self, actor_id: str, method: str, *args: Any) -> None:
        """See `TrialExecutor.call`."""
        actor = self._actors.get(actor_id)
        if actor is None or actor.work is not None:
            raise RuntimeError(f"actor {actor_id!r} " + ("is not there" if actor is None else "has a call in flight"))
        self._enqueue(actor, lambda: self._call(actor, method, args))

    def stop(self, actor_id: str, grace_s: float, keep: bool = False) -> None:
        """See `TrialExecutor.stop`; there is no kill: code that ignores the stop is left behind with a warning."""
        actor = self._actors.pop(actor_id, None)
        if actor is None:
            return
        self._drop(actor)
        work = _Work(actor, lambda: self._stop(actor, grace_s, keep), self.clock.monotonic())
        self._work.append(work)

    def wait(self, timeout_s: float | None) -> list[Event]:
        """See `TrialExecutor.wait`. Runs user code: blocks until the call that runs has handed over."""
        if self._woken.is_set():
            self._woken.clear()
            return []
        while self._work:
            self._run(self._work.popleft())
            if not isinstance(self.clock, VirtualClock):
                break
        if self._ends:
            ends_s, _, event = heapq.heappop(self._ends)
            if isinstance(self.clock, VirtualClock):
                self.clock.now_s = max(self.clock.now_s, ends_s)
            return [event]
        self._idle(timeout_s)
        return []

    def wake(self) -> None:
        """See `TrialExecutor.wake`."""
        self._woken.set()

    def now(self) -> float:
        """See `TrialExecutor.now`."""
        return self.clock.monotonic()

    def shutdown(self, grace_s: float = 0.0) -> None:
        """See `TrialExecutor.shutdown`."""
        for actor_id in list(self._actors):
            self.stop(actor_id, grace_s)
        while self._work:
            self._run(self._work.popleft())
        self._ends.clear()
        for parked in self._parked.values():
            for actor in parked:
                actor.thread.shutdown()
        self._parked.clear()

    # -- running -------------------------------------------------------------------------------------------------

    def _enqueue(self, actor: _Actor, run: Callable[[], Event]) -> None:
        actor.work = _Work(actor, run, self.clock.monotonic())
        self._work.append(actor.work)

    def _run(self, work: _Work) -> None:
        """Run one piece of work; its event counts from the moment at which it ends."""
        if work.actor.work is work and work.actor.actor_id not in self._actors:
            return  # dropped by a stop
        if isinstance(self.clock, VirtualClock):
            now_s, self.clock.now_s = self.clock.now_s, work.begins_s
            event = work.run()
            ends_s, self.clock.now_s = self.clock.now_s, now_s
        else:
            event = work.run()
            ends_s = 0.0
        heapq.heappush(self._ends, (ends_s, next(self._sequence), event))
        if isinstance(event, (Started, CallReturned, CallRaised)):
            work.actor.work = None

    def _drop(self, actor: _Actor) -> None:
        """Forget the call in flight and its answer: nothing but `Exited` follows a stop."""
        actor.work = None
        self._work = deque(work for work in self._work if work.actor is not actor)
        answers = [end for end in self._ends if end[2].actor_id != actor.actor_id]
        if len(answers) != len(self._ends):
            heapq.heapify(answers)
            self._ends = answers

    def _idle(self, timeout_s: float | None) -> None:
        """Nothing to run: let the time pass."""
        if timeout_s is None or timeout_s <= 0:
            return
        if isinstance(self.clock, VirtualClock):
            self.clock.sleep(timeout_s)
        elif self._woken.wait(timeout_s):
            self._woken.clear()

    def _build(self, actor: _Actor, factory: ActorFactory) -> Event:
        future = actor.thread.submit(lambda: _through_pickle(factory)(actor.thread, allocation=actor.allocation))
        error = future.exception()
        if error is not None:
            return CallRaised(actor.actor_id, _describe(error))
        actor.object = future.result()
        return Started(actor.actor_id, os.getpid(), socket.gethostname(), actor.allocation)

    def _reset(self, actor: _Actor, factory: ActorFactory, reset_args: tuple[Any, ...]) -> Event:
        try:
            usable = _settle(actor.object.reset(*_through_pickle(reset_args), actor.allocation))
        except Exception as error:
            logger.debug("a worker could not be reset for %s: %r", actor.actor_id, error)
            usable = False
        if usable:
            return Started(actor.actor_id, os.getpid(), socket.gethostname(), actor.allocation, reused=True)
        actor.thread.shutdown(wait=False)
        actor.thread = ThreadPoolExecutor(1, thread_name_prefix=f"minitune-{actor.actor_id}")
        return self._build(actor, factory)

    def _call(self, actor: _Actor, method: str, args: tuple[Any, ...]) -> Event:
        try:
            value = getattr(actor.object, method)(*_through_pickle(args))
        except Exception as error:
            return CallRaised(actor.actor_id, _describe(error))
        if isinstance(value, Future):
            # A KeyboardInterrupt that comes out of this line is the driver's own; the trial's would be its value.
            raised = value.exception()
            if raised is not None:
                return CallRaised(actor.actor_id, _describe(raised))
            value = value.result()
        try:
            return CallReturned(actor.actor_id, _through_pickle(value))
        except Exception as error:
            return CallRaised(actor.actor_id, _describe(error))

    def _stop(self, actor: _Actor, grace_s: float, keep: bool) -> Event:
        ended = True
        try:
            if actor.object is not None:
                _settle(actor.object.stop(), grace_s)
        except (FutureTimeoutError, TimeoutError):
            ended = False
            logger.warning(
                "%s did not come back within %g s of being stopped; an inline trial cannot be killed and its thread "
                "is left behind",
                actor.actor_id,
                grace_s,
            )
        except BaseException as error:
            logger.warning("stopping %s raised %r", actor.actor_id, error)
        self._ledger.release(actor.actor_id)
        if keep and ended and actor.reuse_key and actor.object is not None:
            self._parked.setdefault((actor.reuse_key, actor.request), []).append(actor)
            return Exited(actor.actor_id, "parked")
        actor.thread.shutdown(wait=ended)
        return Exited(actor.actor_id, "stopped")


def _settle(value: Any, timeout_s: float | None = None) -> Any:
    """The value itself, or what its Future comes to. Blocks until then, at most `timeout_s` seconds."""
    return value.result(timeout_s) if isinstance(value, Future) else value


def _through_pickle(value: Any) -> Any:
    """`value` as it would arrive on the other side of a pipe."""
    if value is None or value == ():
        return value
    try:
        return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except Exception:
        import cloudpickle

        return pickle.loads(cloudpickle.dumps(value))


def _describe(error: BaseException) -> InProcessError:
    remote = RemoteError.of(error)
    return InProcessError(remote.type_name, remote.message, remote.traceback, remote.pickled, error)
