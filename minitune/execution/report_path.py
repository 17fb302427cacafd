"""ReportPath: the short way of a plain report into the run's files.

Nearly all reports of a trial have the same keys, and numbers, short texts or None as values. So the text around the
values is made once for all of them, and each value is turned into JSON once, for the journal and for `result.json`.

What is not plain takes the general way, `TuneController._write`: the one place for rare cases. Rare are NaN and
infinities, integers of thousands of digits, lone surrogates, very long texts, values of other types (of numpy, or
nested), other keys, checkpoints, and decisions that say more than CONTINUE. Both ways write the same bytes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from typing import Any

from minitune.base.json_text import MAX_DEPTH, json_chunks, try_chunks
from minitune.decision import CONTINUE, Decision
from minitune.experiment.trial import Trial
from minitune.logger.csv import CSVLoggerCallback
from minitune.logger.json import JsonLoggerCallback
from minitune.logger.logger import LoggerCallback
from minitune.record import codec, records
from minitune.record.journal import Journal
from minitune.result import CONFIG, EXPERIMENT_TAG

_MAX_KEYS = 1_000
_MAX_TEXT = 50_000
"""A report of more characters takes the general way: what is large in it may go into a file of its own."""
_SHAPES_KEPT = 256
_TEXT = frozenset((str,))
_compact = json_chunks(separators=(",", ":"))
_one_per_line = json_chunks(separators=("\n", ":"))
"""JSON with one value per line: within values there are no line breaks."""


class _Shape:
    """What reports with the same keys, and values of the same types, have in common.

    Attributes:
        names: The keys.
        kinds: The types of the values.
        place: The index of the configuration among them.
        columns: The keys without the configuration.
        line: A line of `result.json` with `%s` for each value.
    """

    def __init__(self, names: tuple[str, ...], kinds: tuple[type, ...]):
        self.names = names
        self.kinds = kinds
        self.place = names.index(CONFIG)
        self.columns = [name for name in names if name != CONFIG]
        mark = os.urandom(16).hex()  # in no text of a user
        self._marks = [f"{mark}-{number}" for number in range(len(names) + 1)]
        self.line = self._pattern("".join(try_chunks(dict(zip(names, self._marks, strict=False)), 0))) + "\n"

    def record(self, trial: Trial) -> str:
        """The record of a report of the trial's current attempt, with `%s` for its number and for each value."""
        number, *values = self._marks
        metrics = {**dict(zip(self.names, values, strict=True)), EXPERIMENT_TAG: trial.experiment_tag}
        record = records.result(trial.trial_id, trial.attempt, 0, metrics, CONTINUE)
        return self._pattern("".join(_compact({**record, records.NUMBER: number}, 0)))

    def _pattern(self, text: str) -> str:
        text = text.replace("%", "%%")
        for mark in self._marks:
            text = text.replace(f'"{mark}"', "%s")
        return text


@functools.lru_cache(_SHAPES_KEPT)
def _shape_of(names: tuple[str, ...], kinds: tuple[type, ...]) -> _Shape | None:
    """The shape of these keys, which are texts, and types; many trials share it. None if it is not plain."""
    if len(names) > _MAX_KEYS or CONFIG not in names or EXPERIMENT_TAG in names or codec.TAG in names:
        return None
    are_plain = all(kind in codec.SCALARS or name == CONFIG for name, kind in zip(names, kinds, strict=True))
    if not are_plain or kinds[names.index(CONFIG)] is not dict or "\\ud" in "".join(_compact(names, 0)):
        return None
    return _Shape(names, kinds)


class ReportPath:
    """Writes the reports of an attempt that are like the one before.

    Args:
        trial: The trial, within one attempt.
        shape: What its reports have in common.
        logs: Our loggers.
        journal: The run's.
    """

    def __init__(self, trial: Trial, shape: _Shape, logs: Iterable[LoggerCallback], journal: Journal):
        self._trial = trial
        self._tag = trial.experiment_tag
        self._shape = shape
        self._names, self._kinds = shape.names, shape.kinds
        self._record = shape.record(trial)
        self._journal = journal
        self._csv: CSVLoggerCallback | None = None
        self._json: JsonLoggerCallback | None = None
        for log in logs:
            if isinstance(log, CSVLoggerCallback):
                self._csv = log
            elif isinstance(log, JsonLoggerCallback):
                self._json = log

    @classmethod
    def after(
        cls, trial: Trial, result: dict[str, Any], logs: Iterable[LoggerCallback], journal: Journal
    ) -> ReportPath | None:
        """The way of reports that are like `result`; None if that is not plain."""
        is_text = _TEXT.issuperset(map(type, result))
        shape = _shape_of(tuple(result), tuple(map(type, result.values()))) if is_text else None
        return None if shape is None else cls(trial, shape, logs, journal)

    def fits(self, result: dict[str, Any]) -> bool:
        """Whether a result has the keys and types that this way is for."""
        return (
            tuple(result) == self._names
            and _TEXT.issuperset(map(type, result))  # a key of another type may be equal to a text
            and tuple(map(type, result.values())) == self._kinds
        )

    def write(self, result: dict[str, Any], decision: Decision) -> bool:
        """Write a result and what was decided upon it. As in the general way the loggers write before the journal.

        Returns:
            False if it cannot be written in this way; nothing has been done then.
        """
        trial, shape = self._trial, self._shape
        if decision != CONTINUE or decision.reason or decision.facts or trial.experiment_tag != self._tag:
            return False
        if not self.fits(result):
            return False
        values = list(result.values())
        config, values[shape.place] = values[shape.place], None
        if trial.light is not None and trial.light_config is not trial.config:
            config = trial.light_config
        try:
            text = "".join(_one_per_line(values, 0))[1:-1]
            config_text = "" if self._json is None else "".join(try_chunks(config, 0))
        except Exception:  # NaN, infinities, integers that Python does not print, and whatever a configuration raises
            return False
        if len(text) > _MAX_TEXT or "\\ud" in text:
            return False
        if config_text.count("[") + config_text.count("{") >= MAX_DEPTH:
            return False
        texts = text.split("\n")
        record = self._record % (trial.report_count + 1, *texts)
        if self._csv is not None:  # our loggers do not go by the turn: 0 will do
            del values[shape.place]
            if not self._csv.append(trial, shape.columns, values):
                self._csv.log_trial_result(0, trial, result)
        if self._json is not None:
            texts[shape.place] = config_text
            if not self._json.append(trial, shape.line % tuple(texts)):
                self._json.log_trial_result(0, trial, result)
        result[EXPERIMENT_TAG] = self._tag
        trial.record_result(result)
        self._journal.unwritten.append(codec.sealed(record))
        return True
