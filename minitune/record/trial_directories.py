"""TrialDirectories: the directories of a run's trials.

If a trial's directory cannot be used, only that trial fails. If the disk refuses the run's own files, or the run's
directory has gone, the run ends: `raise_if_run_ends` tells which.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable

from minitune.base import files
from minitune.base.disk import ends_run
from minitune.error import TrialError
from minitune.experiment.trial import Trial
from minitune.record.journal import Journal
from minitune.record.layout import (
    RunDirectory,
    append_error,
    clean_trial_directory,
    create_trial_directory,
    date_text,
)

logger = logging.getLogger("minitune")


class TrialDirectories:
    """Makes, checks and cleans the directories of a run's trials, and writes the files with their errors."""

    def __init__(self, run: RunDirectory, journal: Journal, creator: Callable[[Trial], str] | None):
        self._run = run
        self._journal = journal
        self._creator = creator

    def prepare(self, trial: Trial) -> str:
        """Create the trial's directory, or clean it; return its path.

        Raises:
            OSError: If it cannot be used.
            DiskError: If the run's directory is gone.
        """
        if trial.custom_dirname is None:
            name = create_trial_directory(self._run.path, trial, self._creator)
            trial.set_directory(self._run.path, name)
        else:
            self._check(trial)
            # Before the attempt, which would give its checkpoint the number of one that was not recorded.
            self._clean(trial)
        return trial.local_path

    def _check(self, trial: Trial) -> None:
        """Raise an error if the directory of a trial that has been started is gone.

        If a power cut has taken it before the trial's first report, it is made again.
        """
        if os.path.isdir(trial.local_path):
            return
        # If the whole run's directory has gone, no trial is to blame, and the run ends.
        self._journal.look()
        if not trial.progress.num_reports:
            files.make_directory(trial.local_path, files.OWN_DIRECTORY_MODE)
        elif os.path.exists(trial.local_path):
            raise NotADirectoryError(trial.local_path)
        else:
            raise FileNotFoundError(f"{trial.local_path} no longer exists")

    def raise_if_run_ends(self, error: OSError, path: str) -> None:
        """Raise the error that ends the run if the disk has refused `path`, too many files are open, or the run's
        directory is gone.

        Otherwise `error` concerns one trial, or one file that the run can do without.
        """
        # If the run's directory is gone, any error of its files means just that.
        self._journal.look()
        if ends_run(error):
            raise self._journal.fail(path, "written", error) from error

    def clean(self, trial: Trial) -> None:
        """Remove the checkpoints that a lost worker wrote and did not report."""
        if trial.custom_dirname is not None:
            with contextlib.suppress(OSError):
                self._clean(trial)

    def _clean(self, trial: Trial) -> None:
        recorded = {kept.record.number for kept in trial.checkpoints}
        clean_trial_directory(self._run.path, trial.local_path, recorded)

    def write_error(self, trial: Trial, error: TrialError) -> None:
        """Add the failure of an attempt to the trial's `error.txt`.

        A full disk may be the cause; then this file cannot be written, either, and the run ends. If only the trial's
        directory cannot be written, this is logged.

        Raises:
            DiskError: If the run ends. The failure is not on record: the trial stays unfinished.
        """
        try:
            if trial.custom_dirname is None:
                self.prepare(trial)
            append_error(trial.local_path, trial.num_failures, str(error), date_text())
        except OSError as refused:
            self.raise_if_run_ends(refused, trial.local_path)
            if not isinstance(refused, FileNotFoundError):
                logger.warning(
                    "the failure of trial %s could not be written to its directory: %s",
                    trial.name,
                    refused.strerror or refused,
                )
