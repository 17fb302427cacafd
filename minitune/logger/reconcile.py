"""What a killed driver has logged ahead of its journal goes, before the run goes on."""

from __future__ import annotations

import os

from minitune.logger.csv import PROGRESS_FILE
from minitune.logger.json import RESULT_FILE


def cut_to_records(trial_directory: str, reports: int) -> None:
    """Cut a trial's plain files to the reports that are on record.

    Loggers write before the journal does, so a driver that was killed between the two has left one row too many; the
    report will come again.

    Args:
        trial_directory: The trial's directory.
        reports: How many of the trial's reports are on record, over all attempts.

    Raises:
        OSError: If a file cannot be cut.
    """
    _keep_lines(os.path.join(trial_directory, RESULT_FILE), reports)
    _keep_lines(os.path.join(trial_directory, PROGRESS_FILE), reports + 1)


def _keep_lines(path: str, count: int) -> None:
    """Cut a file behind its first `count` lines; shorter or missing ones stay as they are."""
    try:
        with open(path, "rb+") as file:
            for _ in range(count):
                if not file.readline().endswith(b"\n"):
                    return
            if file.read(1):
                file.seek(-1, os.SEEK_CUR)
                file.truncate()
    except FileNotFoundError:
        return
