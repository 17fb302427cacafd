"""ExperimentAnalysis: the trials of a run, from its driver or from its directory, and the best of them.

This module unpickles nothing, so it can read runs that are not trusted.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from minitune.analysis.result_rows import ResultRow, import_pandas, result_rows
from minitune.analysis.run_results import RunResults, last_result_of
from minitune.base.checks import require, require_metric
from minitune.base.files import local_path
from minitune.checkpoint import Checkpoint
from minitune.config import refuse_out_of_scope
from minitune.experiment.goal import Metric, best_checkpoint, check_mode
from minitune.experiment.trial import Trial
from minitune.record.layout import run_path
from minitune.result import (
    CONFIG,
    TRAINING_ITERATION,
    TRIAL_ID,
    flat_row,
)

if TYPE_CHECKING:
    import pandas

logger = logging.getLogger("minitune")


class ExperimentAnalysis:
    """The trials of a run and the best of them.

    Args:
        experiment_checkpoint_path: The run's directory, its journal, its name below the storage path, or `last`. The
            run may still be running. Objects that were pickled are shown as text.
        storage_filesystem: Accepted for Ray Tune's signature; only None is possible.
        trials: The trials of the run; by default they are read from the directory, without the trainable.
        default_metric: The metric of the `best_...` members. If there is only a mode, it is `_metric`. For several
            objectives, a list.
        default_mode: `"min"` or `"max"`; for a list of metrics, a list.

    Raises:
        ValueError: If the mode is unknown, or the directory contains no run.
        JournalCorruptError: If the journal is damaged.
    """

    def __init__(
        self,
        experiment_checkpoint_path: str | os.PathLike[str],
        *,
        storage_filesystem: None = None,
        trials: Sequence[Trial] | None = None,
        default_metric: Metric = None,
        default_mode: Metric = None,
    ):
        refuse_out_of_scope(storage_filesystem)
        path = local_path(experiment_checkpoint_path)
        if trials is None:
            # imported here, because the script of a run does not need it
            from minitune.record.standing import read_standing

            try:
                run, _ = read_standing(run_path(experiment_checkpoint_path))
            except FileNotFoundError as error:
                raise ValueError(str(error)) from error
            path = run.path
            trials = run.trials
        self._run = RunResults(path, trials, default_metric, default_mode)
        self.default_metric = self._run.goal.metric
        self.default_mode = self._run.goal.mode
        self.experiment_path = self._run.path
        self.trials = self._run.trials

    @property
    def seed(self) -> int | None:
        """The base seed of the run, whether set or drawn; None without a journal.

        Raises:
            JournalCorruptError: If the journal is damaged.
        """
        return self._run.seed

    def _repr_html_(self) -> str:
        """Shown by notebooks."""
        return self._run.to_html()

    # -- all trials ------------------------------------------------------------------------------------------------

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """The last result of each trial, by trial id."""
        return {trial.trial_id: last_result_of(trial) for trial in self.trials}

    @property
    def results_df(self) -> pandas.DataFrame:
        """The flattened last result of each trial; the index is the trial id. Needs pandas."""
        rows = [flat_row(result) for result in self.results.values()]
        return import_pandas().DataFrame.from_records(rows, index=TRIAL_ID)

    @cached_property
    def trial_dataframes(self) -> dict[str, pandas.DataFrame]:
        """All reports of each trial, by trial id. Needs pandas."""
        pandas = import_pandas()
        return {trial.trial_id: pandas.DataFrame(result_rows(trial.local_path)) for trial in self.trials}

    def get_all_configs(self, prefix: bool = False) -> dict[str, dict[str, Any]]:
        """The configuration of each trial, by trial id. With `prefix`: flattened, with the prefix `config/`."""
        configs = {trial.trial_id: trial.reported_config for trial in self.trials}
        return {name: flat_row({CONFIG: config}) if prefix else dict(config) for name, config in configs.items()}

    def get_rows(self, metric: str | None = None, mode: str | None = None) -> list[ResultRow]:
        """One row for each trial: a flattened report, `config/<key>`, and the trial's directory as `logdir`.

        The row of a trial without reports has only its configuration, directory and id.

        Args:
            metric: Use the report with the best value of this metric, which has no default, instead of the last report.
            mode: `"min"` or `"max"`; without a mode, the last report is used.

        Raises:
            ValueError: If the mode is unknown, there is a mode without a metric, or trials have reported, but none of
                them the metric.
        """
        return self._run.rows(metric, mode)

    def dataframe(self, metric: str | None = None, mode: str | None = None) -> pandas.DataFrame:
        """The rows of `get_rows` as a data frame, without trials that have no report. Needs pandas.

        Raises:
            ImportError: If pandas is not installed.
            ValueError: See `get_rows`.
        """
        return self._run.dataframe(metric, mode)

    # -- the best one ----------------------------------------------------------------------------------------------

    @property
    def best_trial(self) -> Trial | None:
        """The best trial by the default metric and mode. None, with a warning, if no trial has a usable value.

        Raises:
            ValueError: If there is no default metric or mode.
        """
        return self.get_best_trial(*self._run.require_goal(None, None))

    @property
    def best_config(self) -> dict[str, Any] | None:
        """The configuration of the best trial; see `best_trial`."""
        return self.get_best_config(*self._run.require_goal(None, None))

    @property
    def best_result(self) -> dict[str, Any]:
        """The last result of the best trial.

        Raises:
            ValueError: If there is no default metric or mode, or no trial has a usable value.
        """
        return last_result_of(self._require_best())

    @property
    def best_result_df(self) -> pandas.DataFrame:
        """The flattened `best_result` as a data frame with one row; the index is the trial id. Needs pandas."""
        row = flat_row(self.best_result)
        return import_pandas().DataFrame.from_records([row], index=TRIAL_ID)

    @property
    def best_dataframe(self) -> pandas.DataFrame:
        """All reports of the best trial. Raises the same errors as `best_result`. Needs pandas."""
        return self.trial_dataframes[self._require_best().trial_id]

    @property
    def best_checkpoint(self) -> Checkpoint | None:
        """The best kept checkpoint of the best trial. Raises the same errors as `best_result`."""
        return self.get_best_checkpoint(self._require_best(), *self._run.require_goal(None, None))

    def get_best_trial(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str | None = None,
        filter_nan_and_inf: bool = True,
    ) -> Trial | None:
        """The best trial by a metric, a mode and a scope as in `ResultGrid.get_best_result`. None, with a warning, if
        no trial has a usable value. Of equal trials, the first one wins.

        Without a metric or mode, the only trial of a run is the best one.

        Raises:
            ValueError: If there is no metric or no mode, or `scope` has another value.
        """
        best = self._run.find_best(metric, mode, scope, filter_nan_and_inf)
        if best is None:
            logger.warning("%s (%s)", self._run.why_no_best(metric), self.experiment_path)
        return best

    def get_best_config(
        self, metric: str | None = None, mode: str | None = None, scope: str | None = None
    ) -> dict[str, Any] | None:
        """The configuration of the best trial, or None; see `get_best_trial`."""
        best = self.get_best_trial(metric, mode, scope)
        if best is None:
            return None
        return dict(best.reported_config)

    def get_best_checkpoint(
        self, trial: Trial, metric: str | None = None, mode: str | None = None
    ) -> Checkpoint | None:
        """The kept checkpoint of `trial` with the best value of a metric, by default `training_iteration`; None, with
        an error in the log, without one.

        Raises:
            ValueError: If there is no mode, or `trial` is not a trial.
        """
        require(isinstance(trial, Trial), "trial: one of this analysis' trials", trial)
        # As in Ray Tune: without any metric, the latest checkpoint is the best one.
        metric, mode = self._run.require_goal(metric or self.default_metric or TRAINING_ITERATION, mode)
        best = best_checkpoint(((kept.progress.metrics, kept) for kept in trial.checkpoints), metric, mode)
        if best is None:
            logger.error("trial %s has no checkpoint with a value of %r", trial, metric)
            return None
        return Checkpoint(os.path.join(trial.local_path, best.record.directory))

    # names of Ray 1
    def get_best_logdir(
        self, metric: str | None = None, mode: str | None = None, scope: str | None = None
    ) -> str | None:
        """The directory of the best trial; see `get_best_trial`."""
        best = self.get_best_trial(metric, mode, scope)
        if best is None:
            return None
        return best.local_path

    @property
    def best_logdir(self) -> str:
        """The directory of the best trial. Raises the same errors as `best_result`."""
        return self._require_best().local_path

    def fetch_trial_dataframes(self) -> dict[str, pandas.DataFrame]:
        """All reports of each trial, by the trial's directory. Needs pandas."""
        frames = ExperimentAnalysis.trial_dataframes.__get__(self)
        return {trial.local_path: frames[trial.trial_id] for trial in self.trials}

    def get_last_checkpoint(
        self, trial: Trial | None = None, metric: str = TRAINING_ITERATION, mode: str = "max"
    ) -> Checkpoint | None:
        """The kept checkpoint of `trial`, by default the best one, with the highest iteration, or None."""
        require_metric("metric", metric)
        check_mode(mode)
        trial = trial or self.get_best_trial(metric, mode)
        if trial is None:
            return None
        return self.get_best_checkpoint(trial, TRAINING_ITERATION, "max")

    def _require_best(self) -> Trial:
        best = self._run.find_best(*self._run.require_goal(None, None))
        if best is None:
            raise ValueError(f"{self._run.why_no_best(None)} ({self.experiment_path})")
        return best
