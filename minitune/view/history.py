"""History: a run as plots need it: parameters, learning curves, copies, and how trials ended.

It comes from one pass over the journal, and from records that were added since. Nothing is unpickled.
"""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minitune.base.checks import require, shown
from minitune.base.numbers import finite_number, known_number
from minitune.base.text import plain_or_short
from minitune.experiment.goal import require_reported
from minitune.experiment.lifecycle import ERROR
from minitune.experiment.trial import Trial
from minitune.record import records
from minitune.record.decisions import Decisions, TrialDecision
from minitune.record.layout import run_path
from minitune.record.reading import RunFollower, read_description
from minitune.record.standing import read_on
from minitune.record.story import Effect
from minitune.result import TIME_TOTAL_S, TIMESTAMP, TRAINING_ITERATION, flatten, own_metrics
from minitune.space.tree import value_at_text
from minitune.view.importances import importances_of
from minitune.view.rows import metrics_of, parameter_names, shown_params

METRICS_KEPT = 12
"""The number of metrics besides the objective whose course is kept."""
_NUMBERS = frozenset((float, int))
_FLOAT_BITS = 1000  # a float can hold every shorter int
RunLike = Any
"""A run's directory, its `ResultGrid` or its `ExperimentAnalysis`."""


def _no_numbers() -> array[float]:
    return array("d")


@dataclass
class TrialHistory:
    """The history of one trial.

    Attributes:
        params: Its last parameters by path: plain values.
        steps, values, seconds: Of each of its results, without those that a later attempt repeats; seconds of training.
        others: The values of its first few other metrics at each of `steps`, or NaN.
        copies: Where it continued from a checkpoint with other hyperparameters: the number of the trial that owns the
            checkpoint, and its own last step before that, 0 before its first result.
        reported_s: When it reported last, in seconds since the epoch, or None.
        value: Its last objective, or NaN.
    """

    trial: Trial
    params: dict[str, Any] = field(default_factory=dict)
    steps: array[float] = field(default_factory=_no_numbers)
    values: array[float] = field(default_factory=_no_numbers)
    seconds: array[float] = field(default_factory=_no_numbers)
    others: dict[str, array[float]] = field(default_factory=dict)
    copies: list[tuple[int, float]] = field(default_factory=list)
    reported_s: float | None = None
    value: float = math.nan

    def describe(self, metric: str, paths: Sequence[str]) -> None:
        """Fill in what follows from the trial's present state."""
        trial = self.trial
        self.params = {path: plain_or_short(value) for path, value in shown_params(trial, paths).items()}
        last = trial.progress.analysis.get(metric, "last")
        self.value = math.nan if last is None else float(last)

    @property
    def number(self) -> int:
        """Its position in the order of submission, from 0."""
        return self.trial.number

    @property
    def failed(self) -> bool:
        """Whether it has failed and will not be retried."""
        return self.trial.status == ERROR


class RunHistory:
    """The history of a run. `read_new` brings it up to date while the run goes on. Blocks while it reads the journal.

    Args:
        source: The run's directory, its name below the storage path, `last`, or its `ResultGrid` or
            `ExperimentAnalysis`.
        metric, mode: The objective; by default that of the source or the run, of several the first.
        needs_metric: If False, a run may have no metric.

    Attributes:
        objectives: The modes by metric of a run with several objectives, else empty.
        trials: All trials that were drawn, by number.
        story: The run as its journal tells it.

    Raises:
        ValueError: If there is no metric or mode, or no trial has reported the metric.
        TuneError: If the journal cannot be read.
    """

    def __init__(self, source: Any, metric: str | None = None, mode: str | None = None, *, needs_metric: bool = True):
        results = getattr(source, "_run", None)  # of a ResultGrid or an ExperimentAnalysis
        if results is not None:
            metric, mode = results.goal.one(metric, mode)
            source = results.path
        if not isinstance(source, (str, os.PathLike)):
            raise TypeError(f"run: a run's directory, ResultGrid or ExperimentAnalysis, but got {shown(source)}")
        self.path = run_path(source)
        self.name = os.path.basename(self.path)
        if metric is None:  # known before the results are read: a later driver may have corrected it
            goal = read_description(self.path).goal
            metric = next((name for name in goal.metrics if goal.objectives.get(name) != "obs"), None)
        self._reader = _HistoryReader(metric)
        self._follower = RunFollower(self.path, listener=self._reader.tell)
        _, self.state = read_on(self._follower)
        self.story = self._follower.run
        story = self.story
        goal = story.setup.goal
        if needs_metric or metric is not None:
            metric, mode = goal.require_one(metric, mode or goal.objectives.get(metric or ""), self.path, story.trials)
            if metric != goal.metric:
                require_reported(story.trials, metric, self.path)
        self.metric = metric or ""
        self.mode = mode or "min"
        self.objectives = {name: way for name, way in goal.objectives.items() if way != "obs"}
        self.trials: list[TrialHistory] = []
        self.params: list[str] = []
        self._refresh()

    def read_new(self) -> bool:
        """Read the new records, and return whether anything has changed. Blocks.

        Raises:
            JournalCorruptError: If the journal has been damaged, or emptied.
            FileNotFoundError: If the run was removed.
            TuneError: If the journal cannot be read.
        """
        before = self.state.name
        has_new, self.state = read_on(self._follower)
        if not has_new and self.state.name == before:
            return False
        self._refresh()
        return True

    def decisions_on(self, history: TrialHistory) -> list[TrialDecision]:
        """The decisions about a trial so far."""
        return self._reader.by_trial.get(history.trial.trial_id, [])

    def _refresh(self) -> None:
        """Describe the trials as they are now."""
        story = self.story
        self.trials = [self._reader.trials[trial.trial_id] for trial in story.trials]
        paths = sorted({*parameter_names(story.trials), *self._reader.moved})
        for history in self.trials:
            history.describe(self.metric, paths)
        present = {path for history in self.trials for path in history.params}
        self.params = [path for path in paths if path in present]

    @property
    def scored(self) -> list[TrialHistory]:
        """The trials that count: their last objective is finite, and they have not failed."""
        return [each for each in self.trials if not each.failed and math.isfinite(each.value)]


def get_param_importances(run: RunLike, *, metric: str | None = None, mode: str | None = None) -> dict[str, float]:
    """Estimate how much each parameter alone matters for the objective: shares of 1, the most important one first.

    Args:
        run: See `plots`. Blocks while it is read.
        metric: The objective; by default the run's.
        mode: `"min"` or `"max"`; by default the run's.

    Raises:
        FileNotFoundError: If there is no run.
        ValueError: If fewer than 3 trials have a finite objective, no parameter has varied, or there is no metric or
            mode.
    """
    history = RunHistory(run, metric, mode)
    return importances_of(history.story.trials, history.metric, history.params)


def check_params(history: RunHistory, params: Sequence[str]) -> None:
    """Refuse parameters that the run does not have."""
    for path in params:
        require(path in history.params, f"params: some of {', '.join(history.params) or '(none)'}", path)


class _HistoryReader(Decisions):
    """Collects the histories of trials, and the decisions about them, from the effects of a run's records. `moved` are
    the paths of parameters that a scheduler has changed.
    """

    def __init__(self, metric: str | None):
        super().__init__()
        self._metric = metric
        self.trials: dict[str, TrialHistory] = {}
        self.moved: set[str] = set()
        self._configs: dict[str, Mapping[str, Any]] = {}  # by trial id, before the present effect
        self._others: dict[tuple[str, ...], list[str]] = {}  # by the names in a result, those of other metrics

    def tell(self, effect: Effect) -> None:
        super().tell(effect)
        kind = effect.kind
        record = effect.record
        trial = effect.trial
        if trial is None:
            return
        trial_id = trial.trial_id
        if kind == records.TRIAL:
            self.trials[trial_id] = TrialHistory(trial)
            self._configs[trial_id] = trial.config
            return
        history = self.trials[trial_id]
        if kind == records.RESULT:
            self._on_point(history, record["metrics"])
        elif kind == records.ROLLBACK:
            for column in (history.steps, history.values, history.seconds, *history.others.values()):
                del column[record["number"] :]
        elif kind in (records.EXPLOIT, records.CHANGE):
            before = flatten(self._configs[trial_id])
            after = flatten(trial.config)
            self.moved.update(path for path in after if path not in before or before[path] != after[path])
            self._configs[trial_id] = trial.config
            if kind == records.EXPLOIT:
                step = history.steps[-1] if history.steps else 0.0
                history.copies.append((self.trials[record["donor"]].number, step))

    def _on_point(self, history: TrialHistory, metrics: Mapping[str, Any]) -> None:
        value = None
        if self._metric is not None:
            value = metrics.get(self._metric)  # nearly always: this is called for each result
            if value is None:
                value = value_at_text(metrics, self._metric)
        self._on_others(history, metrics)
        history.steps.append(_finite_or_nan(metrics.get(TRAINING_ITERATION, len(history.steps) + 1)))
        history.values.append(_finite_or_nan(value))
        history.seconds.append(_finite_or_nan(metrics.get(TIME_TOTAL_S)))
        history.reported_s = finite_number(metrics.get(TIMESTAMP))

    def _on_others(self, history: TrialHistory, metrics: Mapping[str, Any]) -> None:
        """Add the values of the metrics besides the objective. Called before the step is added."""
        # This is called for each result, and nearly all results have the names of an earlier one.
        keys = tuple(metrics)
        names = self._others.get(keys)
        if names is None:
            names = self._others[keys] = [name for name in own_metrics(metrics) if name != self._metric]
        others = {}
        for name in names:
            value = metrics[name]
            if type(value) in _NUMBERS:
                self._add_other(history, name, value)
            else:
                others[name] = value
        for name, value in metrics_of(others).items():
            if name != self._metric:
                self._add_other(history, name, known_number(value))

    def _add_other(self, history: TrialHistory, name: str, number: float | None) -> None:
        if number is None or number != number:
            return
        values = history.others.get(name)
        if values is None:
            if len(history.others) >= METRICS_KEPT:
                return
            values = history.others.setdefault(name, _no_numbers())
        missing = len(history.steps) - len(values)
        if missing:  # it was not reported meanwhile
            values.extend([math.nan] * missing)
        values.append(_finite_or_nan(number))


def _finite_or_nan(value: Any) -> float:
    # Nearly always a float or an int: this is called for each result.
    if type(value) is float:
        return value if math.isfinite(value) else math.nan
    if type(value) is int and value.bit_length() < _FLOAT_BITS:
        return float(value)
    number = finite_number(value)
    return math.nan if number is None else float(number)
