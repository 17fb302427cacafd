"""smoke: a short tuning as a test of a trainable.

It looks for three faults: trials that fail, hang, or never report, and raises a `SmokeFailure` with the way out.

A trial in this process cannot be killed. So the run has its own thread, for which the caller waits only so long. A
trial in a process must report in each half of the budget; if it does not, the run's own limit ends it.
"""

from __future__ import annotations

import atexit
import functools
import os
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

from minitune.analysis.experiment_analysis import ExperimentAnalysis
from minitune.analysis.summary import Target, grouped_errors
from minitune.base.checks import is_real, require
from minitune.base.files import discard_tree
from minitune.base.forks import only_here
from minitune.base.settings import variable_of
from minitune.config import RunConfig
from minitune.error import format_stack
from minitune.experiment.goal import why_no_best
from minitune.result import own_metrics
from minitune.result_grid import Result, ResultGrid
from minitune.tune_config import TuneConfig
from minitune.tuner import Tuner
from minitune.view.best import best_of
from minitune.view.summary import best_text

STOP_S = 2.0
"""How long trials may take to stop at the end of the budget, in seconds."""

_SILENT_SHARE = 0.5
"""A trial in its own process has failed if it does not report for this share of the budget."""

_OF_TUNE_CONFIG = frozenset(entry.name for entry in fields(TuneConfig))


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
    **config: Any,
) -> ResultGrid:
    """Run a short tuning, and check that it succeeds. Blocks for little more than `budget_s`.

    The other arguments are those of a run. If there is a metric, each report must have it. By default, trials run one
    at a time in this process, for debuggers, coverage and patches; `executor="local"` runs them in processes. At the
    end of the budget, trials are asked to stop, and processes are killed 2 s later; each of these must report in each
    half of the budget. `directory` is that of the run.

    Returns:
        The results: no trial has failed, and at least one has reported.

    Raises:
        SmokeFailure: If a trial fails or hangs, or no trial reports in time.
        ValueError: If an argument has an invalid value.
        TypeError: If the trainable cannot be pickled.
    """
    __tracebackhide__ = True
    good = is_real(budget_s) and 0 < budget_s < threading.TIMEOUT_MAX
    require(good, "budget_s: a number of seconds > 0", budget_s)
    given = dict(metric=metric, mode=mode, num_samples=num_samples, seed=seed, executor=executor, **config)
    if executor != "inline":
        given.setdefault("report_timeout_s", budget_s * _SILENT_SHARE)
    tuner = _tuner(trainable, space, given, budget_s, os.fspath(directory or _own_directory()))
    name = str(getattr(trainable, "__name__", trainable))
    until_s = time.monotonic() + budget_s
    with _variables({variable_of("FORCE_TRIAL_CLEANUP_S"): f"{STOP_S:g}"}):
        grid = _fit_in_time(tuner.fit, name, budget_s) if executor == "inline" else tuner.fit()
    _refuse_failures(grid, name, seed)
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
    best = best_of(results.trials, target.metric, target.mode, target.scope)
    if best is None:
        raise AssertionError(f"expected {target}, but {why_no_best(results.trials, target.metric)}")
    if not target.is_met(best.value):
        raise AssertionError(f"expected {target}, got {best_text(best)}\n(the best of {len(result_grid)} trials)")
    return result_grid[results.trials.index(best.trial)]


# -- the run ----------------------------------------------------------------------------------------------------------


def _tuner(trainable: Any, space: Any, given: dict[str, Any], budget_s: float, directory: str) -> Tuner:
    """The tuner of a smoke run. Each argument goes to the config that has it."""
    tune = {name: value for name, value in given.items() if name in _OF_TUNE_CONFIG}
    run = {name: value for name, value in given.items() if name not in _OF_TUNE_CONFIG}
    return Tuner(
        trainable,
        param_space=space,
        tune_config=TuneConfig(**tune, time_budget_s=budget_s),
        run_config=RunConfig(**{"verbose": 0, **run}, storage_path=directory),
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
    thread.join(budget_s + STOP_S)
    if thread.is_alive():
        stacks = _users_stacks(set(threading.enumerate()) - threads - {thread})
        raise SmokeFailure(
            f"a trial of {name} has not stopped {STOP_S:g} s after the budget of {budget_s:g} s; its threads stay, as "
            "they cannot be killed (processes can: executor='local'). It hangs here:\n\n" + "\n".join(stacks)
        )
    # The thread has ended, so it has appended one of the two.
    (result,) = outcome
    if isinstance(result, BaseException):
        raise result.with_traceback(None)  # minitune's frames do not help a user; the cause has those of a plug-in
    return result


def _users_stacks(threads: Collection[threading.Thread]) -> list[str]:
    """The formatted stacks of the threads that run user code."""
    frames = sys._current_frames()
    found = [frames[thread.ident] for thread in threads if thread.ident in frames]
    stacks = [format_stack(traceback.extract_stack(frame)) for frame in found]
    return [text for text in stacks if text]


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
