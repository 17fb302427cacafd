"""smoke: a short tuning as a test of a trainable.

It looks for four faults: trials that fail, hang, leave something behind, or never report, and raises a `SmokeFailure`
with the way out.

- A trial in this process cannot be killed. So the run has its own thread, for which the caller waits only so long. A
  trial in a process must report in each half of the budget; if it does not, the run's own limit ends it.
- A `ProcessSnapshot` records the state of the process before the run. After it, `leftovers` compares the states and
  restores the old one where it can.
"""

from __future__ import annotations

import atexit
import functools
import gc
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import fields
from types import TracebackType
from typing import Any

import psutil

from minitune.analysis.experiment_analysis import ExperimentAnalysis
from minitune.analysis.summary import Target, grouped_errors
from minitune.base.checks import is_real, require
from minitune.base.files import discard_tree, working_directory
from minitune.base.forks import only_here
from minitune.base.settings import variable_of
from minitune.config import RunConfig
from minitune.error import TrialStopped, format_stack
from minitune.experiment.goal import Best, why_no_best
from minitune.result import own_metrics
from minitune.result_grid import Result, ResultGrid
from minitune.search.by_name import chosen_searcher
from minitune.tune_config import TuneConfig
from minitune.tuner import Tuner
from minitune.view.summary import best_text

STOP_S = 2.0
"""How long trials may take to stop at the end of the budget, in seconds."""

_SILENT_SHARE = 0.5
"""A trial in its own process has failed if it does not report for this share of the budget."""

_INTERRUPT_S = 0.5
"""How long a trial may take to unwind after an exception, in seconds."""

_NAMES = {kind: frozenset(entry.name for entry in fields(kind)) for kind in (TuneConfig, RunConfig)}

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


class SmokeFailure(AssertionError):
    """A short tuning has failed. The text names the fault and its place."""

    def __init__(self, text: str, grid: ResultGrid | None = None, user_traceback: TracebackType | None = None):
        super().__init__(text)
        self.grid = grid
        self.user_traceback = user_traceback


def smoke(
    trainable: Any,
    space: Any = None,
    *,
    metric: str | None = None,
    mode: str | None = None,
    num_samples: int = 2,
    budget_s: float = 10.0,
    seed: int = 0,
    executor: str = "inline",
    directory: str | os.PathLike[str] | None = None,
    may_leave: Collection[str] = (),
    **config: Any,
) -> ResultGrid:
    """Run a short tuning, and check that it succeeds and leaves nothing behind. Blocks for little more than `budget_s`.

    The other arguments are those of a run. If there is a metric, each report must have it. By default, trials run one
    at a time in this process, for debuggers, coverage and patches; `executor="local"` runs them in processes. At the
    end of the budget, trials are asked to stop, and processes are killed 2 s later; each of these must report in each
    half of the budget. `directory` is that of the run. `may_leave` has allowed leftovers: `children`, `threads`,
    `descriptors`, `environment`, `directory`, `signals` and `files`.

    Returns:
        The results: no trial has failed, and at least one has reported.

    Raises:
        SmokeFailure: If a trial fails or hangs, no trial reports in time, or there are leftovers.
        ValueError: If an argument has an invalid value.
        TypeError: If the trainable cannot be pickled.
    """
    __tracebackhide__ = True
    good = is_real(budget_s) and 0 < budget_s < threading.TIMEOUT_MAX
    require(good, "budget_s: a number of seconds > 0", budget_s)
    unknown = sorted(set(may_leave) - set(KINDS))
    require(not unknown, f"may_leave: a collection of {', '.join(KINDS)}", may_leave)
    given = dict(metric=metric, mode=mode, num_samples=num_samples, seed=seed, executor=executor, **config)
    if executor != "inline":
        given.setdefault("report_timeout_s", budget_s * _SILENT_SHARE)
    tuner = _tuner(trainable, space, given, budget_s, os.fspath(directory or _own_directory()))
    name = str(getattr(trainable, "__name__", trainable))
    has_neighbours = "PYTEST_XDIST_WORKER" in os.environ  # other processes run tests in this directory
    kinds = tuple(kind for kind in KINDS if kind not in may_leave and not (kind == FILES and has_neighbours))
    # Its library may set variables or start threads when it is first imported, which is not the trial's fault.
    chosen_searcher("search_alg", tuner._plan.tune_config.search_alg)
    before = ProcessSnapshot(kinds)
    # The budget begins here: loading the libraries is not the trainable's work.
    until_s = time.monotonic() + budget_s
    try:
        with _variables({variable_of("FORCE_TRIAL_CLEANUP_S"): f"{STOP_S:g}"}):
            grid = _fit_in_time(tuner.fit, name, budget_s) if executor == "inline" else tuner.fit()
    finally:
        left = before.leftovers()  # also after a failure, because this restores the old state
    _refuse_failures(grid, name, seed)
    if left:
        raise SmokeFailure("\n  ".join([f"the trials of {name} have left something behind:", *left]), grid)
    if not any(own_metrics(result.metrics) for result in grid):
        what = "before its end: call report(), or return a dict of metrics"
        if time.monotonic() > until_s:
            what = f"within {budget_s:g} s: report earlier, or give a longer budget_s"
        raise SmokeFailure(f"no trial of {name} has reported anything {what}", grid)
    return grid


def assert_best(
    result_grid: ResultGrid | ExperimentAnalysis,
    metric: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    *,
    mode: str | None = None,
    scope: str = "last",
) -> Result:
    """Assert that the best trial reaches a bound.

    Args:
        result_grid: From `fit` or `smoke`.
        metric: The metric's flattened name; by default the run's metric.
        at_least: The lower bound of the best value.
        at_most: The upper bound of the best value.
        mode: By default the run's, else `"max"` with `at_least` and `"min"` with `at_most`.
        scope: The value by which trials are compared: `last`, `all` (the best one of the trial), `avg`, `last-5-avg` or
            `last-10-avg`.

    Raises:
        AssertionError: If the best value is outside the bounds, or no trial has reported the metric.
        ValueError: If neither bound is given, or metric, mode or scope is unknown.
        TypeError: If `result_grid` is not a `ResultGrid`.
    """
    __tracebackhide__ = True
    if isinstance(result_grid, ExperimentAnalysis):
        result_grid = ResultGrid(result_grid)
    if not isinstance(result_grid, ResultGrid):
        raise TypeError(f"result_grid must be a ResultGrid, but got {type(result_grid).__name__}: what fit() returns")
    results = result_grid._run
    target = Target.of(metric or results.goal.metric, at_least, at_most, mode=mode or results.goal.mode, scope=scope)
    best = Best.of(results.trials, target.metric, target.mode, target.scope)
    if best is None:
        raise AssertionError(f"expected {target}, but {why_no_best(results.trials, target.metric)}")
    if not target.is_met(best.value):
        raise AssertionError(f"expected {target}, got {best_text(best)}\n(the best of {len(result_grid)} trials)")
    return result_grid[results.trials.index(best.trial)]


# -- the run ----------------------------------------------------------------------------------------------------------


def _tuner(trainable: Any, space: Any, given: dict[str, Any], budget_s: float, directory: str) -> Tuner:
    """The tuner of a smoke run. Each argument goes to the config that has it."""
    unknown = sorted(given.keys() - _NAMES[TuneConfig] - _NAMES[RunConfig])
    if unknown:
        raise TypeError(f"smoke() takes the arguments of TuneConfig and RunConfig, but got {', '.join(unknown)}")
    for name, instead in (("time_budget_s", "budget_s"), ("storage_path", "directory"), ("local_dir", "directory")):
        if name in given:
            raise TypeError(f"smoke() takes {instead}, but got {name}")
    tune = {name: value for name, value in given.items() if name in _NAMES[TuneConfig]}
    run = {"verbose": 0, **{name: value for name, value in given.items() if name in _NAMES[RunConfig]}}
    return Tuner(
        trainable,
        param_space=space,
        tune_config=TuneConfig(**tune, time_budget_s=budget_s),
        run_config=RunConfig(**run, storage_path=directory),
    )


@functools.lru_cache(maxsize=1)
def _own_directory() -> str:
    """The directory for the runs of this process."""
    directory = tempfile.mkdtemp(prefix="minitune-smoke-")
    atexit.register(only_here(discard_tree), directory)
    return directory


@contextmanager
def _variables(values: dict[str, str]) -> Iterator[None]:
    """Override environment variables inside a `with` block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for variable, value in before.items():
            if value is None:
                os.environ.pop(variable, None)
            else:
                os.environ[variable] = value


# -- the bound --------------------------------------------------------------------------------------------------------


def _fit_in_time(fit: Callable[[], ResultGrid], name: str, budget_s: float) -> ResultGrid:
    """Run `fit` on a separate thread, so that a hang does not block the caller: after the budget and the grace period,
    SmokeFailure.
    """
    __tracebackhide__ = True
    outcome: list[ResultGrid | BaseException] = []

    def run() -> None:
        try:
            outcome.append(fit())
        except BaseException as error:
            outcome.append(error)

    threads = set(threading.enumerate())
    thread = threading.Thread(target=run, name="minitune-smoke", daemon=True)
    thread.start()
    thread.join(budget_s)
    until_s = time.monotonic() + STOP_S
    # A breakpoint in the trainable must not end the test: people take their time.
    while thread.is_alive() and (time.monotonic() < until_s or _is_debugged()):
        thread.join(0.1)
    if thread.is_alive():
        stacks = _users_stacks(set(threading.enumerate()) - threads - {thread})
        for ident in stacks:
            _interrupt(ident)
        # Python raises it at the next bytecode, so code that blocks in C goes on. The text says which has happened.
        thread.join(_INTERRUPT_S)
        ended = "; its threads stay, since they cannot be killed (processes can: executor='local')"
        raise SmokeFailure(
            f"a trial of {name} has not stopped {STOP_S:g} s after the budget of {budget_s:g} s"
            f"{ended if thread.is_alive() else ''}. It hangs here:\n\n" + "\n".join(stacks.values())
        )
    # The thread has ended, so it has appended one of the two.
    (result,) = outcome
    if isinstance(result, BaseException):
        raise result.with_traceback(None)  # minitune's frames do not help a user; the cause has those of a plug-in
    return result


def _is_debugged() -> bool:
    """Whether a thread is in a debugger. Then there is no time limit."""
    frames = (frame for top in sys._current_frames().values() for frame, _ in traceback.walk_stack(top))
    return any(os.path.basename(frame.f_code.co_filename) in ("bdb.py", "pdb.py") for frame in frames)


def _users_stacks(threads: Collection[threading.Thread]) -> dict[int, str]:
    """The formatted stacks of the threads that run user code, by thread id."""
    frames = sys._current_frames()
    idents = [thread.ident for thread in threads if thread.ident in frames]
    stacks = {ident: format_stack(traceback.extract_stack(frames[ident])) for ident in idents if ident is not None}
    return {ident: text for ident, text in stacks.items() if text}


def _interrupt(ident: int) -> None:
    """Raise `TrialStopped` in a thread, as soon as it runs Python code: this ends a loop, but not a blocking call."""
    import ctypes

    set_exception = getattr(ctypes.pythonapi, "PyThreadState_SetAsyncExc", None)
    if set_exception is not None:
        set_exception(ctypes.c_ulong(ident), ctypes.py_object(TrialStopped))


# -- failures ---------------------------------------------------------------------------------------------------------


def _refuse_failures(grid: ResultGrid, name: str, seed: int) -> None:
    """Check that no trial has failed.

    Raises:
        SmokeFailure: If a trial has failed. The text has the first one's traceback and configuration, and counts the
            others.
    """
    __tracebackhide__ = True
    failed = [(result, result.error) for result in grid if result.error is not None]
    if not failed:
        return
    first, error = failed[0]
    kinds = grouped_errors(grid._run.trials)
    lines = [f"{len(failed)} of {len(grid)} trials of {name} failed", "", str(error).rstrip(), ""]
    lines.append(f"configuration: {first.config!r}")
    lines.append(f"seed:          {seed}")
    lines.append(f"directory:     {first.path}")
    if len(kinds) > 1:
        lines += ["all failures:", *(f"  {text}" for text in kinds)]
    cause = error.__cause__
    raise SmokeFailure("\n".join(lines), grid, cause.__traceback__ if cause is not None else None)


# -- leftovers --------------------------------------------------------------------------------------------------------


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
