"""What Ray says about a cluster: the connection to it, its nodes, and the room that they have for a run."""

from __future__ import annotations

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
_BEYOND_SLOW = 16
"""How many actors may wait in Ray's queue without room; the same if one has waited for long, since an autoscaler may
add nodes for them. Not measured: Ray starts them in its own order, so with more the scheduler chooses less; with fewer,
a free place waits for the driver.
"""
_REFRESH_S = 10.0
"""How long the list of nodes is used before it is read again, if there is no room."""


# -- admission ---------------------------------------------------------------------------------------------------------
class ClusterLedger(Ledger):
    """Counts what the actors of a run hold, of the sum of all nodes; and admits a few more.

    Ray alone decides when an actor gets which node: others may use the cluster, nodes come and go, an autoscaler may
    add some. So a few more may wait in Ray's queue, and no request is an error. One waits there on purpose: its start
    is the news that a node was added or others have left.
    """

    def __init__(self, ray: Any):
        self._ray = ray
        self._requests: dict[str, Resources] = {}  # of all actors, by holder, in order of their admission
        self._beyond: dict[str, Resources] = {}  # of those that are not counted
        self._placed: set[str] = set()
        self._slow: set[str] = set()  # those that have waited for long
        self._admitted = ""  # the waiter that may start although there is no room
        self.refresh()

    def nodes(self) -> list[Node]:
        """The living nodes. Blocks for a short time."""
        return [node for node in self._ray.nodes() if node["Alive"]]

    def can_acquire(self, request: Resources, waiter: str | None = None, again: Allocation | None = None) -> bool:
        """See `TrialExecutor.can_start`. Without room, it looks for new nodes, every `_REFRESH_S` at most."""
        if self._fits(request, waiter):
            return True
        # Ray tells of no new nodes, and to ask its head for each trial that waits would be too much for a large run.
        if time.monotonic() >= self._refresh_s:
            self.refresh()
            if self._fits(request, waiter):
                return True
        if waiter is None:  # a searcher is asked for a trial that waits only if there is nothing else to wait for
            return not self._requests
        most = _BEYOND_SLOW if self._slow else _BEYOND
        if len(self._beyond.keys() - self._placed) >= most:
            return False
        self._admitted = waiter
        return True

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
        self._placed.discard(holder)
        self._slow.discard(holder)
        if self._beyond.pop(holder, None) is not None:  # it was not counted
            return
        super().release(holder)
        for other, request in list(self._beyond.items()):
            self._count_in(other, request)

    def note_placed(self, holder: str) -> None:
        """Ray has placed an actor."""
        self._placed.add(holder)
        self._slow.discard(holder)
        if holder in self._beyond:  # the news that there is more room
            self.refresh()

    def note_slow(self, holder: str) -> None:
        """An actor has waited so long that it can hardly be about to start."""
        self._slow.add(holder)

    def queued(self) -> set[str]:
        """The actors in Ray's queue, as far as we know; any other one that is not placed is about to start."""
        return (self._slow | self._beyond.keys()) - self._placed

    def why_waits(self, holder: str) -> str:
        """Why an actor that Ray has not placed waits, and what helps; empty if it waits for others of this run."""
        request = self._requests[holder]
        if _lacks_node(request, self._living):
            return "no node has as much. Add one, or ask for less"
        if holder in self._beyond:
            return ""
        return "others use the cluster, or Ray is slow to start its process, see `ray status`"

    def is_unknown(self, request: Resources) -> bool:
        """Whether no node has a resource of this name, which may be a typing error."""
        return any(all(name not in node["Resources"] for node in self._living) for name in request.required_resources)

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
        if _lacks_node(request, self._living):  # for such a request, room in the sum is none
            return False
        with suppress(TuneError):  # the sum of the nodes has not so much
            return super().can_acquire(request, waiter)
        return False

    def _count_in(self, holder: str, request: Resources) -> Allocation:
        if not _lacks_node(request, self._living):
            with suppress(RuntimeError, TuneError):
                allocation = super().acquire(holder, request)
                self._beyond.pop(holder, None)
                return allocation
        self._beyond[holder] = request
        return Allocation()


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


def _lacks_node(request: Resources, nodes: Sequence[Node]) -> bool:
    """Whether one of the bundles has no node with each of its amounts."""
    return any(
        all(any(node["Resources"].get(name, 0) < amount for name, amount in bundle.items()) for node in nodes)
        for bundle in request.bundles
    )


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


def connect(ray: Any, address: str | None, machine: Machine | None) -> None:
    """Connect to a cluster. If no address is given and none runs here, start one on this machine.

    Raises:
        ConnectionError: If there is no cluster at the address, or this machine is no node of it.
    """
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
            if address or os.environ.get(_ADDRESS):
                raise ConnectionError(
                    f"{error}. Check that the cluster runs, that this is its address, and that this machine is one of "
                    "its nodes: make it one with `ray start --address=...`, or send the script to one with `ray job "
                    "submit`. If `ray start` has said that token authentication is enabled, set RAY_AUTH_MODE=token"
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
