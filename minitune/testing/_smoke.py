"""smoke: a short tuning as a test, that tells what is wrong with a trainable and leaves nothing behind."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import fields
from types import FrameType, TracebackType
from typing import Any

from minitune._assemble import load_libraries
from minitune._checks import is_real, require
from minitune._summary import Target, best_of_run, grouped_errors
from minitune.analysis.experiment_analysis import ExperimentAnalysis
from minitune.config import RunConfig
from minitune.error import TrialStopped, format_stack
from minitune.experiment.best import why_no_best
from minitune.result import AUTO_RESULT_KEYS
from minitune.result_grid import Result, ResultGrid
from minitune.settings import variable_of
from minitune.testing._hangs import hung
from minitune.testing.leftovers import FILES, KINDS, Snapshot
from minitune.tune_config import TuneConfig
from minitune.tuner import Tuner

GRACE_S = 2.0
"""How long trials have at the end of the budget, after they were asked to stop."""
_SILENT_SHARE = 0.5
"""A trial that was killed at the end hung if it had been silent for this share of the budget."""
_INTERRUPT_S = 0.5
"""How long a trial may take to unwind that was ended by an exception."""
_NAMES = {kind: frozenset(entry.name for entry in fields(kind)) for kind in (TuneConfig, RunConfig)}


class SmokeFailure(AssertionError):
    """A short tuning has not gone well; the text says what a user needs to know.

    Attributes:
        grid: The results, or None if the run did not come to its end.
        user_traceback: The frames of the first trial that failed, where they are in this process.
    """

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
    """Run a short tuning, and see that it goes well and leaves nothing behind. Blocks, hardly longer than `budget_s`.

    Trials run one at a time in this process by default: fast, under the debugger, seen by coverage and by what a test
    has patched; what trials are sent and report is pickled all the same. `executor="local"` runs them as real
    runs do, in processes of their own.

    Args:
        trainable: A function of the configuration, a `Trainable` subclass, or a registered name.
        space: The search space.
        metric: What is optimised; each report must then have it.
        mode: `"min"` or `"max"`.
        num_samples: How often the space is sampled.
        budget_s: When the run ends, in seconds. Trials are then asked to stop; 2 s later those in processes are
            killed. In this process nothing can be killed: code that hangs is ended by an exception if it is Python's
            own, and fails the test in any case. What had to be killed in a process fails it if nothing was reported,
            or not for half of the budget. The text tells where it hung.
        seed: Decides about configurations and everything else that is random in the run.
        executor: `"inline"` or `"local"`.
        directory: Where the run lies; by default among the temporary files, until this process ends.
        may_leave: What is no failure, of `children`, `threads`, `descriptors`, `environment`, `directory`, `signals`
            and `files` (new ones in the working directory; not looked for where pytest-xdist runs tests beside this).
        **config: More arguments of `TuneConfig` and `RunConfig`, such as `scheduler` and `stop`.

    Returns:
        The results. No trial has failed, and at least one has reported something.

    Raises:
        SmokeFailure: If a trial fails, nothing is reported in time, code hangs, or something is left behind.
        ValueError: If an argument breaks its rule.
        TypeError: If an argument is none of either config, or the trainable cannot be pickled.

    Example:
        >>> from minitune import uniform
        >>> from minitune.testing import assert_best, smoke
        >>> def train(config):
        ...     return {"loss": (config["x"] - 1) ** 2}
        >>> grid = smoke(train, {"x": uniform(0, 2)}, num_samples=20)
        >>> assert_best(grid, "loss", at_most=0.01).config["x"]
        0.99...
    """
    __tracebackhide__ = True
    good = is_real(budget_s) and 0 < budget_s < threading.TIMEOUT_MAX
    require(good, "budget_s: a number of seconds > 0", budget_s)
    unknown = sorted(set(may_leave) - set(KINDS))
    require(not unknown, f"may_leave: a collection of {', '.join(KINDS)}", may_leave)
    given = dict(metric=metric, mode=mode, num_samples=num_samples, seed=seed, executor=executor, **config)
    tuner = _tuner(trainable, space, given, budget_s, os.fspath(directory or _own_directory()))
    name = str(getattr(trainable, "__name__", trainable))
    kinds = tuple(kind for kind in KINDS if kind not in may_leave and not (kind == FILES and _has_neighbours()))
    load_libraries(tuner._plan)  # what a library of ours sets when it is imported is no trial's fault
    before, until_s = Snapshot(kinds), time.monotonic() + budget_s
    try:
        with _settings({"FORCE_TRIAL_CLEANUP_S": f"{GRACE_S:g}", "STEP_SUMMARY": "0"}):
            grid = _fit_in_time(tuner.fit, name, budget_s) if executor == "inline" else tuner.fit()
    finally:
        left = before.leftovers()  # it puts back what can be, also after a failure
    _refuse_failures(grid, name, seed)
    has_reported = any(result.metrics.keys() - set(AUTO_RESULT_KEYS) for result in grid)
    is_late = time.monotonic() > until_s
    if is_late and executor != "inline":
        patience_s = budget_s * _SILENT_SHARE if has_reported else 0
        stacks = hung(grid._analysis.trials, time.time() - (time.monotonic() - until_s), patience_s)
        if stacks:
            raise SmokeFailure(_told_hang(name, budget_s, stacks, has_reported=has_reported), grid)
    if left:
        raise SmokeFailure("\n  ".join([f"the trials of {name} have left something behind:", *left]), grid)
    if not has_reported:
        in_time = f"within {budget_s:g} s: make the first report come sooner, or give a longer budget_s"
        what = in_time if is_late else "before its end: call report(), or return a dict of metrics"
        raise SmokeFailure(f"no trial of {name} has reported anything {what}", grid)
    return grid


def _tuner(trainable: Any, space: Any, given: dict[str, Any], budget_s: float, directory: str) -> Tuner:
    """The tuner of a smoke run; the arguments go to the config that has them."""
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
    """A directory for the runs of this process, until it ends: results may be read after the test."""
    directory = tempfile.mkdtemp(prefix="minitune-smoke-")
    owner_pid = os.getpid()

    def remove() -> None:
        if os.getpid() == owner_pid:  # and not in a fork of it
            shutil.rmtree(directory, ignore_errors=True)

    atexit.register(remove)
    return directory


def _has_neighbours() -> bool:
    """Whether other processes run tests in this working directory at the same time."""
    return "PYTEST_XDIST_WORKER" in os.environ


@contextmanager
def _settings(values: dict[str, str]) -> Iterator[None]:
    """Settings that hold inside a `with` block, whatever the environment says."""
    before = {variable_of(name): os.environ.get(variable_of(name)) for name in values}
    os.environ.update({variable_of(name): value for name, value in values.items()})
    try:
        yield
    finally:
        for variable, value in before.items():
            if value is None:
                os.environ.pop(variable, None)
            else:
                os.environ[variable] = value


# -- the bound -----------------------------------------------------------------------------------------------------


def _fit_in_time(fit: Callable[[], ResultGrid], name: str, budget_s: float) -> ResultGrid:
    """Run `fit`, which runs the trials in this process, on a thread of its own, so that a hang of theirs is not ours.

    Raises:
        SmokeFailure: If it takes longer than the budget and the grace period. Its threads stay behind.
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
    until_s = time.monotonic() + GRACE_S
    while thread.is_alive() and (time.monotonic() < until_s or _is_debugged()):
        thread.join(0.1)
    if thread.is_alive():
        stacks = _users_stacks(set(threading.enumerate()) - threads - {thread})
        for ident in stacks:
            _interrupt(ident)
        thread.join(_INTERRUPT_S)
        ended = "; its threads stay, since they cannot be killed (processes can: executor='local')"
        raise SmokeFailure(
            f"a trial of {name} has not stopped {GRACE_S:g} s after the budget of {budget_s:g} s"
            f"{ended if thread.is_alive() else ''}. It hangs here:\n\n" + "\n".join(stacks.values())
        )
    (result,) = outcome
    if isinstance(result, BaseException):
        raise result.with_traceback(None)  # our frames say nothing to a user; those of a plug-in are in its cause
    return result


def _told_hang(name: str, budget_s: float, stacks: dict[str, str], *, has_reported: bool) -> str:
    """The text about trials in processes that had to be killed at the end of the budget."""
    what = f"a trial of {name} has not stopped {GRACE_S:g} s after the budget of {budget_s:g} s and was killed"
    if not has_reported:
        what = f"no trial of {name} has reported anything within {budget_s:g} s: make the first report come sooner, or "
        what += "give a longer budget_s"
    places = Counter(stacks.values()).most_common()
    parts = [place if count == 1 else f"{count} trials:\n{place}" for place, count in places]
    return f"{what}. It hung here (the most recent call first):\n\n" + "\n\n".join(parts)


def _is_debugged() -> bool:
    """Whether a thread waits in a debugger: then time is the user's."""
    return any(_is_in(frame, ("bdb.py", "pdb.py")) for frame in sys._current_frames().values())


def _is_in(frame: FrameType | None, files: tuple[str, ...]) -> bool:
    while frame is not None:
        if os.path.basename(frame.f_code.co_filename) in files:
            return True
        frame = frame.f_back
    return False


def _users_stacks(threads: Collection[threading.Thread]) -> dict[int, str]:
    """Where threads are, as a traceback shows it, by their ids: those that are in code of the user's."""
    frames = sys._current_frames()
    idents = [thread.ident for thread in threads if thread.ident in frames]
    stacks = {ident: format_stack(traceback.extract_stack(frames[ident])) for ident in idents if ident is not None}
    return {ident: text for ident, text in stacks.items() if text}


def _interrupt(ident: int) -> None:
    """Raise `TrialStopped` in a thread, as soon as it runs Python code: a loop ends, a blocking call does not."""
    import ctypes

    set_exception = getattr(ctypes.pythonapi, "PyThreadState_SetAsyncExc", None)
    if set_exception is not None:
        set_exception(ctypes.c_ulong(ident), ctypes.py_object(TrialStopped))


# -- failures ------------------------------------------------------------------------------------------------------


def _refuse_failures(grid: ResultGrid, name: str, seed: int) -> None:
    """Raise if a trial has failed: the first one's traceback, its configuration, and how often the others did.

    Raises:
        SmokeFailure: If one has.
    """
    __tracebackhide__ = True
    failed = [(result, result.error) for result in grid if result.error is not None]
    if not failed:
        return
    first, error = failed[0]
    kinds = grouped_errors(grid.errors)
    lines = [f"{len(failed)} of {len(grid)} trials of {name} failed", "", str(error).rstrip(), ""]
    lines.append(f"configuration: {first.config!r}")
    lines.append(f"seed:          {seed}")
    lines.append(f"directory:     {first.path}")
    if len(kinds) > 1:
        lines += ["all failures:", *(f"  {text}" for text in kinds)]
    cause = error.__cause__
    raise SmokeFailure("\n".join(lines), grid, cause.__traceback__ if cause is not None else None)


def assert_best(
    result_grid: ResultGrid | ExperimentAnalysis,
    metric: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    *,
    mode: str | None = None,
    scope: str = "last",
) -> Result:
    """Assert how good the best trial is.

    Args:
        result_grid: What `fit`, `run` or `smoke` has returned.
        metric: The metric's flattened name; by default that of the run.
        at_least: What the best value must not be below.
        at_most: What it must not be above.
        mode: Which value is best, `"min"` or `"max"`; by default that of the run, else `"max"` for `at_least` and
            `"min"` for `at_most`.
        scope: Which value counts for a trial: `last`, `all` (its best ever), `avg`, `last-5-avg` or `last-10-avg`.

    Returns:
        The best trial.

    Raises:
        AssertionError: If it is not so good, or no trial has reported the metric.
        ValueError: If neither bound is given, or metric, mode or scope is none.
        TypeError: If `result_grid` is none.
    """
    __tracebackhide__ = True
    if isinstance(result_grid, ExperimentAnalysis):
        result_grid = ResultGrid(result_grid)
    if not isinstance(result_grid, ResultGrid):
        raise TypeError(f"result_grid must be a ResultGrid, but got {type(result_grid).__name__}: what fit() returns")
    analysis = result_grid._analysis
    target = Target.of(
        metric or analysis.default_metric, at_least, at_most, mode=mode or analysis.default_mode, scope=scope
    )
    best = best_of_run(analysis, target)
    if best is None:
        raise AssertionError(f"{target} must hold, but {why_no_best(analysis.trials, target.metric)}")
    if not target.is_met(best.value):
        raise AssertionError(f"{target} must hold, but got {best}\n(the best of {len(result_grid)} trials)")
    return result_grid[analysis.trials.index(best.trial)]
