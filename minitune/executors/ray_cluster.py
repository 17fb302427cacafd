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
_BEYOND = 1
_BEYOND_AUTOSCALED = 16
"""How many actors may wait in Ray's queue although the ledger has no room; the same if nodes may be added for them."""
_REFRESH_S = 10.0
"""How long the list of nodes is used before it is read again, if there is no room."""


# -- admission ---------------------------------------------------------------------------------------------------------
class ClusterLedger(Ledger):
    """Counts what the actors of a run hold, of the sum of all nodes; and admits a few more.

    Others may use the cluster, too, and a request may fit into the sum and into no node. So an actor may have to wait
    in Ray's queue for its place. If the sum has no room, one more actor may wait there on purpose: when Ray finds a
    place for it, because a node was added or others have left, this is the news that there is more room. If an
    autoscaler adds nodes, more of them may wait, since it adds nodes for those. Each actor is counted or *beyond*.

    Args:
        ray: Ray's module. This process is connected.
    """

    def __init__(self, ray: Any):
        self._ray = ray
        self._requests: dict[str, Resources] = {}  # of all actors, by holder
        self._beyond: dict[str, Resources] = {}  # of those that are not counted
        self._placed: set[str] = set()
        self._admitted = ""  # the waiter that may start although there is no room
        self._is_autoscaled: bool | None = None
        self.refresh()

    def nodes(self) -> list[Node]:
        """The living nodes. Asks the cluster's head, so it blocks for a short time."""
        return [node for node in self._ray.nodes() if node["Alive"]]

    def may_grow(self) -> bool:
        """Whether nodes may be added for actors that wait. Asks the cluster's head once."""
        if self._is_autoscaled is None:
            self._is_autoscaled = has_autoscaler(self._ray)
        return self._is_autoscaled

    def can_acquire(self, request: Resources, waiter: str | None = None, again: Allocation | None = None) -> bool:
        """See `TrialExecutor.can_start`. If there is no room, it looks for new nodes, every `_REFRESH_S` at most."""
        if self._fits(request, waiter):
            return True
        # Ray tells of no new nodes, and to ask its head for each trial that waits would be too much for a large run.
        if time.monotonic() >= self._refresh_s:
            self.refresh()
            if self._fits(request, waiter):
                return True
        may_grow = self.may_grow()
        # With an autoscaler nothing is impossible, as far as we know: only it knows the nodes that it could add.
        problem = why_never(request, self._living)
        if problem and not may_grow:
            raise TuneError(problem)
        most = _BEYOND_AUTOSCALED if may_grow else _BEYOND
        if waiter is None or len(self._beyond.keys() - self._placed) >= most:
            return False
        self._admitted = waiter
        return True

    def acquire(self, holder: str, request: Resources, again: Allocation | None = None) -> Allocation:
        """Admit an actor. Its devices are Ray's to choose.

        Raises:
            RuntimeError: If there is no room for it (`can_acquire` was to be asked first), or it was admitted before.
        """
        if holder in self._requests:
            raise already_holds(holder)
        waiter = holder.rpartition("#")[0]
        if waiter != self._admitted and not self._fits(request, waiter):
            raise RuntimeError(f"there is no room for {request!r}, free: {self.free()}; ask can_start first")
        self._admitted = ""
        self._requests[holder] = request
        return self._count_in(holder, request)

    def release(self, holder: str) -> None:
        """An actor has ended. Another one that was beyond may be counted now."""
        del self._requests[holder]
        self._placed.discard(holder)
        if self._beyond.pop(holder, None) is not None:  # it was not counted
            return
        super().release(holder)
        for other, request in list(self._beyond.items()):
            self._count_in(other, request)

    def note_place(self, holder: str) -> None:
        """Ray has found a place for an actor."""
        self._placed.add(holder)
        if not self.counts(holder):  # the news that there is more room
            self.refresh()

    def counts(self, holder: str) -> bool:
        """Whether an actor is counted, so Ray should find a place for it unless others use the cluster."""
        return holder not in self._beyond

    def refresh(self) -> None:
        """Read the list of nodes, and count again what the actors hold."""
        self._refresh_s = time.monotonic() + _REFRESH_S
        self._living = self.nodes()
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
        """Count what an actor holds, if there is room."""
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
    """Whether nodes without any other work could hold a request. Not exact for bundles that may share a node."""
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
    """Whether each bundle can have a node of its own: the largest matching of a bipartite graph, by augmenting paths.

    Args:
        able: For each bundle, the nodes that could hold it.
    """
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


def has_autoscaler(ray: Any) -> bool:
    """Whether an autoscaler may add nodes."""
    # Ray has no public function for this. If this part of Ray changes, the answer is no, and a request that no node can
    # meet is an error. The status lists types of nodes; without an autoscaler, each node is a type of its own.
    try:
        status = ray.experimental.internal_kv._internal_kv_get(ray._private.ray_constants.DEBUG_AUTOSCALING_STATUS)
        types = json.loads(status)["autoscaler_report"]["node_type_mapping"].values()
        return any(not name.startswith("node_") for name in types)
    except Exception:
        return False


def in_words(error: BaseException) -> str:
    """Ray's error in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Of a death, Ray tells the cause in the last line, after facts about the actor.
    told = lines[-1:] if type(error).__name__ == "ActorDiedError" else lines
    return textwrap.shorten(" ".join(told), _WORDS, placeholder=" ...")


# -- the connection ----------------------------------------------------------------------------------------------------
@contextmanager
def signals_kept() -> Iterator[None]:
    """Restore the handler of SIGTERM, which Ray replaces."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def connect(ray: Any, address: str | None, machine: Machine | None) -> None:
    """Connect to a cluster. If no address is given and none runs here, start one on this machine."""
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    # Without this, Ray prints a paragraph to stdout for each process that dies. The trial's error says that, too. And
    # what trials print is in their files.
    ray._private.worker._worker_logs_enabled = False
    with signals_kept():
        try:
            ray.init(address=address or "auto", **quiet)
            return
        except ConnectionError as error:
            # A cluster that was asked for by name must not be replaced by a small one on this machine.
            if address is not None or os.environ.get("RAY_ADDRESS"):
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
