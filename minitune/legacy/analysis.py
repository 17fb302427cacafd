"""`Analysis(path)`: `ExperimentAnalysis` with its older name and arguments."""

from __future__ import annotations

import os

from minitune.analysis.experiment_analysis import ExperimentAnalysis
from minitune.base.text import warn_once


class Analysis(ExperimentAnalysis):
    """`ExperimentAnalysis` with its older arguments.

    Args:
        experiment_dir: The run's directory.
        default_metric: See `ExperimentAnalysis`.
        default_mode: See `ExperimentAnalysis`.
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
