"""Results as they stand on record: made into what they were, or left unread where a sum stands for them."""

from __future__ import annotations

import os
from typing import Any

from minitune.execution import journal, journal_codec, records
from minitune.experiment.trial import Trial
from minitune.result import CONFIG, flatten


class PastResults:
    """Gives results their configuration back, and has them on one level.

    A configuration stands in none of them, so it is flattened once for each trial rather than for each result.
    """

    def __init__(self) -> None:
        self._configs: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    def complete(self, trial: Trial, metrics: dict[str, Any]) -> dict[str, Any]:
        """Put the trial's configuration into a result, where it belongs there.

        Returns:
            The result on one level.
        """
        if CONFIG not in metrics:
            return flatten(metrics)
        metrics[CONFIG] = None
        flat = flatten(metrics)
        metrics[CONFIG] = trial.config
        del flat[CONFIG]
        known = self._configs.get(trial.trial_id)
        if known is None or known[0] is not trial.config:
            known = self._configs[trial.trial_id] = trial.config, flatten({CONFIG: trial.config})
        flat.update(known[1])
        return flat

    def forget(self, trial: Trial) -> None:
        """The trial has ended."""
        self._configs.pop(trial.trial_id, None)

    def take_sum(self, trial: Trial, record: records.Record) -> bool:
        """Take the sum of a trial's results from the record of its end. False if it is not there."""
        total = record.get(records.SUM)
        if total is None:
            return False
        trial.take_sum(total)
        if CONFIG in trial.last_result:
            trial.last_result[CONFIG] = trial.config
        return True


class SummedUp:
    """Tells the lines of a journal that need not be read: results for which the end of their trial has the sum.

    Args:
        path: The journal. Blocks while it is gone through, at about a microsecond for each line.
        until: Only trials that have ended before this position are looked at, in bytes; None for all.

    Raises:
        TuneError: If it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str], until: int | None = None):
        self._ends: dict[bytes, int] = {}
        for offset, line in journal.lines_of_kind(path, records.STATUS, holding=_SUM):
            if until is None or offset < until:
                self._ends[_trial_of(line, _STATUS)] = offset

    def __call__(self, offset: int, line: bytes) -> bool:
        """Whether the line at `offset`, in bytes, is such a result."""
        return line.startswith(_RESULT, journal_codec.BODY) and offset < self._ends.get(_trial_of(line, _RESULT), 0)


_RESULT, _STATUS = (
    b'{"%b":"%b","trial":"' % (records.KIND.encode(), kind.encode()) for kind in (records.RESULT, records.STATUS)
)
_SUM = b'"%b":{' % records.SUM.encode()


def _trial_of(line: bytes, beginning: bytes) -> bytes:
    """The id of the trial that a line is about, as it is written."""
    begin = journal_codec.BODY + len(beginning)
    return line[begin : line.find(b'"', begin)]
