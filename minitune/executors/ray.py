"""RayTrialExecutor: each actor in a Ray actor on some node of a cluster.

minitune stays the engine. Ray does the cluster's work: it chooses the node of an actor, reserves its resources, brings
code and values there, notices deaths, and fences nodes that it has lost. Nothing of ours runs beside Ray.

Requests and answers
--------------------
The side on the node is `RayActor`. A request to it is a call of a Ray actor, and its answer is a reference. When that
is done, a thread of Ray's posts the answer to the driver's loop. So the driver does not poll. If the connection breaks
before the answer has come, Ray says that the actor is unavailable. Then the same request is sent again, and the actor
carries out each one once. Only Ray's word that an actor is dead is its end, and the requests in flight bring it.

Files
-----
A node may or may not see the run's directory; a file with a random text in it proves that it does. If not, checkpoints
and output come with the answers, in pieces (see `ray_actor` and `ray_files`), and checkpoints go back the same way. In
both cases the driver gives a checkpoint its final name, before the answer that came with it becomes an event. So an
attempt that Ray has given up can commit nothing, even if it still runs on a node that is cut off.

Room
----
A ledger counts what the actors of this run hold, of the sum of all nodes. Others may use the cluster, too, and a
request may fit into the sum and into no node. So an actor may have to wait in Ray's queue for its place. If the ledger
has no room, one more actor may wait there nevertheless: when Ray finds a place for it, because a node was added or
others have left, this is the news that there is more room. If an autoscaler adds nodes, more of them may wait, since
it adds nodes for those.
"""

from __future__ import annotations

import functools
import itertools
import logging
import math
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any

from minitune._version import __version__
from minitune.actor.launcher import new_run_id
from minitune.actor.loop import Loop, Timer
from minitune.actor.messages import DUMP_LINES, KILL_CONFIRM_S, LAST_LINES, Place
from minitune.actor.process import last_lines
from minitune.base import files, shared_values
from minitune.base.files import search_path
from minitune.base.pickling import dumps, require_picklable
from minitune.base.shared_values import SharedFile, Spot, read_value
from minitune.checkpoint import discard_temporary, rename_prepared, require_directory, temporary_directory
from minitune.error import RemoteError, TuneError
from minitune.executors.admission import LoopExecutor
from minitune.executors.devices import Machine
from minitune.executors.ledger import Ledger, allocation_of
from minitune.executors.local import with_hint
from minitune.executors.ray_actor import Answer, Here, Home, Proof, RayActor
from minitune.executors.ray_cluster import (
    Node,
    amounts_text,
    connect,
    has_autoscaler,
    in_words,
    signals_kept,
    totals_of,
    why_never,
)
from minitune.executors.ray_files import Part, collect, read_pieces, write_piece
from minitune.executors.trial_executor import ActorSpec, CallRaised, CallReturned, Exited, Placed, Started
from minitune.resources import CPU, GPU, MEMORY, Allocation, Resources
from minitune.settings import number_setting

logger = logging.getLogger("minitune")

_SLOW_S = 30.0
"""If an actor has no place for this long, a warning says so."""
_PARKED_S = 10.0
"""How long a parked actor keeps its resources from the rest of the cluster."""
_BEYOND = 1
_BEYOND_AUTOSCALED = 16
"""How many actors may wait in Ray's queue although the ledger has no room; the same if nodes may be added for them."""
_REFRESH_S = 10.0
"""How long the list of nodes is used before it is read again, if there is no room."""
_AGAIN_S = 0.5
"""The pause before a request is sent again whose connection has broken."""
_COLLECT_S = 60.0
"""How long the last output of a dead process may take to come from its node."""
_CONTROL = "control"
"""Ray's name for the thread of `RayActor.stop`."""


class _Phase(Enum):
    """The phases of an actor: it waits for its place, makes its object, is idle, answers a call, or is stopped."""

    WAITING = "waiting"
    STARTING = "starting"
    IDLE = "idle"
    CALLED = "called"
    STOPPING = "stopping"


class _Process:
    """A Ray actor, which serves one of our actors after the other.

    Args:
        handle: The Ray actor.
        group: Its placement group, if the request has several bundles.
        request: The resources that it holds.

    Attributes:
        ask: The method for requests, bound once.
        number: The number of the last request.
        here: Where it is; None until it has a place.
        sees_run: Whether it sees the run's directory.
        scratch: The name of its scratch directory, if it does not.
        allocation: The resources of its actors.
        actor: The actor that it serves; None while it is parked or about to end.
        is_resetting: Whether it was parked, and its reset for the actor is not answered yet.
        sent: The tokens of the shared values that it knows.
        timers: Those that end with its actor.
    """

    def __init__(self, handle: Any, group: Any, request: Resources):
        self.handle = handle
        self.group = group
        self.request = request
        self.ask = handle.ask
        self.number = 0
        self.here: Here | None = None
        self.sees_run = False
        self.scratch = ""
        self.allocation = Allocation()
        self.actor: _Actor | None = None
        self.is_dead = False
        self.is_resetting = False
        self.sent: set[str] = set()
        self.timers: list[Timer] = []

    def cancel_timers(self) -> None:
        """Cancel all timers."""
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()


class _Actor:
    """One actor.

    Args:
        actor_id: Its id.
        request: Its resources.
        directory: Its directory, or None.
        reuse_key: The key under which it may be parked.
        factory: The pickled factory of its object.

    Attributes:
        phase: See `_Phase`.
        process: Serves it.
        reset_args: The pickled arguments of a reset, if it can be served by a parked process.
        tokens: Those of the values that only this actor needs.
        output_bytes: How much of its stdout and stderr has come, if its node does not see the run's directory.
        shows_stacks: Whether its stacks were dumped.
        why_stopped: How its stop has ended, in words.
    """

    def __init__(self, actor_id: str, request: Resources, directory: str | None, reuse_key: str | None, factory: bytes):
        self.actor_id = actor_id
        self.request = request
        self.directory = directory
        self.reuse_key = reuse_key
        self.factory = factory
        self.phase = _Phase.WAITING
        self.process: _Process
        self.reset_args = b""
        self.tokens: set[str] = set()
        self.output_bytes = [0, 0]
        self.shows_stacks = False
        self.why_stopped = "stopped"


class RayTrialExecutor(LoopExecutor[_Actor, _Process]):
    """Runs actors as Ray actors on the nodes of a cluster.

    Args:
        directory: Returns the run's directory, which exists. It is called when the first actor starts.
        address: Of a running cluster, such as `10.0.0.1:6379`. None takes the connection that this process has, else
            the cluster that `RAY_ADDRESS` names or that runs on this machine, else starts one on this machine.
        machine: The resources of a cluster that is started here.
        output_names: The names of the files for stdout and stderr in an actor's directory.
        changes_directory: Whether an actor's working directory is its own directory.

    Raises:
        ImportError: If Ray is not installed.
        ConnectionError: If there is no cluster at the address.
    """

    has_queue = True

    def __init__(
        self,
        *,
        directory: Callable[[], str],
        address: str | None = None,
        machine: Machine | None = None,
        output_names: tuple[str, str] = ("stdout", "stderr"),
        changes_directory: bool = True,
    ):
        try:
            import ray
        except ImportError as error:
            raise ImportError(
                "executor='ray' needs Ray, which is not installed: pip install 'minitune[ray]'"
            ) from error
        super().__init__(Ledger({}), Loop(), lambda: None)  # Ray ends the actors of a driver that ends by itself
        self._ray: Any = ray
        self._directory = directory
        self._output_names = output_names
        self._changes_directory = changes_directory
        self._is_connected_by_us = not ray.is_initialized()
        if self._is_connected_by_us:
            connect(ray, address, machine)
        self._own_node = ray.get_runtime_context().get_node_id()
        self._remote = self._ray.remote(concurrency_groups={_CONTROL: 1})(RayActor)
        self._processes: set[_Process] = set()  # those that are not dead
        self._values: dict[str, Any] = {}  # references of Ray, by token
        self._of_all: set[str] = set()  # the tokens of those that all actors may need
        self._run_id = new_run_id()
        self._proof: Proof | None = None
        self._answers = itertools.count(1)
        self._is_autoscaled: bool | None = None
        self._beyond: dict[str, _Actor] = {}  # the actors for which the ledger has no room
        self._admitted = ""  # the waiter that may start in spite of that
        self._holders: set[str] = set()  # the actors that the ledger counts
        self._refresh_s = 0.0
        self._refresh()
        self._has_told_slow = False
        self._reset_timeout_s = number_setting("FUNCTION_THREAD_TIMEOUT_S")

    # -- resources and values ----------------------------------------------------------------------------------

    def nodes(self) -> list[Node]:
        """The living nodes, as `ray.nodes` describes them. Asks the cluster's head, so it blocks for a short time."""
        return [node for node in self._ray.nodes() if node["Alive"]]

    def can_start(self, request: Resources, waiter: str | None = None) -> bool:
        """See `TrialExecutor.can_start`. If there is no room, it looks for new nodes, every `_REFRESH_S` at most."""
        if self._has_room(request, waiter):
            return True
        if self._loop.time() >= self._refresh_s:
            self._refresh()
            if self._has_room(request, waiter):
                return True
        problem = why_never(request, self._living)
        if problem and not self._may_grow():
            raise TuneError(problem)
        waiting = sum(actor.phase is _Phase.WAITING for actor in self._beyond.values())
        if waiter is None or waiting >= (_BEYOND_AUTOSCALED if self._may_grow() else _BEYOND):
            return False
        self._admitted = waiter
        return True

    def share(self, value: Any) -> SharedFile:
        """Put `value` into Ray's object store, which brings it once to each node that needs it.

        Trials on a node share the memory of its large buffers, so arrays are read-only there.
        """
        token = os.urandom(8).hex()
        with shared_values.noting() as spots:
            try:
                self._values[token] = reference = self._ray.put(value)
            except TypeError:
                require_picklable(value, "the value")  # names the part that is the cause
                raise
        shared_values.fetchers[token] = functools.partial(self._ray.get, reference)
        self._of_all.update((token, *self._put_spots(spots)))
        return SharedFile("", token=token)

    def _put_spots(self, spots: list[Spot]) -> list[str]:
        """Put values that lie in files of this machine into Ray's object store, too. Returns their tokens."""
        for spot in spots:
            if spot.token not in self._values:
                with suppress(FileNotFoundError):  # a task that asks for the value gets the error
                    self._values[spot.token] = self._ray.put(read_value(spot)[0])
        return [spot.token for spot in spots if spot.token in self._values]

    def _may_grow(self) -> bool:
        """Whether nodes may be added for actors that wait. Asks the cluster's head once."""
        if self._is_autoscaled is None:
            self._is_autoscaled = has_autoscaler(self._ray)
        return self._is_autoscaled

    def _has_room(self, request: Resources, waiter: str | None) -> bool:
        with suppress(TuneError):  # the sum of the nodes has not so much
            return self._ledger.can_acquire(request, waiter) and not why_never(request, self._living)
        return False

    def _refresh(self) -> None:
        """Read the list of nodes, and count again what the actors hold."""
        self._refresh_s = self._loop.time() + _REFRESH_S
        self._living = self.nodes()
        self._ledger = Ledger(*totals_of(self._living))
        self._holders.clear()
        self._beyond.clear()
        for actor in self._actors.values():
            self._hold(actor)

    def _hold(self, actor: _Actor) -> None:
        """Count what an actor holds, if there is room in the ledger."""
        self._beyond[actor.actor_id] = actor
        with suppress(RuntimeError, TuneError):
            self._ledger.acquire(actor.actor_id, actor.request)
            self._holders.add(actor.actor_id)
            del self._beyond[actor.actor_id]

    # -- actors --------------------------------------------------------------------------------------------------

    def start(self, spec: ActorSpec) -> None:
        """See `TrialExecutor.start`. It may have to wait in Ray's queue for its place."""
        actor_id, factory, request, directory, reuse_key, reset_args = spec
        self._check_open()
        self._require_new(actor_id)
        waiter = actor_id.rpartition("#")[0]
        if waiter != self._admitted and not self._has_room(request, waiter):
            raise RuntimeError(f"there is no room for {request!r}, free: {self._ledger.free()}; ask can_start first")
        with shared_values.noting() as spots:
            actor = _Actor(actor_id, request, directory, reuse_key, dumps(factory, "the factory"))
            args = dumps((*reset_args, None), "an argument of reset()") if reuse_key is not None else b""
        self._admitted = ""
        actor.tokens = {*self._put_spots(spots)}
        actor.reset_args = args
        self._hold(actor)
        self._actors[actor_id] = actor
        parked = self._take_parked(reuse_key, request)
        if parked is not None:
            self._reset(parked, actor)
        else:
            self._place(actor)

    def call(self, actor_id: str, method: str, *args: Any) -> None:
        """See `TrialExecutor.call`."""
        actor = self._actors.get(actor_id)
        if actor is None:
            self._require_just_ended(actor_id)
            return
        if actor.phase is not _Phase.IDLE:
            raise RuntimeError(f"actor {actor_id!r} cannot be called now: it is {actor.phase.value}")
        process = actor.process
        if method == "restore" and not self._is_seen(process, args[0]):
            rest = dumps(args[1:], f"an argument of {method}()")
            actor.phase = _Phase.CALLED
            self._carry(actor, args[0], rest)
            return
        payload = dumps(args, f"an argument of {method}()") if args else b""
        actor.phase = _Phase.CALLED
        self._ask(process, lambda answer: self._on_answer(actor, answer), "call", method, payload)

    def stop(self, actor_id: str, grace_s: float, keep: bool = False, dump: bool = False) -> None:
        """See `TrialExecutor.stop`."""
        actor = self._actors.get(actor_id)
        if actor is None or actor.phase is _Phase.STOPPING:
            return
        is_placed = actor.process.here is not None
        actor.phase = _Phase.STOPPING
        actor.shows_stacks = dump
        process = actor.process
        process.cancel_timers()
        if not is_placed:
            actor.why_stopped = "stopped before it had a place in the cluster"
            self._kill(process)
            return
        keeps = keep and actor.reuse_key is not None and not process.is_resetting
        stop_it = process.handle.stop.options(concurrency_group=_CONTROL).remote
        process.timers.append(self._loop.call_later(grace_s, lambda: self._kill_late(process)))
        send = functools.partial(stop_it, keeps, dump)
        self._send(process, send, lambda is_parked: self._on_stopped(actor, is_parked is True))

    def shutdown(self, grace_s: float = 0.0) -> None:
        """See `TrialExecutor.shutdown`. In a process that was forked from the driver, it stops no actor."""
        if not self._finalizer.alive or os.getpid() != self._driver_pid:
            return
        try:
            self._drop_parked()
            for actor_id in list(self._actors):
                self.stop(actor_id, grace_s)
            until_s = self._loop.time() + grace_s + 2.0
            while self._processes and self._loop.time() < until_s:
                self._loop.turn(until_s - self._loop.time())
            for process in self._processes:
                self._end_in_ray(process)
        finally:
            self._finalizer()
            self._told.clear()
            self._actors.clear()
            self._processes.clear()
            for token in self._values:
                shared_values.fetchers.pop(token, None)
            self._values.clear()
            if self._proof is not None:
                with suppress(OSError):
                    os.unlink(self._proof.path)
            if self._is_connected_by_us:
                with signals_kept():
                    self._ray.shutdown()

    # -- requests to a process -----------------------------------------------------------------------------------

    def _ask(self, process: _Process, then: Callable[[Any], object], verb: str, *args: Any) -> None:
        """Send a request to a process. `then` gets the answer, unless the process dies."""
        process.number += 1
        self._send(process, functools.partial(process.ask.remote, process.number, verb, *args), then)

    def _send(self, process: _Process, send: Callable[[], Any], then: Callable[[Any], object]) -> None:
        """Call a method of a Ray actor, and call `then` on the loop with the value. The process's death is handled.

        Args:
            process: The process.
            send: Makes the call, and returns the reference of its value. It may be called several times: see the
                module.
            then: Gets the value.
        """
        loop = self._loop

        def on_loop(future: Any) -> None:
            error = future.exception()
            if error is None:
                then(future.result())
            elif process.is_dead:
                pass
            elif isinstance(error, self._ray.exceptions.RayTaskError):  # our side there has failed, but it lives
                then(Answer(error=RemoteError.of(error)))
            elif isinstance(error, self._ray.exceptions.ActorUnavailableError):
                process.timers.append(loop.call_later(_AGAIN_S, lambda: self._send(process, send, then)))
            else:
                self._on_death(process, error)

        # a thread of Ray's calls this
        send().future().add_done_callback(lambda future: loop.post(functools.partial(on_loop, future)))

    # -- the start of an actor -----------------------------------------------------------------------------------

    def _place(self, actor: _Actor) -> None:
        """Let Ray make a process for an actor."""
        self._make_room(actor.request)
        process = self._new_process(actor.request)
        self._processes.add(process)
        self._serve(process, actor)
        actor.phase = _Phase.WAITING
        process.timers.append(self._loop.call_later(_SLOW_S, lambda: self._tell_slow(actor)))
        proof = self._new_proof()
        process.scratch = proof.scratch
        self._ask(
            process,
            lambda answer: self._on_placed(process, proof, answer),
            "look",
            __version__,
            proof,
            _working_directory(),
            tuple(search_path()),
            list(sys.argv),
        )

    def _make_room(self, request: Resources) -> None:
        """End parked processes, the oldest first, until they and all actors fit into the sum of the nodes."""
        free = self._ledger.free()
        for parked in self._parked.values():
            for process in list(parked):
                held = process.request.required_resources
                lacks = [name for name in request.required_resources if self._parked_amount(name) > free.get(name, 0)]
                if any(name in held for name in lacks):
                    self._end_parked(process)

    def _parked_amount(self, name: str) -> float:
        return sum(
            process.request.required_resources.get(name, 0) for parked in self._parked.values() for process in parked
        )

    def _new_process(self, request: Resources) -> _Process:
        head = request.bundles[0]
        options: dict[str, Any] = {
            "num_cpus": head.get(CPU, 0),
            "num_gpus": head.get(GPU, 0),
            "memory": math.ceil(head.get(MEMORY, 0)) or None,
            "resources": {name: amount for name, amount in head.items() if name not in (CPU, GPU, MEMORY)},
            "max_restarts": 0,
            "max_task_retries": 0,  # `_send` does that, without a message of Ray for each
        }
        group = None
        if len(request.bundles) > 1:
            from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

            kept = [number for number, bundle in enumerate(request.bundles) if bundle]
            labels = {"bundle_label_selector": [request.labels[number] for number in kept]} if request.labels else {}
            bundles = [request.bundles[number] for number in kept]
            group = self._ray.util.placement_group(bundles, strategy=request.strategy, **labels)
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                group,
                placement_group_bundle_index=0 if head else -1,
                placement_group_capture_child_tasks=True,
            )
        elif request.labels:
            options["label_selector"] = request.labels[0]
        return _Process(self._remote.options(**options).remote(), group, request)

    def _serve(self, process: _Process, actor: _Actor) -> None:
        process.actor = actor
        actor.process = process
        actor.phase = _Phase.STARTING

    def _new_proof(self) -> Proof:
        """What the next process has to find in the run's directory."""
        if self._proof is None:
            content = os.urandom(16).hex()
            path = os.path.join(self._directory(), f".node-{self._run_id}")
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
            self._proof = Proof(path, content, "", "")
        number = next(self._answers)
        return self._proof._replace(answer=f"{self._proof.path}-{number}", scratch=f"{self._run_id}-{number}")

    def _on_placed(self, process: _Process, proof: Proof, answer: Any) -> None:
        """A process has its place, and has looked where that is."""
        actor = process.actor
        if actor is None:
            return
        is_stopping = actor.phase is _Phase.STOPPING
        value, error = _opened(answer)
        if error is not None:
            if not is_stopping:
                actor.phase = _Phase.STOPPING
                self._forget_process(process)
                self._kill(process)
                self._end(actor, Exited(actor.actor_id, "refused", error.last_line(), counts=False))
            return
        process.here = here = value
        if here.has_read:
            with suppress(FileNotFoundError):
                os.unlink(proof.answer)
                process.sees_run = True
        if is_stopping:
            return
        process.cancel_timers()
        if actor.actor_id in self._beyond:
            self._refresh()
        self._told.append(Placed(actor.actor_id))
        process.allocation = allocation_of(actor.request, _first_bundle(actor.request, here.gpu_ids), os.environ)
        actor.phase = _Phase.STARTING
        values = self._unsent_values(actor)
        self._ask(
            process,
            lambda answer: self._on_begun(actor, answer),
            "begin",
            self._home(actor),
            values,
            actor.factory,
            process.allocation,
        )

    def _unsent_values(self, actor: _Actor) -> list[tuple[str, Any]]:
        """The references of the values that an actor may need and its process does not know yet."""
        tokens = (self._of_all | actor.tokens) - actor.process.sent
        actor.process.sent |= tokens
        return [(token, self._values[token]) for token in tokens]

    def _home(self, actor: _Actor) -> Home | None:
        if actor.directory is None:
            return None
        return Home(actor.directory, self._outputs(actor.directory), actor.process.sees_run, self._changes_directory)

    def _outputs(self, directory: str) -> tuple[str, str]:
        return (os.path.join(directory, self._output_names[0]), os.path.join(directory, self._output_names[1]))

    def _on_begun(self, actor: _Actor, answer: Any) -> None:
        """An actor's object was made, or its factory has raised."""
        self._take_in(actor, answer, lambda value, error: self._tell_begun(actor, error, reused=False))

    def _tell_begun(self, actor: _Actor, error: RemoteError | None, reused: bool) -> None:
        if actor.phase is not _Phase.STARTING:
            return
        actor.phase = _Phase.IDLE
        if error is not None:
            self._tell_raised(actor, error)
            return
        here = actor.process.here
        assert here is not None
        self._told.append(Started(actor.actor_id, here.pid, here.host, actor.process.allocation, reused))

    def _reset(self, process: _Process, actor: _Actor) -> None:
        """Let a parked process serve another actor."""
        process.cancel_timers()
        self._serve(process, actor)
        process.is_resetting = True
        process.timers.append(self._loop.call_later(self._reset_timeout_s, lambda: self._replace(process)))
        self._told.append(Placed(actor.actor_id))
        self._ask(
            process,
            lambda answer: self._on_reset(process, answer),
            "reset",
            self._home(actor),
            self._unsent_values(actor),
            actor.reset_args,
        )

    def _on_reset(self, process: _Process, answer: Any) -> None:
        """A parked process was reset, or could not be."""
        actor = process.actor
        if actor is None or not process.is_resetting:
            return
        value, error = _opened(answer)
        if error is not None or not value:
            self._replace(process)
            return
        process.is_resetting = False
        process.cancel_timers()
        self._take_in(actor, answer, lambda value, error: self._tell_begun(actor, error, reused=True))

    def _replace(self, process: _Process) -> None:
        """A process could not be reset for its actor, which gets another one."""
        actor = process.actor
        process.actor = None
        process.cancel_timers()
        self._kill(process)
        if actor is not None:
            logger.debug("the process of %s is not used again: it could not be reset", actor.actor_id)
            self._place(actor)

    def _tell_slow(self, actor: _Actor) -> None:
        if actor.phase is not _Phase.WAITING:
            return
        self._drop_parked()  # perhaps one of them holds what this one needs
        if not self._has_told_slow:
            self._has_told_slow = True
            logger.warning(
                "Ray has found no place for a trial (%s) for %g s: %s (said once)",
                amounts_text(actor.request.required_resources),
                _SLOW_S,
                "it waits for the autoscaler" if self._may_grow() else "perhaps others use the cluster",
            )

    # -- answers -------------------------------------------------------------------------------------------------

    def _on_answer(self, actor: _Actor, answer: Any) -> None:
        """A call is answered."""
        if type(answer) is bytes and actor.phase is _Phase.CALLED:  # nearly always
            value, error = _opened(answer)
            self._tell_answer(actor, value, error)
        else:
            self._take_in(actor, answer, functools.partial(self._tell_answer, actor))

    def _tell_answer(self, actor: _Actor, value: Any, error: RemoteError | None) -> None:
        if actor.phase is not _Phase.CALLED:  # it was stopped meanwhile
            return
        actor.phase = _Phase.IDLE
        if error is None:
            self._told.append(CallReturned(actor.actor_id, value))
        else:
            self._tell_raised(actor, error)

    def _tell_raised(self, actor: _Actor, error: RemoteError) -> None:
        self._told.append(CallRaised(actor.actor_id, with_hint(error, actor.directory, self._changes_directory)))

    def _take_in(self, actor: _Actor, answer: Any, then: Callable[[Any, RemoteError | None], object]) -> None:
        """Take what came with an answer: output and checkpoints. Then call `then` with its value and its error."""
        value, error = _opened(answer)
        if not isinstance(answer, Answer):
            then(value, error)
            return
        try:
            self._write_output(actor, answer)
        except OSError as failure:
            then(None, RemoteError.of(failure))
            return
        if answer.has_more:
            rest = answer._replace(output=(b"", b""), has_more=False)
            self._ask(actor.process, lambda more: self._take_rest(actor, rest, more, then), "output")
            return
        self._commit(actor, list(answer.checkpoints), lambda failure: then(value, error or failure))

    def _take_rest(
        self, actor: _Actor, answer: Answer, more: Any, then: Callable[[Any, RemoteError | None], object]
    ) -> None:
        if isinstance(more, Answer):
            answer = answer._replace(output=more.output, has_more=more.has_more)
        self._take_in(actor, answer, then)

    def _write_output(self, actor: _Actor, answer: Answer) -> None:
        """Append output that came with an answer to the actor's files."""
        if actor.directory is None:
            return
        for number, path in enumerate(self._outputs(actor.directory)):
            new = answer.output[number]
            if not new:
                continue
            actor.output_bytes[number] += len(new)
            with open(path, "ab") as file:
                file.write(new)

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def _commit(self, actor: _Actor, numbers: list[int], then: Callable[[RemoteError | None], object]) -> None:
        """Give checkpoints their final names, after their pieces have come if that is necessary; then call `then`."""
        if actor.phase is _Phase.STOPPING:
            return  # nothing of a stopped attempt is committed
        if not numbers or actor.directory is None:
            then(None)
            return
        number, *others = numbers
        attempt = int(actor.actor_id.rpartition("#")[2])

        def go_on(failure: RemoteError | None) -> None:
            if failure is None:
                self._commit(actor, others, then)
            else:
                then(failure)

        try:
            if not actor.process.sees_run:
                temporary = temporary_directory(actor.directory, number, attempt)
                self._fetch(actor, number, temporary, is_first=True, then=go_on)
                return
            prepared = os.path.join(actor.directory, f"{files.TEMPORARY_PREFIX}{number:06d}-{attempt}")
            rename_prepared(prepared, actor.directory, number)
        except OSError as error:
            then(RemoteError.of(error))
            return
        go_on(None)

    def _fetch(
        self, actor: _Actor, number: int, temporary: str, is_first: bool, then: Callable[[RemoteError | None], object]
    ) -> None:
        """Get the next piece of a checkpoint from its node, and so on; at the end, give it its name."""

        def on_piece(answer: Any) -> None:
            piece, error = _opened(answer)
            directory = actor.directory
            assert directory is not None
            if actor.phase is _Phase.STOPPING or error is not None:
                discard_temporary(temporary)
                then(error)
                return
            try:
                if piece is None:
                    rename_prepared(temporary, directory, number)
                    then(None)
                    return
                write_piece([Part(*part) for part in piece], temporary)
            except (OSError, ValueError) as failure:
                refused = files.look_at_disk(directory, failure)  # before the removal, which frees space
                discard_temporary(temporary)
                then(RemoteError.of(refused or failure))
                return
            self._fetch(actor, number, temporary, is_first=False, then=then)

        self._ask(actor.process, on_piece, "piece", number, is_first)

    def _is_seen(self, process: _Process, path: str) -> bool:
        """Whether a process sees a directory of this machine."""
        assert process.here is not None
        if process.here.node_id == self._own_node and process.sees_run:
            return True
        run = os.path.join(os.path.realpath(self._directory()), "")
        return process.sees_run and os.path.realpath(path).startswith(run)

    def _carry(self, actor: _Actor, path: str, rest: bytes) -> None:
        """Send a directory to an actor's node in pieces, and then let the actor restore it."""
        name = os.path.basename(path)
        try:
            require_directory(path)
        except OSError as error:
            self._tell_answer(actor, None, RemoteError.of(error))
            return
        pieces = read_pieces(path)

        def send(is_first: bool) -> None:
            try:
                piece = next(pieces, None)
            except (OSError, ValueError) as error:
                self._tell_answer(actor, None, RemoteError.of(error))
                return
            if piece is None:
                self._ask(actor.process, lambda answer: self._on_answer(actor, answer), "restore", name, rest)
            else:
                self._ask(actor.process, on_sent, "receive", name, piece, is_first)

        def on_sent(answer: Any) -> None:
            error = _opened(answer)[1]
            if actor.phase is not _Phase.CALLED:
                return
            if error is None:
                send(is_first=False)
            else:
                self._tell_answer(actor, None, error)

        send(is_first=True)

    # -- the end of an actor -------------------------------------------------------------------------------------

    def _on_stopped(self, actor: _Actor, is_parked: bool) -> None:
        """The object of an actor was stopped or parked."""
        process = actor.process
        if process.actor is not actor or process.is_dead:
            return
        if process.sees_run or actor.directory is None:
            self._let_go(actor, is_parked)
            return

        def on_output(answer: Any) -> None:
            if not isinstance(answer, Answer):
                self._let_go(actor, is_parked)
                return
            with suppress(OSError):
                self._write_output(actor, answer)
            if answer.has_more:
                self._ask(process, on_output, "output")
            else:
                self._let_go(actor, is_parked)

        self._ask(process, on_output, "output")

    def _let_go(self, actor: _Actor, is_parked: bool) -> None:
        """Park the process of a stopped actor, or end it."""
        process = actor.process
        if process.actor is not actor or process.is_dead:
            return
        if is_parked and self._has_place_for_parked():
            process.cancel_timers()
            process.actor = None
            following = self._waits_for(actor)
            if following is not None:
                self._end(actor, Exited(actor.actor_id, "parked"))
                following.process.actor = None
                self._kill(following.process)
                self._reset(process, following)
                return
            process.timers.append(self._loop.call_later(_PARKED_S, lambda: self._end_parked(process)))
            self._park(actor.reuse_key, actor.request, process)
            self._end(actor, Exited(actor.actor_id, "parked"))
        elif process.sees_run or actor.directory is None:
            self._kill(process)
        else:
            self._ask(process, lambda answer: self._kill(process), "leave")

    def _waits_for(self, actor: _Actor) -> _Actor | None:
        """An actor that waits for its place and could use this one's process."""
        for other in self._actors.values():
            if other.phase is _Phase.WAITING and (other.reuse_key, other.request) == (actor.reuse_key, actor.request):
                return other
        return None

    def _end_parked(self, process: _Process) -> None:
        process.cancel_timers()
        self._forget_process(process)
        self._ask(process, lambda answer: self._kill(process), "leave")

    def _drop_parked(self) -> None:
        """End all parked processes."""
        for parked in self._parked.values():
            for process in list(parked):
                self._end_parked(process)

    def _forget_process(self, process: _Process) -> None:
        """The process serves no actor any more, and is not parked."""
        process.actor = None
        for parked in self._parked.values():
            if process in parked:
                parked.remove(process)

    def _kill_late(self, process: _Process) -> None:
        if process.actor is not None:
            process.actor.why_stopped = "killed, because it did not stop within its grace period"
        self._kill(process)

    def _kill(self, process: _Process) -> None:
        """Let Ray kill a process. Its death comes as the answer to a last request."""
        if process.is_dead:
            return
        process.cancel_timers()
        self._end_in_ray(process)
        slow = TimeoutError(f"Ray has not killed it within {KILL_CONFIRM_S:g} s")
        process.timers.append(self._loop.call_later(KILL_CONFIRM_S, lambda: self._on_death(process, slow)))
        self._ask(process, lambda answer: None, "output")

    def _end_in_ray(self, process: _Process) -> None:
        """Give a process and its placement group back to Ray."""
        with suppress(Exception):  # the cluster may be gone
            self._ray.kill(process.handle, no_restart=True)
        if process.group is not None:
            with suppress(Exception):
                self._ray.util.remove_placement_group(process.group)

    def _on_death(self, process: _Process, error: BaseException) -> None:
        """A process is dead, says Ray."""
        if process.is_dead:
            return
        process.is_dead = True
        process.cancel_timers()
        self._processes.discard(process)
        actor = process.actor
        self._forget_process(process)
        if process.group is not None:
            self._end_in_ray(process)
        if actor is None:
            return
        if process.is_resetting and actor.phase is not _Phase.STOPPING:
            self._place(actor)
            return
        has_output = process.here is not None and not process.sees_run and actor.directory is not None
        if not has_output or not self._is_alive(process):
            self._end(actor, self._exited(actor, process, error))
            return

        def on_output(future: Any) -> None:
            if actor.actor_id not in self._actors:
                return  # it took too long
            if future is not None and future.exception() is None:
                with suppress(OSError):
                    self._write_output(actor, Answer(output=future.result()))
            self._end(actor, self._exited(actor, process, error))

        affinity = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        where = affinity(process.here.node_id, soft=False) if process.here is not None else None
        task = self._ray.remote(collect).options(num_cpus=0, max_retries=0, scheduling_strategy=where)
        future = task.remote(process.scratch, tuple(actor.output_bytes)).future()
        future.add_done_callback(lambda future: self._loop.post(functools.partial(on_output, future)))
        self._loop.call_later(_COLLECT_S, lambda: on_output(None))

    def _is_alive(self, process: _Process) -> bool:
        """Whether the node of a process is alive, says Ray."""
        return process.here is not None and any(node["NodeID"] == process.here.node_id for node in self.nodes())

    def _exited(self, actor: _Actor, process: _Process, error: BaseException) -> Exited:
        pid = process.here.pid if process.here is not None else 0
        lines = ""
        if actor.directory is not None and (actor.shows_stacks or actor.phase is not _Phase.STOPPING):
            stdout, stderr = self._outputs(actor.directory)
            lines = last_lines(Place(None, stdout, stderr), DUMP_LINES if actor.shows_stacks else LAST_LINES)
        if actor.phase is _Phase.STOPPING:
            return Exited(actor.actor_id, "stopped", actor.why_stopped, last_lines=lines, pid=pid)
        if process.here is None:
            return Exited(actor.actor_id, "refused", f"no place in the cluster: {in_words(error)}", counts=False)
        if getattr(error, "preempted", False) or not self._is_alive(process):
            self._refresh()
            cause = f"the node {process.here.host} ({process.here.ip}) is gone"
            return Exited(actor.actor_id, "lost", cause, last_lines=lines, counts=False, pid=pid)
        return Exited(actor.actor_id, "died", in_words(error), last_lines=lines, pid=pid)

    def _end(self, actor: _Actor, exited: Exited) -> None:
        """Report the end of an actor."""
        del self._actors[actor.actor_id]
        self._beyond.pop(actor.actor_id, None)
        if actor.actor_id in self._holders:
            self._holders.discard(actor.actor_id)
            self._ledger.release(actor.actor_id)
            for other in list(self._beyond.values()):
                self._hold(other)
        self._told.append(exited)


def _opened(answer: Any) -> tuple[Any, RemoteError | None]:
    """The value and the error of an answer."""
    import pickle

    payload = answer
    if isinstance(answer, Answer):
        if answer.error is not None:
            return None, answer.error
        payload = answer.payload
    if not payload:
        return None, None
    try:
        return pickle.loads(payload), None
    except (Exception, SystemExit) as error:
        broken = TypeError(f"the value that an actor returned cannot be loaded here: {error!r}")
        broken.__cause__ = error
        return None, RemoteError.of(broken)


def _working_directory() -> str:
    """The driver's working directory; empty if it has been removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _first_bundle(request: Resources, gpu_ids: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The devices of each bundle: a trial runs in its first bundle, and sees only the devices of that."""
    if not gpu_ids and not request.required_resources.get(GPU, 0):
        return ()
    return (gpu_ids, *[()] * (len(request.bundles) - 1))
