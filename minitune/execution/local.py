"""LocalTrialExecutor: each actor in a process of its own on this machine, admitted by the ledger.

A worker is copied from a process that has loaded what all workers need (the *template*), where the system can do that.
The first template may be there already: it comes up while the driver still gets ready.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from minitune import clock as clocks
from minitune.actor.launcher import nesting_depth
from minitune.actor.messages import (
    THREAD_CAPS,
    Ended,
    Failed,
    GroupEvent,
    Parked,
    Place,
    Ready,
    Replied,
)
from minitune.actor.process import ActorGroup
from minitune.base import descriptors
from minitune.base.pickling import dumps, dumps_small
from minitune.base.shared_values import SharedFile, Spot, ValueFile, read_value
from minitune.clock import Clock
from minitune.error import HINT, RemoteError, TuneError
from minitune.execution.devices import Machine
from minitune.execution.ledger import Ledger, allocation_env
from minitune.execution.trial_executor import ActorFactory, CallRaised, CallReturned, Event, Exited, Shared, Started
from minitune.resources import CPU, GPU, Allocation, Resources
from minitune.settings import number_setting

if TYPE_CHECKING:
    from minitune.actor.template import Template

logger = logging.getLogger("minitune")

_NO_TERMINAL = ("bdb.BdbQuit", "EOFError: EOF when reading a line")
"""How `breakpoint()` and `input()` end in a process without a terminal."""
ORIG_WORKING_DIR = ("MINITUNE_ORIG_WORKING_DIR", "TUNE_ORIG_WORKING_DIR")
"""Variables that tell a trial, which works in its own directory, where the driver works."""
MAX_NESTING = 4
"""How deep runs may be nested in trials of other runs: more is a mistake, and would exhaust the machine."""
LOSSES_TOGETHER = 2
"""After so many losses in a row with all others, because their parent process died, a trial gets a parent process of
its own. If that dies, too, this trial kills it, and the others are spared."""
LARGE_FACTORY_BYTES = 1024 * 1024
"""A factory that is larger, because its configuration is, goes to its worker in a file: messages have a limit."""


@dataclass
class _Actor:
    """One actor and the process that carries it.

    Attributes:
        actor_id: The actor.
        process: Name of its process within the group; a parked process keeps its life under a new name.
        request: The resources that it asked for.
        allocation: The resources that it has.
        directory: Where its output goes, or None.
        reuse_key: Key under which it may be parked.
        factory: Makes its object in its process, or in a fresh one if a reset fails.
        factory_file: The file that holds it, if it is large; it is removed when the actor ends.
        reset_deadline_s: Until when the reset in flight must be over, or None.
    """

    actor_id: str
    process: str
    request: Resources
    allocation: Allocation
    directory: str | None
    reuse_key: str | None
    factory: Callable[..., Any]
    factory_file: ValueFile | None = None
    reset_deadline_s: float | None = None

    def remove_file(self) -> None:
        """Remove the factory's file, if it has one: no worker loads it any more."""
        if self.factory_file is not None:
            self.factory_file.close()


class LocalTrialExecutor:
    """Runs actors as processes of this machine.

    Args:
        machine: The resources that may be reserved.
        directory: Gives an existing directory for the values that are stored once; they are removed at the end. It is
            asked when the first one is stored: before that, nothing is on disk.
        output_names: Names of the files, in an actor's directory, that take its stdout and stderr.
        changes_directory: Whether an actor works in its directory.
        keep_descendants: Leave processes that an actor has started alone when it ends by itself.
        needed: Modules that every worker will need: they are imported once, where workers are copied from.
        preload: Load shared values once, where workers are copied from; else each worker loads them itself.
        ahead: Where workers are copied from, if that was started already (see `Plan.start_ahead`).

    Raises:
        TuneError: If this process runs in a trial of a trial, and so on, too deep.
    """

    isolates = True

    def __init__(
        self,
        machine: Machine,
        *,
        directory: Callable[[], str],
        output_names: tuple[str, str] = ("stdout", "stderr"),
        changes_directory: bool = True,
        keep_descendants: bool = False,
        needed: Sequence[str] = (),
        preload: bool = True,
        ahead: Template | None = None,
    ):
        if nesting_depth() > MAX_NESTING:
            raise TuneError(
                f"runs may be nested {MAX_NESTING} deep, but this one would be in a trial of depth {nesting_depth()}: "
                "let the trials of one run do the work, or TuneConfig(executor='inline')"
            )
        self.clock: Clock = clocks.REAL
        self._host = socket.gethostname()
        self._ledger = Ledger(machine.totals, machine.gpu_ids, find_gpus=machine.find_gpus, cpu_limit=machine.cpu_limit)
        self._directory = directory
        self._values: ValueFile | None = None
        self._output_names = output_names
        self._changes_directory = changes_directory
        self._preloads = preload
        self._group = ActorGroup(keep_descendants=keep_descendants, needed=needed, ahead=ahead)
        self._process_names = (f"p{number}" for number in itertools.count())
        self._by_actor: dict[str, _Actor] = {}
        self._by_process: dict[str, _Actor] = {}
        self._just_ended: set[str] = set()  # told by the last wait
        self._losses: Counter[str] = Counter()  # by trial: so many actors in a row were lost with what carried them
        self._parked: dict[tuple[str, Resources], list[_Actor]] = {}
        self._resetting: dict[str, _Actor] = {}
        self._parked_limit = max(1, int(machine.totals.get(CPU, 1)))
        self._is_short = False  # of descriptors, which has been said

    # -- resources and values ----------------------------------------------------------------------------------

    def resources(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """See `TrialExecutor.resources`."""
        return self._ledger.totals(), self._ledger.free()

    def share(self, value: Any) -> Shared:
        """Store `value` in a file. Workers map the large buffers in it; the rest is preloaded if that is wanted."""
        if self._values is None:
            self._values = self._new_file()
        spot = self._values.add(value)
        handle = SharedFile(spot.path, spot.offset, spot.token)
        if self._preloads:
            self._group.preload(handle.preload)
        return handle

    def can_start(self, request: Resources, waiter: str | None = None) -> bool:
        """See `TrialExecutor.can_start`. Warns once if this process has too few descriptors for one worker more."""
        return self._ledger.can_acquire(request, waiter) and self._has_descriptors()

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
        """See `TrialExecutor.start`."""
        if actor_id in self._by_actor:
            raise RuntimeError(f"an actor named {actor_id!r} exists already; actor ids must never be used again")
        trial_id = _trial_of(actor_id)
        if self._losses[trial_id] >= LOSSES_TOGETHER:
            reuse_key = None
        parked = self._take_parked(trial_id, reuse_key, request)
        with ExitStack() as undo:
            undo.callback(self._put_back, parked)
            gpu_ids = parked.allocation.gpu_ids if parked else None
            allocation = self._ledger.acquire(actor_id, request, gpu_ids or None)
            undo.callback(self._ledger.release, actor_id)
            make = functools.partial(factory, allocation=allocation)
            actor = _Actor(actor_id, next(self._process_names), request, allocation, directory, reuse_key, make)
            undo.callback(actor.remove_file)
            if parked is None or not self._take_over(parked, actor, reset_args):
                self._start_process(actor)
            undo.pop_all()
        self._by_actor[actor_id] = self._by_process[actor.process] = actor

    def call(self, actor_id: str, method: str, *args: Any) -> None:
        """See `TrialExecutor.call`."""
        if actor_id in self._just_ended:
            return  # its Exited is the answer; the caller has not come to it yet
        actor = self._by_actor.get(actor_id)
        if actor is None:
            raise RuntimeError(f"actor {actor_id!r} is not there")
        self._group.call(actor.process, method, *args)

    def stop(self, actor_id: str, grace_s: float, keep: bool = False, dump: bool = False) -> None:
        """See `TrialExecutor.stop`."""
        actor = self._by_actor.pop(actor_id, None)
        if actor is None:
            return
        self._resetting.pop(actor.process, None)
        parks = keep and actor.reuse_key is not None and sum(map(len, self._parked.values())) < self._parked_limit
        self._group.stop(actor.process, grace_s, keep=parks, dump=dump)

    def wait(self, timeout_s: float | None) -> list[Event]:
        """See `TrialExecutor.wait`."""
        self._just_ended.clear()
        if self._resetting:
            deadline_s = min(actor.reset_deadline_s or 0.0 for actor in self._resetting.values())
            left_s = max(0.0, deadline_s - self.now())
            timeout_s = left_s if timeout_s is None else min(timeout_s, left_s)
        events = [self._translate(event) for event in self._group.wait(timeout_s)]
        for actor in [a for a in self._resetting.values() if self.now() >= (a.reset_deadline_s or 0.0)]:
            self._start_fresh(actor, "it took too long")
        return [event for event in events if event is not None]

    def wake(self) -> None:
        """See `TrialExecutor.wake`."""
        self._group.wake()

    def now(self) -> float:
        """See `TrialExecutor.now`."""
        return self.clock.monotonic()

    def shutdown(self, grace_s: float = 0.0) -> None:
        """See `TrialExecutor.shutdown`."""
        self._group.close(grace_s)
        self._by_actor.clear()
        for actor in self._by_process.values():
            actor.remove_file()
        self._by_process.clear()
        self._parked.clear()
        if self._values is not None:
            self._values.close()
            self._values = None

    # -- processes -----------------------------------------------------------------------------------------------

    def _pack(self, actor: _Actor) -> bytes:
        """Pickle an actor's factory for its worker; a large one goes into a file of the actor's."""
        made = dumps_small(actor.factory, "the factory", LARGE_FACTORY_BYTES)
        if made is not None:
            return made
        actor.factory_file = self._new_file()
        return dumps(
            functools.partial(_make_from_file, actor.factory_file.add(actor.factory, "the factory")), "the factory"
        )

    def _new_file(self) -> ValueFile:
        return ValueFile(os.path.join(self._directory(), "shared"), "choose a storage_path with more space")

    def _has_descriptors(self) -> bool:
        """Whether there are descriptors for a worker more; for a first one what there is must do."""
        if not self._by_process or any(self._parked.values()) or descriptors.has_room_for_worker():
            return True
        if not self._is_short:
            self._is_short = True
            logger.warning(
                "no more than %d trial(s) run at a time for now: this process may have %s files open (ulimit -n), each "
                "worker takes three of them, the driver needs some. Raise the limit, or lower max_concurrent_trials",
                len(self._by_process),
                descriptors.limit(),
            )
        return False

    def _start_process(self, actor: _Actor) -> None:
        if not descriptors.has_room_for_worker():
            self._drop_parked()
        place = self._place(actor)
        preload = actor.request.required_resources.get(GPU, 0) == 0 and _has_one_thread(place.env)
        alone = self._losses[_trial_of(actor.actor_id)] >= LOSSES_TOGETHER
        self._group.start(actor.process, self._pack(actor), place=place, preload=preload, alone=alone)

    def _take_over(self, parked: _Actor, actor: _Actor, reset_args: tuple[Any, ...]) -> bool:
        """Let a parked process take up another actor; False if it has died while it was parked."""
        args = dumps_small((*reset_args, actor.allocation), "an argument of reset()", LARGE_FACTORY_BYTES)
        if args is None:
            self._group.stop(parked.process, 0.0)
            return False
        try:
            self._group.move(parked.process, actor.process, self._place(actor), ("reset", args))
        except RuntimeError as error:
            logger.debug("the worker of %s is not used again: %s", parked.actor_id, error)
            return False
        actor.reset_deadline_s = self.now() + number_setting("FUNCTION_THREAD_TIMEOUT_S")
        self._resetting[actor.process] = actor
        return True

    def _place(self, actor: _Actor) -> Place:
        """Where the actor works, where its output goes and what its environment holds."""
        env: dict[str, str | None] = {**allocation_env(actor.allocation, os.environ)}
        if actor.directory is None:
            return Place(env=env)
        if self._changes_directory:
            with suppress(FileNotFoundError):  # the driver's own directory has been removed
                env |= dict.fromkeys(ORIG_WORKING_DIR, os.getcwd())
        stdout, stderr = (os.path.join(actor.directory, name) for name in self._output_names)
        directory = actor.directory if self._changes_directory else None
        return Place(directory, stdout, stderr, env, own=actor.directory)

    def _take_parked(self, waiter: str, reuse_key: str | None, request: Resources) -> _Actor | None:
        """A parked actor for this key and request whose devices are free, if there is one."""
        parked = self._parked.get((reuse_key, request)) if reuse_key is not None else None
        while parked:
            actor = parked.pop()
            devices = actor.allocation.gpu_ids
            if not devices or self._ledger.can_acquire(request, waiter, gpu_ids=devices):
                return actor
            self._group.stop(actor.process, 0.0)
        return None

    def _drop_parked(self) -> None:
        """Let one parked process go, if there is one: another is to be started, and there is no room for both."""
        parked = next((parked for parked in self._parked.values() if parked), None)
        if parked is not None:
            self._group.stop(parked.pop(0).process, 0.0)

    def _put_back(self, parked: _Actor | None) -> None:
        """Park an actor; or park it again, if the start for which it was taken has failed."""
        if parked is not None:
            self._parked.setdefault((parked.reuse_key or "", parked.request), []).append(parked)

    def _start_fresh(self, actor: _Actor, why: str) -> None:
        """The parked process is of no use: take a fresh one for the same actor."""
        logger.debug("the worker of %s is not used again: %s", actor.actor_id, why)
        self._resetting.pop(actor.process, None)
        self._by_process.pop(actor.process, None)
        self._group.stop(actor.process, 0.0)
        actor.process = next(self._process_names)
        actor.reset_deadline_s = None
        self._by_process[actor.process] = actor
        self._start_process(actor)

    # -- events --------------------------------------------------------------------------------------------------

    def _translate(self, event: GroupEvent) -> Event | None:
        """The group's event as the executor's, or None if it concerns no actor (any more)."""
        actor = self._by_process.get(event.actor_id)
        if actor is None:
            if isinstance(event, Ended):
                self._forget_parked(event.actor_id)
            return None
        if isinstance(event, Ended):
            return self._on_ended(actor, event)
        if isinstance(event, Parked):
            return self._on_parked(actor)
        if actor.process in self._resetting:
            return self._on_reset(actor, event)
        if isinstance(event, Ready):
            return Started(actor.actor_id, event.pid, self._host, actor.allocation)
        if isinstance(event, Replied):
            return CallReturned(actor.actor_id, event.value)
        return CallRaised(actor.actor_id, replace(event.error, hint=self._hint(actor, event.error)))

    def _hint(self, actor: _Actor, error: RemoteError) -> str:
        """The way out for an error that comes from work in a directory of its own, or without a terminal."""
        if error.last_line() in _NO_TERMINAL:
            return f"{HINT}a trial's process has no terminal; MINITUNE_EXECUTOR=inline runs the trials in this one"
        if not self._changes_directory or actor.directory is None or error.type_name != FileNotFoundError.__name__:
            return ""
        path = getattr(error.load(), "filename", None)
        if not isinstance(path, str) or not path or os.path.isabs(path):
            return ""
        try:
            meant = os.path.abspath(path)
        except FileNotFoundError:  # the driver's own directory has been removed
            return ""
        if os.path.exists(meant) or (os.path.dirname(path) and os.path.isdir(os.path.dirname(meant))):
            return (
                f"{HINT}each trial works in its own directory; give it the absolute path, {meant}, or set "
                "MINITUNE_CHDIR_TO_TRIAL_DIR=0"
            )
        return ""

    def _on_reset(self, actor: _Actor, event: Ready | Replied | Failed) -> Event | None:
        if isinstance(event, Replied) and event.value:
            del self._resetting[actor.process]
            actor.reset_deadline_s = None
            pid = self._group.pids().get(actor.process, 0)
            return Started(actor.actor_id, pid, self._host, actor.allocation, reused=True)
        error: RemoteError | None = event.error if isinstance(event, Failed) else None
        self._start_fresh(actor, error.last_line() if error else "reset returned False")
        return None

    def _on_parked(self, actor: _Actor) -> Event:
        self._ledger.release(actor.actor_id)
        del self._by_process[actor.process]
        actor.remove_file()
        self._put_back(actor)
        return Exited(actor.actor_id, "parked")

    def _forget_parked(self, process: str) -> None:
        """A process has ended while it was parked."""
        for parked in self._parked.values():
            parked[:] = [actor for actor in parked if actor.process != process]

    def _on_ended(self, actor: _Actor, event: Ended) -> Event | None:
        if actor.process in self._resetting:
            self._start_fresh(actor, event.cause)
            return None
        del self._by_process[actor.process]
        actor.remove_file()
        if self._by_actor.pop(actor.actor_id, None) is not None:
            self._just_ended.add(actor.actor_id)
        if event.survivors:
            logger.warning("the worker of %s %s: what it holds stays taken", actor.actor_id, event.cause)
            self._ledger.write_off(actor.actor_id)
        else:
            self._ledger.release(actor.actor_id)
        if event.orphaned:
            self._losses[_trial_of(actor.actor_id)] += 1
        elif not event.lost:
            self._losses.pop(_trial_of(actor.actor_id), None)
        kind = "stopped" if event.stopped else "lost" if event.orphaned else "refused" if event.lost else "died"
        return Exited(
            actor.actor_id,
            kind,
            cause=event.cause,
            exit_code=event.exit_code,
            peak_bytes=event.peak_bytes,
            last_lines=event.last_lines,
            counts=not event.lost,
            pid=event.pid,
        )


def _trial_of(actor_id: str) -> str:
    return actor_id.rpartition("#")[0]


def _make_from_file(spot: Spot, user_thread: Any) -> Any:
    """Load a factory in a worker, and call it there."""
    return read_value(spot)[0](user_thread)


def _has_one_thread(env: Mapping[str, str | None]) -> bool:
    """Whether numerical libraries are to run on one thread: they keep the number that they were loaded with.

    The user's own settings count here as well, so a wish for more threads costs the preload.

    Args:
        env: The variables that are set for the worker, over the environment of this process.
    """
    if env.get("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS")) != "1":
        return False
    return all(env.get(name, os.environ.get(name)) in (None, "", "1") for name in THREAD_CAPS)
