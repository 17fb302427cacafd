"""CSVLoggerCallback: writes `progress.csv`, with one row per report and one column for every reported key."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
# The largest number of rows whose values for new columns are kept in memory until the file is rewritten.
_MAX_LATE_ROWS = 10_000


@dataclass(slots=True)
class _Table:
    """The state of one trial's file.

    Attributes:
        rewritten_at: The number of rows when the file was last rewritten.
        late: By row number, the values of columns that the header does not have yet.
    """

    path: str
    columns: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    rows: int = 0
    rewritten_at: int = 0
    late: dict[int, dict[str, Any]] = field(default_factory=dict)

    def add_columns(self, columns: list[str]) -> None:
        """Add new columns to the header."""
        self.columns.extend(columns)
        self.known.update(columns)

    def is_rewriting_due(self) -> bool:
        """Whether to rewrite the file: if its rows have doubled, which keeps the total time linear, or memory grows."""
        return self.rows >= 2 * self.rewritten_at or len(self.late) >= _MAX_LATE_ROWS


class CSVLoggerCallback(LoggerCallback):
    """Writes the results of each trial as a table, flattened and without the configuration.

    A cell is empty if the key was not reported. A key that is first reported later gets its column when the file is
    rewritten: when the number of rows has doubled, and at the end of the trial. Until then its values are in memory
    (and in `result.json`). The file is a valid table at any time, with one line per row: line breaks in values are
    written as a backslash and a letter.
    """

    only_reads = True  # it gets the result itself; others get a copy, which they may change

    def __init__(self) -> None:
        self._files = AppendFiles()
        self._tables: dict[str, _Table] = {}
        self._columns: list[str] = []  # of the last table that was begun: nearly all have the same
        self._header = ""
        self._rows: list[str] = []
        self._put_row = _row_writer(self._rows)

    def __getstate__(self) -> dict[str, Any]:
        """The state without the csv writer, which cannot be pickled. A run pickles its callbacks."""
        return {name: value for name, value in vars(self).items() if name != "_put_row"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, and make a new csv writer."""
        vars(self).update(state)
        self._put_row = _row_writer(self._rows)

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Append one row. An error of the file is logged, unless the disk has refused it."""
        flat = dict(result)
        flat.pop(CONFIG, None)
        table = self._tables.get(trial.trial_id) or self._start(trial)
        if table is None:
            return
        try:
            if not (_PLAIN.issuperset(map(type, flat.values())) and _TEXT.issuperset(map(type, flat))):
                flat = _flatten(flat)
            header = ""
            if not table.columns:
                if not flat:
                    return
                header = self._begin_columns(table, flat)
            elif not table.known.issuperset(flat):
                table.late[table.rows] = {name: value for name, value in flat.items() if name not in table.known}
            row = self._format(list(map(flat.get, table.columns)))
            self._files.append(trial.trial_id, (header + row).encode("utf-8", "backslashreplace"))
            table.rows += 1
            if table.late and table.is_rewriting_due():
                self._rewrite(trial.trial_id, table)
        except OSError as error:
            self._lapse(trial.trial_id, table.path, error)

    def _start(self, trial: Trial) -> _Table | None:
        """Open the file, and keep earlier rows; None if that fails."""
        key = trial.trial_id
        path = f"{trial.local_path}{os.sep}{EXPR_PROGRESS_FILE}"
        try:
            # Outside of a run only: in a run, a new directory would hide that it was removed.
            if not trial.attempt.number:
                trial.init_local_path()
            if self._files.open(key, path):
                table = _read_table(path)
            else:
                table = _Table(path)
        except OSError as error:
            self._lapse(key, path, error)
            return None
        self._tables[key] = table
        return table

    def _begin_columns(self, table: _Table, flat: dict[str, Any]) -> str:
        """Give a table the columns of its first row; return the header."""
        table.add_columns(list(flat))
        if table.columns != self._columns:
            self._columns = table.columns.copy()
            self._header = self._format(table.columns)
        return self._header

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """Complete and close the file."""
        table = self._tables.get(trial.trial_id)
        if table is not None and table.late:
            self._complete(trial.trial_id, table)
        self._files.close(trial.trial_id)
        self._tables.pop(trial.trial_id, None)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Complete and close the files that are still open."""
        try:
            for key, table in list(self._tables.items()):
                if table.late:
                    self._complete(key, table)
        finally:
            self._tables.clear()
            self._files.close_all()

    def _complete(self, key: str, table: _Table) -> None:
        """Write the values that have come late into the file of a trial that has ended."""
        try:
            self._rewrite(key, table)
        except OSError as error:
            self._lapse(key, table.path, error)

    def _lapse(self, key: str, path: str, error: OSError) -> None:
        """Give up the file after an error, until it is next opened."""
        self._tables.pop(key, None)
        self._files.lapse(key, path, error)

    def _format(self, values: list[Any]) -> str:
        """The text of a row."""
        try:
            self._put_row(values)
        except Exception:  # the text of a user's object may raise any error
            self._put_row([_text(value) for value in values])
        text = self._rows.pop()
        if text.count("\n") != 1 or "\r" in text or "\0" in text or len(text) > _MAX_CELL:
            self._put_row([_text(value) for value in values])
            text = self._rows.pop()
        return text

    def _rewrite(self, key: str, table: _Table) -> None:
        """Write the file again with the missing columns, in one step for readers."""
        columns = list(dict.fromkeys(name for values in table.late.values() for name in values))
        header = self._format([*table.columns, *columns])
        self._files.close(key)
        self._write_with(table, columns, header)
        self._files.open(key, table.path)
        table.add_columns(columns)
        table.rewritten_at = table.rows
        table.late.clear()

    def _write_with(self, table: _Table, columns: list[str], header: str) -> None:
        """Replace the file by one with the same rows and more columns."""
        with (
            files.new_file(table.path) as new,
            open(table.path, "rb") as old,
        ):
            old.readline()
            new.write(header.encode("utf-8", "backslashreplace"))
            for number, row in enumerate(old):
                late = table.late.get(number, {})
                if late:
                    rest = self._format([late.get(name) for name in columns])
                else:
                    rest = "," * (len(columns) - 1) + "\n"
                new.write(row[:-1] + b"," + rest.encode("utf-8", "backslashreplace"))


def _row_writer(rows: list[str]) -> Callable[[list[Any]], object]:
    """A function that appends the text of a row to a list."""
    return csv.writer(SimpleNamespace(write=rows.append), lineterminator="\n").writerow


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


def _read_table(path: str) -> _Table:
    """Read the header of an existing file, and count its rows."""
    table = _Table(path)
    with open(path, "rb") as file:
        header = file.readline().decode("utf-8", "replace")
        table.add_columns(next(csv.reader([header]), []))
        table.rows = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    return table
