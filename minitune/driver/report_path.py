"""ReportPath: the fast path of a plain report to the run's files.

Nearly all reports of a trial have the same keys, and numbers, short texts or None. So the text around the values is
made once, and each value is converted to JSON once, for the journal and for `result.json`.

All others take the general path, `ReportHandler._write`, and both write the same bytes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from typing import Any

from minitune.base.json_text import JSON_TYPES, MAX_DEPTH, json_chunks, try_chunks
from minitune.decision import CONTINUE, GO_ON, Decision
from minitune.experiment.trial import Trial
from minitune.logger.csv import CSVLoggerCallback
from minitune.logger.json import JsonLoggerCallback
from minitune.logger.logger import LoggerCallback
from minitune.record import codec, records
from minitune.result import CONFIG, EXPERIMENT_TAG, complete, flatten

_MAX_KEYS = 1_000
"""A report with more keys takes the general path. Not measured: a shape of so many keys takes memory."""
_MAX_TEXT = 50_000
"""A report with more characters takes the general path, which stores large values in their own files."""
_SHAPES_KEPT = 256
"""How many shapes are kept for later trials."""
_TEXT = frozenset((str,))
_one_per_line = json_chunks(separators=("\n", ":"))
"""JSON with one value per line. The values themselves contain no line breaks."""


class _ReportText:
    """The text that reports with the same keys and types have in common."""

    def __init__(self, names: tuple[str, ...], kinds: tuple[type, ...]):
        self.names = names
        self.kinds = kinds
        self.columns = list(names)
        self.config_index = list(complete(dict.fromkeys(names), {})).index(CONFIG)
        mark = os.urandom(16).hex()  # in no text of a user
        self._marks = [f"{mark}-{number}" for number in range(len(names) + 1)]
        *values, config = self._marks
        line = complete(dict(zip(names, values, strict=True)), {})
        line[CONFIG] = config
        self.line = self._pattern("".join(try_chunks(line, 0))) + "\n"

    def record(self, trial: Trial) -> str:
        """The record of a report of the current attempt, with `%s` for the number and each value."""
        number, *values = self._marks
        metrics = {**dict(zip(self.names, values, strict=True)), EXPERIMENT_TAG: trial.experiment_tag}
        record = records.result(trial.trial_id, trial.attempt.number, 0, metrics, GO_ON)
        return self._pattern("".join(codec.plain_chunks({**record, records.NUMBER: number}, 0)))

    def _pattern(self, text: str) -> str:
        text = text.replace("%", "%%")
        for mark in self._marks:
            text = text.replace(f'"{mark}"', "%s")
        return text


@functools.lru_cache(_SHAPES_KEPT)
def _shape_of(names: tuple[str, ...], kinds: tuple[type, ...]) -> _ReportText | None:
    """The shape of these keys and types, which many trials share."""
    if len(names) > _MAX_KEYS or CONFIG in names or EXPERIMENT_TAG in names or codec.TAG in names:
        return None
    are_plain = JSON_TYPES.issuperset(kinds)
    if not are_plain or "\\ud" in "".join(codec.plain_chunks(names, 0)):
        return None
    return _ReportText(names, kinds)


def _text_of_config(trial: Trial) -> str | None:
    """The attempt's configuration as JSON for `result.json`; None if only the general path can write it."""
    config = trial.attempt.config
    if type(config) is not dict:
        return None
    if config is trial.current_config:
        config = trial.recorded_config  # short texts in place of large values
    try:
        text = "".join(try_chunks(config, 0))
    except Exception:  # NaN, infinities, or any error of an object in the configuration
        return None
    # So many brackets may be so deep that a reader refuses them. The general path shortens such a value.
    if text.count("[") + text.count("{") >= MAX_DEPTH:
        return None
    return text


class ReportPath:
    """Writes the reports of one attempt that have the shape of the previous one."""

    def __init__(
        self,
        trial: Trial,
        shape: _ReportText,
        config_text: str,
        logs: Iterable[LoggerCallback],
        add_encoded: Callable[[str], object],
    ):
        self._trial = trial
        self._tag = trial.experiment_tag  # a part of the pattern; with another tag the general path is taken
        self._shape = shape
        self.names = shape.names
        self.kinds = shape.kinds
        self._record = shape.record(trial)
        self._add_encoded = add_encoded
        self._config_text = config_text
        self._flat_config = flatten({CONFIG: trial.attempt.config})
        self._csv: CSVLoggerCallback | None = None
        self._json: JsonLoggerCallback | None = None
        for log in logs:
            if isinstance(log, CSVLoggerCallback):
                self._csv = log
            elif isinstance(log, JsonLoggerCallback):
                self._json = log

    @classmethod
    def after(
        cls,
        trial: Trial,
        result: dict[str, Any],
        logs: Iterable[LoggerCallback],
        add_encoded: Callable[[str], object],
    ) -> ReportPath | None:
        """The path for reports with the shape of `result`; None if that is not plain."""
        if not _TEXT.issuperset(map(type, result)):
            return None
        shape = _shape_of(tuple(result), tuple(map(type, result.values())))
        if shape is None:
            return None
        config_text = _text_of_config(trial)
        if config_text is None:
            return None
        return cls(trial, shape, config_text, logs, add_encoded)

    def fits(self, result: dict[str, Any]) -> bool:
        """Whether a result has this path's keys and types."""
        return (
            tuple(result) == self.names
            and _TEXT.issuperset(map(type, result))  # a key of another type may be equal to a text
            and tuple(map(type, result.values())) == self.kinds
        )

    def write(self, result: dict[str, Any], decision: Decision) -> bool:
        """Write a result with this path's keys and types, and its decision, the loggers first. Returns False, and
        writes nothing, if it needs the general path.
        """
        trial = self._trial
        shape = self._shape
        is_alike = tuple(result) == self.names and tuple(map(type, result.values())) == self.kinds
        if not (is_alike and _TEXT.issuperset(map(type, result))):  # a key of another type may be equal to a text
            return False
        if decision != CONTINUE or decision.reason or decision.facts or trial.experiment_tag != self._tag:
            return False
        try:
            text = "".join(_one_per_line(list(result.values()), 0))[1:-1]
        except ValueError:  # NaN, infinities, or integers that Python does not print
            return False
        if len(text) > _MAX_TEXT or "\\ud" in text:
            return False
        texts = text.split("\n")
        record = self._record % (trial.progress.num_reports + 1, *texts)
        if self._csv is not None:  # these loggers ignore the iteration of the loop, so it is 0
            # JSON and CSV write numbers in the same way, and this takes a third of the time of the csv writer. But a
            # text with a comma, a quote or a line break needs that writer; JSON has escaped the latter two.
            row = "," + ",".join(texts)
            if "\\" in row or row.count(",") != len(texts) or len(texts) == 1:
                self._csv.log_trial_result(0, trial, result)
            else:
                row = row.replace(",null", ",").replace(",true", ",True").replace(",false", ",False")
                if not self._csv.append(trial, shape.columns, row[1:].replace('"', "") + "\n"):
                    self._csv.log_trial_result(0, trial, result)
        if self._json is not None:
            texts.insert(shape.config_index, self._config_text)
            if not self._json.append(trial, shape.line % tuple(texts)):
                self._json.log_trial_result(0, trial, complete(result, trial.attempt.config))
        result[EXPERIMENT_TAG] = self._tag
        trial.record_result(result, {**result, **self._flat_config})
        self._add_encoded(record)
        return True
