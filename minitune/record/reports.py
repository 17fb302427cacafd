"""Reports: the results of each trial of a run, as the loggers got them, from the journal."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from minitune.record import journal, journal_lines, records
from minitune.record.reading import cached_index, journal_version
from minitune.record.story import Story
from minitune.result import EXPERIMENT_TAG


def logged_reports(
    journal_records: Iterable[records.Record],
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield (trial id, metrics, configuration) for each report, including the reports of failed attempts.

    `minitune.result.complete` makes what the loggers got of them.
    """
    for effect in Story("", has_details=False).follow(journal_records):
        if effect.kind == records.RESULT:
            metrics = effect.record["metrics"]
            metrics.pop(EXPERIMENT_TAG, None)  # the driver added it after it had called the loggers
            assert effect.trial is not None
            yield effect.trial.trial_id, metrics, effect.trial.attempt.config


class Reports:
    """The reports of each trial of a run.

    It keeps where their records are; `of` then reads those of one trial.
    """

    def __init__(self, path: str, index: journal_lines.LineIndex):
        self._path = path
        self._index = index
        self._results = index.results()
        starts = [record for _, record in journal.pick(path, index.starts)]
        self._trial_ids = {record["directory"]: record["trial"] for record in starts if record.get("directory")}

    def of(self, directory: str, last_only: bool = False) -> list[tuple[dict[str, Any], dict[str, Any]]] | None:
        """All reports of a trial in order, also of failed attempts: pairs of nested metrics and the configuration,
        which many share; None if no trial has this directory. Objects stay pickled. Blocks.
        """
        trial_id = self._trial_ids.get(directory)
        if trial_id is None:
            return None
        written = json.dumps(trial_id)[1:-1].encode("ascii")
        results = self._results.get(written, array("Q"))
        if last_only:
            results = results[-1:]
        found = journal.pick(self._path, sorted([*results, *self._index.configures.get(written, ())]))
        return [(metrics, config) for _, metrics, config in logged_reports(record for _, record in found)]


def read_reports(path: str | os.PathLike[str]) -> Reports:
    """Read the reports of a run. A driver may be running. Blocks, unless the same journal was read last time.

    Raises:
        FileNotFoundError: If there is no journal.
        JournalCorruptError, TuneError: See `journal.read`.
    """
    return _cached_reports(*journal_version(path))


@lru_cache(maxsize=1)
def _cached_reports(file: str, size_bytes: int, changed_ns: int) -> Reports:
    return Reports(file, cached_index(file, size_bytes, changed_ns))
