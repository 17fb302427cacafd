"""RayTrialExecutor: each actor in a process of its own on some node of a Ray cluster.

minitune stays the engine. Ray chooses the node of a trial and reserves its resources. For each worker there is one Ray
actor, the *relay*, which holds the resources and starts our own worker on its node (`minitune.actor.relay`). Driver and
worker talk over a connection of the relay, not through Ray. So a report costs the driver the same as without Ray, and
the end of a worker (exit code, output, grace period, kill of its tree) is the same as on one machine.

The driver does not poll Ray. A relay has one method, which runs as long as the relay lives. The future of that call is
done when the relay has ended, and has the cause if the driver has not ended it.

A relay outlives its worker for a short time: the next trial with the same request finds it, and its resources, ready.

Values that are stored once (`share`) lie in a file in a directory that all nodes reach. Workers map it, so a node has
one copy of a large array in memory, in its page cache. Ray's object store would not save that file: only Ray's own
processes can map what is in it, and a worker is a process of ours.

The books here (`ClusterLedger`) tell the controller whether Ray should have room for a trial. They are an estimate,
because others may use the cluster, too. If Ray has no room after all, the trial waits in Ray's queue.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import logging
import math
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from minitune._version import __version__
from minitune.actor.launcher import new_run_id
from minitune.actor.loop import Loop, Timer
from minitune.actor.messages import CLOSE_S, Exited, NotReset, Place, Started
from minitune.actor.process import ActorProcess
from minitune.actor.relay import Greeting, Link, RelayLauncher, RelayListener
from minitune.base.files import search_path
from minitune.base.pickling import dumps
from minitune.base.shared_values import SharedFile, ValueFile
from minitune.error import TuneError
from minitune.execution.devices import Machine
from minitune.execution.ledger import Ledger, allocation_of
from minitune.execution.local import Actor, ProcessExecutor
from minitune.resources import CPU, GPU, MEMORY, Allocation, Resources
from minitune.result import NODE_IP_VARIABLE

logger = logging.getLogger("minitune")

_IDLE_S = 2.0
"""How long a relay without a worker keeps its place in the cluster."""
_SLOW_S = 30.0
"""If a trial has no place for this long, a warning says so."""
_REFRESH_S = 10.0
"""How long the list of nodes is used before the cluster's head is asked again, if a trial finds no room."""
_CHECK_S = 300.0
"""How long the nodes may take to show that they reach the directory of the run. Each starts a process for that, and
prepares the `runtime_env` if there is one, which takes long on a busy node."""
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The directory that contains this package."""
_SHARED = "shared"
"""Directory in that of the run, for values that are stored once."""
_HIDDEN = ("node:", "object_store_memory")
"""Prefixes of the names of internal resources of nodes, which are not shown."""


# -- on the nodes ------------------------------------------------------------------------------------------------------
def _relay_class() -> type:
    """The class of the Ray actors that are relays, each for one worker at a time.

    The class is made here so that Ray pickles it by value. A node without minitune on its path tries the path that the
    driver has, which works if the nodes share that directory.
    """

    class Relay:
        def serve(self, root: str, version: str, directory: str, name: str, *args: Any) -> None:
            import os
            import socket
            import sys

            import ray

            try:
                from minitune._version import __version__ as found
            except ImportError:
                sys.path.append(root)
                from minitune._version import __version__ as found
            if found != version:
                raise ImportError(f"minitune {found} is installed there, but the driver has {version}")
            from minitune.actor.relay import Greeting, serve

            if os.path.isdir(directory):
                os.chdir(directory)
            gpu_ids = ",".join(map(str, ray.get_gpu_ids()))
            facts = {"ip": ray.util.get_node_ip_address(), "gpus": gpu_ids}
            serve(Greeting(name, socket.gethostname(), facts), *args)

    return Relay


def _look_at(path: str, content: str, own: str) -> str:
    """On a node: read the driver's file and write another one. Returns the reason if that fails, otherwise empty."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() != content:
                return f"{path} holds something else there"
        with open(own, "w", encoding="utf-8") as file:
            file.write(content)
    except OSError as error:
        return str(error)
    return ""


# -- the books ---------------------------------------------------------------------------------------------------------
class ClusterLedger:
    """Counts what actors hold on the nodes of a cluster: a `Ledger` for each node. See `Ledger` for the methods.

    All bundles of a request go to one node if they fit there. Else each bundle goes to a node that has room for it, or
    to a node of its own (`STRICT_SPREAD`); `STRICT_PACK` is never spread.

    Args:
        nodes: Amounts by name for each node, by id.
    """

    def __init__(self, nodes: Mapping[str, Mapping[str, float]]):
        self._nodes: dict[str, Ledger] = {}
        self._places: dict[str, list[tuple[Ledger, str]]] = {}
        self.update(nodes)

    def update(self, nodes: Mapping[str, Mapping[str, float]]) -> None:
        """Update the set of nodes. Holdings on a node that is gone are dropped."""
        for node in [node for node in self._nodes if node not in nodes]:
            gone = self._nodes.pop(node)
            for places in self._places.values():
                places[:] = [place for place in places if place[0] is not gone]
        for node, totals in nodes.items():
            if node not in self._nodes:
                gpu_ids = [f"{node}/{number}" for number in range(int(totals.get(GPU, 0)))]
                self._nodes[node] = Ledger(totals, gpu_ids)

    def totals(self) -> dict[str, float]:
        """See `Ledger.totals`."""
        return _sum(ledger.totals() for ledger in self._nodes.values())

    def free(self) -> dict[str, float]:
        """See `Ledger.free`."""
        return _sum(ledger.free() for ledger in self._nodes.values())

    def can_acquire(self, request: Resources, waiter: str | None = None, gpu_ids: Sequence[str] | None = None) -> bool:
        """See `Ledger.can_acquire`. `gpu_ids` are as in an allocation of this object."""
        able = self._able(request)
        if not able:
            if self._spread(request, [ledger.totals() for ledger in self._nodes.values()]) is None:
                raise TuneError(self._why_never(request))
            return self._spread(request, [ledger.free() for ledger in self._nodes.values()]) is not None
        if gpu_ids:
            return any(ledger.can_acquire(request, waiter, gpu_ids) for ledger in able if ledger is self._of(gpu_ids))
        found = [ledger.can_acquire(request, waiter) for ledger in able]  # all: it waits for each that has no room
        return any(found)

    def forget(self, waiter: str) -> None:
        """See `Ledger.forget`."""
        for ledger in self._nodes.values():
            ledger.forget(waiter)

    def acquire(self, holder: str, request: Resources, gpu_ids: Sequence[str] | None = None) -> Allocation:
        """See `Ledger.acquire`."""
        if holder in self._places:
            raise RuntimeError(f"{holder!r} already holds resources; release them first")
        able = self._able(request)
        for ledger in able:
            if (not gpu_ids or ledger is self._of(gpu_ids)) and ledger.can_acquire(request, None, gpu_ids):
                allocation = ledger.acquire(holder, request, gpu_ids)
                self._places[holder] = [(ledger, holder)]
                self.forget(holder.rpartition("#")[0])
                return allocation
        ledgers = list(self._nodes.values())
        spread = None if able else self._spread(request, [ledger.free() for ledger in ledgers])
        if spread is None:
            raise RuntimeError(f"there is no room for {request!r}, free: {self.free()}; ask can_acquire first")
        places: list[tuple[Ledger, str]] = []
        placement = []
        for number, (bundle, index) in enumerate(zip(request.bundles, spread, strict=True)):
            part = f"{holder}/{number}"
            placement.append(ledgers[index].acquire(part, Resources([bundle])).gpu_ids)
            places.append((ledgers[index], part))
        self._places[holder] = places
        return allocation_of(request, tuple(placement) if any(placement) else (), os.environ)

    def release(self, holder: str) -> None:
        """See `Ledger.release`."""
        for ledger, part in self._places.pop(holder, []):
            ledger.release(part)

    def write_off(self, holder: str) -> None:
        """See `Ledger.write_off`."""
        for ledger, part in self._places.pop(holder, []):
            ledger.write_off(part)

    def _of(self, gpu_ids: Sequence[str]) -> Ledger | None:
        return self._nodes.get(gpu_ids[0].rpartition("/")[0])

    def _able(self, request: Resources) -> list[Ledger]:
        """The ledgers of the nodes that could ever meet the whole request."""
        if request.strategy == "STRICT_SPREAD" and len(request.bundles) > 1:
            return []
        able = []
        for ledger in self._nodes.values():
            with suppress(TuneError):
                ledger.check(request)
                able.append(ledger)
        return able

    @staticmethod
    def _spread(request: Resources, rooms: list[dict[str, float]]) -> list[int] | None:
        """The index of a node for each bundle; None if there is no solution. The largest bundles choose first."""
        if request.strategy == "STRICT_PACK":
            return None
        chosen: dict[int, int] = {}
        order = sorted(range(len(request.bundles)), key=lambda number: -sum(request.bundles[number].values()))
        for number in order:
            bundle = request.bundles[number]
            for index, room in enumerate(rooms):
                is_taken = request.strategy == "STRICT_SPREAD" and bundle and index in chosen.values()
                if not is_taken and all(room.get(name, 0) >= amount - 1e-9 for name, amount in bundle.items()):
                    for name, amount in bundle.items():
                        room[name] -= amount
                    chosen[number] = index
                    break
            else:
                return None
        return [chosen[number] for number in range(len(request.bundles))]

    def _why_never(self, request: Resources) -> str:
        bundles = request.bundles[0] if len(request.bundles) == 1 else request.bundles
        nodes = "; ".join(_shown(ledger.totals()) for ledger in self._nodes.values())
        return (
            f"the request {bundles} ({request.strategy}) can never be met: no node, or no set of nodes, of the Ray "
            f"cluster has as much. The nodes have {nodes or 'gone'}. Ask for less, or add nodes to the cluster"
        )


def _sum(amounts: Any) -> dict[str, float]:
    total: dict[str, float] = {}
    for each in amounts:
        for name, amount in each.items():
            if not name.startswith(_HIDDEN):
                total[name] = total.get(name, 0.0) + amount
    return total


def _shown(amounts: Mapping[str, float]) -> str:
    texts = [f"{name}: {amount:g}" for name, amount in amounts.items() if not name.startswith(_HIDDEN)]
    return "{" + ", ".join(texts) + "}"


# -- the cluster -------------------------------------------------------------------------------------------------------
class _Place(RelayLauncher):
    """A relay with its resources in the cluster: a launcher for one worker after the other.

    Args:
        name: The name in its greeting.
        request: The resources that it holds.
        loop: The driver's loop.
        on_free: See `RelayLauncher`.

    Attributes:
        on_ready: Called once, when it has connected or is lost: the actor that waits for it.
        handle: The Ray actor.
        group: Its placement group, if the request has several bundles.
        ended: Done when the Ray actor has ended.
        timer: Warns that it has found no place, or ends it because it is idle.
    """

    def __init__(self, name: str, request: Resources, loop: Loop, on_free: Callable[[RelayLauncher], object]):
        super().__init__(loop, on_free)
        self.name, self.request = name, request
        self.on_ready: Callable[[], object] | None = None
        self.handle: Any = None
        self.group: Any = None
        self.ended: concurrent.futures.Future[Any]
        self.timer: Timer | None = None

    def tell_ready(self) -> bool:
        """Call `on_ready`; False if no actor waits."""
        on_ready, self.on_ready = self.on_ready, None
        if on_ready is not None:
            on_ready()
        return on_ready is not None


class _Cluster:
    """The connection to a cluster, the relays there, and their resources.

    Args:
        loop: The driver's loop.
        address: Address of a running cluster. None: the cluster that `RAY_ADDRESS` names or that Ray finds, else a new
            local one.
        machine: The resources of a new local cluster.
        keep_descendants: See `make_launcher`.
        needed: See `make_launcher`.

    Raises:
        ImportError: If Ray is not installed.
        ConnectionError: If there is no cluster at the address.
    """

    def __init__(
        self, loop: Loop, address: str | None, machine: Machine | None, keep_descendants: bool, needed: Sequence[str]
    ):
        try:
            import ray
        except ImportError as error:
            raise ImportError(
                "executor='ray' needs Ray, which is not installed: pip install 'minitune[ray]'"
            ) from error
        self.ray = ray
        self._loop, self._keep_descendants, self._needed = loop, keep_descendants, list(needed)
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            _connect(ray, address, machine)
        self.node = ray.get_runtime_context().get_node_id()
        self.books = ClusterLedger(self.nodes())
        self._held = ClusterLedger(self.nodes())
        self._listener = RelayListener(loop, ray.util.get_node_ip_address(), self._on_relay)
        self._remote = ray.remote(_relay_class())
        self._numbers = itertools.count(1)
        self._preloads: list[bytes] = []
        self._run_id = new_run_id()
        self._directory = os.getcwd()
        self._places: dict[str, _Place] = {}
        self._leaving: dict[str, _Place] = {}
        self._has_told_slow = False
        self._idle: dict[Resources, list[_Place]] = {}
        self._is_closed = False

    def nodes(self) -> dict[str, dict[str, float]]:
        """The resources of each living node, by its id. Asks the cluster's head, so it may block for a short time."""
        return {node["NodeID"]: dict(node["Resources"]) for node in self.ray.nodes() if node["Alive"]}

    def refresh(self) -> None:
        """Update the books to the nodes that the cluster has now."""
        nodes = self.nodes()
        self.books.update(nodes)
        self._held.update(nodes)

    # -- relays ------------------------------------------------------------------------------------------------

    def preload(self, action: bytes) -> None:
        """See `Launcher.preload`. All relays perform the action, also later ones."""
        self._preloads.append(action)
        for place in self._places.values():
            place.preload(action)

    def take(self, request: Resources, drop_parked: Callable[[], bool]) -> _Place:
        """Return a relay for this request: an idle one, or a new one, for which Ray has to find a place.

        Args:
            request: The resources that it must hold.
            drop_parked: Stops one worker that is kept for reuse; returns whether there was one.
        """
        idle = self._idle.get(request)
        while idle:
            place = idle[-1]
            self.hold(place)
            if not place.is_lost:
                return place
        while not self._has_room(request):
            others = next((places for places in self._idle.values() if places), None)
            if others:
                self._let_go(others.pop(0))
            elif not drop_parked():
                break  # relays that end still hold what this one needs, so it waits in Ray's queue
        return self._new(request)

    def hold(self, place: _Place) -> None:
        """Remove a relay from the idle ones, if it is one of them, and stop its timer."""
        idle = self._idle.get(place.request, [])
        if place in idle:
            idle.remove(place)
        if place.timer is not None:
            place.timer.cancel()

    def _has_room(self, request: Resources) -> bool:
        try:
            return self._held.can_acquire(request)
        except TuneError:  # no node that is known has as much; Ray may know one
            return True

    def _new(self, request: Resources) -> _Place:
        place = _Place(f"{self._run_id}-{next(self._numbers)}", request, self._loop, self._on_free)
        with suppress(RuntimeError, TuneError):  # for these books there is no room, but Ray decides
            self._held.acquire(place.name, request)
        head = request.bundles[0]
        options: dict[str, Any] = {
            "num_cpus": head.get(CPU, 0),
            "num_gpus": head.get(GPU, 0),
            "memory": math.ceil(head.get(MEMORY, 0)) or None,
            "resources": {name: amount for name, amount in head.items() if name not in (CPU, GPU, MEMORY)},
            "max_restarts": 0,
            "max_task_retries": 0,
        }
        if len(request.bundles) > 1:
            from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

            bundles = [bundle for bundle in request.bundles if bundle]
            place.group = self.ray.util.placement_group(bundles, strategy=request.strategy, name=place.name)
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                place.group, placement_group_bundle_index=0 if head else -1
            )
        place.handle = self._remote.options(**options).remote()
        ref = place.handle.serve.remote(
            _ROOT,
            __version__,
            self._directory,
            place.name,
            self._listener.address,
            self._listener.secret,
            self._keep_descendants,
            self._needed,
            search_path(),
        )
        for action in self._preloads:
            place.preload(action)
        place.ended = ref.future()
        loop = self._loop
        place.ended.add_done_callback(lambda ended: loop.post(lambda: self._on_ended(place)))
        place.timer = loop.call_later(_SLOW_S, lambda: self._tell_slow(place))
        self._places[place.name] = place
        return place

    def _tell_slow(self, place: _Place) -> None:
        if not self._has_told_slow:
            self._has_told_slow = True
            logger.warning(
                "Ray has found no place for a trial (%s) for %g s: perhaps others use the cluster (said once)",
                _shown(place.request.required_resources),
                _SLOW_S,
            )

    def _on_relay(self, greeting: Greeting, link: Link) -> bool:
        """A relay has connected."""
        place = self._places.get(greeting.name)
        if place is None or place.is_lost:
            return False
        place.attach(greeting, link)
        if place.timer is not None:
            place.timer.cancel()
        if not place.tell_ready():
            self._on_free(place)
        return True

    def _on_ended(self, place: _Place) -> None:
        """Ray says that a relay has ended."""
        if self._leaving.pop(place.name, None) is not None:
            self._end(place)
            place.close()
        elif place.name in self._places:
            error = place.ended.exception()
            place.lose("it has ended" if error is None else _in_words(error), is_certain=True)

    def _on_free(self, launcher: RelayLauncher) -> None:
        """A relay has no worker any more."""
        place = self._places.get(getattr(launcher, "name", ""))
        if place is None:
            return
        if place.is_lost:
            self._remove(place)
            place.tell_ready()
            self.refresh()
            return
        self._idle.setdefault(place.request, []).append(place)
        place.timer = self._loop.call_later(_IDLE_S, lambda: self._let_go(place))

    def drop(self, place: _Place) -> None:
        """End a relay that has not connected yet and is no longer needed."""
        place.on_ready = None
        self._remove(place)

    def _let_go(self, place: _Place) -> None:
        """End an idle relay."""
        self.hold(place)
        place.leave()
        self._forget(place)
        self._leaving[place.name] = place

    def _remove(self, place: _Place) -> None:
        """Forget a relay and kill its actor."""
        self._forget(place)
        self._end(place)
        place.close()

    def _forget(self, place: _Place) -> None:
        if place.timer is not None:
            place.timer.cancel()
        self._places.pop(place.name, None)
        self._held.release(place.name)

    def _end(self, place: _Place) -> None:
        """Give a relay's actor and placement group back to Ray. From any thread."""
        with suppress(Exception):  # the cluster may be gone
            self.ray.kill(place.handle, no_restart=True)
        if place.group is not None:
            with suppress(Exception):
                self.ray.util.remove_placement_group(place.group)

    def close(self) -> None:
        """End all relays, and the connection if it is ours. Blocks for `CLOSE_S` at most, and for Ray's own end."""
        if self._is_closed:
            return
        self._is_closed = True
        places = [*self._places.values(), *self._leaving.values()]
        for place in places:
            place.leave()
        connected = [place.ended for place in places if place.greeting is not None]
        concurrent.futures.wait(connected, CLOSE_S)
        for place in places:
            self._end(place)
            place.close()
        self._places.clear()
        self._leaving.clear()
        self._idle.clear()
        self._listener.close()
        if self._is_ours:
            with _signals_kept():
                self.ray.shutdown()

    # -- the shared directory ------------------------------------------------------------------------------------

    def check_directory(self, directory: str) -> None:
        """Make each node read a file in a directory and write one there. Blocks until all have answered.

        Raises:
            TuneError: If a node cannot do that. The text says what to do.
        """
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        others = [node for node in self.ray.nodes() if node["Alive"] and node["NodeID"] != self.node]
        if not others:
            return
        name, content = f".nodes-{self._run_id}", os.urandom(16).hex()
        path = os.path.join(directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        own = {node["NodeID"]: f"{path}-{number}" for number, node in enumerate(others)}
        look = self.ray.remote(_look_at)
        answers = [
            look.options(
                num_cpus=0,
                max_retries=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
            ).remote(path, content, own[node["NodeID"]])
            for node in others
        ]
        problems = []
        try:
            self.ray.wait(answers, num_returns=len(answers), timeout=_CHECK_S)
            alive = self.nodes()
            for node, answer in zip(others, answers, strict=True):
                if node["NodeID"] not in alive:  # it has died meanwhile
                    continue
                problem = self._answer(answer) or _differs(own[node["NodeID"]], content)
                if problem:
                    problems.append(f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}): {problem}")
        finally:
            for left in (path, *own.values()):
                with suppress(OSError):
                    os.unlink(left)
        if problems:
            raise TuneError(
                f"every node of the Ray cluster must reach {directory}, where results and checkpoints go, but not all "
                f"do: {'; '.join(problems)}. Mount one file system (NFS, for example) at the same path on all nodes, "
                "and set RunConfig(storage_path=...) to a directory there"
            )

    def _answer(self, answer: Any) -> str:
        try:
            return str(self.ray.get(answer, timeout=0))
        except self.ray.exceptions.TaskUnschedulableError:  # the node is dead, which is not known everywhere yet
            return ""
        except self.ray.exceptions.GetTimeoutError:
            return f"it has not answered within {_CHECK_S:g} s (is it too busy to start a process?)"
        except Exception as error:
            return _in_words(error)


def _differs(path: str, content: str) -> str:
    """The reason why the file of a node is not as it should be; empty if it is."""
    try:
        with open(path, encoding="utf-8") as file:
            return "" if file.read() == content else "what it writes there arrives changed"
    except OSError:
        return "it writes into a directory of its own: what it writes there is not seen here"


def _in_words(error: BaseException) -> str:
    """Ray's error in one line, without stacks."""
    lines = [line.strip() for line in str(error).splitlines()]
    kept = [line for line in lines if line and not line.startswith(("File ", "^", "Traceback"))]
    return f"{type(error).__name__}: {' '.join(kept)}"[:600]


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Restore the handler of SIGTERM, which Ray replaces."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _connect(ray: Any, address: str | None, machine: Machine | None) -> None:
    """Connect to a cluster. If no address is given and none runs here, start one on this machine."""
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    with _signals_kept():
        try:
            ray.init(address=address or "auto", **quiet)
            return
        except ConnectionError as error:
            if address is not None or os.environ.get("RAY_ADDRESS"):
                raise ConnectionError(
                    f"{error}. Check that the cluster runs and that this is its address. If `ray start` has said that "
                    "token authentication is enabled, set RAY_AUTH_MODE=token"
                ) from error
        totals = dict(machine.totals) if machine is not None else {}
        memory = totals.pop(MEMORY, None)
        cpus, gpus = totals.pop(CPU, None), totals.pop(GPU, None)
        logger.info("there is no Ray cluster to connect to: one is started on this machine for this run")
        ray.init(
            address="local",
            num_cpus=None if cpus is None else int(cpus),
            num_gpus=None if gpus is None else int(gpus),
            resources=totals or None,
            _memory=None if memory is None else int(memory),
            include_dashboard=False,
            **quiet,
        )


# -- the executor ------------------------------------------------------------------------------------------------------
class RayTrialExecutor(ProcessExecutor):
    """Runs actors as processes on the nodes of a Ray cluster.

    Args:
        directory: See `ProcessExecutor`; all nodes must reach it.
        address: Of a running cluster, such as `10.0.0.1:6379`. None takes the connection that this process has, else
            the cluster that `RAY_ADDRESS` names or that runs on this machine, else starts one on this machine.
        machine: The resources of a cluster that is started here.
        output_names: See `ProcessExecutor`.
        changes_directory: See `ProcessExecutor`.
        keep_descendants: See `LocalTrialExecutor`.
        needed: See `LocalTrialExecutor`.
        preload: Load shared values once per relay, where its workers are copied from; else each worker loads them.

    Raises:
        ImportError: If Ray is not installed.
        ConnectionError: If there is no cluster at the address.
    """

    def __init__(
        self,
        *,
        directory: Callable[[], str],
        address: str | None = None,
        machine: Machine | None = None,
        output_names: tuple[str, str] = ("stdout", "stderr"),
        changes_directory: bool = True,
        keep_descendants: bool = False,
        needed: Sequence[str] = (),
        preload: bool = True,
    ):
        self._preloads = preload
        loop = Loop()
        try:
            self._cluster = _Cluster(loop, address, machine, keep_descendants, needed)
        except BaseException:
            loop.close()
            raise
        # By actor whose relay has not connected yet: the process that it replaces, if any, and its pickled factory.
        self._waiting: dict[str, NotReset | None] = {}
        self._packed: dict[str, bytes] = {}
        self._is_checked = False
        self._refresh_s = 0.0
        super().__init__(
            self._cluster.books,
            loop,
            self._cluster.close,
            directory=directory,
            output_names=output_names,
            changes_directory=changes_directory,
            parked_limit=max(1, int(self._cluster.books.totals().get(CPU, 1))),
        )

    def share(self, value: Any) -> SharedFile:
        """See `TrialExecutor.share`. All nodes must reach the directory.

        Raises:
            TuneError: If one does not.
        """
        if not self._is_checked:
            self._cluster.check_directory(self._directory())
            shutil.rmtree(os.path.join(self._directory(), _SHARED), ignore_errors=True)  # of a driver that was killed
            self._is_checked = True
        handle = super().share(value)
        if self._preloads:
            self._cluster.preload(dumps(handle.preload, "the handle"))
        return handle

    def can_start(self, request: Resources, waiter: str | None = None) -> bool:
        """See `TrialExecutor.can_start`. Before it returns False it looks for new nodes, every `_REFRESH_S` at most."""
        if self._loop.time() < self._refresh_s:
            return super().can_start(request, waiter)
        with suppress(TuneError):
            if super().can_start(request, waiter):
                return True
        self._refresh_s = self._loop.time() + _REFRESH_S
        self._cluster.refresh()
        return super().can_start(request, waiter)

    def call(self, actor_id: str, method: str, *args: Any) -> None:
        """See `TrialExecutor.call`."""
        instead = self._waiting.get(actor_id)
        if instead is not None and instead.is_told and instead.call is None:  # the caller has seen Started already
            payload = dumps(args, f"an argument of {method}()") if args else b""
            self._waiting[actor_id] = instead._replace(call=(method, payload))
        else:
            super().call(actor_id, method, *args)

    def stop(self, actor_id: str, grace_s: float, keep: bool = False, dump: bool = False) -> Exited | None:
        """See `TrialExecutor.stop`."""
        if actor_id not in self._waiting:
            return super().stop(actor_id, grace_s, keep, dump)
        del self._waiting[actor_id]
        self._packed.pop(actor_id, None)
        self._cluster.drop(_place_of(self._actors[actor_id]))
        self._told.append(Exited(actor_id, "stopped", "stopped before it had a place in the cluster"))
        return None

    # -- processes -----------------------------------------------------------------------------------------------

    def _new_file(self) -> ValueFile:
        return ValueFile(
            os.path.join(self._directory(), _SHARED), "choose a storage_path with more space", has_name=True
        )

    def _new_process(self, request: Resources, instead: ActorProcess | None = None) -> ActorProcess:
        old = instead.launcher if instead is not None else None
        if isinstance(old, _Place) and not old.is_lost:
            place = old
            self._cluster.hold(place)  # its last worker may be gone by now
        else:
            place = self._cluster.take(request, self._drop_parked)
        return ActorProcess(self._loop, place, self._told.append, self._processes, place)

    def _start_process(self, actor: Actor, instead: NotReset | None = None) -> None:
        """Start a process as soon as its relay has connected."""
        place = _place_of(actor)
        if place.greeting is not None:
            self._tell_allocation(actor)
            super()._start_process(actor, instead)
            return
        self._packed[actor.actor_id] = super()._pack(actor)  # now: if that fails, the caller must get the error
        self._waiting[actor.actor_id] = instead
        place.on_ready = lambda: self._go_on(actor)

    def _go_on(self, actor: Actor) -> None:
        """The relay has connected, or is lost."""
        instead = self._waiting.pop(actor.actor_id)
        place = _place_of(actor)
        if place.greeting is not None:
            self._tell_allocation(actor)
            super()._start_process(actor, instead)
        else:
            self._packed.pop(actor.actor_id, None)
            self._told.append(
                Exited(actor.actor_id, "refused", f"no place in the cluster: {place.cause}", counts=False)
            )

    def _pack(self, actor: Actor) -> bytes:
        packed = self._packed.pop(actor.actor_id, None)
        if packed is None or actor.allocation is not actor.reserved:
            actor.remove_file()
            packed = super()._pack(actor)
        return packed

    def _tell_allocation(self, actor: Actor) -> None:
        """Give an actor the devices that Ray has given to its relay: those of the first bundle."""
        if actor.request.required_resources.get(GPU, 0):
            first = tuple(filter(None, _greeting_of(actor).facts["gpus"].split(",")))
            placement = (first, *[()] * (len(actor.request.bundles) - 1))
            actor.allocation = allocation_of(actor.request, placement, os.environ)

    def _place(self, actor: Actor) -> Place:
        place = super()._place(actor)
        return place._replace(env={**place.env, NODE_IP_VARIABLE: _greeting_of(actor).facts["ip"]})

    def _started(self, actor: Actor) -> Started:
        return super()._started(actor)._replace(host=_greeting_of(actor).host)

    def _take_over(self, actor: Actor, parked: Actor, reset_args: tuple[Any, ...]) -> bool:
        self._tell_allocation(actor)
        return super()._take_over(actor, parked, reset_args)


def _place_of(actor: Actor) -> _Place:
    place = actor.process.launcher
    assert isinstance(place, _Place)
    return place


def _greeting_of(actor: Actor) -> Greeting:
    """The greeting of an actor's relay, which has connected."""
    greeting = _place_of(actor).greeting
    assert greeting is not None
    return greeting
