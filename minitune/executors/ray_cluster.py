"""What Ray says about a cluster: the connection to it, its nodes, and which requests they could ever meet."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from minitune.executors.devices import Machine
from minitune.resources import CPU, GPU, MEMORY, Resources

logger = logging.getLogger("minitune")

Node = Mapping[str, Any]
"""A node, as `ray.nodes` describes it."""
_HIDDEN = ("node:", "object_store_memory")
"""Prefixes of the names of internal resources of nodes, which are not shown."""
_WORDS = 400
"""How many characters of Ray's words about an error are shown."""


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
        for name, amount in shown_resources(node["Resources"]).items():
            totals[name] = totals.get(name, 0.0) + amount
        devices += [f"{node['NodeID']}/{number}" for number in range(int(node["Resources"].get(GPU, 0)))]
    return totals, devices


def why_never(request: Resources, nodes: Sequence[Node]) -> str:
    """Why the nodes that exist can never meet a request, if that is certain; else empty."""
    labels = request.labels or [{} for _ in request.bundles]
    wanted = [(bundle, labels[number]) for number, bundle in enumerate(request.bundles) if bundle]
    if request.strategy == "STRICT_PACK" and len(request.bundles) > 1:
        wanted = [(request.required_resources, each) for each in labels]
    able = [sum(_is_able(node, bundle, selector) for node in nodes) for bundle, selector in wanted]
    total = {name: sum(node["Resources"].get(name, 0) for node in nodes) for name in request.required_resources}
    fits = all(able) and all(total[name] >= amount for name, amount in request.required_resources.items())
    if fits and not (request.strategy == "STRICT_SPREAD" and len(wanted) > len(nodes)):
        return ""
    shown = request.bundles[0] if len(request.bundles) == 1 else request.bundles
    with_labels = f" with the labels {request.labels}" if request.labels else ""
    found = "; ".join(
        amounts_text(node["Resources"]) + (f" {_own_labels(node)}" if request.labels else "") for node in nodes
    )
    return (
        f"the request {shown} ({request.strategy}){with_labels} can never be met: no node, or no set of nodes, of the "
        f"Ray cluster has as much. The nodes have {found or 'gone'}. Ask for less, or add nodes to the cluster"
    )


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


def _own_labels(node: Node) -> dict[str, str]:
    return {name: value for name, value in node.get("Labels", {}).items() if name != "ray.io/node-id"}


def has_autoscaler(ray: Any) -> bool:
    """Whether an autoscaler may add nodes. It lists types of nodes; without one, each node is a type of its own.

    Ray has no public function for this. If this part of Ray changes, the answer is no.
    """
    try:
        status = ray.experimental.internal_kv._internal_kv_get(ray._private.ray_constants.DEBUG_AUTOSCALING_STATUS)
        types = json.loads(status)["autoscaler_report"]["node_type_mapping"].values()
        return any(not name.startswith("node_") for name in types)
    except Exception:
        return False


def in_words(error: BaseException) -> str:
    """Ray's error in one line. Of a death, Ray tells the cause in the last line, after facts about the actor."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = lines[-1:] if type(error).__name__ == "ActorDiedError" else lines
    return " ".join(told)[:_WORDS]


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
    # Without this, Ray prints a paragraph to stdout for each process that dies. The trial's error says that, too.
    ray._private.worker._worker_logs_enabled = False
    with signals_kept():
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
        cpus = totals.pop(CPU, None)
        gpus = totals.pop(GPU, None)
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
