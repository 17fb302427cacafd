"""Reports: the results of each trial of a run, as the loggers got them, from the journal."""

from __future__ import annotations

import json
import os
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from minitune.record import journal, records
from minitune.record.reading import journal_version
from minitune.record.story import Story
from minitune.result import EXPERIMENT_TAG

_RESULT = records.RESULT.encode()
_START = records.START.encode()
_CONFIGURES = frozenset(kind.encode() for kind in (records.TRIAL, records.CHANGE, records.EXPLOIT))


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
    """The reports of each trial of a run: where their records are, in bytes. The constructor blocks for one reading."""

    def __init__(self, path: str):
        self._path = path
        self._results: defaultdict[bytes, array[int]] = defaultdict(_no_offsets)  # by trial id as in JSON
        self._configures: defaultdict[bytes, array[int]] = defaultdict(_no_offsets)  # of what sets its configuration
        starts = array("Q")
        for offset, line in journal.lines(path):
            kind, trial_id = journal.head(line)
            if kind == _RESULT:
                self._results[trial_id].append(offset)
            elif kind == _START:
                starts.append(offset)
            elif kind in _CONFIGURES:
                self._configures[trial_id].append(offset)
        self._trial_ids = {
            record["directory"]: record["trial"] for record in journal.at(path, starts) if record.get("directory")
        }

    def of(self, directory: str, last_only: bool = False) -> list[tuple[dict[str, Any], dict[str, Any]]] | None:
        """All reports of a trial in order, also of failed attempts: pairs of nested metrics and the configuration,
        which many share; None if no trial has this directory. Objects stay pickled. Blocks.
        """
        trial_id = self._trial_ids.get(directory)
        if trial_id is None:
            return None
        written = json.dumps(trial_id)[1:-1].encode("ascii")
        results = self._results.get(written, _no_offsets())
        if last_only:
            results = results[-1:]
        offsets = sorted([*results, *self._configures.get(written, ())])
        return [(metrics, config) for _, metrics, config in logged_reports(journal.at(self._path, offsets))]


def _no_offsets() -> array[int]:
    return array("Q")


def read_reports(path: str | os.PathLike[str]) -> Reports:
    """Read the reports of a run. A driver may be running. Blocks, unless the same journal was read last time.

    Raises:
        FileNotFoundError: If there is no journal.
        JournalCorruptError, TuneError: See `journal.read`.
    """
    return _cached_reports(*journal_version(path))


@lru_cache(maxsize=1)
def _cached_reports(file: str, size_bytes: int, changed_ns: int) -> Reports:
    return Reports(file)
