"""Detects the resources of the machine; numbers from the user have precedence."""

from __future__ import annotations

import functools
import json
import logging
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from minitune.base import cgroups
from minitune.base.cgroups import read_text
from minitune.base.checks import is_real
from minitune.base.settings import setting
from minitune.resources import CPU, GPU, MEMORY

logger = logging.getLogger("minitune")

_NVIDIA_SMI_BOUND_S = 10.0
"""With many devices, `nvidia-smi` may need several seconds."""


@dataclass(frozen=True)
class MachineFiles:
    """The sources of information about a machine."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)  # it may contain secrets
    cgroup_root: str | os.PathLike[str] = cgroups.ROOT
    own_cgroup: str | os.PathLike[str] = cgroups.OWN
    dev: str | os.PathLike[str] = "/dev"

    def groups(self, controller: str) -> Iterator[str]:
        """See `cgroups.own_groups`."""
        return cgroups.own_groups(controller, self.cgroup_root, self.own_cgroup)


class Machine(NamedTuple):
    """The resources that trials may use.

    Attributes:
        totals: The amounts by name: `CPU`, `memory` in bytes, `GPU` if there are any, and custom ones.
        find_gpus: Searches more thoroughly, if a trial requests a GPU and none is known; None if there is nothing more
            to search. Blocks for up to 10 s.
        cpu_limit: If `totals` is only this process's share: the CPUs that a single trial may use; else 0.
    """

    totals: dict[str, float]
    gpu_ids: tuple[str, ...]
    find_gpus: Callable[[], Sequence[str]] | None = None
    cpu_limit: float = 0


def machine_resources(
    num_cpus: float | None = None,
    num_gpus: int | None = None,
    resources: Mapping[str, float] | None = None,
    host: MachineFiles | None = None,
) -> Machine:
    """Determine the resources that trials may use.

    Each number comes from the argument, else from `MINITUNE_NUM_CPUS`, `MINITUNE_NUM_GPUS` or `MINITUNE_RESOURCES` (a
    JSON object), else from detection. May block for 10 s in `nvidia-smi`, if there are files `/dev/nvidia*`.

    Args:
        num_cpus: The number of CPUs.
        num_gpus: The number of GPUs: the first of the visible ones.
        resources: Custom amounts by name, and `memory` in bytes.
        host: The machine; by default this one.

    Raises:
        ValueError: If a number is invalid, or `CUDA_VISIBLE_DEVICES` names fewer devices than requested.
    """
    host = host or MachineFiles()
    environ = host.environ
    custom = _read_resources_variable(environ)
    if resources is not None:
        custom.update(_check_custom(resources, "resources"))
    cpus = _given(num_cpus, "num_cpus", environ)
    gpus = _given(num_gpus, "num_gpus", environ)
    shares, share = _shares(environ)
    cpu_limit = 0
    if cpus is None:
        usable = usable_cpus(host)
        cpus = max(1, usable // shares)
        if shares > 1:  # one trial may still use more than this process's share
            cpu_limit = usable
    totals: dict[str, float] = {CPU: cpus}

    def find_part(asked: bool) -> tuple[str, ...]:
        return _part_of(detect_gpus(asked, host), shares, share)

    find_gpus = None
    if gpus is None:
        gpu_ids = find_part(asked=False)
        if not gpu_ids and visible_devices(environ) is None:
            find_gpus = functools.partial(find_part, asked=True)
    else:
        gpu_ids = _first_gpus(gpus, host)
    if gpu_ids:
        totals[GPU] = len(gpu_ids)
    if MEMORY not in custom:  # the user may count less than there is, or more if trials share pages
        totals[MEMORY] = memory_bytes(host)
    return Machine({**totals, **custom}, gpu_ids, find_gpus, cpu_limit)


# -- numbers from the user ---------------------------------------------------------------------------------------------
def _given(argument: float | None, name: str, environ: Mapping[str, str]) -> float | None:
    value: Any = argument
    if argument is None:
        text = setting(name.upper(), environ)
        if not text:
            return None
        name = f"MINITUNE_{name.upper()}"
        try:
            value = json.loads(text)
        except ValueError:
            value = text
    amount = _check_number(value, name)
    if name in ("num_gpus", "MINITUNE_NUM_GPUS") and not float(amount).is_integer():
        raise ValueError(f"{name} must be a whole number, but got {value!r}; trials may ask for fractions of a GPU")
    return amount


def _check_number(value: Any, name: str) -> float:
    if not is_real(value):
        raise ValueError(f"{name} must be a number such as 4, but got {value!r}")
    if not 0 <= value < math.inf:
        raise ValueError(f"expected 0 <= {name} < infinity, but got {value!r}")
    return value


def _read_resources_variable(environ: Mapping[str, str]) -> dict[str, float]:
    text = setting("RESOURCES", environ)
    if not text:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(
            f'MINITUNE_RESOURCES must be a JSON object such as {{"tokens": 2}}, but got {text!r}: {error}'
        ) from None
    return _check_custom(value, "MINITUNE_RESOURCES")


def _check_custom(value: Any, name: str) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise ValueError(f'{name} must map names to amounts, as in {{"tokens": 2}}, but got {value!r}')
    checked = {}
    for key, amount in value.items():
        if not isinstance(key, str):
            raise ValueError(f"{name} must map names to amounts, but got the name {key!r}")
        if key.lower() in ("cpu", "gpu"):
            raise ValueError(
                f"{name} must not hold {key!r}: use num_{key.lower()}s or MINITUNE_NUM_{key.upper()}S instead"
            )
        if key.lower() == MEMORY:
            key = MEMORY
        checked[key] = _check_number(amount, f"{name}[{key!r}]")
    return checked


# -- shares of test processes ------------------------------------------------------------------------------------------
def _shares(environ: Mapping[str, str]) -> tuple[int, int]:
    """The number of shares of the machine, and this process's share, from 0 on, as pytest-xdist sets them."""
    count = environ.get("PYTEST_XDIST_WORKER_COUNT") or "1"
    name = environ.get("PYTEST_XDIST_WORKER") or "gw0"
    return int(count), int(name.removeprefix("gw"))


def _part_of(gpu_ids: tuple[str, ...], shares: int, share: int) -> tuple[str, ...]:
    """The devices of one share. If there are fewer devices than shares, shares have a device in common."""
    if not gpu_ids:
        return ()
    share %= shares  # after a crash, the new test process has a higher number
    return gpu_ids[share::shares] or (gpu_ids[share % len(gpu_ids)],)


# -- CPUs and memory ---------------------------------------------------------------------------------------------------
def usable_cpus(host: MachineFiles | None = None) -> int:
    """The number of CPUs that this process may use: the smaller of its affinity and its cgroup's quota; at least 1."""
    host = host or MachineFiles()
    # `cpu_count` is the machine's. A batch system gives a job some CPUs by its affinity, a container a share of time.
    count = os.cpu_count() or 1
    if sys.platform == "linux":
        try:
            count = len(os.sched_getaffinity(0))
        except OSError:
            pass
    quotas = [quota for directory in host.groups("cpu") if (quota := _cpu_quota(directory)) is not None]
    return max(1, math.floor(min([float(count), *quotas])))


def memory_bytes(host: MachineFiles | None = None) -> int:
    """The memory of the machine, or the limit of this process's cgroup if that is smaller."""
    limits = [
        int(text)
        for directory in (host or MachineFiles()).groups("memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (text := read_text(os.path.join(directory, name))).isdigit()
    ]
    return min([memory()[0], *limits])


def free_memory_bytes(host: MachineFiles | None = None) -> int:
    """The memory that this process can still use without paging."""
    rests = []
    of_both_versions = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
    for directory in (host or MachineFiles()).groups("memory"):
        for name_of_limit, name_of_usage in of_both_versions:
            limit = read_text(os.path.join(directory, name_of_limit))
            usage = read_text(os.path.join(directory, name_of_usage))
            if limit.isdigit() and usage.isdigit():
                # Its usage includes files that it has read, which the kernel drops when memory is needed.
                rests.append(int(limit) - int(usage) + _cached_bytes(directory))
    return max(0, min([memory()[1], *rests]))


def memory_for_values() -> int:
    """How much memory stored values may take: a quarter of the free one."""
    return free_memory_bytes() // 4


def _cached_bytes(cgroup: str) -> int:
    """The part of a cgroup's memory that holds files and that the kernel can free at once."""
    for line in read_text(os.path.join(cgroup, "memory.stat")).splitlines():
        name, _, amount = line.partition(" ")
        if name == "inactive_file" and amount.isdigit():
            return int(amount)
    return 0


def memory() -> tuple[int, int]:
    """The total memory of this machine in bytes, and what programs can still use without paging. Without psutil, whose
    import takes 10 ms.
    """
    try:
        with open("/proc/meminfo", "rb") as file:
            lines = (line.partition(b":") for line in file)
            shown_bytes = {name: 1024 * int(amount.split()[0]) for name, _, amount in lines}
        total = shown_bytes[b"MemTotal"]
        available = shown_bytes[b"MemAvailable"]
    except (OSError, KeyError, ValueError, IndexError):
        import psutil

        found = psutil.virtual_memory()
        return int(found.total), int(found.available)
    if available > total:  # in some containers, one of the two numbers is the host's
        available = shown_bytes.get(b"MemFree", total)
    return total, available


def _cpu_quota(directory: str) -> float | None:
    """The number of CPUs that the cgroup at `directory` may use; None if its files set no limit."""
    words = read_text(os.path.join(directory, "cpu.max")).split()  # version 2: "150000 100000" or "max 100000"
    if not words:
        words = [read_text(os.path.join(directory, name)) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]) > 0:
        return int(words[0]) / int(words[1])
    return None


def _names(directory: str | os.PathLike[str]) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


# -- GPUs --------------------------------------------------------------------------------------------------------------
def visible_devices(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """The devices in `CUDA_VISIBLE_DEVICES`, or None if it is not set.

    Like CUDA, this reads indices and UUIDs (`GPU-...`, `MIG-...`) up to the first other entry: an empty value and `-1`
    mean none.
    """
    text = environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return None
    ids: dict[str, None] = {}
    for entry in text.split(","):
        entry = entry.strip()
        if not (entry.isdigit() or entry.startswith(("GPU-", "MIG-"))):
            break
        ids[entry] = None
    return tuple(ids)


def detect_gpus(asked: bool, host: MachineFiles | None = None) -> tuple[str, ...]:
    """The ids of the GPUs, in order, from `CUDA_VISIBLE_DEVICES`, else from `nvidia-smi`, which runs without a device
    file only if a trial has `asked` for one. Empty if they cannot be determined. May block for 10 s.
    """
    host = host or MachineFiles()
    visible = visible_devices(host.environ)
    if visible is not None:
        return visible
    # Without a device file there is hardly a GPU, and most runs need none: they do not wait for `nvidia-smi`.
    if not asked and not any(name.startswith("nvidia") for name in _names(host.dev)):
        return ()
    import shutil  # only here: it imports every module for archives

    command = shutil.which("nvidia-smi", path=host.environ.get("PATH"))
    if command is None:
        logger.debug("nvidia-smi is not on PATH, so minitune counts no GPU")
        return ()
    try:
        return _parse_listing(_list_gpus(command))
    except (OSError, subprocess.SubprocessError) as error:
        logger.debug("nvidia-smi -L failed, so minitune counts no GPU: %s", error)
        return ()


def _first_gpus(count: float, host: MachineFiles) -> tuple[str, ...]:
    if not count:
        return ()
    visible = visible_devices(host.environ)
    if visible is not None and len(visible) < count:
        raise ValueError(
            f"expected num_gpus <= the number of visible devices, but got num_gpus={count:g} and "
            f"CUDA_VISIBLE_DEVICES={host.environ['CUDA_VISIBLE_DEVICES']!r}; change one of them"
        )
    found = detect_gpus(asked=False, host=host)
    if len(found) < count:
        if found:
            logger.warning("num_gpus=%g, but only %d GPUs were found: %s", count, len(found), ", ".join(found))
        return tuple(str(index) for index in range(int(count)))
    return found[: int(count)]


def _parse_listing(text: str) -> tuple[str, ...]:
    """The ids in the output of `nvidia-smi -L`: indices, or the UUIDs of slices (MIG).

    A process can use only one slice, by its UUID.
    """
    cards: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if card := re.match(r"GPU (\d+):", line):
            cards.append((card[1], []))
        elif cards and (part := re.match(r"\s+MIG .*\(UUID: (MIG-[^)\s]+)\)", line)):
            cards[-1][1].append(part[1])
    return tuple(gpu_id for index, slices in cards for gpu_id in (slices or [index]))


@functools.lru_cache(maxsize=4)  # a failure raises an error, so it is not cached
def _list_gpus(command: str) -> str:
    """Return what `nvidia-smi -L` says. May block for 10 s.

    A broken driver can make the process impossible to kill, so the output goes to a file, and every wait has a limit.

    Raises:
        OSError: If it cannot be started.
        subprocess.SubprocessError: If it fails or takes too long.
    """
    import tempfile

    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [command, "-L"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that its children can be killed with it
        )
        try:
            code = process.wait(_NVIDIA_SMI_BOUND_S)
        except BaseException:
            _kill(process)
            raise
        if code:
            raise subprocess.CalledProcessError(code, [command, "-L"])
        output.seek(0)
        return output.read().decode("utf-8", "replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)  # it leads its own session
        process.wait(1.0)
    except (OSError, subprocess.TimeoutExpired) as error:
        logger.debug("nvidia-smi (pid %d) could not be killed: %s", process.pid, error)
