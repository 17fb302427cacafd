"""The plain files of trials, which other tools read, made to agree with the record before a run goes on.

Loggers write before the journal does, so a killed driver may have logged one report too many; a full disk may have cost
some, and so may people. Only the journal counts: what is too much is cut, and what is not whole is written anew.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from minitune.base import files
from minitune.callback import Callback
from minitune.execution import records
from minitune.experiment.trial import Trial
from minitune.logger.csv import CSVLoggerCallback
from minitune.logger.json import JsonLoggerCallback
from minitune.logger.logger import LoggerCallback
from minitune.result import CONFIG, EXPERIMENT_TAG, EXPR_PROGRESS_FILE, EXPR_RESULT_FILE

logger = logging.getLogger("minitune")

_FILES: dict[type[Callback], tuple[str, int]] = {
    JsonLoggerCallback: (EXPR_RESULT_FILE, 0),
    CSVLoggerCallback: (EXPR_PROGRESS_FILE, 1),
}
"""By who writes them: their names, and how many lines they have besides one for each report."""
_BLOCK_BYTES = 1 << 20

PastReports = Callable[[], Iterable[tuple[str, dict[str, Any]]]]
"""Makes an iterator over (trial id, report as it was logged), in order."""


def reconcile(
    callbacks: Sequence[Callback], trials: Sequence[Trial], reports: Mapping[str, int], past: PastReports
) -> None:
    """Make `result.json` and `progress.csv` of a run agree with its record. Blocks while it looks at the files.

    A file is whole if it has as many lines as there are reports; changes within a line are not looked for, since that
    would take as long as writing everything anew.

    Args:
        callbacks: The run's: only those of them that write such files have theirs written anew.
        trials: Its trials. Where a trial's directory is gone, it stays so.
        reports: By trial id, how many of its reports are on record, over all attempts.
        past: All of them; asked for only if something is missing.

    A file that cannot be read or written stays as it is, which the log says: whatever it lacks is on record.
    """
    for trial in trials:
        if not trial.is_finished():
            for name, more in _FILES.values():
                path = os.path.join(trial.local_path, name)
                with _told(path):
                    _cut(path, trial.experiment_path, reports[trial.trial_id] + more)
    broken: list[tuple[LoggerCallback, dict[str, Trial]]] = []
    for callback in callbacks:
        if isinstance(callback, LoggerCallback) and type(callback) in _FILES:  # a subclass may write what it likes
            name, more = _FILES[type(callback)]
            found = {trial.trial_id: trial for trial in trials if _is_to_write(trial, name, reports, more)}
            broken += [(callback, found)] if found else []
    if broken:
        _write_anew(broken, past())


def logged_reports(journal: Iterable[records.Record]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(Trial id, report as it was logged) for each report of a journal."""
    configs: dict[str, Any] = {}
    for record in journal:
        kind = record[records.KIND]
        if kind == records.RESULT:
            metrics = dict(record["metrics"])
            if CONFIG in metrics:
                metrics[CONFIG] = configs[record["trial"]]
            metrics.pop(EXPERIMENT_TAG, None)  # it was added after the loggers had been told
            yield record["trial"], metrics
        elif kind in (records.TRIAL, records.CHANGE, records.EXPLOIT) and record["config"] is not None:
            configs[record["trial"]] = record["config"]


def _write_anew(
    broken: Sequence[tuple[LoggerCallback, dict[str, Trial]]], past: Iterable[tuple[str, dict[str, Any]]]
) -> None:
    for trial_id, result in past:
        for callback, trials in broken:
            if trial_id in trials:
                callback.log_trial_result(0, trials[trial_id], result)
    for callback, trials in broken:
        for trial in trials.values():
            callback.log_trial_end(trial)


def _is_to_write(trial: Trial, name: str, reports: Mapping[str, int], more: int) -> bool:
    """Whether a file is to be written anew; if so, the one that is there goes."""
    path = os.path.join(trial.local_path, name)
    with _told(path):
        if _is_broken(path, reports[trial.trial_id], more):
            files.remove_file(path, trial.experiment_path)
            return True
    return False


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    """Log an OSError of the `with` block, and go on."""
    try:
        yield
    except OSError as error:
        logger.warning("%s cannot be made to agree with the record: %s", path, error.strerror or error)


def _is_broken(path: str, reports: int, more: int) -> bool:
    """Whether a file has not one line for each report, though there is a directory for it."""
    lines, ends_whole = 0, True
    try:
        with files.open_to_read(path, follow=False) as file:
            while block := file.read(_BLOCK_BYTES):
                lines += block.count(b"\n")
                ends_whole = block.endswith(b"\n")
    except FileNotFoundError:
        if not os.path.isdir(os.path.dirname(path)):
            return False
    return not ends_whole or lines != (reports + more if reports else 0)


def _cut(path: str, within: str, count: int) -> None:
    """Cut a file behind its first `count` lines; shorter or missing ones stay as they are."""
    try:
        with open(files.open_own(path, os.O_RDWR, within=within), "rb+") as file:
            for _ in range(count):
                if not file.readline().endswith(b"\n"):
                    return
            if file.read(1):
                file.seek(-1, os.SEEK_CUR)
                file.truncate()
    except FileNotFoundError:
        return
