"""Making the files of loggers match the journal, when a run is resumed.

Loggers write a report before the journal does, so a killed driver may have logged one report too many. The journal
decides: a file that does not match is written again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from minitune.base import files
from minitune.experiment.callback import Callback
from minitune.experiment.trial import Trial
from minitune.logger.csv import CSVLoggerCallback
from minitune.logger.json import JsonLoggerCallback
from minitune.logger.logger import LoggerCallback
from minitune.result import EXPR_PROGRESS_FILE, EXPR_RESULT_FILE, complete

logger = logging.getLogger("minitune")

_FILES: dict[type[LoggerCallback], tuple[str, int]] = {
    JsonLoggerCallback: (EXPR_RESULT_FILE, 0),
    CSVLoggerCallback: (EXPR_PROGRESS_FILE, 1),
}
"""By logger: the name of the file that it writes, and the number of its header lines."""

PastReports = Callable[[], Iterable[tuple[str, dict[str, Any], dict[str, Any]]]]
"""A function that returns an iterator over (trial id, metrics, configuration) of the reports, in order."""


def reconcile(
    callbacks: Sequence[Callback], trials: Sequence[Trial], reports: Mapping[str, int], past: PastReports
) -> None:
    """Make `result.json` and `progress.csv` of all trials match the journal. Blocks.

    A file matches if it has the right number of lines; changes within a line are not detected. A file that cannot be
    read or written stays as it is, with a warning in the log: the journal still has the reports.

    Args:
        callbacks: The callbacks of the run. Only their files are written again.
        trials: The trials of the run. A missing trial directory is not created again.
        reports: The number of recorded reports by trial id, over all attempts.
        past: All reports. It is called only if a file has to be written again.
    """
    writers = {type(one): one for one in callbacks if isinstance(one, LoggerCallback)}  # a subclass may write otherwise
    broken: dict[str, list[tuple[LoggerCallback, Trial]]] = {}
    for trial in trials:
        for kind, (name, header_lines) in _FILES.items():
            path = os.path.join(trial.local_path, name)
            count = reports[trial.trial_id]
            num_lines = count + header_lines if count else 0
            try:
                matches = _matches(path, num_lines)
                if not matches and (writer := writers.get(kind)) is not None:
                    files.remove_file(path)
                    broken.setdefault(trial.trial_id, []).append((writer, trial))
            except OSError as error:
                logger.warning("%s cannot be made to match the journal: %s", path, error.strerror or error)
    try:
        for trial_id, metrics, config in past() if broken else ():
            for writer, trial in broken.get(trial_id, ()):
                writer.log_trial_result(0, trial, complete(metrics, config))
    finally:
        for writer, trial in chain.from_iterable(broken.values()):
            writer.log_trial_end(trial)


def _matches(path: str, count: int) -> bool:
    """Whether a file has exactly `count` whole lines. Without a file, or its directory, it has none."""
    if not os.path.exists(path):
        return not count or not os.path.isdir(os.path.dirname(path))
    with open(path, "rb") as file:
        are_whole = [line.endswith(b"\n") for line in file]
    return len(are_whole) == count and all(are_whole)
