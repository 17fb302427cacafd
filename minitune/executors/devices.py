"""Detects the resources of the machine; numbers from the user have precedence."""

from __future__ import annotations

import functools
import json
import logging
import math
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from minitune.base.cgroups import own_groups, read_text
from minitune.base.checks import is_real
from minitune.base.settings import setting
from minitune.resources import CPU, GPU, MEMORY

logger = logging.getLogger("minitune")

_NVIDIA_SMI_BOUND_S = 10.0
"""With many devices, `nvidia-smi` may need several seconds."""
_DEV = "/dev"
_GPU_FILES = ("nvidia", "dxg")
"""How the names of the device files of GPUs begin; `dxg` is that of Linux inside Windows."""


class Machine(NamedTuple):
    """The resources that trials may use.

    Attributes:
        totals: The amounts by name: `CPU`, `memory` in bytes, `GPU` if there are any, and custom ones.
    """

    totals: dict[str, float]
    gpu_ids: tuple[str, ...]


def machine_resources(
    num_cpus: float | None = None,
    num_gpus: int | None = None,
    resources: Mapping[str, float] | None = None,
) -> Machine:
    """Determine the resources that trials may use.

    A number comes from the argument, else from `MINITUNE_NUM_CPUS` or `MINITUNE_NUM_GPUS`, else from detection. May
    block for 10 s in `nvidia-smi`, if there is a device file of a GPU.

    Args:
        num_cpus: The number of CPUs.
        num_gpus: The number of GPUs: the first of the visible ones.
        resources: Custom amounts by name, and `memory` in bytes.

    Raises:
        ValueError: If a number is invalid, or `CUDA_VISIBLE_DEVICES` names fewer devices than requested.
    """
    custom = _check_custom(resources if resources is not None else {})
    cpus = _given(num_cpus, "num_cpus")
    gpus = _given(num_gpus, "num_gpus")
    totals: dict[str, float] = {CPU: usable_cpus() if cpus is None else cpus}
    gpu_ids = detect_gpus() if gpus is None else _first_gpus(gpus)
    if gpu_ids:
        totals[GPU] = len(gpu_ids)
    if MEMORY not in custom:  # the user may count less than there is, or more if trials share pages
        totals[MEMORY] = memory_bytes()
    return Machine({**totals, **custom}, gpu_ids)


# -- numbers from the user ---------------------------------------------------------------------------------------------
def _given(argument: float | None, name: str) -> float | None:
    value: Any = argument
    if argument is None:
        text = setting(name.upper())
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


def _check_custom(resources: Any) -> dict[str, float]:
    if not isinstance(resources, Mapping):
        raise ValueError(f'resources must map names to amounts, as in {{"tokens": 2}}, but got {resources!r}')
    checked = {}
    for key, amount in resources.items():
        if not isinstance(key, str):
            raise ValueError(f"resources must map names to amounts, but got the name {key!r}")
        if key.lower() in ("cpu", "gpu"):
            raise ValueError(
                f"resources must not hold {key!r}: use num_{key.lower()}s or MINITUNE_NUM_{key.upper()}S instead"
            )
        if key.lower() == MEMORY:
            key = MEMORY
        checked[key] = _check_number(amount, f"resources[{key!r}]")
    return checked


# -- CPUs and memory ---------------------------------------------------------------------------------------------------
def usable_cpus() -> int:
    """The number of CPUs that this process may use: the smaller of its affinity and its cgroup's quota; at least 1."""
    # `cpu_count` is the machine's. A batch system gives a job some CPUs by its affinity, a container a share of time.
    count = os.cpu_count() or 1
    if sys.platform == "linux":
        try:
            count = len(os.sched_getaffinity(0))
        except OSError:
            pass
    quotas = [quota for directory in own_groups("cpu") if (quota := _cpu_quota(directory)) is not None]
    return max(1, math.floor(min([float(count), *quotas])))


def memory_bytes() -> int:
    """The memory of the machine, or the limit of this process's cgroup if that is smaller."""
    limits = [
        int(text)
        for directory in own_groups("memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (text := read_text(os.path.join(directory, name))).isdigit()
    ]
    return min([memory()[0], *limits])


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
def visible_devices() -> tuple[str, ...] | None:
    """The devices in `CUDA_VISIBLE_DEVICES`, or None if it is not set.

    Like CUDA, this reads indices and UUIDs (`GPU-...`, `MIG-...`) up to the first other entry: an empty value and `-1`
    mean none.
    """
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return None
    ids: dict[str, None] = {}
    for entry in text.split(","):
        entry = entry.strip()
        if not (entry.isdigit() or entry.startswith(("GPU-", "MIG-"))):
            break
        ids[entry] = None
    return tuple(ids)


def detect_gpus() -> tuple[str, ...]:
    """The ids of the GPUs, in order, from `CUDA_VISIBLE_DEVICES`, else from `nvidia-smi`, which runs only if there is a
    device file. Empty if they cannot be determined. May block for 10 s.
    """
    visible = visible_devices()
    if visible is not None:
        return visible
    # Without a device file there is hardly a GPU, and most runs need none: they do not wait for `nvidia-smi`.
    if not any(name.startswith(_GPU_FILES) for name in _names(_DEV)):
        return ()
    import shutil  # only here: it imports every module for archives

    command = shutil.which("nvidia-smi")
    if command is None:
        logger.debug("nvidia-smi is not on PATH, so minitune counts no GPU")
        return ()
    try:
        return _list_gpus(command)
    except (OSError, subprocess.SubprocessError) as error:
        logger.debug("nvidia-smi -L failed, so minitune counts no GPU: %s", error)
        return ()


def _first_gpus(count: float) -> tuple[str, ...]:
    if not count:
        return ()
    visible = visible_devices()
    if visible is not None and len(visible) < count:
        raise ValueError(
            f"expected num_gpus <= the number of visible devices, but got num_gpus={count:g} and "
            f"CUDA_VISIBLE_DEVICES={os.environ['CUDA_VISIBLE_DEVICES']!r}; change one of them"
        )
    found = detect_gpus()
    if len(found) < count:
        if found:
            logger.warning("num_gpus=%g, but only %d GPUs were found: %s", count, len(found), ", ".join(found))
        return tuple(str(index) for index in range(int(count)))
    return found[: int(count)]


@functools.lru_cache(maxsize=4)  # a failure raises an error, so it is not cached
def _list_gpus(command: str) -> tuple[str, ...]:
    """The indices in the output of `nvidia-smi -L`. May block for 10 s.

    Raises:
        OSError: If it cannot be started.
        subprocess.SubprocessError: If it fails or takes too long.
    """
    done = subprocess.run(
        [command, "-L"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=_NVIDIA_SMI_BOUND_S,
        check=True,
    )
    return tuple(re.findall(r"^GPU (\d+):", done.stdout.decode("utf-8", "replace"), re.MULTILINE))
