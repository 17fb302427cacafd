"""CSVLoggerCallback: writes `progress.csv`, with one row per report and one column for every reported key."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from minitune.base import files
from minitune.base.files import AppendFiles
from minitune.base.json_text import short_text
from minitune.experiment.trial import Trial
from minitune.logger.logger import LoggerCallback
from minitune.result import CONFIG, EXPR_PROGRESS_FILE, flatten

# Types of values that need no flattening.
_PLAIN = frozenset((int, float, bool, str, type(None)))
_TEXT = frozenset((str,))
# The largest number of characters in a cell. Longer text is cut. Python's csv reader refuses more than 131,072.
_MAX_CELL = 100_000
# A table with so many columns gets no more: each late one writes the file again. Not measured.
_MOST_COLUMNS = 1_000
_Columns = dict[str, None]
"""The names of the columns of a trial's file, in order."""


class CSVLoggerCallback(LoggerCallback):
    """Writes the results of each trial as a table, flattened and without the configuration.

    A cell is empty if the key was not reported. A key that is first reported later gets its column at once: the file is
    written again, in one step for readers, unless it has 1,000 columns. `result.json` has all keys. There is one line
    for each row: line breaks in values are written as a backslash and a letter.
    """

    only_reads = True  # it gets the result itself; others get a copy, which they may change

    def __init__(self) -> None:
        self._files = AppendFiles()
        self._tables: dict[str, _Columns] = {}

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Append one row. An error of the file is logged, unless the disk has refused it."""
        flat = dict(result)
        flat.pop(CONFIG, None)
        key = trial.trial_id
        path = f"{trial.local_path}{os.sep}{EXPR_PROGRESS_FILE}"
        try:
            columns = self._tables.get(key)
            if columns is None:
                columns = self._start(trial, path)
            if not (_PLAIN.issuperset(map(type, flat.values())) and _TEXT.issuperset(map(type, flat))):
                flat = _flatten(flat)
            header = ""
            if not columns:
                if not flat:
                    return
                columns.update(dict.fromkeys(flat))
                header = _line(list(columns))
            elif not columns.keys() >= flat.keys():
                self._widen(key, path, columns, flat)
            row = _line(list(map(flat.get, columns)))
            self._files.append(key, (header + row).encode("utf-8", "backslashreplace"))
        except OSError as error:
            self._tables.pop(key, None)  # given up until it is next opened
            self._files.lapse(key, path, error)

    def _start(self, trial: Trial, path: str) -> _Columns:
        """Open the file, and keep earlier rows. Returns their columns."""
        # Outside of a run only: in a run, a new directory would hide that it was removed.
        if not trial.attempt.number:
            trial.init_local_path()
        columns: _Columns = {}
        if self._files.open(trial.trial_id, path):
            with open(path, "rb") as file:
                header = file.readline().decode("utf-8", "replace")
            columns = dict.fromkeys(next(csv.reader([header]), []))
        self._tables[trial.trial_id] = columns
        return columns

    def _widen(self, key: str, path: str, columns: _Columns, names: Iterable[str]) -> None:
        """Write the file again with the columns that it lacks."""
        late = [name for name in names if name not in columns][: max(0, _MOST_COLUMNS - len(columns))]
        if not late:
            return
        columns.update(dict.fromkeys(late))
        self._files.close(key)
        with files.new_file(path) as wide, open(path, "rb") as old:
            old.readline()
            wide.write(_line(list(columns)).encode("utf-8", "backslashreplace"))
            wide.writelines(row[:-1] + b"," * len(late) + b"\n" for row in old)
        self._files.open(key, path)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """Close the file."""
        self._files.close(trial.trial_id)
        self._tables.pop(trial.trial_id, None)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Close the files that are still open."""
        self._tables.clear()
        self._files.close_all()


def _line(values: list[Any]) -> str:
    """The text of a row."""
    rows: list[str] = []
    put = csv.writer(SimpleNamespace(write=rows.append), lineterminator="\n").writerow
    try:
        put(values)
    except Exception:  # the text of a user's object may raise any error
        put([_text(value) for value in values])
    text = rows.pop()
    if text.count("\n") != 1 or "\r" in text or "\0" in text or len(text) > _MAX_CELL:
        put([_text(value) for value in values])
        text = rows.pop()
    return text


def _flatten(result: Mapping[Any, Any]) -> dict[str, Any]:
    """The flattened result; if that fails, the result with its keys as texts."""
    try:
        return flatten(result)
    except Exception:  # it is nested too deeply, or a user's mapping or key raises an error
        return {short_text(key): value for key, value in result.items()}


def _text(value: Any) -> str:
    """A value as text on one line, even if its methods raise errors. Long text is cut."""
    if value is None:
        return ""
    try:
        text = str(value[:_MAX_CELL] if type(value) in (str, bytes) else value)
    except Exception:
        text = short_text(value)
    if len(text) >= _MAX_CELL:
        text = text[: _MAX_CELL - 3] + "..."
    return text.replace("\r", "\\r").replace("\n", "\\n").replace("\0", "\\0")  # many readers end at a "\0"
