"""What every test gets: a storage path of its own, bounds that scale, and the check that nothing is left behind.

`MINITUNE_TEST_TIMEFACTOR` (default 1) multiplies every bound of the suite: set it to 10 on a crowded machine or under a
debugger. A bound is never what a passing test waits for; it only ends a test that hangs. The whole suite runs in two
processes, see `side_by_side`.
"""

from __future__ import annotations

import compileall
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from run_scripts import script as script
from side_by_side import pytest_runtestloop as pytest_runtestloop

import minitune
from minitune.testing.leftovers import FILES, KINDS, STRAGGLER_BOUND_S, Snapshot, is_helper, kill

TIME_FACTOR = float(os.environ.get("MINITUNE_TEST_TIMEFACTOR", "1"))
MARKER = "MINITUNE_TEST_SESSION"
FOR_TESTS = ("MINITUNE_TEST_", "MINITUNE_START_METHOD")


def pytest_sessionstart() -> None:
    """Compile the package once: tests start thousands of interpreters, also ones that write no bytecode."""
    compileall.compile_dir(str(Path(minitune.__file__).parent), quiet=2)


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
    text = kill(left, scaled_s(STRAGGLER_BOUND_S))
    assert not text, f"processes of this session are still alive after its last test: {text}"


@pytest.fixture(autouse=True)
def nothing_left(session_temporary: Path) -> Iterator[None]:
    """Fails a test that leaves a process, thread, descriptor, changed setting or temporary file of ours behind."""
    before = Snapshot(tuple(kind for kind in KINDS if kind != FILES))
    yield
    problems = before.leftovers(scaled_s(STRAGGLER_BOUND_S)) + _left_entries(session_temporary)
    if problems:
        pytest.fail("the test has left something behind:\n  " + "\n  ".join(problems), pytrace=False)


@pytest.fixture(autouse=True)
def storage_of_its_own(nothing_left: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs go to the test's own directory, and settings of the caller's shell stay out (two are meant for tests)."""
    for name in list(os.environ):
        if name.startswith(("MINITUNE_", "GITHUB_")) and not name.startswith(FOR_TESTS):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(tmp_path / "minitune_results"))


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
            if process.environ().get(MARKER) == marker and not is_helper(process):
                marked.append(process)
        except (psutil.Error, OSError):
            continue  # it has ended, or it is somebody else's
    return marked
