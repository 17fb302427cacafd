"""What a test may leave behind, and how it is found: processes, threads, descriptors, changed settings, files."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil

CHILDREN, THREADS, DESCRIPTORS = "children", "threads", "descriptors"
ENVIRONMENT, DIRECTORY, SIGNALS, FILES = "environment", "directory", "signals", "files"
KINDS = (CHILDREN, THREADS, DESCRIPTORS, ENVIRONMENT, DIRECTORY, SIGNALS, FILES)
"""What is looked at: child processes; threads; open descriptors; environment variables; the working directory;
signal handlers; and files in the working directory."""

STRAGGLER_BOUND_S = 2.0
"""How long what is on its way out may take, in seconds."""

_FD_DIRECTORY = "/proc/self/fd"
_TASKS = "/proc/self/task"
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "loky.backend")
"""Processes that a library keeps until the interpreter ends: to tidy up after it, or (joblib) as a pool of workers."""
_LASTING_THREADS = ("TMonitor",)
"""Classes of threads that a library (here tqdm) keeps until the interpreter ends."""
_POOL, _POOL_THREADS = ("loky", "joblib.externals.loky"), ("ExecutorManagerThread", "QueueFeederThread")
"""The modules of joblib's pool of workers, and the names of its threads."""
_SET_BY_LIBRARIES = (
    *("PYTEST_", "COV_", "KMP_", "TF_", "TF2_", "TORCH", "PYTORCH_", "XLA_", "JAX_"),
    "CUDA_MODULE_LOADING",
)
"""How variables begin that libraries set for good when they are imported, and those that pytest changes by itself."""
_GPU_DEVICE = "/dev/nvidia"


class Snapshot:
    """What this process has at one moment; `leftovers` tells what it has more, or otherwise, at a later one.

    Args:
        kinds: What to look at, of `KINDS`.
    """

    def __init__(self, kinds: tuple[str, ...] = KINDS):
        self._kinds = kinds
        self._children = _children() if CHILDREN in kinds else set()
        self._threads = set(threading.enumerate())
        self._descriptors = _descriptors() if DESCRIPTORS in kinds else {}
        self._environment = dict(os.environ)
        self._directory = _working_directory()
        self._signals = _handlers() if SIGNALS in kinds else {}
        self._files = _entries(self._directory) if FILES in kinds else set()

    def leftovers(self, bound_s: float | None = None) -> list[str]:
        """What is there now that was not, in words. Blocks until all is gone, for `STRAGGLER_BOUND_S` at most.

        What this test leaves must not be the next one's trouble: processes are killed, and environment, directory and
        signal handlers put back. Threads, descriptors and files stay.

        Args:
            bound_s: Another bound, in seconds.
        """
        until_s = time.monotonic() + (STRAGGLER_BOUND_S if bound_s is None else bound_s)
        looks = {
            THREADS: self._left_threads,
            CHILDREN: self._left_children,
            DESCRIPTORS: self._left_descriptors,
            ENVIRONMENT: self._changed_environment,
            DIRECTORY: self._changed_directory,
            SIGNALS: self._changed_signals,
            FILES: self._left_files,
        }
        return [text for kind, look in looks.items() if kind in self._kinds for text in look(until_s)]

    def _left_children(self, until_s: float) -> list[str]:
        new = list(_children() - self._children)
        if new:
            psutil.wait_procs(new, timeout=max(0.0, until_s - time.monotonic()))
            new = list(_children() - self._children)
        return kill(new, bound_s=max(1.0, until_s - time.monotonic()))

    def _left_threads(self, until_s: float) -> list[str]:
        new = [thread for thread in threading.enumerate() if thread not in self._threads]
        lasting = _POOL_THREADS if _has_pool() else ()
        new = [one for one in new if type(one).__name__ not in _LASTING_THREADS and one.name not in lasting]
        for thread in new:
            if not isinstance(thread, threading._DummyThread):  # a foreign thread cannot be joined
                thread.join(max(0.0, until_s - time.monotonic()))
        return [f"thread {thread.name!r} (daemon={thread.daemon})" for thread in new if thread.is_alive()]

    def _left_descriptors(self, until_s: float) -> list[str]:
        new = _descriptors().items() - self._descriptors.items()
        if _has_pool() or any(target.startswith(_GPU_DEVICE) for _, target in new):
            return []  # a pool and a GPU library keep what they have opened; it cannot be told from the rest
        if new:
            gc.collect()  # a descriptor in a reference cycle is garbage, not a leak
        while new and time.monotonic() < until_s:
            time.sleep(0.01)  # nothing tells when a descriptor is closed; a process's end may close one a moment later
            new = _descriptors().items() - self._descriptors.items()
        return [f"descriptor {number} -> {target}" for number, target in sorted(new)]

    def _changed_environment(self, _: float) -> list[str]:
        before, now = self._environment, dict(os.environ)
        names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        found = []
        for name in names:
            if name.startswith(_SET_BY_LIBRARIES):
                continue
            what = "set" if name not in before else "removed" if name not in now else "changed"
            found.append(f"environment variable {name} was {what}")  # not its value, which may be a secret
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]
        return found

    def _changed_directory(self, _: float) -> list[str]:
        now = _working_directory()
        if now == self._directory or self._directory is None:
            return []
        os.chdir(self._directory)
        return [f"the working directory is {now}, but was {self._directory}"]

    def _changed_signals(self, _: float) -> list[str]:
        found = []
        for number, handler in _handlers().items():
            before = self._signals.get(number, handler)
            if handler is not before:
                found.append(f"the handler of {signal.Signals(number).name} is {handler!r}, but was {before!r}")
                if before is not None and threading.current_thread() is threading.main_thread():
                    signal.signal(number, before)
        return found

    def _left_files(self, _: float) -> list[str]:
        return [f"file {name} in {self._directory}" for name in sorted(_entries(self._directory) - self._files)]


def kill(processes: list[psutil.Process], bound_s: float) -> list[str]:
    """Kill processes. Blocks until they are gone, at most for `bound_s` seconds.

    Returns:
        What each of them was that was still there.
    """
    descriptions = []
    for process in processes:
        try:
            descriptions.append(f"process {process.pid} {process.status()}: {' '.join(process.cmdline())[:200]}")
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(processes, timeout=bound_s)
    return descriptions


def is_helper(process: psutil.Process) -> bool:
    """Whether it is a helper that a library keeps until the interpreter ends, such as that of `multiprocessing`."""
    try:
        return any(helper in word for word in process.cmdline() for helper in _HELPERS)
    except psutil.Error:
        return False


def _has_pool() -> bool:
    """Whether joblib keeps a pool of workers, with threads and pipes, until the interpreter ends."""
    return any(type(thread).__module__.startswith(_POOL) for thread in threading.enumerate())


def _children() -> set[psutil.Process]:
    if _is_childless():
        return set()
    return {child for child in psutil.Process().children(recursive=True) if not is_helper(child)}


def _is_childless() -> bool:
    """Whether the kernel lists no child of any thread; False where it does not tell. Cheaper than to look at all."""
    try:
        lists = [Path(f"{_TASKS}/{thread}/children").read_text() for thread in os.listdir(_TASKS)]
    except OSError:
        return False
    return not any(lists)


def _descriptors() -> dict[int, str]:
    """Open descriptors and what they point to; empty where the system does not show them."""
    if not sys.platform.startswith("linux"):
        return {}
    table = {}
    for name in os.listdir(_FD_DIRECTORY):
        try:
            table[int(name)] = os.readlink(f"{_FD_DIRECTORY}/{name}")
        except OSError:
            continue  # the one by which the listing itself was read
    return table


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _handlers() -> dict[int, Any]:
    return {number: signal.getsignal(number) for number in signal.valid_signals()}


def _entries(directory: str | None) -> set[str]:
    """Names in a directory, without what test runners and the interpreter write there by themselves."""
    names = os.listdir(directory) if directory is not None else []
    return {name for name in names if name != "__pycache__" and not name.startswith((".pytest_cache", ".coverage"))}
