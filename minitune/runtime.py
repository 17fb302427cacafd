"""The functions that users of Ray call on `ray` itself, on one machine: totals of resources, and stored values.

Nothing has to be started: `init` only says how much trials may use, and that of this process.
"""

from __future__ import annotations

import itertools
import logging
import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minitune.base import files
from minitune.base.checks import require_flag
from minitune.base.shared_values import ObjectRef, ValueFile, store
from minitune.trainable.session import current_session

if TYPE_CHECKING:
    from minitune.execution.devices import Machine
    from minitune.execution.trial_executor import TrialExecutor

logger = logging.getLogger("minitune")

_OF_A_CLUSTER = """
    allow_multiple cgroup_path configure_logging dashboard_host dashboard_port enable_resource_isolation
    include_dashboard job_config labels log_to_driver logging_config logging_format logging_level namespace
    object_store_memory proxy_server_url runtime_env system_reserved_cpu system_reserved_memory
"""
"""Arguments of Ray's `init` that mean nothing here."""


_OF_A_NODE = """
    dashboard_agent_listen_port gcs_address metrics_export_port node_id object_store_address raylet_socket_name
    redis_address session_dir
"""
"""Keys of Ray's `address_info` for which there is nothing here."""


@dataclass
class _State:
    """What this process knows.

    Attributes:
        machine: What `init` has said, or None.
        is_used: Whether something was run or asked without `init`.
        local_mode: Whether trials run in this process unless something else is said.
        address: The cluster that `init` has named, or None.
        values: Where `put` stores values, or None so far.
        owner_pid: The process that has made `values`.
    """

    machine: Machine | None = None
    is_used: bool = False
    local_mode: bool = False
    address: str | None = None
    values: ValueFile | None = None
    owner_pid: int = 0


_state = _State()
_executors: weakref.WeakSet[TrialExecutor] = weakref.WeakSet()
_numbers = itertools.count(1)


class RuntimeContext:
    """What `init` returns; in a `with` statement it shuts down at the end.

    Attributes:
        dashboard_url: Empty: there is no dashboard.
        address_info: Where Ray's processes are, by Ray's keys: this machine, and None for what there is none of.
    """

    dashboard_url = ""

    def __init__(self) -> None:
        self.address_info: dict[str, str | None] = {
            "node_ip_address": "127.0.0.1",
            "address": "local",
            "webui_url": self.dashboard_url,
            **dict.fromkeys(_OF_A_NODE.split()),
        }

    def disconnect(self) -> None:
        """The same as `shutdown()`."""
        shutdown()

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
    """Say how much trials may use in all. May block for 10 s in `nvidia-smi`, where there are such devices.

    Args:
        address: None, `"local"` or `"auto"`: this machine. Host and port of a Ray cluster, such as `"10.0.0.1:6379"`:
            that cluster, for runs with `TuneConfig(executor="ray")`; it has its own totals.
        num_cpus: CPUs; by default those that this process may use.
        num_gpus: GPUs; by default those that are visible.
        resources: Other amounts by name, and `memory` in bytes.
        local_mode: Run trials one at a time in this process, which helps to debug, unless `TuneConfig(executor=...)`
            or the environment say otherwise.
        ignore_reinit_error: Do nothing if `init` was called, or a run was started, before.
        **other: Other arguments of Ray's `init`, which have no effect: one warning names them.

    Raises:
        RuntimeError: If the totals are in force already.
        TypeError: If an argument is none of Ray's either.
        ValueError: If a number is bad, or `address` is no such address, or totals are given for a cluster.
    """
    from minitune.execution.devices import machine_resources

    cluster = _cluster_address(address)
    if cluster is not None and not (num_cpus is None and num_gpus is None and resources is None):
        raise ValueError(
            f"num_cpus, num_gpus and resources must be None with address={address!r}: the nodes of a cluster have what "
            "they were started with (ray start --num-cpus=...)"
        )
    require_flag("local_mode", local_mode)
    require_flag("ignore_reinit_error", ignore_reinit_error)
    unknown = sorted(name for name in other if name not in _OF_A_CLUSTER.split() and not name.startswith("_"))
    if unknown:
        raise TypeError(f"init() does not know {', '.join(unknown)}; see its docstring")
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
    _state.local_mode, _state.address = local_mode, cluster
    return RuntimeContext()


def shutdown() -> None:
    """Forget what `init` said, and remove the values that `put` has stored. Does nothing if there is nothing."""
    _state.machine = _state.address = None
    _state.is_used = _state.local_mode = False
    _remove_values()


def is_initialized() -> bool:
    """True after `init`, after the first run, and in a trial."""
    return _state.machine is not None or _state.is_used or current_session() is not None


def cluster_resources() -> dict[str, float]:
    """The totals: `CPU`, `memory` in bytes, `GPU` if there are any, and custom ones.

    In a trial that runs in a process of its own: what that process may see.
    """
    return {name: float(amount) for name, amount in machine().totals.items()}


def available_resources() -> dict[str, float]:
    """The totals without what trials of this process's runs hold now; for threads beside a run, and callbacks."""
    left = cluster_resources()
    for executor in list(_executors):
        totals, free = executor.resources()
        for name, total in totals.items():
            left[name] = left.get(name, 0.0) - (total - free.get(name, 0.0))
    return left


# -- values --------------------------------------------------------------------------------------------------------


def put(value: Any) -> ObjectRef:
    """Store a value once, for any number of trials. Blocks while it is written.

    It lies in a file among the temporary ones (`TMPDIR`), which goes with `shutdown()` and the end of this process; a
    value that is put in a trial lies in the trial's directory and stays there.

    Args:
        value: Anything that can be pickled.

    Returns:
        The reference, for `get`.

    Raises:
        TypeError: If the value cannot be pickled, or is a reference already.
        OSError: If it cannot be written.
    """
    if isinstance(value, ObjectRef):
        raise TypeError(f"value must not be a reference, but got {value!r}; it can be passed on as it is")
    number, what = next(_numbers), "the value of put()"
    session = current_session()
    if session is None:
        spot = _values().add(value, what)
        return ObjectRef(spot.path, spot.offset, spot.token, number)
    directory = os.path.join(session.info.directory, "objects")  # a worker may end before those who get it
    files.make_directory(directory, 0o700, within=os.path.dirname(session.info.directory))
    path = os.path.join(directory, f"{number}-{os.urandom(8).hex()}.pkl")
    return ObjectRef(path, token=store(value, path, what).token, number=number)


def get(object_refs: ObjectRef | Sequence[ObjectRef], *, timeout: float | None = None) -> Any:
    """The value of a reference, or the list of those of several. Blocks while they are read.

    Args:
        object_refs: What `put` has returned, or a list of such.
        timeout: Accepted for Ray's signature: nothing is waited for.

    Returns:
        The value: a copy for each call, so that no trial sees what another does to its own. Large arrays are copied
        only as far as they are written to.

    Raises:
        ObjectLostError: If the value is gone.
        ValueError: If something is no reference.
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
    """What trials may use: what `init` has said, else what is found on this machine."""
    from minitune.execution.devices import machine_resources

    _state.is_used = True
    return _state.machine or machine_resources()


def watch(executor: TrialExecutor) -> TrialExecutor:
    """Let `available_resources` count what this executor's trials hold, for as long as it exists."""
    _executors.add(executor)
    return executor


def cluster_address() -> str | None:
    """The address of the Ray cluster that `init` has named, or None."""
    return _state.address


def default_executor() -> str | None:
    """`"inline"` after `init(local_mode=True)`, else None."""
    return "inline" if _state.local_mode else None


# -- details ---------------------------------------------------------------------------------------------------------


def _cluster_address(address: Any) -> str | None:
    """The address of a cluster, if it is one."""
    if address in (None, "", "local", "auto"):
        return None
    host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if not host or "/" in host or not port.isdecimal():
        raise ValueError(
            f"address must be None, 'local', 'auto' or host and port of a Ray cluster, such as '10.0.0.1:6379', but "
            f"got {address!r} (Ray Client, ray://, is not supported: start the script on a node of the cluster); "
            "amounts are given by name, as in init(num_cpus=4)"
        )
    return str(address)


def _values() -> ValueFile:
    """Where this process stores values; made when it is first needed."""
    if _state.values is None or _state.owner_pid != os.getpid():
        import tempfile

        directory = tempfile.mkdtemp(prefix="minitune-objects-")
        _state.values = ValueFile(directory, "set TMPDIR to a directory with more space, or shutdown() what is old")
        _state.owner_pid = os.getpid()
    return _state.values


def _remove_values() -> None:
    if _state.values is not None:
        _state.values.close()
        _state.values = None
