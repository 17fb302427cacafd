"""The functions that Ray users call on `ray` itself: totals of resources, and stored values.

`init` starts nothing: it sets the resources that the trials of this process may use.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from minitune.base.checks import require_flag
from minitune.base.forks import Origin
from minitune.base.shared_values import ObjectRef, ValueDirectory
from minitune.trainable.session import current_session

if TYPE_CHECKING:
    from minitune.executors.devices import Machine
    from minitune.executors.trial_executor import TrialExecutor

logger = logging.getLogger("minitune")

ON_THIS_MACHINE = (
    'init(address=...) names a Ray cluster, but the run uses this machine: TuneConfig(executor="ray") uses the cluster'
)

_THIS_MACHINE = "127.0.0.1"


@dataclass
class _State:
    """The state of this module in one process."""

    machine: Machine | None = None
    is_used: bool = False
    local_mode: bool = False
    address: str | None = None
    values: ValueDirectory | None = None
    origin: Origin = field(default_factory=Origin)


_state = _State()
_executors: set[TrialExecutor] = set()
_numbers = itertools.count(1)


class RuntimeContext:
    """The return value of `init`. As a context manager, it calls `shutdown`. Its `dashboard_url` is empty."""

    dashboard_url = ""

    def __enter__(self) -> RuntimeContext:
        return self

    def __exit__(self, *_: object) -> None:
        shutdown()


def init(
    address: str | None = None,
    *,
    num_cpus: float | None = None,
    num_gpus: int | None = None,
    resources: Mapping[str, float] | None = None,
    local_mode: bool = False,
    ignore_reinit_error: bool = False,
    **other: Any,
) -> RuntimeContext:
    """Set the resources that all trials of this process may use together. May block for 10 s in `nvidia-smi`.

    `address` is None, `"local"` or `"auto"` for this machine, or host and port of a Ray cluster, for runs with
    `TuneConfig(executor="ray")`. `resources` has other resources by name, and `memory` in bytes. `local_mode` runs
    trials one at a time in this process. `ignore_reinit_error` allows a second call, without effect. Others, such as
    those of Ray's `init`, have none, with one warning.

    Raises:
        RuntimeError: If `init` was called before, or a run was started.
        ValueError: If a number or `address` is invalid, or totals are given for a cluster.
    """
    from minitune.executors.devices import machine_resources

    address = other.pop("redis_address", None) or address
    cluster = check_address(address)
    if cluster is not None and not (num_cpus is None and num_gpus is None and resources is None):
        raise ValueError(
            f"num_cpus, num_gpus and resources must be None with address={address!r}: the nodes of a cluster have what "
            "they were started with (ray start --num-cpus=...)"
        )
    require_flag("local_mode", local_mode)
    require_flag("ignore_reinit_error", ignore_reinit_error)
    if is_initialized():
        if ignore_reinit_error:
            logger.info("init() does nothing: it was called, or a run was started, before")
            return RuntimeContext()
        raise RuntimeError(
            "init() must be called once, before the first run, but the totals are in force already; call shutdown() "
            "first, or pass ignore_reinit_error=True to keep them"
        )
    without_effect = [*(["address='auto'"] if address == "auto" else []), *sorted(other)]
    if without_effect:
        logger.warning("init(): there is no cluster, so these have no effect: %s", ", ".join(without_effect))
    _state.machine = machine_resources(num_cpus, num_gpus, resources)
    _state.local_mode = local_mode
    _state.address = cluster
    return RuntimeContext()


def shutdown() -> None:
    """Undo `init`, and delete the values of `put`, at any time."""
    _state.machine = None
    _state.address = None
    _state.is_used = False
    _state.local_mode = False
    _remove_values()


def is_initialized() -> bool:
    """True after `init`, after the first run, and in a trial."""
    return _state.machine is not None or _state.is_used or current_session() is not None


def cluster_resources() -> dict[str, float]:
    """The total resources: `CPU`, `memory` in bytes, `GPU` if there are any, and custom ones.

    In a trial: those that its process can see.
    """
    return {name: float(amount) for name, amount in machine().totals.items()}


def nodes() -> list[dict[str, Any]]:
    """This machine as a list of one node, with the keys of Ray's `nodes()` that have a value here, such as
    `Resources`.
    """
    host = os.uname().nodename
    node = {
        "NodeID": host,
        "Alive": True,
        "alive": True,
        "NodeManagerAddress": _THIS_MACHINE,
        "NodeManagerHostname": host,
        "NodeName": host,
        "Resources": cluster_resources(),
        "Labels": {},
    }
    return [node]


def available_resources() -> dict[str, float]:
    """The total resources minus those in use by trials of this process, for callbacks and threads."""
    left = cluster_resources()
    for executor in list(_executors):
        totals, free = executor.resources()
        for name, total in totals.items():
            left[name] = left.get(name, 0.0) - (total - free.get(name, 0.0))
    return left


# -- values --------------------------------------------------------------------------------------------------------


def put(value: Any) -> ObjectRef:
    """Store a value once, for any number of trials. Blocks while it writes.

    It is in a temporary file (below `TMPDIR`), which `shutdown()` and the end of this process delete unless a signal
    kills it. A run copies the values of its configurations, so that it can be resumed.

    Raises:
        TypeError: If the value cannot be pickled, or is itself a reference.
        OSError: If the file cannot be written.
        RuntimeError: In a trial, whose process may end before others read the value.
    """
    if current_session() is not None:
        raise RuntimeError("put() must be called before the run: in a trial, report the value, or write a checkpoint")
    if isinstance(value, ObjectRef):
        raise TypeError(f"value must not be a reference, but got {value!r}; it can be passed on as it is")
    return ObjectRef(_values().put(value, "the value of put()").path, next(_numbers))


def get(object_refs: ObjectRef | Sequence[ObjectRef], *, timeout: float | None = None) -> Any:
    """The value of a reference, or a list of values. Blocks while it reads.

    Args:
        object_refs: A reference from `put`, or a list of references.
        timeout: For Ray's signature; `get` never waits.

    Returns:
        A separate copy for each call; of a large array, only pages that are written to are copied.

    Raises:
        ObjectLostError: If it no longer exists.
        ValueError: If an argument is not a reference.
    """
    if isinstance(object_refs, (list, tuple)):
        return [get(ref) for ref in object_refs]
    if not isinstance(object_refs, ObjectRef):
        raise ValueError(
            f"object_refs must be an ObjectRef or a list of such, but got {type(object_refs).__name__}: "
            "get() takes what put() returns"
        )
    return object_refs.get()


# -- for runs --------------------------------------------------------------------------------------------------------


def machine() -> Machine:
    """The resources that trials may use, from `init` or found here."""
    from minitune.executors.devices import machine_resources

    _state.is_used = True
    return _state.machine or machine_resources()


@contextmanager
def counting(executor: TrialExecutor) -> Iterator[None]:
    """Within the block, `available_resources` counts the resources of this executor's trials."""
    _executors.add(executor)
    try:
        yield
    finally:
        _executors.discard(executor)


def cluster_address() -> str | None:
    """The address of the Ray cluster that was passed to `init`, or None."""
    return _state.address


def check_address(address: Any) -> str | None:
    """Return the argument `address` of `init` if it names a cluster, else None.

    Raises:
        ValueError: If it is something else.
    """
    if address in (None, "", "local", "auto"):
        return None
    host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if not host or "/" in host or not port.isdecimal():
        raise ValueError(
            f"address must be None, 'local', 'auto' or host and port of a Ray cluster, such as '10.0.0.1:6379', but "
            f"got {address!r} (Ray Client, ray://, is not supported); amounts are given by name, as in init(num_cpus=4)"
        )
    return str(address)


def default_executor() -> str | None:
    """`"inline"` after `init(local_mode=True)`, else None."""
    return "inline" if _state.local_mode else None


# -- details ---------------------------------------------------------------------------------------------------------


def _values() -> ValueDirectory:
    """The directory in which this process stores values, created on first use."""
    if _state.values is None or not _state.origin.is_here():
        import tempfile

        _state.values = ValueDirectory(
            os.path.join(tempfile.gettempdir(), f"minitune-objects-{os.urandom(8).hex()}"),
            "set TMPDIR to a directory with more space, or free stored values with shutdown()",
        )
        _state.origin = Origin()
    return _state.values


def _remove_values() -> None:
    if _state.values is not None:
        _state.values.close()
        _state.values = None
