"""The state of a process: what a test has left behind, and how the old state comes back.

A `ProcessSnapshot` records the state before a test. After it, `leftovers` compares the states and restores the old one
where it can.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from typing import Any

import psutil

from minitune.base.files import working_directory

CHILDREN = "children"
THREADS = "threads"
DESCRIPTORS = "descriptors"
ENVIRONMENT = "environment"
DIRECTORY = "directory"
SIGNALS = "signals"
FILES = "files"
KINDS = (CHILDREN, THREADS, DESCRIPTORS, ENVIRONMENT, DIRECTORY, SIGNALS, FILES)
"""The kinds of leftovers: child processes; threads; open descriptors; environment variables; the working directory;
signal handlers; and files in the working directory."""

STRAGGLER_BOUND_S = 2.0
"""How long to wait for leftovers that are about to end, in seconds."""

_FD_DIRECTORY = "/proc/self/fd"
_SIGNALS = tuple(signal.valid_signals())

_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "loky.backend")
"""Processes that a library keeps until the interpreter ends: for clean-up, or (joblib) as a pool of workers."""

_LASTING_THREADS = ("TMonitor",)
"""Classes of threads that a library (here tqdm) keeps until the interpreter ends."""

_POOL = ("loky", "joblib.externals.loky")
_POOL_THREADS = ("ExecutorManagerThread", "QueueFeederThread")
"""The modules of joblib's pool of workers, and the names of its threads."""

_SET_BY_LIBRARIES = (
    *("PYTEST_", "COV_", "KMP_", "TF_", "TF2_", "TORCH", "PYTORCH_", "XLA_", "JAX_"),
    "CUDA_MODULE_LOADING",
)
"""Prefixes of variables that libraries set permanently when they are imported, or that pytest itself changes."""

_GPU_DEVICE = "/dev/nvidia"


class ProcessSnapshot:
    """The state of this process at one moment. `leftovers` compares it with the present state."""

    def __init__(self, kinds: tuple[str, ...] = KINDS):
        self._kinds = kinds
        self._children = _children() if CHILDREN in kinds else set()
        self._threads = set(threading.enumerate())
        self._descriptors = _descriptors() if DESCRIPTORS in kinds else {}
        self._environment = dict(os.environ)
        self._directory = working_directory()
        self._signals = _handlers() if SIGNALS in kinds else {}
        self._files = _entries(self._directory) if FILES in kinds else set()

    def leftovers(self, bound_s: float | None = None) -> list[str]:
        """All differences to the present state, as text. Waits up to `STRAGGLER_BOUND_S` until they are gone.

        Kills new processes, and restores the environment, the working directory and the signal handlers. Does not
        remove threads, descriptors and files.
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
        lasting: tuple[str, ...] = ()
        if _has_pool():
            lasting = _POOL_THREADS
        # By name, since importing these libraries to compare classes would take seconds.
        new = [one for one in new if type(one).__name__ not in _LASTING_THREADS and one.name not in lasting]
        for thread in new:
            if not isinstance(thread, threading._DummyThread):  # a thread from C code cannot be joined
                thread.join(max(0.0, until_s - time.monotonic()))
        return [f"thread {thread.name!r} (daemon={thread.daemon})" for thread in new if thread.is_alive()]

    def _left_descriptors(self, until_s: float) -> list[str]:
        new = _descriptors().items() - self._descriptors.items()
        # Neither can be told from a leak by its target.
        if _has_pool() or any(target.startswith(_GPU_DEVICE) for _, target in new):
            return []  # joblib's pool and GPU libraries keep descriptors open, which look like leaks
        if new:
            gc.collect()  # a descriptor in a reference cycle is not a leak
        while new and time.monotonic() < until_s:
            time.sleep(0.01)  # the end of a process may close a descriptor a moment later, and no event reports that
            new = _descriptors().items() - self._descriptors.items()
        return [f"descriptor {number} -> {target}" for number, target in sorted(new)]

    def _changed_environment(self, _: float) -> list[str]:
        before = self._environment
        now = dict(os.environ)
        # Sorted, so that the text of a failure is the same each time.
        names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        found = []
        for name in names:
            if name.startswith(_SET_BY_LIBRARIES):
                continue
            what = "changed"
            if name not in before:
                what = "set"
            elif name not in now:
                what = "removed"
            found.append(f"environment variable {name} was {what}")  # without its value, which may be secret
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]
        return found

    def _changed_directory(self, _: float) -> list[str]:
        now = working_directory()
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
                # Python sets handlers in the main thread only; None is a handler from C, which cannot be set again.
                if before is not None and threading.current_thread() is threading.main_thread():
                    signal.signal(number, before)
        return found

    def _left_files(self, _: float) -> list[str]:
        return [f"file {name} in {self._directory}" for name in sorted(_entries(self._directory) - self._files)]


def kill(processes: list[psutil.Process], bound_s: float) -> list[str]:
    """Kill processes. Blocks until they have ended, at most `bound_s` seconds."""
    descriptions = []
    for process in processes:
        try:
            descriptions.append(f"process {process.pid} {process.status()}: {' '.join(process.cmdline())[:200]}")
            process.kill()
        except psutil.NoSuchProcess:
            continue
    # Waited for, because a killed process stays in the list of children until then.
    psutil.wait_procs(processes, timeout=bound_s)
    return descriptions


def is_helper(process: psutil.Process) -> bool:
    """Whether a process is a helper that a library keeps until the interpreter ends, like that of `multiprocessing`."""
    try:
        return any(helper in word for word in process.cmdline() for helper in _HELPERS)
    except psutil.Error:
        return False


def _has_pool() -> bool:
    """Whether joblib keeps a pool of workers, with threads and pipes, until the interpreter ends."""
    return any(type(thread).__module__.startswith(_POOL) for thread in threading.enumerate())


def _children() -> set[psutil.Process]:
    """All descendants of this process, except helpers of libraries."""
    if _has_no_child():
        return set()  # psutil would read the state of every process of the machine
    return {child for child in psutil.Process().children(recursive=True) if not is_helper(child)}


def _has_no_child() -> bool:
    """Whether the system says that this process has no child, alive or dead."""
    if not hasattr(os, "waitid"):
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # takes no exit status from anyone
    except ChildProcessError:
        return True
    return False


def _descriptors() -> dict[int, str]:
    """The open descriptors and their targets; empty if the system does not list them."""
    if not sys.platform.startswith("linux"):
        return {}
    table = {}
    for name in os.listdir(_FD_DIRECTORY):
        try:
            table[int(name)] = os.readlink(f"{_FD_DIRECTORY}/{name}")
        except OSError:
            continue  # the descriptor of the listing itself
    return table


def _handlers() -> dict[int, Any]:
    return {number: signal.getsignal(number) for number in _SIGNALS}


def _entries(directory: str | None) -> set[str]:
    """The names in a directory, without files of test runners and of the interpreter."""
    names = []
    if directory is not None:
        names = os.listdir(directory)
    return {name for name in names if name != "__pycache__" and not name.startswith((".pytest_cache", ".coverage"))}
