"""What Ray says about a cluster: the connection to it, its nodes, and the room that they have for a run."""

from __future__ import annotations

import json
import logging
import os
import signal
import textwrap
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from minitune.error import TuneError
from minitune.executors.devices import Machine
from minitune.executors.ledger import Ledger, already_holds
from minitune.resources import CPU, GPU, MEMORY, Allocation, Resources

logger = logging.getLogger("minitune")

Node = Mapping[str, Any]
"""A node, as `ray.nodes` describes it."""
_HIDDEN = ("node:", "object_store_memory")
"""Prefixes of the names of internal resources of nodes, which are not shown."""
_WORDS = 400
"""How many characters of Ray's words about an error are shown."""
_ARGUMENTS = {CPU: "num_cpus", GPU: "num_gpus", MEMORY: "_memory"}
"""How `ray.init` calls the resources that have no names of their own."""
_ADDRESS = "RAY_ADDRESS"
"""Ray's variable for the address of a cluster."""
_BEYOND = 1
_BEYOND_AUTOSCALED = 16
"""How many actors may wait in Ray's queue without room; the same if nodes may be added for them. Not measured: Ray
starts them in its own order, so with more the scheduler chooses less; with fewer, a free place waits for the driver.
"""
_REFRESH_S = 10.0
"""How long the list of nodes is used before it is read again, if there is no room."""
_TELLS_S = 10.0
"""Ray's first autoscaler tells within this time after the start of a cluster whether it can add nodes."""
_PAUSE_S = 0.25
_DIGITS = 4
"""How many digits of an amount Ray keeps."""


# -- admission ---------------------------------------------------------------------------------------------------------
class ClusterLedger(Ledger):
    """Counts what the actors of a run hold, of the sum of all nodes; and admits a few more.

    Others may use the cluster, and a request may fit into the sum and into no node, so an actor may have to wait in
    Ray's queue. Without room, one more may wait there on purpose: its start is the news that a node was added or others
    have left. With an autoscaler, more may wait, since it adds nodes for those. A request is an error only if no node
    so far could hold it, and no autoscaler adds others.

    Args:
        is_own: Whether the cluster was started for this run, and so has no autoscaler.
    """

    def __init__(self, ray: Any, is_own: bool = False):
        self._ray = ray
        self._requests: dict[str, Resources] = {}  # of all actors, by holder, in order of their admission
        self._beyond: dict[str, Resources] = {}  # of those that are not counted
        self._node_of: dict[str, str] = {}  # of those that are placed
        self._slow: set[str] = set()  # those that had no room for long
        self._admitted = ""  # the waiter that may start although there is no room
        self._is_autoscaled: bool | None = False if is_own else None  # None: not known, or not yet
        self._asks_until_s = time.monotonic() + _TELLS_S
        self._seen: dict[str, Node] = {}  # all nodes that this run has known, by id
        self._has_told_loss = False
        self.refresh()

    @property
    def num_lost_nodes(self) -> int:
        """How many nodes that this run has known are gone, as of the last `refresh`."""
        return len(self._seen) - len(self._living)

    def nodes(self) -> list[Node]:
        """The living nodes. Blocks for a short time."""
        return [node for node in self._ray.nodes() if node["Alive"]]

    def can_acquire(self, request: Resources, waiter: str | None = None, again: Allocation | None = None) -> bool:
        """See `TrialExecutor.can_start`. Without room, it looks for new nodes, every `_REFRESH_S` at most.

        If no node could hold the request, it blocks until an autoscaler is known or not.
        """
        if self._fits(request, waiter):
            return True
        # Ray tells of no new nodes, and to ask its head for each trial that waits would be too much for a large run.
        if time.monotonic() >= self._refresh_s:
            self.refresh()
            if self._fits(request, waiter):
                return True
        problem = why_never(request, self._living)
        if problem and not why_never(request, list(self._seen.values())):
            self._tell_loss(request)
        elif problem and self._is_fixed():
            raise TuneError(problem)
        if waiter is None:  # a searcher is asked for a trial that waits only if there is nothing else to wait for
            return not self._requests
        most = _BEYOND_AUTOSCALED if self._is_autoscaled else _BEYOND
        if len(self._beyond.keys() - self._node_of.keys()) >= most:
            return False
        self._admitted = waiter
        return True

    def _is_fixed(self) -> bool:
        """Whether it is certain that no autoscaler adds nodes. Blocks in a new cluster."""
        while self._is_autoscaled is None and time.monotonic() < self._asks_until_s:
            time.sleep(_PAUSE_S)
            self._is_autoscaled = has_autoscaler(self._ray)
        return self._is_autoscaled is False

    def _tell_loss(self, request: Resources) -> None:
        """Warn once that a request waits for a node like one that is gone."""
        if self._has_told_loss or self._is_autoscaled:
            return
        self._has_told_loss = True
        logger.warning(
            "a trial (%s) waits: the nodes of the Ray cluster that could hold it are gone. It starts as soon as such a "
            "node is added; Ctrl-C ends the run, which can be resumed (said once)",
            amounts_text(request.required_resources),
        )

    def acquire(self, holder: str, request: Resources, again: Allocation | None = None) -> Allocation:
        if holder in self._requests:
            raise already_holds(holder)
        waiter = holder.rpartition("#")[0]
        if waiter != self._admitted and not self._fits(request, waiter):
            raise RuntimeError(f"there is no room for {request!r}, free: {self.free()}; ask can_start first")
        self._admitted = ""
        self._requests[holder] = request
        return self._count_in(holder, request)

    def release(self, holder: str) -> None:
        """An actor has ended, so another one may be counted."""
        del self._requests[holder]
        self._node_of.pop(holder, None)
        self._slow.discard(holder)
        if self._beyond.pop(holder, None) is not None:  # it was not counted
            return
        super().release(holder)
        for other, request in list(self._beyond.items()):
            self._count_in(other, request)

    def note_node(self, holder: str, node_id: str) -> None:
        """Ray has placed an actor on a node."""
        self._node_of[holder] = node_id
        self._slow.discard(holder)
        if holder in self._beyond:  # the news that there is more room
            self.refresh()

    def note_slow(self, holder: str) -> None:
        """An actor has waited so long that it can hardly be about to start."""
        self._slow.add(holder)

    def queued(self) -> set[str]:
        """The actors in Ray's queue, as far as we know; any other one without a node is about to start."""
        waiting = {holder: request for holder, request in self._requests.items() if holder not in self._node_of}
        found = self._slow | (self._beyond.keys() & waiting.keys())
        if len(found) < len(waiting):
            placed = [(node_id, self._requests[holder]) for holder, node_id in self._node_of.items()]
            found |= without_a_node(self._living, placed, waiting)
        return found

    def why_waits(self, holder: str) -> str:
        """Why an actor has no room for so long; empty if it waits on purpose, or that was said."""
        self.refresh()
        request = self._requests[holder]
        if why_never(request, self._living):
            if self._is_autoscaled:
                return "it waits for the autoscaler to add a node"
            if why_never(request, list(self._seen.values())):
                return "no node could hold it, so it waits for one that is added"
            self._tell_loss(request)
            return ""
        if holder in self._beyond:
            return ""
        ours: dict[str, float] = {}
        for other in self._requests.values():
            for name, amount in other.required_resources.items():
                ours[name] = ours.get(name, 0.0) + amount
        reason = reason_of_wait(request, ours, self._ray.cluster_resources(), self._ray.available_resources())
        if len(request.bundles) > 1:
            reason += ", or its bundles do not fit on the nodes together"
        return reason

    def refresh(self) -> None:
        """Read the list of nodes, and count again what the actors hold."""
        self._refresh_s = time.monotonic() + _REFRESH_S
        if self._is_autoscaled is None:
            self._is_autoscaled = has_autoscaler(self._ray)
        self._living = self.nodes()
        self._seen.update({node["NodeID"]: node for node in self._living})
        # A ledger cannot shrink while actors hold what is gone, so it starts again, and counts what still fits.
        super().__init__(*totals_of(self._living))
        self._beyond.clear()
        for holder, request in self._requests.items():
            self._count_in(holder, request)

    def _fits(self, request: Resources, waiter: str | None) -> bool:
        with suppress(TuneError):  # the sum of the nodes has not so much
            # Also no node may be large enough: for such a request, room in the sum is none.
            return super().can_acquire(request, waiter) and not why_never(request, self._living)
        return False

    def _count_in(self, holder: str, request: Resources) -> Allocation:
        try:
            allocation = super().acquire(holder, request)
        except (RuntimeError, TuneError):
            self._beyond[holder] = request
            return Allocation()
        self._beyond.pop(holder, None)
        return allocation


# -- nodes -------------------------------------------------------------------------------------------------------------
def shown_resources(amounts: Mapping[str, float]) -> dict[str, float]:
    """The resources of a node that are not Ray's internal ones."""
    return {name: amount for name, amount in amounts.items() if not name.startswith(_HIDDEN)}


def amounts_text(amounts: Mapping[str, float]) -> str:
    """Amounts of resources for a message."""
    return "{" + ", ".join(f"{name}: {amount:g}" for name, amount in shown_resources(amounts).items()) + "}"


def totals_of(nodes: Sequence[Node]) -> tuple[dict[str, float], list[str]]:
    """The sum of the resources of all nodes, and a name for each of their devices."""
    totals: dict[str, float] = {}
    devices = []
    for node in nodes:
        # Such as the resource with a node's own name, which has little meaning in a sum.
        for name, amount in shown_resources(node["Resources"]).items():
            totals[name] = totals.get(name, 0.0) + amount
        # Ray chooses the devices. These names only let the ledger see that two thirds do not fit on one.
        devices += [f"{node['NodeID']}/{number}" for number in range(int(node["Resources"].get(GPU, 0)))]
    return totals, devices


def why_never(request: Resources, nodes: Sequence[Node]) -> str:
    """Why the nodes that exist can never meet a request, if that is certain; else empty."""
    if _could_hold(nodes, request):
        return ""
    wanted = f"{request.bundles if len(request.bundles) > 1 else request.bundles[0]} ({request.strategy})"
    found = [amounts_text(node["Resources"]) for node in nodes]
    if request.labels:
        wanted += f" with the labels {request.labels}"
        found = [f"{text} {node.get('Labels')}" for text, node in zip(found, nodes, strict=True)]
    return (
        f"the request {wanted} can never be met: no node, or no set of nodes, of the Ray cluster has as much. The "
        f"nodes have {'; '.join(found) or 'gone'}. Ask for less, or add nodes to the cluster"
    )


def _could_hold(nodes: Sequence[Node], request: Resources) -> bool:
    """Whether nodes without other work could hold a request, not exactly for bundles on one node."""
    labels = request.labels or [{} for _ in request.bundles]
    wanted = [(bundle, selector) for bundle, selector in zip(request.bundles, labels, strict=True) if bundle]
    if request.strategy == "STRICT_PACK" and len(request.bundles) > 1:  # all of them on one node
        wanted = [(request.required_resources, selector) for selector in labels]
    # Ray itself decides which bundles fit together. Here, only what is certain counts.
    if not all(any(_is_able(node, *each) for node in nodes) for each in wanted):
        return False
    if request.strategy == "STRICT_SPREAD":
        able = [[number for number, node in enumerate(nodes) if _is_able(node, *each)] for each in wanted]
        if not _have_own_nodes(able):
            return False
    for name, amount in request.required_resources.items():
        if sum(node["Resources"].get(name, 0) for node in nodes) < amount:
            return False
    return True


def _have_own_nodes(able: Sequence[Sequence[int]]) -> bool:
    """Whether each bundle can have a node of its own: a matching of a bipartite graph."""
    bundle_on: dict[int, int] = {}  # by node

    def place(bundle: int, tried: set[int]) -> bool:
        for node in able[bundle]:
            if node in tried:
                continue
            tried.add(node)
            if node not in bundle_on or place(bundle_on[node], tried):
                bundle_on[node] = bundle
                return True
        return False

    return all(place(bundle, set()) for bundle in range(len(able)))


def _is_able(node: Node, bundle: Mapping[str, float], selector: Mapping[str, str]) -> bool:
    """Whether a node without any other work could hold a bundle."""
    if any(node["Resources"].get(name, 0) < amount for name, amount in bundle.items()):
        return False
    return all(_has_label(node.get("Labels", {}).get(name), wanted) for name, wanted in selector.items())


def _has_label(value: str | None, wanted: str) -> bool:
    """Whether a label has a wanted value, in Ray's language: `a`, `!a`, `in(a,b)` or `!in(a,b)`."""
    is_negated = wanted.startswith("!")
    wanted = wanted.removeprefix("!")
    values = [wanted]
    if wanted.startswith("in(") and wanted.endswith(")"):
        values = [one.strip() for one in wanted[len("in(") : -1].split(",")]
    return (value in values) is not is_negated


def without_a_node(
    nodes: Sequence[Node], placed: Sequence[tuple[str, Resources]], waiting: Mapping[str, Resources]
) -> set[str]:
    """Which actors find no node, if each takes the first with room."""
    # The nodes with what is free of their resources.
    free = {node["NodeID"]: {**node, "Resources": dict(node["Resources"])} for node in nodes}

    def take(request: Resources, able: Sequence[Node]) -> bool:
        labels = request.labels or [{} for _ in request.bundles]
        for bundle, selector in zip(request.bundles, labels, strict=True):
            node = next((node for node in able if _is_able(node, bundle, selector)), None)
            if node is None:
                return False
            left = node["Resources"]
            for name, amount in bundle.items():
                left[name] = round(left[name] - amount, _DIGITS)
        return True

    for node_id, request in placed:
        # Only the node of the first bundle is known. The others lie anywhere.
        if len(request.bundles) > 1:
            take(request, list(free.values()))
        elif node_id in free:
            take(request, [free[node_id]])
    return {holder for holder, request in waiting.items() if not take(request, list(free.values()))}


def reason_of_wait(
    request: Resources, ours: Mapping[str, float], totals: Mapping[str, float], free: Mapping[str, float]
) -> str:
    """Why an actor that nodes could hold has no room yet, as far as the sums of the cluster show."""
    wanted = request.required_resources
    if all(free.get(name, 0.0) >= amount for name, amount in wanted.items()):
        return "Ray has room for it, but is slow to start its process, or still prepares its runtime_env"
    if any(totals.get(name, 0.0) - free.get(name, 0.0) > ours.get(name, 0.0) + 10**-_DIGITS for name in wanted):
        return "others use the cluster"
    return "Ray is slow to start its process, or still prepares its runtime_env, or others use the cluster"


def has_autoscaler(ray: Any) -> bool | None:
    """Whether an autoscaler may add nodes; None if this is not known, or not yet."""
    # Ray has no public function for this. If this part of Ray changes, the answer is not known.
    try:
        get = ray.experimental.internal_kv._internal_kv_get
        # The second autoscaler sets this flag, also where its provider can add no node: that is not known, then.
        if get(ray._raylet.GCS_AUTOSCALER_V2_ENABLED_KEY, namespace=ray._raylet.GCS_AUTOSCALER_STATE_NAMESPACE) == b"1":
            return True
        # The first one reports the types of nodes, some seconds after its start. Without a configuration, it runs too,
        # and each node is a type of its own.
        status = get(ray._private.ray_constants.DEBUG_AUTOSCALING_STATUS)
        types = json.loads(status)["autoscaler_report"]["node_type_mapping"].values()
        return any(not name.startswith("node_") for name in types)
    except Exception:
        return None


def why_died(error: BaseException) -> str:
    """Why the process of an actor has died on a node that lives."""
    kind = type(error).__name__
    if kind == "OutOfMemoryError":
        return "Ray has killed it, because its node was short of memory"
    # Ray has seen no more than the end of a connection, and lists what may be the reason in several sentences.
    if kind == "ActorDiedError":
        return "it was killed, ran out of memory, crashed, or ended by itself (Ray does not say which)"
    return in_words(error)


def in_words(error: BaseException) -> str:
    """Ray's error in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Of a death, Ray tells the cause in the last line, after facts about the actor.
    told = lines[-1:] if type(error).__name__ == "ActorDiedError" else lines
    return textwrap.shorten(" ".join(told), _WORDS, placeholder=" ...")


# -- the connection ----------------------------------------------------------------------------------------------------
NO_CLIENT = (
    "Ray Client, ray://, is not supported: start the script on a node of the cluster, or send it there with "
    "`ray job submit`"
)


def refuse_client(ray: Any, address: str | None) -> None:
    """Refuse a connection by Ray Client, in which this process is no driver of the cluster."""
    if ray.is_initialized():
        if ray.util.client.ray.is_connected():
            raise ValueError(f"{NO_CLIENT}. This script has connected by it with ray.init")
        return
    wanted = os.environ.get(_ADDRESS, "")
    if address is None and wanted.startswith("ray://"):
        raise ValueError(f"{NO_CLIENT}. {_ADDRESS} is {wanted!r}")


@contextmanager
def signals_kept() -> Iterator[None]:
    """Restore the handler of SIGTERM, which Ray replaces."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def connect(ray: Any, address: str | None, machine: Machine | None) -> bool:
    """Connect to a cluster. If no address is given and none runs here, start one on this machine, and return True.

    Raises:
        ConnectionError: If there is no cluster at the address, or this machine is no node of it.
    """
    named = address or os.environ.get(_ADDRESS)
    is_node = not named or _has_node()
    if not is_node:
        logger.warning("no node of a Ray cluster runs on this machine. Ray looks for one for about a minute")
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    # Without this, Ray prints a paragraph to stdout for each process that dies. The trial's error says that, too. And
    # what trials print is in their files.
    ray._private.worker._worker_logs_enabled = False
    with signals_kept():
        try:
            ray.init(address=address or "auto", **quiet)
            return False
        except ConnectionError as error:
            # A cluster that was asked for by name must not be replaced by a small one on this machine.
            if named and not is_node:
                raise ConnectionError(
                    f"{error}. No node of the cluster runs on this machine: start the script on a node, or send it "
                    f"there with `ray job submit`, or make this machine a node with `ray start --address={named}`"
                ) from error
            if named:
                raise ConnectionError(
                    f"{error}. Check that the cluster runs and that this is its address. If `ray start` has said that "
                    "token authentication is enabled, set RAY_AUTH_MODE=token"
                ) from error
        amounts: dict[str, Any] = {}
        if machine is not None:
            own = dict(machine.totals)
            for name, argument in _ARGUMENTS.items():
                if name in own:
                    amounts[argument] = int(own.pop(name))
            amounts["resources"] = own
        logger.info("there is no Ray cluster to connect to: one is started on this machine for this run")
        ray.init(address="local", include_dashboard=False, **amounts, **quiet)
        return True


def _has_node() -> bool:
    """Whether this machine is a node of a Ray cluster, as far as its processes show."""
    import psutil

    return any(process.info["name"] == "raylet" for process in psutil.process_iter(["name"]))
