"""InlineTrialExecutor: the executor's contract without processes, for debugging, tests and simulation.

Exactly one thread runs at a time: `wait` runs the next call and blocks until the user's thread hands over. So a
debugger in the user's function owns the terminal, and nothing is printed over it. In a run with a seed each actor has
the global generators of random numbers to itself, and draws from them what it would draw in a process of its own.
Arguments, configurations and replies still cross by pickle, so that what works here works with processes; but there is
no working directory, no environment, no output capture and no kill.

Time may be virtual: the calls of all actors then run side by side on a clock that jumps to the next end of a call.
How long a call takes is what its code spends by `clock.current.sleep(seconds)`. `wait` lets no more virtual time
pass than its timeout, so time limits end a simulated run as they would end a real one.
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
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from minitune import clock as clocks
from minitune.actor.worker import MainThreadExecutor as MainThreadExecutor
from minitune.base.pickling import PROTOCOL, dump_value, dumps
from minitune.base.randomness import GlobalDraws
from minitune.base.shared_values import SharedObject
from minitune.clock import Clock, VirtualClock
from minitune.error import RemoteError
from minitune.execution.devices import Machine
from minitune.execution.ledger import Ledger
from minitune.execution.trial_executor import ActorFactory, CallRaised, CallReturned, Event, Exited, Shared, Started
from minitune.resources import Allocation, Resources
from minitune.settings import number_setting

logger = logging.getLogger("minitune")

UNWIND_S = 1.0
"""How long a stopped actor may take beyond its grace period; others are terminated and killed in that time."""


@dataclass(frozen=True)
class InProcessError(RemoteError):
    """A `RemoteError` that still has the exception itself, with its traceback for a post-mortem debugger."""

    exception: BaseException | None = None

    def load(self) -> BaseException | None:
        """The exception itself."""
        return self.exception

    def __reduce__(self) -> tuple[Any, ...]:
        # Elsewhere there is no such exception: what travels is what any other executor would say of it.
        return RemoteError, (self.type_name, self.message, self.traceback, self.pickled)


class _UserThread:
    """One thread for the user code of one actor. It is a daemon: code that never ends must not hold the interpreter.

    Args:
        name: Its name.
    """

    def __init__(self, name: str):
        self._executor = MainThreadExecutor()
        self._thread = threading.Thread(target=self._executor.run, name=name, daemon=True)
        self._thread.start()

    @property
    def executor(self) -> Executor:
        """The executor of user code."""
        return self._executor

    def end(self, timeout_s: float) -> None:
        """Let the thread end when its queue is empty. Blocks until then, at most `timeout_s` seconds."""
        self._executor.shutdown()
        self._thread.join(timeout_s)


@dataclass
class _Actor:
    """One actor: its object, the thread of its user code, what that draws, and whether something is still to be run."""

    actor_id: str
    thread: _UserThread
    allocation: Allocation
    request: Resources
    reuse_key: str | None
    draws: GlobalDraws
    object: Any = None
    is_busy: bool = False


@dataclass
class _Work:
    """Something to run for an actor, and the virtual time at which it begins."""

    actor: _Actor
    run: Callable[[], Event]
    begins_s: float


_End = tuple[float, int, Event, _Actor]
"""The virtual time at which a piece of work ends, a number that keeps ties in order, and what it has come to."""


class InlineTrialExecutor:
    """Runs actors as threads of this process, one at a time.

    Args:
        machine: The resources that may be reserved.
        clock: The clock of the run; a `VirtualClock` simulates.
    """

    isolates = False

    def __init__(self, machine: Machine, clock: Clock = clocks.REAL):
        self.clock = clock
        self._ledger = Ledger(machine.totals, machine.gpu_ids, find_gpus=machine.find_gpus, cpu_limit=machine.cpu_limit)
        self._actors: dict[str, _Actor] = {}
        self._parked: dict[tuple[str, Resources], list[_Actor]] = {}
        self._work: deque[_Work] = deque()
        self._ends: list[_End] = []
        self._sequence = itertools.count()
        self._wakes: SimpleQueue[None] = SimpleQueue()  # its put() is reentrant, so a signal handler may call it
        self._stop_deadline_s = math.inf
        self._pid = os.getpid()

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("an executor belongs to the process that made it; make another one in this process")

    # -- resources and values ----------------------------------------------------------------------------------

    def resources(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """See `TrialExecutor.resources`."""
        return self._ledger.totals(), self._ledger.free()

    def share(self, value: Any) -> Shared:
        """Keep `value` by reference, whether it can be pickled or not: a debugger then sees the user's own objects."""
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
        make = _packed(factory, "the factory")
        load_args = _packed(reset_args, "an argument of reset()")
        allocation = self._ledger.acquire(actor_id, request)
        parked = self._parked.get((reuse_key, request)) if reuse_key is not None else None
        if parked:
            actor = parked.pop()
            actor.actor_id, actor.allocation = actor_id, allocation
            run = functools.partial(self._reset, actor, make, load_args)
        else:
            thread, draws = _UserThread(f"minitune-{actor_id}"), GlobalDraws(random.Random(actor_id))
            actor = _Actor(actor_id, thread, allocation, request, reuse_key, draws)
            run = functools.partial(self._build, actor, make)
        self._actors[actor_id] = actor
        self._enqueue(actor, run)

    def call(self, actor_id: str, method: str, *args: Any) -> None:
        """See `TrialExecutor.call`."""
        actor = self._actors.get(actor_id)
        if actor is None or actor.is_busy:
            raise RuntimeError(f"actor {actor_id!r} " + ("is not there" if actor is None else "has a call in flight"))
        load_args = _packed(args, f"an argument of {method}()")
        self._enqueue(actor, lambda: self._call(actor, method, load_args))

    def stop(self, actor_id: str, grace_s: float, keep: bool = False, dump: bool = False) -> None:
        """See `TrialExecutor.stop`; there is no kill: code that ignores the stop is left behind with a warning."""
        actor = self._actors.pop(actor_id, None)
        if actor is None:
            return
        self._drop(actor)
        self._work.append(_Work(actor, lambda: self._stop(actor, grace_s, keep), self.clock.monotonic()))

    def wait(self, timeout_s: float | None) -> list[Event]:
        """See `TrialExecutor.wait`. Runs user code: blocks until the call that runs has handed over."""
        if self._take_wakes():
            return []
        if isinstance(self.clock, VirtualClock):
            while self._work:
                self._run(self._work.popleft())
            latest_s = math.inf if timeout_s is None else self.clock.now_s + timeout_s
            if self._ends and self._ends[0][0] <= latest_s:
                self.clock.now_s = max(self.clock.now_s, self._ends[0][0])
                return [self._deliver()]
        elif self._work:
            self._run(self._work.popleft())
            return [self._deliver()]
        self._idle(timeout_s)
        return []

    def wake(self) -> None:
        """See `TrialExecutor.wake`."""
        self._wakes.put(None)

    def now(self) -> float:
        """See `TrialExecutor.now`."""
        return self.clock.monotonic()

    def shutdown(self, grace_s: float = 0.0) -> None:
        """See `TrialExecutor.shutdown`."""
        if os.getpid() != self._pid:  # a forked child has none of the threads
            return
        self._stop_deadline_s = time.monotonic() + grace_s + UNWIND_S
        for actor_id in list(self._actors):
            self.stop(actor_id, grace_s)
        while self._work:
            self._run(self._work.popleft())
        while self._ends:
            self._deliver()
        for parked in self._parked.values():
            for actor in parked:
                self._stop(actor, grace_s, keep=False)
        self._parked.clear()

    # -- running -------------------------------------------------------------------------------------------------

    def _enqueue(self, actor: _Actor, run: Callable[[], Event]) -> None:
        actor.is_busy = True
        self._work.append(_Work(actor, run, self.clock.monotonic()))

    def _run(self, work: _Work) -> None:
        """Run one piece of work; its event counts from the moment at which it ends."""
        ends_s = 0.0
        with clocks.use(self.clock), work.actor.draws.lent():
            if isinstance(self.clock, VirtualClock):
                now_s, self.clock.now_s = self.clock.now_s, work.begins_s
                try:
                    event = work.run()
                finally:
                    ends_s, self.clock.now_s = self.clock.now_s, now_s
            else:
                event = work.run()
        heapq.heappush(self._ends, (ends_s, next(self._sequence), event, work.actor))

    def _deliver(self) -> Event:
        """Take the next event; with the last one of an actor its resources become free."""
        _, _, event, actor = heapq.heappop(self._ends)
        actor.is_busy = False
        if isinstance(event, Exited):
            self._ledger.release(actor.actor_id)
            if event.kind == "parked":
                self._parked.setdefault((actor.reuse_key or "", actor.request), []).append(actor)
        return event

    def _drop(self, actor: _Actor) -> None:
        """Forget the call in flight and its answer: nothing but `Exited` follows a stop."""
        self._work = deque(work for work in self._work if work.actor is not actor)
        answers = [end for end in self._ends if end[3] is not actor]
        if len(answers) != len(self._ends):
            heapq.heapify(answers)
            self._ends = answers

    def _idle(self, timeout_s: float | None) -> None:
        """Nothing to run, or nothing that ends in time: let the time pass, until a wake."""
        if timeout_s is not None and isinstance(self.clock, VirtualClock):
            self.clock.sleep(timeout_s)
        elif timeout_s is None or timeout_s > 0:
            try:
                self._wakes.get(timeout=timeout_s)
            except Empty:
                return
            self._take_wakes()

    def _take_wakes(self) -> bool:
        """Whether there was a wake since the last look."""
        was_woken = False
        while not self._wakes.empty():
            self._wakes.get_nowait()
            was_woken = True
        return was_woken

    def _build(self, actor: _Actor, make: Callable[[], ActorFactory]) -> Event:
        executor = actor.thread.executor
        made, error = _outcome(lambda: executor.submit(lambda: make()(executor, allocation=actor.allocation)))
        if error is not None:
            return CallRaised(actor.actor_id, _describe(error))
        actor.object = made
        return Started(actor.actor_id, os.getpid(), socket.gethostname(), actor.allocation)

    def _reset(
        self, actor: _Actor, make: Callable[[], ActorFactory], load_args: Callable[[], tuple[Any, ...]]
    ) -> Event:
        """Take up a parked actor. Code cannot be killed here, so a reset that takes too long is waited for first."""
        began_s = self.clock.monotonic()
        usable, error = _outcome(lambda: actor.object.reset(*load_args(), actor.allocation))
        if error is not None:
            logger.debug("the worker of %s is not used again: %r", actor.actor_id, error)
        if usable and self.clock.monotonic() - began_s <= number_setting("FUNCTION_THREAD_TIMEOUT_S"):
            return Started(actor.actor_id, os.getpid(), socket.gethostname(), actor.allocation, reused=True)
        actor.thread.end(UNWIND_S)
        actor.object, actor.thread = None, _UserThread(f"minitune-{actor.actor_id}")
        return self._build(actor, make)

    def _call(self, actor: _Actor, method: str, load_args: Callable[[], tuple[Any, ...]]) -> Event:
        value, error = _outcome(lambda: getattr(actor.object, method)(*load_args()))
        if error is not None:
            return CallRaised(actor.actor_id, _describe(error))
        try:
            return CallReturned(actor.actor_id, pickle.loads(dump_value(value)))
        except Exception as cause:
            broken = TypeError(f"a {type(value).__qualname__} cannot be sent to the driver: {cause}")
            broken.__cause__ = cause
            return CallRaised(actor.actor_id, _describe(broken))

    def _stop(self, actor: _Actor, grace_s: float, keep: bool) -> Event:
        left_s = max(0.0, min(grace_s + UNWIND_S, self._stop_deadline_s - time.monotonic()))
        ended, raised = _unwind(actor.object, left_s, parks=keep and actor.reuse_key is not None)
        if raised is not None:
            logger.warning("stopping %s raised %r", actor.actor_id, raised)
        if keep and ended and raised is None and actor.reuse_key is not None and actor.object is not None:
            return Exited(actor.actor_id, "parked")
        if not ended:
            logger.warning(
                "%s did not return within %g s after it was stopped; an inline trial cannot be killed, so its thread "
                "stays",
                actor.actor_id,
                left_s,
            )
        actor.thread.end(UNWIND_S if ended else 0.0)
        return Exited(actor.actor_id, "stopped", "stopped")


def _unwind(stopped: Any, timeout_s: float, *, parks: bool) -> tuple[bool, BaseException | None]:
    """Call the `stop` (or `park`) of an actor's object, if any. Blocks until it is done, at most `timeout_s` seconds.

    Returns:
        Whether it is done, and what it has raised.
    """
    stop = getattr(stopped, "stop", None)
    if parks:
        stop = getattr(stopped, "park", stop)
    if stop is None:
        return True, None
    try:
        stopping = stop()
    except Exception as error:
        return True, error
    if isinstance(stopping, Future) and not wait_for([stopping], timeout_s).done:
        return False, None
    return True, _outcome(lambda: stopping)[1]


def _outcome(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Make a call and see it through, if it gives a Future. Blocks until that is done.

    A KeyboardInterrupt that comes out of here is the driver's own; one of the user's code is returned.

    Returns:
        The value, and what was raised instead.
    """
    try:
        value = call()
    except Exception as error:
        return None, error
    if not isinstance(value, Future):
        return value, None
    try:
        raised = value.exception()
    except CancelledError as error:
        raised = error
    return (value.result(), None) if raised is None else (None, raised)


def _packed(value: Any, what: str) -> Callable[[], Any]:
    """Pickle a value now, as it is; the result loads it as it would arrive on the other side of a pipe.

    Args:
        value: Any object.
        what: What it is, for the error.

    Raises:
        TypeError: If it cannot be pickled.
    """
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
