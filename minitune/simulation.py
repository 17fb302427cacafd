"""simulate: a run on learning curves instead of training, with a virtual clock.

It uses the parts of a real run; only the training is replaced: `curve(config)` yields the results.
"""

from __future__ import annotations

import copy
import inspect
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from minitune.analysis.experiment_analysis import ExperimentAnalysis
from minitune.base.checks import instance_of, is_real, is_whole, require, require_flag, shown
from minitune.base.clock import VirtualClock
from minitune.base.numbers import known_number
from minitune.callback import Callback
from minitune.config import RunConfig, default_storage_path
from minitune.driver.driver import Driver, open_run_of, run_record
from minitune.driver.open_run import MemoryRun, OpenRun
from minitune.driver.plan import Plan
from minitune.executors.devices import Machine
from minitune.executors.simulated import Costs, SimulatedExecutor, Step
from minitune.experiment.endings import EndKind
from minitune.experiment.lifecycle import RUNNING
from minitune.logger.logger import LoggerCallback
from minitune.record import records
from minitune.record.decisions import Decisions
from minitune.record.layout import RunDirectory, create_run_directory
from minitune.record.past_run import read_curves
from minitune.record.story import Story
from minitune.resources import CPU, GPU, Resources
from minitune.result import MISSING, TRAINING_ITERATION, lookup
from minitune.result_grid import ResultGrid
from minitune.space.domains import grid_search
from minitune.trainable import Trainable
from minitune.tune_config import TuneConfig

CURVE = "curve"
"""The key of a configuration that selects a curve of a table."""
_ID_PREFIX = "sim"


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


class Improvement(NamedTuple):
    """A result that was better than all earlier results."""

    num_results: int
    time_s: float
    value: float
    trial_id: str


@dataclass(frozen=True)
class Simulation:
    """The outcome of a simulation.

    Attributes:
        results: As from `Tuner.fit`; checkpoints are positions on curves. Their `get_rows` needs a run with a
            `storage_path`.
        log: All decisions and changes of trials, in order.
    """

    results: ResultGrid
    log: Sequence[Logged]
    makespan_s: float
    worker_s: float
    training_s: float
    num_steps: int
    num_checkpoints: int
    num_failures: int
    metric: str | None
    mode: str | None

    @property
    def decision_log(self) -> str:
        """The log as text, one line for each entry. Equal arguments give equal texts."""
        return "".join(f"{entry}\n" for entry in self.log)

    def improvements(self) -> list[Improvement]:
        """The results that were better than all earlier results, in order. NaN and other non-numbers do not count.

        Raises:
            ValueError: If there was no metric or no mode.
        """
        if self.metric is None or self.mode is None:
            raise ValueError("improvements() needs a metric and a mode: pass both in the TuneConfig of the simulation")
        sign = 1 if self.mode == "max" else -1
        best = float("-inf")
        found = []
        count = 0
        for entry in self.log:
            if entry.iteration is None:
                continue
            count += 1
            value = known_number(entry.value)
            if value is not None and sign * value > best:
                best = sign * value
                found.append(Improvement(count, entry.time_s, value, entry.trial_id))
        return found


def simulate(
    curve: Any,
    *,
    param_space: Any = None,
    tune_config: TuneConfig | None = None,
    run_config: RunConfig | None = None,
    num_workers: int = 1,
    resources: Mapping[str, float] | None = None,
    resources_per_trial: Mapping[str, Any] | Resources | None = None,
    can_save: bool = True,
    start_delay_s: float = 0.0,
    checkpoint_cost_s: float = 0.0,
    failure_rate: float = 0.0,
    seed: int | None = None,
) -> Simulation:
    """Run trials on learning curves instead of training. Blocks while it computes, but never waits.

    A paused or failed trial continues from its last checkpoint, a position on the curve of its configuration; one that
    exploits another trial from the donor's position, on the curve of its own.

    `curve` is a function of the configuration that returns (metrics, seconds) for each result; one of (configuration,
    state) that yields (metrics, seconds, state); a mapping from keys to such lists, with a grid of its keys under
    `"curve"` as the default space; or an earlier run. `run_config` writes a journal if it has a `storage_path`, but no
    checkpoints. `start_delay_s` and `checkpoint_cost_s` are virtual seconds for a worker's start, and for each save and
    load. `failure_rate` is the probability that a worker dies in a step.

    Returns:
        Results, times, and all decisions, equal for equal arguments.

    Raises:
        TuneError: As by `Tuner.fit`.
    """
    tune = copy.copy(instance_of("tune_config", tune_config, TuneConfig))  # the user's stays unchanged
    configured = instance_of("run_config", run_config, RunConfig)
    costs = Costs(
        _not_negative("start_delay_s", start_delay_s),
        _not_negative("checkpoint_cost_s", checkpoint_cost_s),
        _not_negative("failure_rate", failure_rate),
        _seed(seed, tune),
    )
    require(failure_rate <= 1, "failure_rate: a probability between 0 and 1", failure_rate)
    require_flag("can_save", can_save)
    if isinstance(curve, (str, os.PathLike)):
        curve = read_curves(curve)
    if isinstance(curve, Mapping):
        require(bool(curve), "curve: a table with at least one curve", curve)
        if param_space is None:
            param_space = {CURVE: grid_search(list(curve))}
    _check_curve(curve)
    executor = SimulatedExecutor(_machine(num_workers, resources), partial(_open, curve), costs)
    tune.seed = costs.seed
    tune.executor = executor
    plan = _plan(curve, param_space, tune, configured, resources_per_trial, can_save)
    log = _Log(executor, plan.goal.metric)
    outcome = _SimulatedDriver(plan, log).run()
    analysis = ExperimentAnalysis(
        outcome.run.path, trials=outcome.trials, default_metric=tune.metric, default_mode=tune.mode
    )
    analysis._run.seed = costs.seed  # a run in memory has no journal from which it could be read
    grid = ResultGrid(analysis, interrupted=outcome.interrupted, checkpoint_config=plan.checkpoint_config)
    for trial, result in zip(outcome.trials, grid, strict=True):
        result.decisions = log.decisions.by_trial.get(trial.trial_id, [])
    totals = executor.totals
    return Simulation(
        grid,
        log.entries,
        makespan_s=log.end_s,
        worker_s=totals.worker_s,
        training_s=totals.training_s,
        num_steps=totals.steps,
        num_checkpoints=totals.checkpoints,
        num_failures=totals.failures,
        metric=plan.goal.metric,
        mode=plan.goal.mode,
    )


class _Log:
    """Builds the decision log from the records of a run."""

    def __init__(self, executor: SimulatedExecutor, metric: str | None):
        self.entries: list[Logged] = []
        self.decisions = Decisions()
        self.end_s = 0.0
        self.story = Story("", has_details=False)
        self._executor = executor
        self._clock: VirtualClock = executor.clock
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
        elif kind == records.DROP:
            # No file disappears, so the executor must be told: a trial that needs this checkpoint later must fail.
            self._executor.drop_checkpoint(trial.local_path, record["checkpoint"])
        elif kind == records.START:
            self._note(trial.trial_id, RUNNING, f"attempt {record['attempt']}")
        if change.ending is not None:
            self._note(trial.trial_id, trial.status, change.ending.text, kind=change.ending.kind)
        # The clock may go on after the last step of a trial, for a limit of the run that then does not matter.
        if change.transition is not None:
            self.end_s = self._clock.now_s

    def _note(
        self,
        trial_id: str,
        event: str,
        text: str,
        iteration: Any = None,
        value: Any = None,
        kind: EndKind | None = None,
    ) -> None:
        self.entries.append(Logged(self._clock.now_s, trial_id, event, iteration, value, text, kind))


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress warnings about single trials, whose failures are simulated, and about files that do not exist."""

    def is_general(record: logging.LogRecord) -> bool:
        return not (hasattr(record, "trial_id") or hasattr(record, "run_path"))

    logger = logging.getLogger("minitune")
    logger.addFilter(is_general)
    try:
        yield
    finally:
        logger.removeFilter(is_general)


class _SimulatedDriver(Driver):
    """Runs the plan in memory, or in a directory with a `storage_path`."""

    def __init__(self, plan: Plan, log: _Log):
        super().__init__(plan)
        self._log = log

    def open(self) -> None:
        """See `Driver.open`. Stores neither trainable nor plan: no resume is possible."""
        plan = self.plan
        first = self.plan.experiment
        log = self._log
        self.make_parts(plan.tune_config.seed or 0)
        opened: OpenRun | MemoryRun
        if first.storage_path is None:
            run = RunDirectory(os.path.join(os.path.abspath(default_storage_path()), _ID_PREFIX))
            callbacks = self.components.callbacks
            self.components.callbacks = [one for one in callbacks if not isinstance(one, LoggerCallback)]
            opened = MemoryRun(run, checkpoints=first.checkpoints(), listen=log.listen)
        else:
            run, lock = create_run_directory(first.storage_path, first.name, trainable_name=first.trainable_name)
            opened = self._closing.enter_context(open_run_of(plan, run, lock=lock, listen=log.listen))
        log.story.path = run.path
        opened.begin(self.description(), run_record(plan, run, self.seed))
        self._closing.enter_context(_quiet())
        self.put_together(opened)


def _plan(
    curve: Any,
    param_space: Any,
    tune: TuneConfig,
    configured: RunConfig,
    resources_per_trial: Mapping[str, Any] | Resources | None,
    can_save: bool,
) -> Plan:
    """A plan with a placeholder trainable, which only says whether trials can save checkpoints."""
    _refuse_loggers(configured)
    name = getattr(curve, "__name__", "curve")
    if not name.isidentifier():  # a lambda
        name = "curve"
    trainable = type(name, (_SavingTrainable if can_save else Trainable,), {})
    configured = replace(configured, log_to_file=False)  # nothing is printed, so that file belongs to real runs
    if configured.verbose is None and configured.progress_reporter is None:
        configured = replace(configured, verbose=0)
    plan = Plan.of(trainable, param_space, tune, configured, resources_per_trial)
    plan.id_prefix = _ID_PREFIX
    return plan


class _SavingTrainable(Trainable):
    """A placeholder for a class that can save checkpoints."""

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        pass


def _refuse_loggers(configured: RunConfig) -> None:
    """Refuse loggers in a simulation without a directory."""
    callbacks: Iterable[Callback] = configured.callbacks or ()
    loggers = [type(one).__name__ for one in callbacks if isinstance(one, LoggerCallback)]
    if loggers and configured.storage_path is None:
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


def _open(curve: Any, config: dict[str, Any], state: Any, position: int) -> Iterator[Step]:
    """The steps of a configuration from a position on; see `OpenCurve`."""
    if isinstance(curve, Mapping):
        if CURVE not in config or config[CURVE] not in curve:
            raise KeyError(f"config[{CURVE!r}] must be a key of the table of curves, but the config is {shown(config)}")
        return islice(curve[config[CURVE]], position, None)
    # A copy: the function is called again after each restore, and must get the same configuration each time.
    config = copy.deepcopy(config)
    if not _takes_state(curve):
        return islice(curve(config), position, None)
    return map(_with_state, curve(config, state))


def _takes_state(curve: Callable[..., Any]) -> bool:
    try:
        inspect.signature(curve).bind({}, None)
    except (TypeError, ValueError):  # ValueError: a built-in without a signature
        return False
    return True


def _with_state(step: Step) -> Step:
    if len(step) != 3:
        raise TypeError(f"a curve that takes a state must yield (metrics, seconds, state), but yielded {shown(step)}")
    return step


def _machine(num_workers: int, resources: Mapping[str, float] | None) -> Machine:
    require(is_whole(num_workers) and num_workers >= 1, "num_workers: an int >= 1", num_workers)
    require(resources is None or isinstance(resources, Mapping), "resources: a mapping of names to amounts", resources)
    totals = {CPU: float(num_workers), **Resources([resources or {}]).required_resources}
    gpus = totals.get(GPU, 0)
    require(float(gpus).is_integer(), "resources: a mapping with a whole number of GPUs", resources)
    return Machine(totals, tuple(str(number) for number in range(int(gpus))))


def _seed(seed: int | None, tune: TuneConfig) -> int:
    require(seed is None or is_whole(seed), "seed: None or an int", seed)
    if seed is not None:
        return int(seed)
    return tune.seed or 0


def _not_negative(name: str, value: Any) -> float:
    require(is_real(value) and 0 <= value < float("inf"), f"{name}: a number >= 0", value)
    return float(value)
