"""RayTrialExecutor: each actor in a Ray actor on some node of a cluster.

`RayProcess` sends the requests, and its side on the node is `RayActor`.

Files
-----
Each node sees the run's directory, and a trial writes there. But the driver gives a checkpoint its final name, before
the answer becomes an event. So an attempt that Ray has given up can commit nothing, even if it still runs on a node
that is cut off.

Room
----
`ClusterLedger` admits actors, which may still have to wait in Ray's queue.
"""

from __future__ import annotations

import functools
import itertools
import logging
import math
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from minitune.actor.loop import Loop
from minitune.actor.messages import DUMP_LINES, KILL_CONFIRM_S, LAST_LINES
from minitune.actor.process import last_lines
from minitune.base import __version__, shared_values
from minitune.base.files import search_path, working_directory
from minitune.base.pickling import dumps
from minitune.base.settings import number_setting
from minitune.base.shared_values import Held
from minitune.error import HINT, RemoteError, TuneError
from minitune.executors.admission import LoopExecutor
from minitune.executors.devices import Machine
from minitune.executors.ledger import allocation_of
from minitune.executors.local import with_hint, workplace_of
from minitune.executors.trial_executor import ActorSpec, CallRaised, CallReturned, Exited, Placed, Started
from minitune.ray.cluster.actor import CONTROL, REPORTS, WATCH, Delivery, Here, RayActor
from minitune.ray.cluster.nodes import (
    ClusterLedger,
    amounts_text,
    connect,
    in_words,
    refuse_client,
    signals_kept,
    why_died,
)
from minitune.ray.cluster.process import ActorOnCluster, ClusterActorPhase, RayProcess
from minitune.ray.cluster.values import RayValues
from minitune.resources import CPU, GPU, MEMORY, Resources

logger = logging.getLogger("minitune")

_SLOW_S = 30.0
"""If an actor has no place for this long, a warning says so."""
_PARKED_S = 10.0
"""How long a parked actor keeps its resources from the rest of the cluster."""
_NO_MODULE = (
    f"{HINT}a module may be on the driver's machine and not on this node: ray.init(runtime_env={{'working_dir': '.'}}) "
    "before the run sends the script's directory, and {'pip': [...]} installs packages"
)
_Then = Callable[[Any, RemoteError | None], object]
"""What follows an answer: gets the value, or the error that there is instead."""


class RayTrialExecutor(LoopExecutor[ActorOnCluster, RayProcess]):
    """Runs actors as Ray actors on the nodes of a cluster.

    Args:
        address: Of a running cluster, such as `10.0.0.1:6379`. By default the connection of this process, else the
            cluster of `RAY_ADDRESS` or of this machine, else one is started here.
        machine: The resources of a cluster that is started here.
        output_names: The files for stdout and stderr in an actor's directory.

    Raises:
        ImportError: If Ray is not installed.
        ConnectionError: If there is no cluster at the address, or this machine is no node of it.
        ValueError: If the connection is one of Ray Client.
    """

    has_queue = True

    def __init__(
        self,
        *,
        address: str | None = None,
        machine: Machine | None = None,
        output_names: tuple[str, str] = ("stdout", "stderr"),
        changes_directory: bool = True,
    ):
        try:
            import ray
        except ImportError as error:
            raise ImportError("executor='ray' needs Ray, which is not installed: pip install 'ray>=2.40'") from error
        if ray.__name__ != "ray":
            raise ImportError(
                "executor='ray' needs Ray itself, but minitune.as_ray is on, and `import ray` means minitune: call "
                "minitune.as_ray.undo() first"
            )
        refuse_client(ray, address)
        is_connected = ray.is_initialized()
        if not is_connected:
            connect(ray, address, machine)
        self._room = ClusterLedger(ray)
        # Ray itself ends the actors of a driver that ends without a shutdown.
        super().__init__(self._room, Loop(), lambda: None)
        self._ray: Any = ray
        self._is_connected_by_us = not is_connected
        self._output_names = output_names
        self._changes_directory = changes_directory
        self._remote = self._ray.remote(concurrency_groups={CONTROL: 1, REPORTS: 1, WATCH: 1})(RayActor)
        self._values = RayValues(ray)
        self._processes: set[RayProcess] = set()  # those that are not dead, also without an actor
        self._told_waits: set[Resources] = set()  # the requests of which a warning was given

    # -- actors --------------------------------------------------------------------------------------------------

    def share(self, value: Any) -> Held:
        """See `TrialExecutor.share`. The value goes into Ray's object store."""
        return self._values.share(value)

    def start(self, spec: ActorSpec) -> None:
        """The actor may have to wait in Ray's queue for room."""
        self._check_open()
        with shared_values.noting() as paths:
            actor = ActorOnCluster(spec, workplace_of(spec, self._output_names, self._changes_directory))
        actor.values = self._values.for_actor(paths)
        # Nothing after this raises, so a refused start has nothing to undo.
        self._room.acquire(spec.actor_id, spec.request)
        self._actors[spec.actor_id] = actor
        parked = self._take_parked(spec.reuse_key, spec.request)
        if parked is None:
            self._place(actor)
        else:
            self._reset(parked, actor)

    def call(self, actor_id: str, method: str, *args: Any) -> None:
        """See `TrialExecutor.call`."""
        actor = self._actors.get(actor_id)
        if actor is None:
            self._require_just_ended(actor_id)
            return
        if actor.phase is not ClusterActorPhase.IDLE:
            raise RuntimeError(f"actor {actor_id!r} cannot be called now: it is {actor.phase.value}")
        payload = dumps(args, f"an argument of {method}()") if args else b""
        actor.phase = ClusterActorPhase.CALLED
        self._ask(actor, functools.partial(self._tell_answer, actor), "call", method, payload)

    def stop(self, actor_id: str, grace_s: float, keep: bool = False, dump: bool = False) -> None:
        """See `TrialExecutor.stop`."""
        actor = self._actors.get(actor_id)
        if actor is None or actor.phase is ClusterActorPhase.STOPPING:
            return
        actor.phase = ClusterActorPhase.STOPPING
        actor.shows_stacks = dump
        process = actor.process
        process.cancel_timers()
        if process.here is None:  # its object is not made, so nothing has to be stopped
            self._kill(process)
            return
        # An object whose reset was not answered may be in any state.
        keeps = keep and actor.spec.reuse_key is not None and not process.is_resetting
        stop_it = process.handle.stop.options(concurrency_group=CONTROL).remote
        process.after(grace_s, lambda: self._kill_late(actor))

        process.send(lambda is_parked: self._let_go(actor, is_parked is True), functools.partial(stop_it, keeps, dump))

    def shutdown(self, grace_s: float = 0.0) -> None:
        """In a process that was forked from the driver, it stops no actor."""
        if not self._finalizer.alive or not self._origin.is_here():
            return
        try:
            # At its own shutdown Ray would end all of them, too, but without a grace period.
            self._end_parked(*self._all_parked())
            for actor_id in list(self._actors):
                self.stop(actor_id, grace_s)
            until_s = self._loop.time() + grace_s + 2.0
            while self._processes and self._loop.time() < until_s:
                self._loop.turn(until_s - self._loop.time())
            for process in self._processes:
                process.give_back()
        finally:
            self._finalizer()
            self._told.clear()
            self._actors.clear()
            self._processes.clear()
            self._values.close()
            # A connection of the user's stays: the script may use it for other work.
            if self._is_connected_by_us:
                with signals_kept():
                    self._ray.shutdown()

    # -- the start of an actor -----------------------------------------------------------------------------------

    def _place(self, actor: ActorOnCluster) -> None:
        # Those that are parked do not suit this actor. Ray counts what they hold, but the ledger does not.
        free = self._room.free()
        parked = self._all_parked()
        for name in actor.spec.request.required_resources:
            if sum(process.spec.request.required_resources.get(name, 0) for process in parked) > free.get(name, 0):
                self._end_parked(*parked)
                break
        process = self._new_process(actor)
        self._processes.add(process)
        process.actor = actor
        actor.process = process
        actor.phase = ClusterActorPhase.WAITING
        if self._room.is_unknown(actor.spec.request):
            self._tell_wait(actor)
        process.after(_SLOW_S, lambda: self._note_slow(actor))
        process.ask(
            functools.partial(self._on_placed, process),
            "look",
            __version__,
            actor.spec.directory,
            working_directory() or "",
            tuple(search_path()),
            list(sys.argv),
        )

    def _new_process(self, actor: ActorOnCluster) -> RayProcess:
        request = actor.spec.request
        head = request.bundles[0]
        # All amounts are given, also zero: by default, Ray takes a CPU to place an actor and none to keep it.
        options: dict[str, Any] = {
            "num_cpus": head.get(CPU, 0),
            "num_gpus": head.get(GPU, 0),
            "memory": math.ceil(head.get(MEMORY, 0)) or None,
            "resources": {name: amount for name, amount in head.items() if name not in (CPU, GPU, MEMORY)},
            "max_restarts": 0,  # the next attempt is the driver's decision, which it records first
            # `RayProcess.send` does that. If Ray does, it tells a death some seconds later, and prints each one.
            "max_task_retries": 0,
        }
        group = None
        if len(request.bundles) > 1:
            from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

            # Ray refuses empty bundles. With an empty head, the actor takes none of the bundles.
            bundles = [bundle for bundle in request.bundles if bundle]
            group = self._ray.util.placement_group(bundles, strategy=request.strategy)
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                group,
                placement_group_bundle_index=0 if head else -1,
                # As in Ray Tune: tasks that the trial gives to Ray run in its other bundles.
                placement_group_capture_child_tasks=True,
            )
        handle = self._remote.options(**options).remote()
        return RayProcess(handle, group, actor.spec, self._loop, self._on_death)

    def _note_placed(self, process: RayProcess, actor: ActorOnCluster) -> None:
        process.actor = actor
        actor.process = process
        actor.phase = ClusterActorPhase.STARTING
        self._room.note_placed(actor.actor_id)
        self._told.append(Placed(actor.actor_id))

    def _on_placed(self, process: RayProcess, delivery: Delivery) -> None:
        """A process is placed, and has looked where."""
        actor = process.actor
        if actor is None or actor.phase is ClusterActorPhase.STOPPING:  # Ray is about to kill it
            return
        process.cancel_timers()
        process.here, error = delivery.opened()
        if error is not None:
            process.actor = None
            self._kill(process)
            self._end(actor, Exited(actor.actor_id, "refused", error.last_line(), counts=False))
            return
        here = process.here
        assert here is not None
        if not here.sees_directory:
            raise TuneError(
                f"the node {here.host} ({here.ip}) does not see {actor.spec.directory}: mount one directory at the "
                "same path on all nodes, by NFS for example, and choose it with RunConfig(storage_path=...)"
            )
        self._note_placed(process, actor)
        # Ray has chosen them, and has set the variables of the process for them.
        devices = _first_bundle(actor.spec.request, here.gpu_ids)
        process.allocation = allocation_of(actor.spec.request, devices, os.environ)
        begun = functools.partial(self._tell_begun, actor)
        self._ask(actor, begun, "begin", actor.workplace, actor.values, actor.factory, process.allocation)

    def _tell_begun(self, actor: ActorOnCluster, value: Any, error: RemoteError | None, reused: bool = False) -> None:
        """An actor's object was made or reset, or its factory has raised."""
        actor.phase = ClusterActorPhase.IDLE
        if error is not None:
            self._tell_raised(actor, error)
            return
        here = actor.process.here
        assert here is not None
        self._told.append(Started(actor.actor_id, here.pid, here.host, actor.process.allocation, reused))

    def _reset(self, process: RayProcess, actor: ActorOnCluster) -> None:
        process.cancel_timers()
        self._note_placed(process, actor)
        process.is_resetting = True
        process.after(number_setting("FUNCTION_THREAD_TIMEOUT_S"), lambda: self._replace(process, actor))
        on_reset = functools.partial(self._on_reset, actor)
        self._ask(actor, on_reset, "reset", actor.workplace, actor.values, actor.reset_args)

    def _on_reset(self, actor: ActorOnCluster, is_usable: Any, error: RemoteError | None) -> None:
        """A parked process was reset, or could not be."""
        process = actor.process
        if not is_usable:
            self._replace(process, actor)
            return
        process.is_resetting = False
        process.cancel_timers()
        self._tell_begun(actor, None, None, reused=True)

    def _replace(self, process: RayProcess, actor: ActorOnCluster) -> None:
        """A process could not be reset for an actor, which gets another one."""
        logger.debug("the process of %s is not used again: it could not be reset", actor.actor_id)
        process.actor = None
        self._kill(process)
        self._place(actor)

    def _note_slow(self, actor: ActorOnCluster) -> None:
        if actor.phase is ClusterActorPhase.WAITING:
            self._room.note_slow(actor.actor_id)
            self._room.refresh()
            self._tell_wait(actor, f" for {_SLOW_S:g} s")
            actor.process.after(_SLOW_S, lambda: self._note_slow(actor))  # the reason may change

    def _tell_wait(self, actor: ActorOnCluster, how_long: str = "") -> None:
        request = actor.spec.request
        reason = self._room.why_waits(actor.actor_id)
        if reason and request not in self._told_waits:
            self._told_waits.add(request)
            amounts = amounts_text(request.required_resources)
            logger.warning("Ray has no place for a trial (%s)%s: %s (said once)", amounts, how_long, reason)

    # -- answers -------------------------------------------------------------------------------------------------

    def _ask(self, actor: ActorOnCluster, then: _Then, verb: str, *args: Any) -> None:
        """Send a request of an actor, and call `then` with its answer."""
        phase = actor.phase
        process = actor.process

        def on_answer(delivery: Delivery) -> None:
            if actor.phase is not phase or actor.process is not process:  # a stop: then nothing is committed
                return
            value, error = delivery.opened()
            # Before the value is told: once a report is known, the driver may record its checkpoint.
            try:
                for number in delivery.checkpoints:
                    actor.commit(number)
            except Exception as refused:
                error = RemoteError.of(refused)
            then(value, error)

        process.ask(on_answer, verb, *args)

    def _tell_answer(self, actor: ActorOnCluster, value: Any, error: RemoteError | None) -> None:
        actor.phase = ClusterActorPhase.IDLE
        if error is None:
            self._told.append(CallReturned(actor.actor_id, value))
        else:
            self._tell_raised(actor, error)

    def _tell_raised(self, actor: ActorOnCluster, error: RemoteError) -> None:
        if error.type_name == ModuleNotFoundError.__name__:
            error = replace(error, hint=_NO_MODULE)
        else:
            error = with_hint(error, actor.spec.directory, self._changes_directory)
        self._told.append(CallRaised(actor.actor_id, error))

    # -- the end of an actor -------------------------------------------------------------------------------------

    def _let_go(self, actor: ActorOnCluster, is_parked: bool) -> None:
        process = actor.process
        if not is_parked:
            self._kill(process)
            return
        process.cancel_timers()
        process.actor = None
        following = self._waits_for(process)  # before the end, which frees room that this process keeps in Ray
        self._end(actor, Exited(actor.actor_id, "parked"))
        if following is None:
            process.after(_PARKED_S, lambda: self._end_parked(process))
            self._park(process.spec.reuse_key, process.spec.request, process)
        else:
            # Its own process may wait in Ray's queue for just what this one holds. With more trials than room there is
            # always such an actor, so without this no process would ever be used again.
            following.process.actor = None
            self._kill(following.process)
            self._reset(process, following)

    def _waits_for(self, process: RayProcess) -> ActorOnCluster | None:
        """An actor in Ray's queue that could use a parked process, and is not about to start elsewhere."""
        wanted = (process.spec.reuse_key, process.spec.request)
        queued = self._room.queued()
        for actor in self._actors.values():
            is_waiting = actor.phase is ClusterActorPhase.WAITING and actor.actor_id in queued
            if is_waiting and (actor.spec.reuse_key, actor.spec.request) == wanted:
                return actor
        return None

    def _all_parked(self) -> list[RayProcess]:
        return list(itertools.chain(*self._parked.values()))

    def _end_parked(self, *processes: RayProcess) -> None:
        for process in processes:
            self._unpark(process)
            self._kill(process)

    def _unpark(self, process: RayProcess) -> None:
        for parked in self._parked.values():
            if process in parked:
                parked.remove(process)

    def _kill_late(self, actor: ActorOnCluster) -> None:
        actor.why_stopped = "killed, because it did not stop within its grace period"
        self._kill(actor.process)

    def _kill(self, process: RayProcess) -> None:
        if process.is_dead:
            return
        process.cancel_timers()
        # Ray answers a kill at once. The process may live on for a while, and its resources are free after that. So the
        # watch brings its death.
        process.give_back()
        slow = TimeoutError(f"Ray has not killed it within {KILL_CONFIRM_S:g} s")
        process.after(KILL_CONFIRM_S, lambda: self._on_death(process, slow))

    def _on_death(self, process: RayProcess, error: BaseException) -> None:
        """A process is dead, says Ray."""
        if process.is_dead:
            return
        process.is_dead = True
        process.cancel_timers()
        self._processes.discard(process)
        self._unpark(process)
        process.give_back()  # its placement group
        actor = process.actor
        process.actor = None
        if actor is None:
            return
        if actor.phase is not ClusterActorPhase.STOPPING and process.is_resetting:
            # In a reset, it has died of the actor before this one, or of user code. A new process will show which.
            self._place(actor)
        else:
            self._end(actor, self._exited(actor, error))

    def _is_alive(self, here: Here) -> bool:
        return any(node["NodeID"] == here.node_id for node in self._room.nodes())

    def _exited(self, actor: ActorOnCluster, error: BaseException) -> Exited:
        here = actor.process.here
        is_stopped = actor.phase is ClusterActorPhase.STOPPING
        if here is None:
            if is_stopped:
                return Exited(actor.actor_id, "stopped", "stopped before it had room in the cluster")
            return Exited(actor.actor_id, "refused", f"Ray could not start it: {in_words(error)}", counts=False)
        lines = ""
        if actor.shows_stacks or not is_stopped:
            lines = last_lines(actor.workplace, DUMP_LINES if actor.shows_stacks else LAST_LINES)
        if is_stopped:
            return Exited(actor.actor_id, "stopped", actor.why_stopped, last_lines=lines, pid=here.pid)
        # The trial is not to blame for the loss of a node, so it does not count as a failure.
        if getattr(error, "preempted", False) or not self._is_alive(here):
            self._room.refresh()
            cause = f"the node {here.host} ({here.ip}) is gone"
            return Exited(actor.actor_id, "lost", cause, last_lines=lines, counts=False, pid=here.pid)
        return Exited(actor.actor_id, "died", why_died(error), last_lines=lines, pid=here.pid)

    def _end(self, actor: ActorOnCluster, exited: Exited) -> None:
        del self._actors[actor.actor_id]
        self._room.release(actor.actor_id)
        self._told.append(exited)


def _first_bundle(request: Resources, gpu_ids: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The devices of each bundle: a trial runs in its first one, and sees only those."""
    if not gpu_ids and not request.required_resources.get(GPU, 0):
        return ()
    return (gpu_ids, *[()] * (len(request.bundles) - 1))
