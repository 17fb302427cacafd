"""The reports of one trial as rows, from the journal of its run.

This module unpickles nothing, so it can read runs that are not trusted.
"""

from __future__ import annotations

import json
import os
from typing import Any

from minitune.base import json_text
from minitune.base.shared_values import Stored
from minitune.record.codec import Pickled
from minitune.result import EXPR_RESULT_FILE, TIMESTAMP, TRAINING_ITERATION, TRIAL_ID, complete, flat_row, flatten

ResultRow = dict[str, Any]

_IDENTITY = (TRIAL_ID, TRAINING_ITERATION, TIMESTAMP)
"""The keys that identify a report."""

_PLAIN = frozenset({str, int, float, bool, type(None)})


def result_rows(directory: str, last_only: bool = False) -> list[ResultRow]:
    """All reports of a trial in order, flattened, including those of failed attempts. Empty outside of a run.

    Values are plain, as in `result.json`, except for NaN and infinities. A value that the journal stores as a pickle,
    such as an array, comes from the same report in `result.json`; if it is not there, it is replaced by a text.

    Raises:
        OSError: If a file cannot be read.
        TuneError: If the journal is damaged or cannot be read.
    """
    from minitune.record.reports import read_reports

    run_path, name = os.path.split(directory)
    try:
        reports = read_reports(run_path).of(name, last_only)
    except FileNotFoundError:
        return []
    rows: list[ResultRow] = []
    logged: list[Any] | None = None
    plain: set[int] = set()  # the ids of converted configurations, because reports share them, and they may be large
    for number, (metrics, config) in enumerate(reports or ()):
        # Only a pickle needs the file: the journal has all other values itself.
        line: ResultRow = {}
        if any(isinstance(value, (Pickled, Stored)) for value in flatten(metrics).values()):
            if logged is None:
                logged = _logged_lines(directory)
                if last_only:
                    logged = logged[-1:]
            # The file may be the trainable's own, or miss lines after a crash. So a line counts only if it is the same
            # report.
            found = logged[number] if number < len(logged) else None
            if isinstance(found, dict) and all(found.get(key) == metrics.get(key) for key in _IDENTITY):
                line = found
        make_plain(metrics, line)
        if id(config) not in plain:
            make_plain(config, {})
            plain.add(id(config))
        rows.append(flat_row(complete(metrics, config)))
    return rows


def _logged_lines(directory: str) -> list[Any]:
    """The values of the lines of `result.json`, None for a damaged one."""
    lines: list[Any] = []
    try:
        with open(os.path.join(directory, EXPR_RESULT_FILE), "rb") as file:
            for line in file:
                try:
                    lines.append(json.loads(line))
                except (ValueError, RecursionError):
                    lines.append(None)
    except FileNotFoundError:
        pass
    return lines


def make_plain(row: ResultRow, logged: ResultRow) -> None:
    """Replace all values in a nested dict that are not plain. Changes the dict. `logged` is the same report from
    `result.json`, for values that are still pickled.
    """
    levels = [(row, logged)]  # an explicit stack: reports may be nested deeper than Python's stack
    while levels:
        level, lines = levels.pop()
        # JSON has turned the keys of the other rows into texts, so `1` and `"1"` would be two columns.
        for key in [key for key in level if type(key) is not str]:
            level[str(key)] = level.pop(key)
        for key, value in level.items():
            if type(value) in _PLAIN:
                continue
            line = lines.get(key)
            if isinstance(value, dict):
                levels.append((value, line if isinstance(line, dict) else {}))
            elif isinstance(value, (Pickled, Stored)) and key in lines:
                level[key] = line
            else:
                level[key] = json_text.scalar_of(value)
                if level[key] is None:
                    level[key] = json_text.clean(value)


def import_pandas() -> Any:
    """The module pandas.

    Raises:
        ImportError: If it is not installed. The text names the methods that do not need it.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError("data frames need pandas (`pip install pandas`); get_rows() does not") from error
    return pandas
