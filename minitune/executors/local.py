"""LocalTrialExecutor: each actor in a process of its own on this machine, admitted by the ledger.

On Linux, workers are forked from a process that has imported what all workers need, the *zygote*.
"""

from __future__ import annotations

import functools
import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from minitune.actor.launcher import nesting_depth, new_run_id, start_method
from minitune.actor.loop import Loop
from minitune.actor.messages import TERM_TO_KILL_S, THREAD_CAPS, Boot, NotReset, Workplace
from minitune.actor.process import WorkerProcess, make_launcher
from minitune.actor.process_tree import MemoryKills
from minitune.actor.remote_actor import ActorPhase, RemoteActor
from minitune.base.files import remove_file
from minitune.base.pickling import dumps, dumps_small
from minitune.base.preload import first_imports
from minitune.base.script import script_here
from minitune.base.settings import ORIG_WORKING_DIR, number_setting
from minitune.base.shared_values import Ref, ValueDirectory, read_value
from minitune.error import HINT, RemoteError, TuneError
from minitune.executors.admission import LoopExecutor, ledger_of
from minitune.executors.devices import Machine
from minitune.executors.trial_executor import ActorSpec, CallRaised, Event, Exited, Started
from minitune.resources import CPU, Allocation

if TYPE_CHECKING:
    from minitune.actor.zygote_process import ZygoteProcess

logger = logging.getLogger("minitune")

_NO_TERMINAL = ("bdb.BdbQuit", "EOFError: EOF when reading a line")
"""The errors of `breakpoint()` and `input()` in a process without a terminal."""
MAX_NESTING = 4
"""How deep runs may be nested in trials of other runs: deeper would exhaust the machine."""
LARGE_FACTORY_BYTES = 1024 * 1024
"""A factory with a larger pickle is sent in a file: the size of messages is limited."""


@dataclass
class Actor:
    """One actor and its process.

    Attributes:
        factory_file: The file of a large factory, removed when the actor ends.
    """

    spec: ActorSpec
    allocation: Allocation
    factory_file: Ref | None = None
    remote: RemoteActor = field(init=False)

    def remove_file(self) -> None:
        """Remove the factory's file, which no worker needs any more."""
        if self.factory_file is not None:
            remove_file(self.factory_file.path)


class _Packer:
    """Pickles values and factories for workers, large ones into files."""

    def __init__(self, directory: Callable[[], str]):
        self._directory = directory
        self._values: ValueDirectory | None = None  # until the first value is stored
        # The last factory and allocation, and their pickle if that is small.
        self._packed: tuple[object, object, bytes | None] = (None, None, None)

    def store(self, value: Any, what: str = "the value") -> Ref:
        """Store a value in the directory of all shared values, whose large buffers workers map."""
        if self._values is None:
            directory = os.path.join(self._directory(), "shared")
            self._values = ValueDirectory(directory, "choose a storage_path with more space")
        return self._values.put(value, what)

    def pack(self, actor: Actor) -> tuple[bytes, bytes]:
        factory = actor.spec.factory
        allocation = actor.allocation
        args = actor.spec.args
        packed_args = dumps_small(args, "an argument of the factory", LARGE_FACTORY_BYTES)
        # The actors of a run have few factories. Those without GPUs also share their allocation.
        if factory is not self._packed[0] or allocation is not self._packed[1]:
            make = functools.partial(factory, allocation=allocation)
            self._packed = factory, allocation, dumps_small(make, "the factory", LARGE_FACTORY_BYTES)
        packed = self._packed[2]
        if packed is not None and packed_args is not None:
            return packed, packed_args
        actor.factory_file = self.store((factory, args, allocation), "the factory")
        return dumps(functools.partial(_make_from_file, actor.factory_file), "the factory"), b""

    def close(self) -> None:
        if self._values is not None:
            self._values.close()
            self._values = None


class LocalTrialExecutor(LoopExecutor[Actor, Actor]):
    """Runs actors as processes of this machine.

    Args:
        directory: Returns an existing directory for stored values, at the first one; they are removed at the end.
        needed: Modules that all workers need, imported once by a zygote.
        ahead: The first zygote, if it was started already.

    Raises:
        ValueError: See `start_method`.
        TuneError: If runs are nested too deep.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        directory: Callable[[], str],
        output_names: tuple[str, str] = ("stdout", "stderr"),
        changes_directory: bool = True,
        needed: Sequence[str] = (),
        ahead: ZygoteProcess | None = None,
    ):
        if nesting_depth() > MAX_NESTING:
            raise TuneError(
                f"runs may be nested {MAX_NESTING} deep, but this one would be in a trial of depth {nesting_depth()}: "
                "use one run for all trials, or TuneConfig(executor='inline')"
            )
        self.run_id = new_run_id()
        if sys.platform == "linux" and ahead is not None:
            self.run_id = ahead.run_id
        method = start_method()  # it may refuse a setting, so it comes before the loop is open
        loop = Loop()
        self._launcher = make_launcher(method, loop, self.run_id, needed, ahead)
        self._processes: set[WorkerProcess] = set()  # those that have not ended; none refers to this object
        super().__init__(ledger_of(machine), loop, functools.partial(_end_all, self._processes, self._launcher.close))
        self._memory_kills = MemoryKills()
        self._host = socket.gethostname()
        self._packer = _Packer(directory)
        self._output_names = output_names
        self._changes_directory = changes_directory
        self._original_directory: dict[str, str] = {}
        with suppress(FileNotFoundError):  # this process's directory has been removed
            self._original_directory = dict.fromkeys(ORIG_WORKING_DIR, os.getcwd())
        self._reset_timeout_s = number_setting("FUNCTION_THREAD_TIMEOUT_S")

    @property
    def importing(self) -> str:
        """The package that is being imported for all workers, if that takes long; otherwise empty."""
        return self._launcher.importing

    # -- resources and values ----------------------------------------------------------------------------------

    def share(self, value: Any) -> Ref:
        """Store `value` in a file: workers map its large buffers; the rest is preloaded with `Ref.preload`."""
        handle = self._packer.store(value)
        self._launcher.preload(dumps(functools.partial(handle.preload, first_imports(value)), "the handle"))
        return handle

    # -- actors --------------------------------------------------------------------------------------------------

    def start(self, spec: ActorSpec) -> Started | None:
        """See `TrialExecutor.start`."""
        if not self._finalizer.alive:
            self._check_open()
        actor = Actor(spec, self._ledger.acquire(spec.actor_id, spec.request))
        parked = self._take_fitting(actor) if self._parked else None
        started = None
        try:
            if parked is None:
                self._start_process(actor)
            else:
                started = self._take_over(actor, parked)
        except BaseException:  # the actor could not be sent to its process: undo everything
            actor.remove_file()
            self._ledger.release(spec.actor_id)
            if parked is not None:
                self._park(spec.reuse_key, spec.request, parked)
            raise
        self._actors[spec.actor_id] = actor
        return started

    def call(self, actor_id: str, method: str, *args: Any) -> None:
        """See `TrialExecutor.call`."""
        actor = self._actors.get(actor_id)
        if actor is None:
            self._require_just_ended(actor_id)
            return
        actor.remote.call(method, dumps(args, f"an argument of {method}()") if args else b"")

    def stop(self, actor_id: str, grace_s: float, keep: bool = False, dump: bool = False) -> Exited | None:
        """See `TrialExecutor.stop`."""
        actor = self._actors.get(actor_id)
        if actor is None:
            return None
        parks = keep and actor.spec.reuse_key is not None
        if parks and any(self._parked.values()):  # at most one for each CPU, because each needs memory
            parks = sum(map(len, self._parked.values())) < self._ledger.totals().get(CPU, 1)
        exited = actor.remote.stop(grace_s, parks, dump)
        if exited is None:
            return None
        self._leave_parked(actor_id)
        if self._told:  # such as its Started: the caller still waits for an event, so the end is one, too
            self._told.append(exited)
            return None
        return exited

    def shutdown(self, grace_s: float = 0.0) -> None:
        """In a process that was forked from the driver, it stops no worker."""
        if self._finalizer.alive and self._origin.is_here():
            try:
                for process in list(self._processes):
                    process.actor.stop(grace_s)
                until_s = self._loop.time() + grace_s + TERM_TO_KILL_S + 1.0
                while self._processes and self._loop.time() < until_s:
                    self._loop.turn(until_s - self._loop.time())
            finally:
                self._finalizer()
                self._told.clear()
        for actor in self._actors.values():
            actor.remove_file()
        self._actors.clear()
        self._parked.clear()
        self._packer.close()

    # -- processes -----------------------------------------------------------------------------------------------

    def _start_process(self, actor: Actor) -> None:
        workplace = self._workplace(actor)
        preload = not actor.allocation.gpu_ids and _has_one_thread(workplace.env)
        is_reusable = actor.spec.reuse_key is not None
        factory, args = self._packer.pack(actor)
        boot = Boot(0, workplace, script_here(), is_reusable, args, factory)
        process = WorkerProcess(self._loop, self._launcher, self._processes, self._memory_kills)
        self._put_into(process, actor, workplace)
        actor.remote.start(boot, preload)

    def _workplace(self, actor: Actor) -> Workplace:
        workplace = workplace_of(actor.spec, self._output_names, self._changes_directory)
        return workplace._replace(env={**actor.allocation.env, **self._original_directory})

    def _put_into(self, process: WorkerProcess, actor: Actor, workplace: Workplace) -> None:
        started = Started(actor.spec.actor_id, 0, self._host, actor.allocation)
        actor.remote = RemoteActor(process, started, workplace, self._told.append)

    def _take_over(self, actor: Actor, parked: Actor) -> Started | None:
        """Let the process of a parked actor run another one; if it cannot, start a fresh one."""
        allocation = None if actor.allocation is parked.allocation else actor.allocation
        args = dumps_small((*actor.spec.args, allocation), "an argument of reset()", LARGE_FACTORY_BYTES)
        if args is None or parked.remote.phase is ActorPhase.ENDED:
            self._start_process(actor)
            parked.remote.stop(0.0)
            return None
        self._put_into(parked.remote.process, actor, self._workplace(actor))
        return actor.remote.take_over(args, self._reset_timeout_s)

    def _take_fitting(self, actor: Actor) -> Actor | None:
        """A parked actor whose process can run another one: it sees the same devices."""
        for parked in reversed(self._parked.get((actor.spec.reuse_key, actor.spec.request), ())):
            if parked.allocation.gpu_ids == actor.allocation.gpu_ids:
                self._parked[actor.spec.reuse_key, actor.spec.request].remove(parked)
                return parked
        return None

    # -- events --------------------------------------------------------------------------------------------------

    def _complete(self, event: Any) -> Event | None:
        """Handle an event of a process; return the one for the caller, or None."""
        if isinstance(event, Exited) and event.kind == "parked":
            if event.actor_id in self._actors:  # otherwise `stop` has parked it
                self._leave_parked(event.actor_id)
            return event
        actor = self._actors.get(event.actor_id)
        if actor is None:  # a process without an actor has ended
            for parked in self._parked.values():
                parked[:] = [each for each in parked if each.remote.phase is not ActorPhase.ENDED]
            return None
        if isinstance(event, NotReset):
            logger.debug("the worker of %s is not used again: %s", actor.spec.actor_id, event.reason)
            self._start_process(actor)
            return None
        if isinstance(event, CallRaised):
            return event._replace(error=with_hint(event.error, actor.spec.directory, self._changes_directory))
        if isinstance(event, Exited):
            self._on_exited(actor, event)
        completed: Event = event
        return completed

    def _leave_parked(self, actor_id: str) -> None:
        actor = self._actors.pop(actor_id)
        self._ledger.release(actor_id)
        actor.remove_file()
        self._park(actor.spec.reuse_key, actor.spec.request, actor)

    def _on_exited(self, actor: Actor, event: Exited) -> None:
        del self._actors[actor.spec.actor_id]
        actor.remove_file()
        if event.survivors:
            logger.warning("the worker of %s %s: its resources stay in use", event.actor_id, event.cause)
            self._ledger.write_off(event.actor_id)
        else:
            self._ledger.release(event.actor_id)


def _end_all(processes: set[WorkerProcess], close_launcher: Callable[[], object]) -> None:
    for process in list(processes):
        process.close()
    processes.clear()
    close_launcher()


def workplace_of(spec: ActorSpec, output_names: tuple[str, str], changes_directory: bool) -> Workplace:
    """Where an actor works and writes its output, in the environment as it is."""
    if spec.directory is None:
        return Workplace()
    stdout = os.path.join(spec.directory, output_names[0])
    stderr = os.path.join(spec.directory, output_names[1])
    return Workplace(spec.directory if changes_directory else None, stdout, stderr)


def with_hint(error: RemoteError, directory: str | None, changes_directory: bool) -> RemoteError:
    """An error with a hint, if its cause is the trial's own working directory, or the missing terminal."""
    is_debugger = error.type_name == "SystemExit" and ", in do_quit\n" in error.traceback  # from Python 3.14 on
    if is_debugger or error.last_line() in _NO_TERMINAL:
        hint = f"{HINT}a trial's process has no terminal; MINITUNE_EXECUTOR=inline runs the trials in this one"
        return replace(error, hint=hint)
    if not changes_directory or directory is None or error.type_name != FileNotFoundError.__name__:
        return error
    path = getattr(error.load(), "filename", None)
    if not isinstance(path, str) or not path or os.path.isabs(path):
        return error
    try:
        meant = os.path.abspath(path)
    except FileNotFoundError:  # the driver's own directory has been removed
        return error
    if os.path.exists(meant) or (os.path.dirname(path) and os.path.isdir(os.path.dirname(meant))):
        hint = (
            f"{HINT}the working directory of each trial is its own directory; use the absolute path, {meant}, or "
            "set MINITUNE_CHDIR_TO_TRIAL_DIR=0"
        )
        return replace(error, hint=hint)
    return error


def _make_from_file(kept: Ref, host: Any) -> Any:
    factory, args, allocation = read_value(kept.path)[0]
    return factory(host, *args, allocation=allocation)


def _has_one_thread(env: Mapping[str, str | None]) -> bool:
    """Whether numerical libraries use one thread, which is settled when they are loaded."""
    if env.get("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS")) != "1":
        return False
    caps = map(env.get, THREAD_CAPS, map(os.environ.get, THREAD_CAPS))  # the worker's own, or what it inherits
    return {None, "", "1"}.issuperset(caps)
