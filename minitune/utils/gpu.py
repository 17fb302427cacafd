"""Waiting for a GPU that another process has not let go of yet."""

from __future__ import annotations

import logging
import shutil
import subprocess
import time

from minitune.context import get_gpu_ids
from minitune.execution.devices import run_bounded

logger = logging.getLogger("minitune")


def wait_for_gpu(
    gpu_id: int | str | None = None,
    target_util: float = 0.01,
    retry: int = 20,
    delay_s: float = 5,
    gpu_memory_limit: float | None = None,
) -> bool:
    """Wait until little of a GPU's memory is in use. Blocks, by default for up to 100 s; needs `nvidia-smi`.

    Args:
        gpu_id: Index or UUID of the device; by default the first one of the calling trial.
        target_util: The share of its memory that may be in use, between 0 and 1.
        retry: How often to look.
        delay_s: Seconds between two looks.
        gpu_memory_limit: Gone in Ray Tune too: only None is possible.

    Returns:
        True.

    Raises:
        RuntimeError: If there is no `nvidia-smi`, the trial has no GPU, or the memory was not freed.
        ValueError: If there is no such device, or an argument breaks its rule.
    """
    if gpu_memory_limit is not None:
        raise ValueError(f"gpu_memory_limit must be None, but got {gpu_memory_limit!r}; use target_util, a share")
    if gpu_id is not None and (isinstance(gpu_id, bool) or not isinstance(gpu_id, (int, str))):
        raise ValueError(f"gpu_id must be an index or a UUID, but got {gpu_id!r}")
    command = shutil.which("nvidia-smi")
    if command is None:
        raise RuntimeError("wait_for_gpu() needs nvidia-smi, but there is none on the PATH: is there a GPU here?")
    if gpu_id is None:
        own = get_gpu_ids()
        if not own:
            raise RuntimeError('this trial has no GPU: ask for one, as in with_resources(trainable, {"gpu": 1})')
        gpu_id = own[0]
    for _ in range(int(retry)):
        used = _used_shares(command)
        share = used.get(str(gpu_id))
        if share is None:
            raise ValueError(f"gpu_id must be one of {', '.join(used) or 'none'}, but got {gpu_id!r}")
        if share <= target_util:
            return True
        logger.info("GPU %s: %.3f of its memory is in use, waiting for %.3f", gpu_id, share, target_util)
        time.sleep(delay_s)
    raise RuntimeError(f"the memory of GPU {gpu_id} was not freed in {retry} looks, {delay_s:g} s apart")


def _used_shares(command: str) -> dict[str, float]:
    """The share of memory in use, by index and by UUID."""
    try:
        text = run_bounded(command, "--query-gpu=index,uuid,memory.used,memory.total", "--format=csv,noheader,nounits")
    except (OSError, subprocess.SubprocessError) as error:
        raise RuntimeError(f"nvidia-smi did not tell how much memory is in use: {error}") from error
    shares: dict[str, float] = {}
    for line in text.splitlines():
        index, uuid, used, total = (word.strip() for word in line.split(","))
        shares[index] = shares[uuid] = float(used) / float(total)
    return shares
