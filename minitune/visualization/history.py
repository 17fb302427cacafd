"""History: a run as plots need it: parameters, learning curves, working times, copies, and how trials ended.

It comes from one pass over the journal. The run may be running, or may have been killed. Nothing is unpickled; a value
that was pickled is shown as a short text.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minitune.analysis.run_results import RunResults
from minitune.base.checks import require, shown
from minitune.base.table import short_repr
from minitune.experiment.lifecycle import ERROR, Step
from minitune.experiment.trial import Goal, Trial, best_of, is_number, once_better, require_reported
from minitune.output.table import ending, last_line, look_up, way_of
from minitune.record import journal, records
from minitune.record.layout import RunDirectory, no_run, run_path
from minitune.record.standing import RUNNING, put_back, state_of
from minitune.record.story import Change, Story
from minitune.result import TIMESTAMP, TRAINING_ITERATION, flatten

RunLike = Any
"""A run's directory, its `ResultGrid`, `ExperimentAnalysis` or `RunHistory`."""


@dataclass
class ResultPoint:
    """One result of a trial.

    Attributes:
        step: The result's `training_iteration`.
        value: The objective; NaN if the result has no finite number for it.
        at_s: When it was reported, in seconds since the epoch; NaN if unknown.
    """

    step: float
    value: float
    at_s: float


@dataclass
class Copy:
    """A trial continued from another trial's checkpoint, or from its own with other hyperparameters.

    Attributes:
        donor: The number of the trial that owns the checkpoint.
        step: The trial's last step before that; 0 before its first result.
    """

    donor: int
    step: float


@dataclass
class TrialHistory:
    """The history of one trial.

    Attributes:
        trial: The trial in its last state.
        params: Its last parameters by path: numbers, booleans, strings, None.
        points: Its results in order. A result that a later attempt repeats is left out.
        metrics: Its flattened last result, without the configuration.
        spans: The (begin, end) of each time that it had a worker, in seconds since the epoch.
        copies: Where it continued from a checkpoint with other hyperparameters.
        ended: How it ended, in the words of the final table; for a trial that has not ended, its status.
        way: The same in a word or two, such as `stopped` for `stopped at 4 by ASHA`.
        why: The text of its `ending`; empty if it has not ended.
        error: The last line of its error; empty if it has not failed.
    """

    trial: Trial
    params: dict[str, Any] = field(default_factory=dict)
    points: list[ResultPoint] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    spans: list[tuple[float, float]] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    ended: str = ""
    way: str = ""
    why: str = ""
    error: str = ""

    @property
    def number(self) -> int:
        """Its position in the order of submission, from 0."""
        return self.trial.number

    @property
    def value(self) -> float:
        """Its last value of the objective; NaN if there is none."""
        return self.points[-1].value if self.points else math.nan

    @property
    def failed(self) -> bool:
        """Whether it has failed and will not be retried."""
        return self.trial.status == ERROR


class RunHistory:
    """The history of a run.

    Args:
        source: The run's directory, its name below the storage path, `last`, or its `ResultGrid` or
            `ExperimentAnalysis`. Blocks while it reads the journal.
        metric: The objective, by its flattened name; by default that of the source, else that of the run.
        mode: `"min"` or `"max"`; by default that of the source, else that of the run.

    Attributes:
        path: The run's directory.
        name: The last part of its path.
        metric: The objective.
        mode: Its mode.
        trials: All trials that were drawn, by number.
        params: The paths of the parameters that were searched or have changed.
        state: The state of the run, as text.
        begun_s: When it began, in seconds since the epoch.
        updated_s: The time of the last record, in seconds since the epoch.
        worked_s: How long its drivers ran, in seconds.
        not_drawn: How many trials the search has not drawn.
        seed: Its seed.

    Raises:
        FileNotFoundError: If there is no run.
        ValueError: If there is no metric or no mode, the mode is unknown, or trials have reported, but none of them
            the metric.
        TypeError: If the source has another type.
        TuneError: If the journal cannot be read.
    """

    def __init__(self, source: Any, metric: str | None = None, mode: str | None = None):
        results = getattr(source, "_run", None)  # a ResultGrid and an ExperimentAnalysis have this attribute
        if isinstance(results, RunResults):
            metric, mode = results.goal.one(metric, mode)
            source = results.path
        if not isinstance(source, (str, os.PathLike)):
            raise TypeError(f"run: a run's directory, ResultGrid or ExperimentAnalysis, but got {shown(source)}")
        self.path = run_path(source)
        self.name = os.path.basename(self.path)
        directory = RunDirectory(self.path)
        if not os.path.isfile(directory.journal):
            raise FileNotFoundError(no_run(self.path))
        story = Story(self.path)
        reader = _HistoryReader(metric)
        for change in story.follow(journal.read(directory.journal)):
            reader.take(change)
        if not story.trials and directory.has_trials():
            raise directory.lost_journal()
        self.metric, self.mode = story.goal.require_one(reader.metric, mode, self.path, story.trials)
        if self.metric != story.goal.metric:
            require_reported(story.trials, self.metric, self.path)
        self.state = state_of(story)
        reader.end_spans(story.updated_s)
        if self.state.name != RUNNING:
            put_back(story.trials)
        self.begun_s = story.begun_s
        self.updated_s = story.updated_s
        self.worked_s = story.worked_s
        self.not_drawn = story.not_drawn
        self.seed = story.seed
        self.trials = [reader.trials[trial.trial_id] for trial in story.trials]
        self.params = self._fill_params(reader.changed)
        for history in self.trials:
            trial = history.trial
            history.ended = ending(trial)
            history.way = way_of(trial)
            history.why = "" if trial.ending is None else trial.ending.text
            history.error = last_line(trial)
            history.metrics = flatten(trial.last_metrics)

    def _fill_params(self, changed: set[str]) -> list[str]:
        """Set the parameters of each trial. Return their paths."""
        drawn = dict.fromkeys(path for history in self.trials for path in history.trial.evaluated_params)
        found: dict[str, None] = {}
        for history in self.trials:
            flat = flatten(history.trial.config)
            for path in (*drawn, *sorted(changed - drawn.keys())):
                if path in flat or path in history.trial.evaluated_params:
                    found[path] = None
                    history.params[path] = _plain(flat.get(path, history.trial.evaluated_params.get(path)))
        return list(found)

    @property
    def first_s(self) -> float:
        """When the first trial got a worker, in seconds since the epoch; 0 if no trial did."""
        return min((begin for trial in self.trials for begin, _ in trial.spans), default=0.0)

    @property
    def sign(self) -> int:
        """1 if a smaller objective is better, else -1."""
        return 1 if self.mode == "min" else -1

    def scored(self) -> list[TrialHistory]:
        """The trials that plots of the objective show: their last result is finite, and they have not failed."""
        return [history for history in self.trials if not history.failed and math.isfinite(history.value)]

    def ranked(self) -> list[TrialHistory]:
        """The trials of `scored`, the best one first. Of equal trials, the earlier one is first."""
        return sorted(self.scored(), key=lambda history: self.sign * history.value)

    @property
    def best(self) -> TrialHistory | None:
        """The trial with the best last result, a failed one included, as in `best_trial`; None if none has one."""
        values = ((history.value, history) for history in self.trials if math.isfinite(history.value))
        return best_of(values, self.mode)

    @property
    def once_better(self) -> str:
        """A text on the trial that was once better than the best one; empty if there is none. See `once_better`."""
        best = self.best
        if best is None:
            return ""
        other = once_better([history.trial for history in self.trials], best.trial, self.metric, self.mode)
        if other is None:
            return ""
        points = next(history.points for history in self.trials if history.trial is other)
        found = best_of(((point.value, point) for point in points if math.isfinite(point.value)), self.mode)
        return "" if found is None else f"trial {other.number} was at {found.value:.6g} in step {found.step:g}"


def history_of(run: RunLike, metric: str | None, mode: str | None) -> RunHistory:
    """The history of a run; see `RunHistory` for the errors.

    Raises:
        ValueError: If `run` is a `RunHistory` of another metric or mode.
    """
    if not isinstance(run, RunHistory):
        return RunHistory(run, metric, mode)
    require(
        metric in (None, run.metric) and mode in (None, run.mode),
        f"metric and mode: the ones of the RunHistory ({run.metric}, {run.mode})",
        (metric, mode),
    )
    return run


def shown_params(
    history: RunHistory, params: Sequence[str] | None, trials: Sequence[TrialHistory] | None = None
) -> list[str]:
    """The parameters to show: the given ones; by default all that took more than one value in these trials, or in all.

    Raises:
        ValueError: If the run has no such parameter.
    """
    if params is None:
        trials = history.trials if trials is None else trials
        return [path for path in history.params if len({str(t.params.get(path)) for t in trials}) > 1]
    for path in params:
        require(path in history.params, f"params: some of {', '.join(history.params) or '(none)'}", path)
    return list(params)


class _HistoryReader:
    """Collects the histories of trials from the changes of a run's story.

    Args:
        metric: The objective; None means the run's.
    """

    def __init__(self, metric: str | None):
        self.metric = metric
        self.trials: dict[str, TrialHistory] = {}
        self.changed: set[str] = set()
        self._working: dict[str, float] = {}  # by trial id, since when it has its present worker
        self._configs: dict[str, Mapping[str, Any]] = {}  # by trial id, before the present change

    def take(self, change: Change) -> None:
        """Add the next change."""
        kind = change.kind
        record = change.record
        trial = change.trial
        if kind == records.RUN:
            self.metric = self.metric or Goal.of(record["metric"], record["mode"]).metric
        elif kind == records.OPEN:
            self.end_spans(None)
        if trial is None:
            return
        trial_id = trial.trial_id
        if kind == records.TRIAL:
            self.trials[trial_id] = TrialHistory(trial)
            self._configs[trial_id] = trial.config
            return
        history = self.trials[trial_id]
        if change.step is not None and change.step is not Step.TRAIN:
            begun_s = self._working.pop(trial_id, None)
            if begun_s is not None:
                history.spans.append((begun_s, record["at"]))
        if kind == records.RESULT:
            self._on_result(history, record["metrics"])
        elif kind == records.ROLLBACK:
            del history.points[record["number"] :]
        elif kind == records.START:
            self._working[trial_id] = record.get("at", math.nan)
        elif kind in (records.EXPLOIT, records.CHANGE) and record["config"] is not None:
            before = flatten(self._configs[trial_id])
            after = flatten(trial.config)
            self.changed.update(path for path in after if path not in before or before[path] != after[path])
            self._configs[trial_id] = trial.config
            if kind == records.EXPLOIT:
                step = history.points[-1].step if history.points else 0.0
                history.copies.append(Copy(self.trials[record["donor"]].number, step))

    def _on_result(self, history: TrialHistory, metrics: Mapping[str, Any]) -> None:
        value = look_up(metrics, self.metric) if self.metric is not None else None
        step = metrics.get(TRAINING_ITERATION, len(history.points) + 1)
        history.points.append(
            ResultPoint(finite_number(step), finite_number(value), finite_number(metrics.get(TIMESTAMP)))
        )

    def end_spans(self, at_s: float | None) -> None:
        """End the spans of all trials that have a worker, at this time; None: at the time of their last result."""
        for trial_id, begun_s in self._working.items():
            history = self.trials[trial_id]
            last_s = history.points[-1].at_s if history.points else begun_s
            history.spans.append((begun_s, max(begun_s, last_s if at_s is None else at_s)))
        self._working.clear()


def finite_number(value: Any) -> float:
    """The value as a float; NaN if it is not a finite number."""
    if not is_number(value):
        return math.nan
    try:
        return float(value) if math.isfinite(value) else math.nan
    except OverflowError:  # an int larger than all floats
        return math.nan


def _plain(value: Any) -> Any:
    """A value that a plot can show: a finite number, a bool, a text or None."""
    if value is None or isinstance(value, (bool, str)):
        return value
    return short_repr(value) if math.isnan(finite_number(value)) else value
