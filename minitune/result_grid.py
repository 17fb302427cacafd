"""ResultGrid and Result: what has become of the trials of a run."""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, overload

from minitune.analysis.experiment_analysis import (
    ExperimentAnalysis,
    Row,
    import_pandas,
    last_result_of,
    logged_rows,
    read_params,
    recorded_rows,
    trial_rows,
)
from minitune.base.checks import require, shown
from minitune.base.files import local_path
from minitune.checkpoint import Checkpoint
from minitune.config import CheckpointConfig, refuse_out_of_scope
from minitune.error import TuneError, trial_error_of_text
from minitune.experiment.lifecycle import ERROR, TERMINATED
from minitune.experiment.trial import Trial, best_of, check_mode, is_number
from minitune.record.layout import last_error_text
from minitune.result import AUTO_RESULT_KEYS, CHECKPOINT_DIR_NAME, CONFIG, DONE, EXPERIMENT_TAG, TRIAL_ID, flatten

if TYPE_CHECKING:
    from pathlib import Path

    import pandas

    from minitune.record.story import TrialDecision
    from minitune.visualization.importances import Importances

logger = logging.getLogger("minitune")

_HIDDEN_KEYS = frozenset(AUTO_RESULT_KEYS) - {DONE, TRIAL_ID, EXPERIMENT_TAG}
"""Keys that the text of a `Result` leaves out."""
_CHECKPOINT = re.compile(r"checkpoint_(\d{6,})")

Kept = list[tuple[Checkpoint, dict[str, Any]]]
"""Checkpoints, and the results that they belong to."""


class Result:
    """The outcome of one trial. `Result.from_path` makes one from a trial's directory.

    Attributes:
        metrics: The last result, nested, with the automatic keys; `{"trial_id": ...}` if there was none.
        config: The trial's configuration.
        checkpoint: The latest checkpoint, or None.
        error: None if the trial has not failed; else a `TrialError` that is also an instance of the class of the
            user's exception.
        path: The trial's directory.
        best_checkpoints: The kept (checkpoint, metrics) pairs, ascending by score if the run had a score attribute,
            else by time; with `num_to_keep` at most so many, though the latest stays on disk whatever its score.
    """

    def __init__(
        self,
        metrics: dict[str, Any] | None,
        checkpoint: Checkpoint | None,
        error: Exception | None,
        path: str,
        metrics_dataframe: pandas.DataFrame | None = None,
        best_checkpoints: Kept | None = None,
        *,
        config: dict[str, Any] | None = None,
    ):
        self.metrics = {} if metrics is None else metrics
        self.checkpoint = checkpoint
        self.error = error
        self.path = path
        self.best_checkpoints = [] if best_checkpoints is None else best_checkpoints
        self.config: dict[str, Any] = self.metrics.get(CONFIG, {}) if config is None else config
        if metrics_dataframe is not None:
            self.metrics_dataframe = metrics_dataframe

    @classmethod
    def of(cls, trial: Trial, checkpoint_config: CheckpointConfig) -> Result:
        """The outcome of `trial`; see `Result.best_checkpoints` for what the config does."""
        kept = list(trial.checkpoints)
        attribute, order = checkpoint_config.checkpoint_score_attribute, checkpoint_config.checkpoint_score_order
        if attribute is not None:
            kept.sort(key=lambda item: _score(flatten(item.metrics).get(attribute), order))
        if checkpoint_config.num_to_keep is not None:
            kept = kept[-checkpoint_config.num_to_keep :]
        return cls(
            metrics=dict(last_result_of(trial)),
            checkpoint=trial.checkpoint,
            error=trial.error,
            path=trial.local_path,
            best_checkpoints=[
                (Checkpoint(os.path.join(trial.local_path, item.record.directory)), item.metrics) for item in kept
            ],
            config=trial.last_result.get(CONFIG)
            or trial.config,  # a configuration that was set after the last report was not trained
        )

    @classmethod
    def from_path(cls, path: str | os.PathLike[str], storage_filesystem: None = None) -> Result:
        """The outcome of the trial in a directory. Blocks while it is read; nothing is unpickled.

        If the directory still lies in its run's, the run's journal tells everything: the metrics, which checkpoints
        are complete, and whether the trial has failed in the end. For a directory that stands alone, metrics come from
        `result.json`, else from `progress.csv`, and the presence of `error.txt` tells whether the trial has failed.

        Args:
            path: The trial's directory.
            storage_filesystem: Only None, the local file system, is possible.

        Raises:
            RuntimeError: If the directory is missing, or there are no results in it.
            ValueError: If a file system is given.
        """
        from minitune.record.story import read_run

        refuse_out_of_scope(storage_filesystem, None, None)
        directory = local_path(path)
        if not os.path.isdir(directory):
            raise RuntimeError(f"a trial's directory must exist, but {directory} does not")
        run_path, name = os.path.split(directory)
        trial: Trial | None = None
        try:
            trial = next((each for each in read_run(run_path).trials if each.custom_dirname == name), None)
        except FileNotFoundError:
            pass
        except TuneError as damage:
            logger.warning("%s is read without the journal of its run: %s", directory, damage)
        rows = logged_rows(directory) if trial is None else recorded_rows(directory)
        if rows is None and trial is None:
            raise RuntimeError(f"{directory} is no trial's directory: neither result.json nor progress.csv is in it")
        metrics = rows[-1] if rows else dict(last_result_of(trial)) if trial else {}
        kept = _kept_checkpoints(directory, rows or [], trial)
        text = last_error_text(directory)
        error = trial.error if trial is not None else trial_error_of_text(text) if text else None
        config = metrics.get(CONFIG) or (trial.config if trial is not None else read_params(directory))
        return cls(metrics, kept[-1][0] if kept else None, error, directory, best_checkpoints=kept, config=config)

    @property
    def log_dir(self) -> Path:
        """The trial's directory as a Path."""
        from pathlib import Path

        return Path(self.path)

    @property
    def filesystem(self) -> NoReturn:
        """Not there: results lie on the local file system."""
        raise AttributeError("a Result has no filesystem: its files are local, below result.path")

    @cached_property
    def metrics_dataframe(self) -> pandas.DataFrame:
        """`get_rows` as a data frame. Needs pandas.

        Raises:
            ImportError: If pandas is not installed.
        """
        return import_pandas().DataFrame(self.get_rows())

    @cached_property
    def decisions(self) -> list[TrialDecision]:
        """Each stop, pause, promotion, exploit and failure of the trial, each rung that it has passed, and why.

        They are read from the journal of the run, below whose directory the trial's has to lie; an empty list if it
        says nothing. `print(result.decisions[-1])` tells in a sentence why the trial has ended.

        Raises:
            FileNotFoundError: If there is no journal.
        """
        from minitune.record.story import read_decisions

        run_path, name = os.path.split(self.path)
        return list(read_decisions(run_path).by_directory.get(name, ()))

    def get_rows(self) -> list[Row]:
        """All reports of the trial, flattened, those of failed attempts included. Needs no pandas.

        They come from the journal of the run, below whose directory the trial's has to lie. For a directory that
        stands alone they come from `result.json`, else from `progress.csv`.
        """
        return trial_rows(self.path)

    def get_best_checkpoint(self, metric: str, mode: str) -> Checkpoint:
        """The kept checkpoint with the best value of `metric`.

        Args:
            metric: The metric's flattened name.
            mode: `"min"` or `"max"`.

        Raises:
            RuntimeError: If no kept checkpoint has the metric.
            ValueError: If the mode is unknown.
        """
        require(isinstance(metric, str), "metric: the metric's name", metric)
        check_mode(mode)
        scored = [(flatten(metrics).get(metric), checkpoint) for checkpoint, metrics in self.best_checkpoints]
        best = best_of(((value, checkpoint) for value, checkpoint in scored if is_number(value)), mode)
        if best is None:
            raise RuntimeError(
                f"none of the {len(scored)} kept checkpoints of {self.path} has a value of {metric!r}"
                f"{'' if not self.metrics else f'; the metrics are {sorted(flatten(self.metrics))}'}"
            )
        return best

    def __repr__(self) -> str:
        metrics = {key: value for key, value in self.metrics.items() if key not in _HIDDEN_KEYS}
        checkpoint = "" if self.checkpoint is None else f"checkpoint={self.checkpoint!r}, "
        return f"Result(metrics={metrics!r}, error={self.error!r}, {checkpoint}log_dir={self.log_dir!r})"

    def _repr_html_(self) -> str:
        """Shown by notebooks."""
        from minitune.base.table import as_html, facts, short_repr

        own = {key: value for key, value in self.metrics.items() if key not in _HIDDEN_KEYS}
        parts = facts("metric", flatten(own)) + facts("parameter", flatten(self.config))
        if self.checkpoint is not None:
            parts.append(f"Checkpoint: {self.checkpoint.path}")
        if self.error is not None:
            parts.append(f"Failed: {short_repr(self.error)}")
        return as_html([*parts, f"Directory: {self.path}"])


class ResultGrid(Sequence[Result]):
    """The outcomes of all trials of a run, in order of submission.

    Args:
        experiment_analysis: The trials, with the default metric and mode; `run` returns one.
        interrupted: Whether the run was ended by Ctrl-C or a signal before its trials.
        checkpoint_config: By which checkpoints were kept; by default all were.
    """

    def __init__(
        self,
        experiment_analysis: ExperimentAnalysis,
        *,
        interrupted: bool = False,
        checkpoint_config: CheckpointConfig | None = None,
    ):
        if not isinstance(experiment_analysis, ExperimentAnalysis):
            raise TypeError(
                f"experiment_analysis must be an ExperimentAnalysis, but got {shown(experiment_analysis)}; that "
                "of a directory is ExperimentAnalysis(path)"
            )
        self._analysis = experiment_analysis
        self._checkpoint_config = checkpoint_config or CheckpointConfig()
        self.interrupted = interrupted

    @cached_property
    def _results(self) -> list[Result]:
        """Made when they are first asked for: a large run has many, and most scripts want the best one only."""
        return [Result.of(trial, self._checkpoint_config) for trial in self._analysis.trials]

    def __len__(self) -> int:
        return len(self._analysis.trials)

    @overload
    def __getitem__(self, i: int) -> Result: ...
    @overload
    def __getitem__(self, i: slice) -> list[Result]: ...
    def __getitem__(self, i: int | slice) -> Result | list[Result]:
        return self._results[i]

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    def __repr__(self) -> str:
        return "ResultGrid<[\n" + ",\n".join(f"  {result!r}" for result in self._results) + "\n]>"

    def _repr_html_(self) -> str:
        """Shown by notebooks."""
        return self._analysis._repr_html_()

    @property
    def experiment_path(self) -> str:
        """The run's directory."""
        return self._analysis.experiment_path

    @property
    def seed(self) -> int | None:
        """The base seed of the run, also one that was drawn: `TuneConfig(seed=grid.seed)` repeats the run.

        None if there is no record of the run any more.
        """
        return self._analysis.seed

    @property
    def filesystem(self) -> NoReturn:
        """Not there: results lie on the local file system."""
        raise AttributeError("a ResultGrid has no filesystem: its files are local, below grid.experiment_path")

    @property
    def errors(self) -> list[Exception]:
        """The errors of the trials that have failed."""
        return [result.error for result in self._results if result.error is not None]

    @property
    def num_errors(self) -> int:
        """How many trials have failed."""
        return sum(trial.status == ERROR for trial in self._analysis.trials)

    @property
    def num_terminated(self) -> int:
        """How many trials have finished."""
        return sum(trial.shown_status == TERMINATED for trial in self._analysis.trials)

    @property
    def num_not_started(self) -> int:
        """How many trials never had a worker, because the run ended first. They have no directory."""
        return sum(not trial.has_started and trial.status != ERROR for trial in self._analysis.trials)

    def get_best_result(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,
    ) -> Result:
        """The outcome of the best trial; a tie goes to the earlier one.

        Args:
            metric: The metric; by default that of the `TuneConfig`. A lone trial needs none. With several
                objectives one of them must be named; see `get_front`, too.
            mode: `"min"` or `"max"`; by default that of the `TuneConfig`.
            scope: Which value counts: `last`, `all` (best ever), `avg`, `last-5-avg` or `last-10-avg`.
            filter_nan_and_inf: Leave out trials whose value is not finite.

        Raises:
            ValueError: If metric or mode is not set, or scope is none of these.
            RuntimeError: If no trial has the metric; from the first trial's error if one has failed.
        """
        best = self._analysis._find_best(metric, mode, scope, filter_nan_and_inf)
        if best is None:
            failed = next(iter(self.errors), None)
            way_out = ""
            if filter_nan_and_inf and self._analysis._find_best(metric, mode, scope, False) is not None:
                way_out = "; filter_nan_and_inf=False lets NaN and infinities count"
            counts = f" ({self.num_errors} of them have failed)" if 0 < self.num_errors < len(self) else ""
            raise RuntimeError(f"{self._analysis._why_no_best(metric)}{way_out}{counts}") from failed
        return self._results[self._analysis.trials.index(best)]

    def get_front(self, metric: list[str] | None = None, mode: list[str] | None = None) -> list[Result]:
        """The Pareto front: the outcomes that no other one beats, in order of submission.

        One outcome beats another if its last values are not worse in any objective, and better in one. Trials without a
        finite value of each objective are left out.

        Args:
            metric: The objectives; by default those of the `TuneConfig`.
            mode: `"min"` or `"max"` for each; `"obs"` leaves one out.

        Raises:
            ValueError: If they are not known, or no lists of one length.
        """
        front = {trial.trial_id for trial in self._analysis._front(metric, mode)}
        return [result for trial, result in zip(self._analysis.trials, self, strict=True) if trial.trial_id in front]

    def to_html(self, path: str | os.PathLike[str], metric: str | None = None, mode: str | None = None) -> str:
        """Write a report of the run into one HTML file: plots, importances, errors and a table of all trials.

        Needs the extra `report`. Blocks while the journal is read and the file is written.

        Args:
            path: The file; an older one is replaced.
            metric: The objective; by default that of the `TuneConfig`.
            mode: `"min"` or `"max"`; by default likewise.

        Returns:
            The absolute path of the file.

        Raises:
            ImportError: If plotly is not installed.
            FileNotFoundError: If the run has left no journal.
            ValueError: If metric or mode is not known.
        """
        from minitune.visualization.page import write_report

        return write_report(self, path, metric=metric, mode=mode)

    def importances(self, metric: str | None = None, mode: str | None = None) -> Importances:
        """How much each parameter matters for the objective, and how sure that is.

        Needs the extra `report`. Blocks while the journal is read and a model is fitted.

        Args:
            metric: The objective; by default that of the `TuneConfig`.
            mode: `"min"` or `"max"`; by default likewise.

        Raises:
            ImportError: If scikit-learn is not installed.
            FileNotFoundError: If the run has left no journal.
            ValueError: If metric or mode is not known, or there are too few trials.
        """
        from minitune.visualization.importances import get_param_importances

        return get_param_importances(self, metric=metric, mode=mode)

    def get_rows(self, filter_metric: str | None = None, filter_mode: str | None = None) -> list[Row]:
        """One flattened report for each trial, with `config/<key>` and `logdir`, the trial's directory.

        Needs no pandas. A trial that has reported nothing has only these and its id.

        Args:
            filter_metric: Take the report with the best value of this metric instead of the last one.
            filter_mode: `"min"` or `"max"`; without it the last report is taken.

        Raises:
            ValueError: If the mode is unknown, or there is no metric for it.
        """
        return self._analysis.get_rows(filter_metric, filter_mode)

    def get_dataframe(self, filter_metric: str | None = None, filter_mode: str | None = None) -> pandas.DataFrame:
        """`get_rows` of the trials that have reported something, as a data frame. Needs pandas.

        Raises:
            ImportError: If pandas is not installed.
            ValueError: See `get_rows`.
        """
        return self._analysis.dataframe(filter_metric, filter_mode)


def _score(value: Any, order: str) -> float:
    """Return `value` so that larger is better; a value that is not a number is the worst."""
    if not is_number(value):
        return -math.inf
    score: float = value if order == "max" else -value  # an int may be too large for float()
    return score


def _kept_checkpoints(directory: str, rows: list[Row], trial: Trial | None) -> Kept:
    """The checkpoints that lie in a trial's directory, by number, each with its metrics as far as they are known."""
    metrics = {row[CHECKPOINT_DIR_NAME]: row for row in rows if row.get(CHECKPOINT_DIR_NAME)}
    if trial is not None:
        metrics = {kept.record.directory: kept.metrics for kept in trial.checkpoints}
    matches = (_CHECKPOINT.fullmatch(entry.name) for entry in os.scandir(directory) if entry.is_dir())
    found = sorted((int(match[1]), match[0]) for match in matches if match)
    return [
        (Checkpoint(os.path.join(directory, name)), metrics.get(name, {}))
        for _, name in found
        if trial is None or name in metrics
    ]
