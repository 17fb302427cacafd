"""ResultGrid and Result: the results of a run and of one trial."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from minitune.analysis.experiment_analysis import ExperimentAnalysis
from minitune.analysis.result_rows import ResultRow, import_pandas, result_rows
from minitune.analysis.run_results import last_result_of
from minitune.base.checks import is_real, require, shown
from minitune.base.files import local_path
from minitune.base.text import plain_numbers
from minitune.checkpoint import Checkpoint
from minitune.config import CheckpointConfig, refuse_out_of_scope
from minitune.experiment.goal import Confirmation, best_checkpoint, check_mode, confirmations, score
from minitune.experiment.lifecycle import ERROR, TERMINATED
from minitune.experiment.trial import Trial
from minitune.result import AUTO_RESULT_KEYS, CONFIG, DONE, EXPERIMENT_TAG, TRIAL_ID, flatten

if TYPE_CHECKING:
    from pathlib import Path

    import pandas

    from minitune.record.decisions import TrialDecision
    from minitune.search.estimate import Estimate
    from minitune.visualization.plots import Plot

_HIDDEN_KEYS = frozenset(AUTO_RESULT_KEYS) - {DONE, TRIAL_ID, EXPERIMENT_TAG}
"""Keys that the text of a `Result` leaves out."""

KeptCheckpoints = list[tuple[Checkpoint, dict[str, Any]]]
"""Checkpoints, each with the result that was reported with it."""


class Result:
    """The result of one trial. `Result.from_path` reads it from a trial's directory.

    Attributes:
        metrics: The last reported result, nested, with the automatic keys; `{"trial_id": ...}` if there is none.
        error: The `TrialError` of a failed trial, which is also an instance of the user's exception class; else None.
        best_checkpoints: (checkpoint, metrics) pairs, in ascending order of score if the run has a score attribute,
            else in order of time, at most `num_to_keep`. The latest checkpoint may be missing here.
    """

    def __init__(
        self,
        metrics: dict[str, Any] | None,
        checkpoint: Checkpoint | None,
        error: Exception | None,
        path: str,
        metrics_dataframe: pandas.DataFrame | None = None,
        best_checkpoints: KeptCheckpoints | None = None,
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
        # In the order of time; the sort below is stable, so equal scores stay in that order.
        kept = list(trial.checkpoints)
        attribute = checkpoint_config.checkpoint_score_attribute
        order = checkpoint_config.checkpoint_score_order
        if attribute is not None:
            kept.sort(key=lambda item: score(flatten(item.progress.metrics).get(attribute), order))
        if checkpoint_config.num_to_keep is not None:  # the latest one is on disk, too, whatever its score
            kept = kept[-checkpoint_config.num_to_keep :]
        return cls(
            metrics=last_result_of(trial),
            checkpoint=trial.checkpoint,
            error=trial.error,
            path=trial.local_path,
            best_checkpoints=[
                (Checkpoint(os.path.join(trial.local_path, item.record.directory)), item.result) for item in kept
            ],
            config=dict(trial.reported_config),
        )

    @classmethod
    def from_path(cls, path: str | os.PathLike[str], storage_filesystem: None = None) -> Result:
        """Read the result of a trial from the journal of its run. Blocks while it reads. Unpickles nothing.

        Args:
            path: The trial's directory, inside that of its run.
            storage_filesystem: Accepted for Ray Tune's signature; only None is possible.

        Raises:
            RuntimeError: If it is no directory of a trial, or no longer inside of its run.
            TuneError: If the journal is damaged.
            ValueError: If a file system is given.
        """
        from minitune.record.reading import read_run

        refuse_out_of_scope(storage_filesystem)
        directory = local_path(path)
        if not os.path.isdir(directory):
            raise RuntimeError(f"a trial's directory must exist, but {directory} does not")
        run_path, name = os.path.split(directory)
        try:
            trial = next((each for each in read_run(run_path).trials if each.custom_dirname == name), None)
        except FileNotFoundError:
            trial = None
        if trial is None:
            raise RuntimeError(
                f"a trial's directory must be inside that of its run, but {run_path} has no record of {name}; the "
                "reports of a trial are also in its result.json"
            )
        return cls.of(trial, CheckpointConfig())

    @property
    def log_dir(self) -> Path:
        """The trial's directory as a `Path`."""
        from pathlib import Path

        return Path(self.path)

    @cached_property
    def metrics_dataframe(self) -> pandas.DataFrame:
        """`get_rows` as a data frame. Needs pandas."""
        return import_pandas().DataFrame(self.get_rows())

    @cached_property
    def decisions(self) -> list[TrialDecision]:
        """Each stop, pause, promotion, exploit and failure of the trial, and each rung it has passed, with the reason.

        They come from the run's journal, so the directory must be inside the run's. Empty without decisions.

        Raises:
            FileNotFoundError: If there is no journal.
        """
        from minitune.record.decisions import read_decisions

        run_path, name = os.path.split(self.path)
        return list(read_decisions(run_path).by_directory.get(name, ()))

    def get_rows(self) -> list[ResultRow]:
        """All reports of the trial, flattened, including those of failed attempts. Needs no pandas.

        They come from the run's journal; a copy of the trial's directory elsewhere has none.
        """
        return result_rows(self.path)

    def get_best_checkpoint(self, metric: str, mode: str) -> Checkpoint:
        """The kept checkpoint with the best value of `metric`, of equal ones the newest.

        Args:
            metric: The metric's flattened name.
            mode: `"min"` or `"max"`.

        Raises:
            RuntimeError: If no kept checkpoint has the metric.
            ValueError: If the mode is unknown.
        """
        require(isinstance(metric, str), "metric: the metric's name", metric)
        check_mode(mode)
        kept = self.best_checkpoints
        best = best_checkpoint(((metrics, checkpoint) for checkpoint, metrics in kept), metric, mode)
        if not kept:
            raise RuntimeError(f"{self.path} has no checkpoint; a trial saves one by report(..., checkpoint=...)")
        if best is None:
            text = f"none of the {len(kept)} kept checkpoints of {self.path} has a value of {metric!r}"
            if self.metrics:
                text += f"; the metrics are {sorted(flatten(self.metrics))}"
            raise RuntimeError(text)
        return best

    def __repr__(self) -> str:
        metrics = plain_numbers({key: value for key, value in self.metrics.items() if key not in _HIDDEN_KEYS})
        checkpoint = ""
        if self.checkpoint is not None:
            checkpoint = f"checkpoint={self.checkpoint!r}, "
        return f"Result(metrics={metrics!r}, error={self.error!r}, {checkpoint}log_dir={self.log_dir!r})"


class ResultGrid(Sequence[Result]):
    """The results of all trials of a run, in order of submission."""

    def __init__(
        self,
        experiment_analysis: ExperimentAnalysis,
        *,
        interrupted: bool = False,
        checkpoint_config: CheckpointConfig | None = None,
    ):
        if not isinstance(experiment_analysis, ExperimentAnalysis):
            raise TypeError(
                f"experiment_analysis must be an ExperimentAnalysis, but got {shown(experiment_analysis)}; to "
                "read a run's directory, use ExperimentAnalysis(path)"
            )
        self._experiment_analysis = experiment_analysis  # scripts for Ray Tune read its trials by this name
        self._run = experiment_analysis._run
        self._checkpoint_config = checkpoint_config or CheckpointConfig()
        self.interrupted = interrupted

    @cached_property
    def _results(self) -> list[Result]:
        """Created on first use: a large run has many results, and most scripts need only the best one."""
        return [Result.of(trial, self._checkpoint_config) for trial in self._run.trials]

    if not TYPE_CHECKING:  # a type checker must not accept every name

        def __getattr__(self, name: str) -> Any:
            # Optuna and `run` have names such as `best_params` and `best_config`. Python suggests nothing for them.
            if name.startswith("best_"):
                raise AttributeError(f"a ResultGrid has no {name!r}: write get_best_result().config, or .metrics")
            return object.__getattribute__(self, name)

    def __len__(self) -> int:
        return len(self._run.trials)

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
        return self._run.to_html()

    @property
    def experiment_path(self) -> str:
        """The run's directory."""
        return self._run.path

    @property
    def seed(self) -> int | None:
        """The base seed of the run, whether set or drawn. `TuneConfig(seed=grid.seed)` repeats the run.

        None without a record.
        """
        return self._run.seed

    @property
    def errors(self) -> list[Exception]:
        """The errors of the trials that have failed."""
        return [result.error for result in self._results if result.error is not None]

    @property
    def num_errors(self) -> int:
        """How many trials have failed."""
        return sum(trial.status == ERROR for trial in self._run.trials)

    @property
    def num_terminated(self) -> int:
        """How many trials have finished."""
        return sum(trial.status == TERMINATED and trial.has_started for trial in self._run.trials)

    @property
    def num_not_started(self) -> int:
        """How many trials never had a worker, because the run ended first. They have no directory."""
        return sum(not trial.has_started and trial.status != ERROR for trial in self._run.trials)

    def get_best_result(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str | None = None,
        filter_nan_and_inf: bool = True,
        by: str = "value",
    ) -> Result:
        """The result of the best trial, of equal ones the earlier one.

        Args:
            metric: By default that of the `TuneConfig`. With several objectives, the name of one; see also `get_front`.
            mode: `"min"` or `"max"`.
            scope: The value that counts: `last`, `all` (the best one), `avg`, `last-5-avg` or `last-10-avg`. By default
                the last; if a scheduler has stopped trials, the mean of the last three of the longer ones.
            filter_nan_and_inf: Leave out trials whose value is not finite.
            by: `"value"`, or `"estimate"`: the first of `get_estimates`, if there are enough trials. Without a scope,
                also if a repeat of the search had another value.

        Raises:
            ValueError: If there is no metric or no mode, or `scope` or `by` has another value.
            RuntimeError: If no trial has the metric. The cause is the first error of a failed trial, if there is one.
            ImportError: If `by="estimate"` finds no numpy.
        """
        require(by in ("value", "estimate"), "by: 'value' or 'estimate'", by)
        best = self._run.find_best(metric, mode, scope, filter_nan_and_inf)
        if best is not None and by == "estimate" and (found := self.get_estimates(metric, mode, scope)):
            best = next(trial for trial in self._run.trials if trial.trial_id == found[0].trial_id)
        if best is None:
            failed = next(iter(self.errors), None)
            raise RuntimeError(self._run.why_no_best(metric)) from failed
        return self._results[self._run.trials.index(best)]

    def get_estimates(
        self, metric: str | None = None, mode: str | None = None, scope: str | None = None
    ) -> list[Estimate]:
        """What to expect of the trials if they were run again and again. The arguments are those of `get_best_result`.
        Blocks for up to 0.2 s of CPU.

        A Gaussian process over the configurations tells noise from effects, among trials that have run at least as long
        as the best one.

        Returns:
            The value, the expected value, and an interval of about 90 % of at most 100 trials. First is the one that is
            best even at the worse end of its interval. Empty with fewer than twelve.

        Raises:
            ValueError: If there is no metric or no mode, or `scope` has another value.
            RuntimeError: If no trial has the metric.
            ImportError: If numpy is not installed.
        """
        self.get_best_result(metric, mode, scope)  # raises if there is none
        metric, mode = self._run.require_goal(metric, mode)
        import minitune.search.surface  # noqa: F401 - its error names numpy
        from minitune.search.estimate import estimates

        return estimates(self._run.trials, metric, mode, scope)

    def get_confirmations(
        self, metric: str | None = None, mode: str | None = None, scope: str | None = None
    ) -> list[Confirmation]:
        """The trials that the run has repeated, with the values of the repeats; see `TuneConfig.confirm`.

        Args:
            metric: By default that of the `TuneConfig`, by which the trials were chosen.
            mode: `"min"` or `"max"`; by default that of the `TuneConfig`.
            scope: As in `get_best_result`, for each repeat.

        Returns:
            The best mean first. Empty without repeats, and for another metric or mode than those of the choice.

        Raises:
            ValueError: If there is no metric or no mode, or `scope` has another value.
            RuntimeError: If no trial has the metric.
        """
        self.get_best_result(metric, mode, scope)  # raises if there is none
        metric, mode = self._run.require_goal(metric, mode)
        return confirmations(self._run.trials, metric, mode, scope)

    def get_front(self, metric: list[str] | None = None, mode: list[str] | None = None) -> list[Result]:
        """The Pareto front: the results that no other result dominates, in order of submission.

        One dominates another if its last values are not worse in any objective and better in at least one. Trials
        without a finite value of each are left out.

        Args:
            metric: The objectives; by default those of the `TuneConfig`.
            mode: `"min"` or `"max"` for each objective; `"obs"` leaves an objective out.

        Raises:
            ValueError: If there are no objectives, the lists differ in length, or trials have reported, but none of
                them an objective.
        """
        front = {trial.trial_id for trial in self._run.front(metric, mode)}
        return [result for trial, result in zip(self._run.trials, self, strict=True) if trial.trial_id in front]

    def to_html(self, path: str | os.PathLike[str], metric: str | None = None, mode: str | None = None) -> str:
        """Write a report of the run to one HTML file: plots, importances, errors, a table of all trials. An existing
        file is replaced.

        Blocks while it reads the journal.

        Raises:
            FileNotFoundError: If there is no journal.
            ValueError: If there is no metric or no mode.
        """
        from minitune.visualization.page import write_report

        return write_report(self, path, metric=metric, mode=mode)

    def show(self, height: int = 900) -> Plot:
        """The page of the run for a notebook's cell, as its last line. `to_html` writes it to a file.

        Blocks while it reads the journal.

        Args:
            height: Of the frame, in pixels.

        Raises:
            FileNotFoundError: If there is no journal.
            ValueError: If there is no metric or no mode, or the height is below 100.
        """
        from minitune.visualization.page import read_histories, report_page
        from minitune.visualization.plots import Plot

        require(is_real(height) and height >= 100, "height: a number of pixels >= 100", height)
        return Plot(report_page(read_histories(self)).decode(), height)

    def importances(self, metric: str | None = None, mode: str | None = None) -> dict[str, float]:
        """How much each parameter alone affects the objective: shares of 1, the most important one first. Blocks while
        it reads the journal.

        Raises:
            FileNotFoundError: If there is no journal.
            ValueError: If there is no metric or no mode, or there are too few trials.
        """
        from minitune.view.history import get_param_importances

        return get_param_importances(self, metric=metric, mode=mode)

    def get_rows(self, filter_metric: str | None = None, filter_mode: str | None = None) -> list[ResultRow]:
        """One row for each trial: a flattened report, `config/<key>`, and the trial's directory as `logdir`.

        Needs no pandas. Without reports, a row has only configuration, directory and id.

        Args:
            filter_metric: Use the report with its best value, not the last one.
            filter_mode: `"min"` or `"max"`; without a mode, the last report is used.

        Raises:
            ValueError: If the mode is unknown, there is a mode without a metric, or no trial has reported the metric.
        """
        return self._run.rows(filter_metric, filter_mode)

    def get_dataframe(self, filter_metric: str | None = None, filter_mode: str | None = None) -> pandas.DataFrame:
        """The rows of `get_rows` of trials with reports as a data frame. Needs pandas.

        Raises:
            ImportError: If pandas is not installed.
            ValueError: See `get_rows`.
        """
        return self._run.dataframe(filter_metric, filter_mode)
