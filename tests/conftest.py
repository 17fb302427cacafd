"""Every test gets the same surroundings, however pytest was started, and must leave nothing behind. See `kit` first.

The surroundings are: a storage path of its own, a machine of four CPUs, the usual signals, umask and variables. So the
suite passes under `nohup`, in cron, without a terminal and on a machine of any size.

`MINITUNE_TEST_TIMEFACTOR` (default 1) multiplies every bound of the suite: set it to 10 on a crowded machine or under a
debugger. A passing test never waits for a bound, which only ends a test that hangs. Each test has a limit besides, see
`time_limit`. The whole suite runs in three processes, see `side_by_side`.
"""

from __future__ import annotations

import compileall
import functools
import importlib.util
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import cloudpickle
import psutil
import pytest
from side_by_side import pytest_runtestloop as pytest_runtestloop
from time_limit import pytest_runtest_call as pytest_runtest_call
from time_limit import pytest_runtest_setup as pytest_runtest_setup
from time_limit import pytest_runtest_teardown as pytest_runtest_teardown

pytest.register_assert_rewrite("kit", "adapter_suite", "executor_contract", "result_runs")

# pytest rewrites the asserts of what is imported from here on
import kit  # noqa: E402
from kit import Script, scaled_s  # noqa: E402
from process_state import STRAGGLER_BOUND_S, ProcessSnapshot, is_helper, kill  # noqa: E402
from result_runs import forbid_unpickling as forbid_unpickling  # noqa: E402
from result_runs import grid as grid  # noqa: E402
from script_kit import SHORT_WAITS  # noqa: E402

import minitune  # noqa: E402
from minitune.actor.process_tree import MemoryKills  # noqa: E402
from minitune.executors import local  # noqa: E402

HAS_HYPOTHESIS = importlib.util.find_spec("hypothesis") is not None
collect_ignore_glob = [] if HAS_HYPOTHESIS else ["*_properties.py"]

EXTRAS = Path(__file__).parent / "extras"
MARKER = "MINITUNE_TEST_SESSION"
TEMPORARY_BYTES = 2 << 30
"""More than the files of any one test take; those of a test that has passed are removed."""
FOR_TESTS = ("MINITUNE_TEST_", "MINITUNE_START_METHOD")
OF_THE_SHELL = (
    *("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"),
    *("PYTHONWARNINGS", "PYTHONOPTIMIZE", "PYTHONHASHSEED", "PYTHONUNBUFFERED"),
)
"""Variables by which a user's shell changes the output or the behaviour of the programs that tests start."""


def pytest_configure(config: pytest.Config) -> None:
    """Undo what a starter such as `nohup ... &` has done to signals, for the processes that tests start.

    Ignored and blocked signals are inherited, and minitune leaves ignored ones ignored, so that most tests of signals
    would wait in vain. A handler is not inherited: with one that does nothing, pytest itself goes on ignoring the
    signal, as its starter wants, and each program that a test starts has the default.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda number, frame: None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in this process press Ctrl-C, too
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, no one hears how a child has ended
    os.umask(0o022)
    memory = Path("/dev/shm")  # a run syncs its files; on a disk the suite would wait for that a third of its time
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > TEMPORARY_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))
    if HAS_HYPOTHESIS:
        from hypothesis import settings
        from hypothesis.configuration import set_hypothesis_home_dir

        # It keeps what it finds in the sources, even without a database. No test must be the first to make the place.
        home = config.rootpath / ".pytest_cache" / "hypothesis"
        home.mkdir(parents=True, exist_ok=True)
        set_hypothesis_home_dir(home)
        # no timing assertions, no files in the checkout, half of the examples that are the default
        settings.register_profile("minitune", deadline=None, database=None, max_examples=50)
        settings.load_profile("minitune")


def pytest_report_header() -> list[str]:
    """Say how long the suite takes, before it does, and what it leaves out."""
    lines = ["minitune: the whole suite takes 3 to 4 minutes on two free cores; one folder, or -k, takes seconds"]
    if not HAS_HYPOTHESIS:
        lines.append("minitune: the property tests are left out, since hypothesis is not installed")
    return lines


def pytest_sessionstart() -> None:
    """Compile the package once: tests start thousands of interpreters, also ones that write no bytecode."""
    compileall.compile_dir(str(Path(minitune.__file__).parent), quiet=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pickle what tests define by value: a worker that imported its test would import pytest, which takes long.

    A module that says `BY_REFERENCE = True` has globals that cannot be pickled or that its functions share in a worker,
    or it asks about pickles itself. The tests of optional packages are as their users are, who have modules.
    """
    own = {item.module for item in items if isinstance(item, pytest.Function) and EXTRAS not in item.path.parents}
    for module in {kit, *own} if own else ():
        if not getattr(module, "BY_REFERENCE", False):
            cloudpickle.register_pickle_by_value(module)


@pytest.fixture
def bound_s() -> Callable[[float], float]:
    """Scales a bound: `event.wait(bound_s(5))`."""
    return scaled_s


@pytest.fixture
def script(tmp_path: Path, nothing_left: None) -> Iterator[Script]:
    """Scripts of a user, as processes of their own; see `kit.Script`."""
    script = Script(tmp_path)
    yield script
    script.close()


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
def nothing_left(session_temporary: Path, no_process_left: None) -> Iterator[None]:
    """Fails a test that leaves a process, thread, descriptor, changed setting or file behind.

    Files are looked for in the working directory, which is the checkout, and among the temporary ones of minitune.
    """
    before = ProcessSnapshot()
    yield
    problems = before.leftovers(scaled_s(STRAGGLER_BOUND_S)) + _left_entries(session_temporary)
    if problems:
        pytest.fail("the test has left something behind:\n  " + "\n  ".join(problems), pytrace=False)


@pytest.fixture(autouse=True)
def storage_of_its_own(nothing_left: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs go to the test's own directory, on a machine of four CPUs and no GPU, wherever the tests run.

    Settings of the caller's shell stay out, but for those that are meant for tests. So do processes of others that the
    kernel kills for lack of memory: its count of these would be taken as the reason of a death in this test.
    """
    for name in list(os.environ):
        if name in OF_THE_SHELL or (name.startswith("MINITUNE_") and not name.startswith(FOR_TESTS)):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(tmp_path / "minitune_results"))
    monkeypatch.setenv("MINITUNE_NUM_CPUS", "4")
    monkeypatch.setenv("MINITUNE_NUM_GPUS", "0")
    monkeypatch.setattr("minitune.base.text._said", set())  # what is said once in a process is said once in each test
    monkeypatch.setattr(local, "MemoryKills", functools.partial(MemoryKills, ()))


@pytest.fixture
def one_cpu(storage_of_its_own: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with room for one trial: the others wait in the queue."""
    monkeypatch.setenv("MINITUNE_NUM_CPUS", "1")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver of a run in this process waits shortly where it waits to see what else happens."""
    for name, value in SHORT_WAITS.items():
        monkeypatch.setattr(name, value)


@pytest.fixture
def inline(storage_of_its_own: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run of the test takes place in this process, also one that `tune.run` begins."""
    monkeypatch.setenv("MINITUNE_EXECUTOR", "inline")


def _left_entries(directory: Path) -> list[str]:
    """The entries of minitune in the temporary directory. They are removed, for the sake of the next test."""
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
