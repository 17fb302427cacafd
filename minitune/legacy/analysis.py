"""`Analysis(path)`: `ExperimentAnalysis` with its older name and arguments."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

from minitune.analysis.experiment_analysis import ExperimentAnalysis
from minitune.base.text import warn_once

if TYPE_CHECKING:
    import pandas


class Analysis(ExperimentAnalysis):
    """`ExperimentAnalysis` with its older arguments. Its dicts have the trials' directories as keys, not their ids.

    Args:
        experiment_dir, default_metric, default_mode: See `ExperimentAnalysis`.
        file_type: Has no effect: the results come from the run's journal.

    Raises:
        ValueError: If the directory contains no run.
    """

    def __init__(
        self,
        experiment_dir: str | os.PathLike[str],
        default_metric: str | None = None,
        default_mode: str | None = None,
        file_type: str | None = None,
    ):
        if file_type is not None:
            warn_once("Analysis(file_type=...) has no effect: the results come from the run's journal")
        super().__init__(experiment_dir, default_metric=default_metric, default_mode=default_mode)

    @cached_property
    def trial_dataframes(self) -> dict[str, pandas.DataFrame]:
        """All reports of each trial, by the trial's directory. Needs pandas."""
        return self.fetch_trial_dataframes()

    @property
    def best_dataframe(self) -> pandas.DataFrame:
        return self.trial_dataframes[self.best_logdir]

    def get_all_configs(self, prefix: bool = False) -> dict[str, dict[str, Any]]:
        """The configuration of each trial, by the trial's directory; see `ExperimentAnalysis.get_all_configs`."""
        configs = super().get_all_configs(prefix)
        return {trial.local_path: configs[trial.trial_id] for trial in self.trials}
