"""What every test gets: a storage path of its own, bounds that scale, and the check that nothing is left behind.

`MINITUNE_TEST_TIMEFACTOR` (default 1) multiplies every bound of the suite: set it to 10 on a crowded machine or under a
debugger. A bound is never what a passing test waits for; it only ends a test that hangs.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from run_scripts import script as script

TIME_FACTOR = float(os.environ.get("MINITUNE_TEST_TIMEFACTOR", "1"))
STRAGGLER_BOUND_S = 2.0
"""How long processes, threads and descriptors that are on their way out may take after a test."""
MARKER = "MINITUNE_TEST_SESSION"
_FD_DIRECTORY = "/proc/self/fd"
_TASKS = "/proc/self/task"


def scaled_s(bound_s: float) -> float:
    """A bound in seconds times `MINITUNE_TEST_TIMEFACTOR`."""
    return bound_s * TIME_FACTOR


@pytest.fixture
def bound_s() -> Callable[[float], float]:
    """Scales a bound: `event.wait(bound_s(5))`."""
    return scaled_s


@pytest.fixture(scope="session")
def session_temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A temporary directory of this session only, in force here and in every process that a test starts."""
    directory = tmp_path_factory.mktemp("tmp")
    variables = ("TMPDIR", "TEMP", "TMP")
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(dict.fromkeys(variables, str(directory)))
    tempfile.tempdir = None
    yield directory
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    tempfile.tempdir = None


@pytest.fixture(scope="session", autouse=True)
def no_process_left() -> Iterator[None]:
    """Fails the session if any process that a test started is alive at its end, re-parented ones included.

    Children inherit a marker in their environment, which the kernel shows for every process of ours.
    """
    marker = uuid.uuid4().hex
    os.environ[MARKER] = marker
    yield
    del os.environ[MARKER]
    left = _marked_processes(marker)
    psutil.wait_procs(left, timeout=scaled_s(STRAGGLER_BOUND_S))
    left = _marked_processes(marker)
    text = _kill(left)
    assert not text, f"processes of this session are still alive after its last test: {text}"


@pytest.fixture(autouse=True)
def nothing_left(session_temporary: Path) -> Iterator[None]:
    """Fails a test that leaves a child process, a thread, a descriptor or a temporary file of minitune behind."""
    processes, threads, descriptors = _children(), set(threading.enumerate()), _descriptors()
    yield
    deadline = time.monotonic() + scaled_s(STRAGGLER_BOUND_S)
    problems = _left_threads(threads, deadline) + _left_children(processes, deadline)
    problems += _left_descriptors(descriptors, deadline)
    problems += _left_entries(session_temporary)
    if problems:
        pytest.fail("the test has left something behind:\n  " + "\n  ".join(problems), pytrace=False)


@pytest.fixture(autouse=True)
def storage_of_its_own(nothing_left: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs go to the test's own directory, and settings of the caller's shell stay out (two are meant for tests)."""
    for name in list(os.environ):
        if name.startswith("MINITUNE_") and not name.startswith(("MINITUNE_TEST_", "MINITUNE_START_METHOD")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(tmp_path / "minitune_results"))


def _children() -> set[psutil.Process]:
    if _is_childless():
        return set()
    return {child for child in psutil.Process().children(recursive=True) if not _is_resource_tracker(child)}


def _is_childless() -> bool:
    """Whether the kernel lists no child of any thread; False where it does not tell. Far cheaper than to look at all."""
    try:
        lists = [Path(f"{_TASKS}/{thread}/children").read_text() for thread in os.listdir(_TASKS)]
    except OSError:
        return False
    return not any(lists)


def _is_resource_tracker(process: psutil.Process) -> bool:
    """Whether it is the helper that `multiprocessing` itself keeps until the interpreter ends."""
    try:
        return any("multiprocessing.resource_tracker" in word for word in process.cmdline())
    except psutil.Error:
        return False


def _left_entries(directory: Path) -> list[str]:
    """What of minitune's lies in the temporary directory; it is taken away, for the sake of the next test."""
    entries = list(directory.glob("minitune*"))
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    return [f"temporary entry {entry}" for entry in entries]


def _marked_processes(marker: str) -> list[psutil.Process]:
    marked = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARKER) == marker and not _is_resource_tracker(process):
                marked.append(process)
        except (psutil.Error, OSError):
            continue  # it has ended, or it is somebody else's
    return marked


def _kill(processes: list[psutil.Process]) -> list[str]:
    """Kill what a failed test has left, so that the next test does not answer for it; returns what it was."""
    descriptions = []
    for process in processes:
        try:
            descriptions.append(f"process {process.pid} {process.status()}: {' '.join(process.cmdline())[:200]}")
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(processes, timeout=scaled_s(STRAGGLER_BOUND_S))
    return descriptions


def _left_children(before: set[psutil.Process], deadline: float) -> list[str]:
    new = list(_children() - before)
    if new:
        psutil.wait_procs(new, timeout=max(0.0, deadline - time.monotonic()))
        new = list(_children() - before)
    return _kill(new)


def _left_threads(before: set[threading.Thread], deadline: float) -> list[str]:
    new = [thread for thread in threading.enumerate() if thread not in before]
    for thread in new:
        if not isinstance(thread, threading._DummyThread):  # a foreign thread cannot be joined
            thread.join(max(0.0, deadline - time.monotonic()))
    return [f"thread {thread.name!r} (daemon={thread.daemon})" for thread in new if thread.is_alive()]


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


def _left_descriptors(before: dict[int, str], deadline: float) -> list[str]:
    new = _descriptors().items() - before.items()
    if new:
        gc.collect()  # a descriptor in a reference cycle is garbage, not a leak
    while new and time.monotonic() < deadline:
        time.sleep(0.01)  # nothing tells when a descriptor is closed; a process's end may close one a moment later
        new = _descriptors().items() - before.items()
    return [f"descriptor {number} -> {target}" for number, target in sorted(new)]
