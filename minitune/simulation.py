"""simulate: a run on learning curves instead of training, with a virtual clock.

It is a real run of the inline executor. Only the trainable is replaced: its steps are those of `curve(config)`, and
each lets its seconds pass on the clock. A run without a `storage_path` is written to a directory in memory, which is
removed at the end.
"""

from __future__ import annotations

import copy
import inspect
import logging
import math
import os
import random
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from minitune.analysis.experiment_analysis import ExperimentAnalysis
from minitune.base import clock, files
from minitune.base.checks import instance_of, is_real, is_whole, require, require_flag, shown
from minitune.base.clock import Clock, VirtualClock
from minitune.base.forks import Origin
from minitune.config import RunConfig
from minitune.driver.driver import Driver, run_record
from minitune.driver.open_run import begin, open_run
from minitune.driver.plan import Plan
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor
from minitune.experiment.callback import Callback
from minitune.experiment.endings import EndKind
from minitune.experiment.lifecycle import RUNNING
from minitune.experiment.run_description import RunDescription
from minitune.logger.logger import LoggerCallback
from minitune.record import records
from minitune.record.decisions import Decisions
from minitune.record.layout import create_run_directory
from minitune.record.past_run import read_curves
from minitune.record.story import Story
from minitune.resources import CPU
from minitune.result import MISSING, TIME_THIS_ITER_S, TRAINING_ITERATION, lookup
from minitune.result_grid import ResultGrid
from minitune.space.domains import grid_search
from minitune.trainable import Trainable
from minitune.tune_config import TuneConfig

CURVE = "curve"
"""The key of a configuration that selects a curve of a table."""
_ID_PREFIX = "sim"
_MEMORY = "/dev/shm"
_MEMORY_BYTES = 1 << 30
"""How much must be free in memory; else the run is written to a temporary directory. Not measured: with less, the
journal of a long run fills the memory, which ends the run; with more, short runs wait for a disk on small machines.
"""


class Logged(NamedTuple):
    """One line of a decision log.

    Attributes:
        time_s: Virtual seconds since the start of the run.
        event: The decision about a result (`CONTINUE`, `PAUSE`, `STOP` or `NOOP`), or `ADDED`, `EXPLOIT`, or the
            trial's new status.
        text: The reason; for `ADDED`, the trial's tag; for `EXPLOIT`, the donor's id.
    """

    time_s: float
    trial_id: str
    event: str
    iteration: Any
    value: Any
    text: str
    kind: EndKind | None = None

    def __str__(self) -> str:
        shown = [f"{self.time_s!r}", self.trial_id, self.event]
        if self.iteration is not None:
            shown.append(f"{self.iteration} {self.value!r}")
        if self.text:
            shown.append(self.text)
        return " ".join(shown)


@dataclass(frozen=True)
class Simulation:
    """The outcome of a simulation.

    Attributes:
        results: As from `Tuner.fit`; checkpoints are positions on curves. Their `get_rows` needs a run with a
            `storage_path`.
        log: All decisions and changes of trials, in order.
        makespan_s: Virtual seconds until the last trial has ended.
        num_steps: Steps of all trials, also those that a failure or a pause without a checkpoint has undone.
        num_failures: How many workers have died.
    """

    results: ResultGrid
    log: Sequence[Logged]
    makespan_s: float
    num_steps: int
    num_failures: int

    @property
    def decision_log(self) -> str:
        """The log as text, one line for each entry. Equal arguments give equal texts."""
        return "".join(f"{entry}\n" for entry in self.log)


def simulate(
    curve: Any,
    *,
    param_space: Any = None,
    tune_config: TuneConfig | None = None,
    run_config: RunConfig | None = None,
    num_workers: int = 1,
    can_save: bool = True,
    failure_rate: float = 0.0,
    seed: int | None = None,
) -> Simulation:
    """Run trials on learning curves instead of training. Blocks while it computes, but never waits.

    A paused or failed trial continues from its last checkpoint, a position on the curve of its configuration; one that
    exploits another trial from the donor's position, on the curve of its own.

    `curve` is a function of the configuration that returns (metrics, seconds) for each result; one of (configuration,
    state) that yields (metrics, seconds, state); a mapping from keys to such lists, with a grid of its keys under
    `"curve"` as the default space; or an earlier run. A `run_config` with a `storage_path` keeps the run there.
    `failure_rate` is the probability that a worker dies in a step.

    Returns:
        Results and all decisions, equal for equal arguments.

    Raises:
        TuneError: As by `Tuner.fit`.
    """
    tune = copy.copy(instance_of("tune_config", tune_config, TuneConfig))  # the user's stays unchanged
    configured = instance_of("run_config", run_config, RunConfig)
    seed = _seed(seed, tune)
    if isinstance(curve, (str, os.PathLike)):
        curve = read_curves(curve)
    good = is_real(failure_rate) and 0 <= failure_rate <= 1
    require(good, "failure_rate: a probability between 0 and 1", failure_rate)
    model = _Model(curve, float(failure_rate), seed)
    require_flag("can_save", can_save)
    if isinstance(curve, Mapping):
        require(bool(curve), "curve: a table with at least one curve", curve)
        if param_space is None:
            param_space = {CURVE: grid_search(list(curve))}
    _check_curve(curve)
    require(is_whole(num_workers) and num_workers >= 1, "num_workers: an int >= 1", num_workers)
    executor = InlineTrialExecutor(Machine({CPU: float(num_workers)}, ()), VirtualClock())
    tune.seed = seed
    tune.executor = executor
    trainable = _trainable(model, can_save)
    with _storage(configured) as (storage_path, is_kept):
        plan = _plan(trainable, param_space, tune, replace(configured, storage_path=storage_path))
        log = _Log(executor.clock, plan.goal.metric)
        ended = _SimulatedDriver(plan, log, writes_logs=is_kept).run()
    analysis = ExperimentAnalysis(
        ended.run.path, trials=ended.trials, default_metric=tune.metric, default_mode=tune.mode
    )
    analysis._run.seed = seed  # the directory of a run in memory has gone, with its journal
    grid = ResultGrid(analysis, interrupted=ended.interrupted, checkpoint_config=plan.checkpoint_config)
    for trial, result in zip(ended.trials, grid, strict=True):
        result.decisions = log.decisions.by_trial.get(trial.trial_id, [])
    return Simulation(
        grid,
        log.entries,
        makespan_s=log.end_s,
        num_steps=model.steps,
        num_failures=model.failures,
    )


# -- a trial -----------------------------------------------------------------------------------------------------------


@dataclass
class _Model:
    """What trials do instead of training, and what they have done; see `simulate` for the arguments."""

    curve: Any
    failure_rate: float
    seed: int
    steps: int = 0
    failures: int = 0

    def open(self, config: dict[str, Any], state: Any, position: int) -> Iterator[Any]:
        """The steps of a configuration after the first `position` ones, from `state` (None: the start)."""
        curve = self.curve
        if isinstance(curve, Mapping):
            if CURVE not in config or config[CURVE] not in curve:
                raise KeyError(
                    f"config[{CURVE!r}] must be a key of the table of curves, but the config is {shown(config)}"
                )
            return islice(curve[config[CURVE]], position, None)
        # A copy: the function is called again after each restore, and must get the same configuration each time.
        config = copy.deepcopy(config)
        if self.takes_state:
            return iter(curve(config, state))
        return islice(curve(config), position, None)

    @cached_property
    def takes_state(self) -> bool:
        """Whether the curve is a function of a configuration and a state."""
        if isinstance(self.curve, Mapping):
            return False
        try:
            inspect.signature(self.curve).bind({}, None)
        except (TypeError, ValueError):  # ValueError: a built-in without a signature
            return False
        return True

    def checked(self, step: Any) -> tuple[Mapping[str, Any], float, Any]:
        """A step of the curve as (metrics, seconds, state).

        Raises:
            TypeError: If it is something else.
            ValueError: If the seconds are negative or infinite.
        """
        names = ["metrics", "seconds", "state"][: 2 + self.takes_state]
        good = isinstance(step, (tuple, list)) and len(step) == len(names)
        if not (good and isinstance(step[0], Mapping) and is_real(step[1])):
            raise TypeError(f"this curve must yield ({', '.join(names)}), but yielded {step!r:.200}")
        seconds = float(step[1])
        if not 0 <= seconds < math.inf:
            raise ValueError(f"expected 0 <= seconds < infinity for each step of a curve, but got {step[1]!r}")
        return step[0], seconds, step[2] if self.takes_state else None


class _SimulatedFailureError(Exception):
    """A worker has died, as `failure_rate` wants it."""


class _CurveTrainable(Trainable):
    """A trial on its curve, which is opened at the first step after a start or a restore."""

    model: _Model
    _steps: Iterator[Any] | None

    def setup(self, config: dict[str, Any]) -> None:
        self._go_to(0, None)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._go_to(0, None)
        return True

    def _go_to(self, position: int, state: Any) -> None:
        self.position = position
        self.state = state
        self._steps = None
        # Its own seed: the failures of a trial do not depend on the other trials, nor on the order of their steps.
        attempt = self._tune_info.attempt if self._tune_info is not None else 0
        self._draws = random.Random(f"{self.model.seed}/{self.trial_id}#{attempt}")

    def step(self) -> dict[str, Any]:
        model = self.model
        if self._steps is None:
            self._steps = model.open(self.config, self.state, self.position)
        metrics, seconds, state = model.checked(next(self._steps))
        model.steps += 1
        if model.failure_rate and self._draws.random() < model.failure_rate:
            model.failures += 1
            clock.current.sleep(seconds * self._draws.random())  # it dies somewhere in the step, whose time is lost
            raise _SimulatedFailureError("a simulated failure")
        self.state = state
        self.position += 1
        clock.current.sleep(seconds)
        return {TIME_THIS_ITER_S: seconds, **metrics}


class _SavingCurveTrainable(_CurveTrainable):
    """A trial that can save: its position on the curve, and the curve's state."""

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"position": self.position, "state": self.state}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self._go_to(**checkpoint)


def _trainable(model: _Model, can_save: bool) -> type[_CurveTrainable]:
    """The class of the trials, with the name of the curve."""
    name = getattr(model.curve, "__name__", "curve")
    if not name.isidentifier():  # a lambda
        name = "curve"
    base = _SavingCurveTrainable if can_save else _CurveTrainable
    return type(name, (base,), {"model": model})


# -- the run -----------------------------------------------------------------------------------------------------------


class _Log:
    """Builds the decision log from the records of a run."""

    def __init__(self, clock: Clock, metric: str | None):
        self.entries: list[Logged] = []
        self.decisions = Decisions()
        self.end_s = 0.0
        self.story = Story("", has_details=False)
        self._clock = clock
        self._metric = metric

    def listen(self, record: records.Record) -> None:
        """Add one record."""
        # The same fold that reads the journal of a real run, so both tell the same story of the same decisions.
        change = self.story.apply(record)
        self.decisions.tell(change)
        kind = change.kind
        trial = change.trial
        if trial is None:
            return
        if kind == records.RESULT:
            metrics = record["metrics"]
            value = None
            if self._metric is not None:
                value = lookup(metrics, self._metric)
                if value is MISSING:
                    value = None
            iteration = metrics.get(TRAINING_ITERATION, record["number"])
            self._note(trial.trial_id, record["decision"], record["reason"], iteration, value)
        elif kind == records.STATUS and change.ending is None:
            self._note(trial.trial_id, record["status"], record["cause"])
        elif kind == records.EXPLOIT:
            self._note(trial.trial_id, "EXPLOIT", record["donor"])
        elif kind == records.TRIAL:
            self._note(trial.trial_id, "ADDED", trial.experiment_tag)
        elif kind == records.START:
            self._note(trial.trial_id, RUNNING, f"attempt {record['attempt']}")
        if change.ending is not None:
            self._note(trial.trial_id, trial.status, change.ending.text, kind=change.ending.kind)
        # The clock may go on after the last step of a trial, for a limit of the run that then does not matter.
        if change.transition is not None:
            self.end_s = self._clock.monotonic()

    def _note(
        self,
        trial_id: str,
        event: str,
        text: str,
        iteration: Any = None,
        value: Any = None,
        kind: EndKind | None = None,
    ) -> None:
        self.entries.append(Logged(self._clock.monotonic(), trial_id, event, iteration, value, text, kind))


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress warnings about single trials, whose failures are simulated, and about files, which may soon be gone."""

    def is_general(record: logging.LogRecord) -> bool:
        return not (hasattr(record, "trial_id") or hasattr(record, "run_path"))

    logger = logging.getLogger("minitune")
    logger.addFilter(is_general)
    try:
        yield
    finally:
        logger.removeFilter(is_general)


class _SimulatedDriver(Driver):
    """Stores neither trainable nor plan: no resume is possible. Its log hears each record."""

    def __init__(self, plan: Plan, log: _Log, writes_logs: bool):
        super().__init__(plan)
        self._log = log
        self._writes_logs = writes_logs

    def open(self) -> None:
        """See `Driver.open`."""
        plan = self.plan
        experiment = plan.experiment
        self.make_parts(plan.tune_config.seed or 0)
        if not self._writes_logs:
            callbacks = self.components.callbacks
            self.components.callbacks = [one for one in callbacks if not isinstance(one, LoggerCallback)]
        assert experiment.storage_path is not None
        run, lock = create_run_directory(
            experiment.storage_path, experiment.name, trainable_name=experiment.trainable_name
        )
        recorder = open_run(self._closing, plan, run, lock=lock, listen=self._log.listen)
        self._log.story.path = run.path
        begin(recorder, plan, RunDescription(*plan.goal.given), run_record(plan, run, self.seed))
        self._closing.enter_context(_quiet())
        self.put_together(recorder)


@contextmanager
def _storage(configured: RunConfig) -> Iterator[tuple[str, bool]]:
    """Where the run is written, and whether it stays there: the user's `storage_path`, or a directory in memory."""
    if configured.storage_path is not None:
        yield str(configured.storage_path), True
        return
    _refuse_loggers(configured)
    origin = Origin()
    path = tempfile.mkdtemp(prefix="minitune-simulation-", dir=_memory())
    try:
        yield path, False
    finally:
        if origin.is_here():  # not in a child that a plug-in forked
            files.discard_tree(path)


def _memory() -> str | None:
    """A place in memory; None, for a temporary directory, if there is none with room."""
    if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES:
        return _MEMORY
    return None


def _plan(
    trainable: type[Trainable],
    param_space: Any,
    tune: TuneConfig,
    configured: RunConfig,
) -> Plan:
    configured = replace(configured, log_to_file=False)  # nothing is printed, so that file belongs to real runs
    if configured.verbose is None and configured.progress_reporter is None:
        configured = replace(configured, verbose=0)
    plan = Plan.of(trainable, param_space, tune, configured)
    plan.id_prefix = _ID_PREFIX
    return plan


def _refuse_loggers(configured: RunConfig) -> None:
    """Refuse loggers in a simulation without a directory."""
    callbacks: Iterable[Callback] = configured.callbacks or ()
    loggers = [type(one).__name__ for one in callbacks if isinstance(one, LoggerCallback)]
    if loggers:
        raise ValueError(
            f"{', '.join(loggers)} writes files, but a simulation has no directory unless "
            "RunConfig(storage_path=...) gives it one"
        )


def _check_curve(curve: Any) -> None:
    """Raise a TypeError if `curve` has none of the four forms."""
    if not isinstance(curve, Mapping) and not callable(curve):
        raise TypeError(
            "curve must be a function of the configuration, a mapping of curves, or the directory of a run, but got "
            f"{shown(curve)}"
        )


def _seed(seed: int | None, tune: TuneConfig) -> int:
    require(seed is None or is_whole(seed), "seed: None or an int", seed)
    if seed is not None:
        return int(seed)
    return tune.seed or 0
