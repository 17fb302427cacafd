"""The reports of one trial as rows: from the journal of its run, or from the trial's own files.

This module unpickles nothing, so it can read runs that are not trusted.
"""

from __future__ import annotations

import csv
import json
import logging
import math
import os
import re
from typing import Any

from minitune.base import json_text
from minitune.base.checks import is_real
from minitune.base.shared_values import Stored
from minitune.error import TuneError
from minitune.record.codec import Pickled
from minitune.result import (
    CHECKPOINT_DIR_NAME,
    CONFIG,
    DATE,
    EXPERIMENT_TAG,
    EXPR_PARAM_FILE,
    EXPR_PROGRESS_FILE,
    EXPR_RESULT_FILE,
    HOSTNAME,
    NODE_IP,
    TIMESTAMP,
    TRAINING_ITERATION,
    TRIAL_ID,
    complete,
    flat_row,
    flatten,
)

logger = logging.getLogger("minitune")

ResultRow = dict[str, Any]

_TEXT_COLUMNS = frozenset({TRIAL_ID, EXPERIMENT_TAG, DATE, HOSTNAME, NODE_IP, CHECKPOINT_DIR_NAME})

_INT = re.compile(r"[+-]?\d{1,4000}")

_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf|nan", re.IGNORECASE)

_IDENTITY = (TRIAL_ID, TRAINING_ITERATION, TIMESTAMP)
"""The keys that identify a report."""

_PLAIN = frozenset({str, int, float, bool, type(None)})

_INFINITIES = {None: math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""What strict JSON has in place of NaN and infinities."""


def result_rows(directory: str, last_only: bool = False) -> list[ResultRow]:
    """All reports of a trial in order, flattened, including those of failed attempts.

    The trial's directory may be the trainable's working directory, so a `result.json` in it may be the user's own file.
    The trial's files are read only if there is no journal, or it is damaged.

    Raises:
        OSError: If a file cannot be read.
    """
    try:
        rows = recorded_rows(directory, last_only)
    except TuneError as error:
        logger.warning("%s is read without the journal of its run: %s", directory, error)
        rows = None
    if rows is None:
        rows = logged_rows(directory)
        if rows and last_only:
            rows = rows[-1:]
    return [flat_row(row) for row in rows or ()]


def recorded_rows(directory: str, last_only: bool = False) -> list[ResultRow] | None:
    """All reports of a trial in order, from the journal of its run. Unpickles nothing. None if there is no journal, or
    it does not contain the trial.

    Values are plain, as in `result.json`, except for NaN and infinities. A value that the journal stores as a pickle,
    such as an array, comes from the same report in `result.json`; if it is not there, it is replaced by a text.

    Raises:
        TuneError: If the journal is damaged or cannot be read.
    """
    from minitune.record.reports import read_reports

    run_path, name = os.path.split(directory)
    try:
        reports = read_reports(run_path).of(name, last_only)
    except FileNotFoundError:
        return None
    if reports is None:
        return None
    rows: list[ResultRow] = []
    logged: list[ResultRow] | None = None
    plain: set[int] = set()  # the ids of converted configurations, because reports share them, and they may be large
    for number, (metrics, config) in enumerate(reports):
        # Only a pickle needs the file: the journal has all other values itself.
        line: ResultRow = {}
        if any(isinstance(value, (Pickled, Stored)) for value in flatten(metrics).values()):
            if logged is None:
                logged = logged_rows(directory) or []
                if last_only:
                    logged = logged[-1:]
            # The file may be the trainable's own, or miss lines after a crash. So a line counts only if it is the same
            # report.
            if number < len(logged) and all(logged[number].get(key) == metrics.get(key) for key in _IDENTITY):
                line = logged[number]
        make_plain(metrics, line)
        if id(config) not in plain:
            make_plain(config, {})
            plain.add(id(config))
        rows.append(complete(metrics, config))
    return rows


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


# -- a trial's own files -----------------------------------------------------------------------------------------------


def logged_rows(directory: str | os.PathLike[str]) -> list[ResultRow] | None:
    """All reports of a trial in order, from its own files: `result.json`, else `progress.csv`, whose rows are flattened
    and have no `config`; None if there is neither. If a metric is a number in all other rows, `null` becomes NaN and
    `"Infinity"` a float.

    Raises:
        OSError: If a file cannot be read.
    """
    for read in (_read_json, _read_csv):
        try:
            rows = read(directory)
        except FileNotFoundError:
            continue
        _restore_numbers(rows)
        return rows
    return None


def read_params(directory: str | os.PathLike[str]) -> ResultRow:
    """The trial's configuration from `params.json`; `{}` if the file is missing or damaged."""
    try:
        with open(os.path.join(directory, EXPR_PARAM_FILE), "rb") as file:
            params = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    if isinstance(params, dict):
        return params
    return {}


def _read_json(directory: str | os.PathLike[str]) -> list[ResultRow]:
    """The lines of `result.json`."""
    rows = []
    path = os.path.join(directory, EXPR_RESULT_FILE)
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if isinstance(row, dict):
                rows.append(row)
            else:
                logger.warning("line %d of %s is torn or damaged; it is left out", number, path)
    return rows


def _read_csv(directory: str | os.PathLike[str]) -> list[ResultRow]:
    """The rows of the complete lines of `progress.csv`, without empty cells."""
    path = os.path.join(directory, EXPR_PROGRESS_FILE)
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        # A last line without an end was cut off by a crash.
        table = csv.reader(line for line in file if line.endswith("\n"))
        header = next(table, [])
        return [
            {name: _cell(name, text) for name, text in zip(header, cells, strict=False) if text != ""}
            for cells in table
        ]


def _cell(name: str, text: str) -> Any:
    if name in _TEXT_COLUMNS:
        return text
    if text in ("True", "False"):
        return text == "True"
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def _restore_numbers(rows: list[ResultRow]) -> None:
    """Convert the texts by which strict JSON replaces NaN and infinities back to floats, where that is certain."""
    numbers: set[str] = set()
    others: set[str] = set()
    odd: set[str] = set()
    flat_rows = [flatten({key: value for key, value in row.items() if key != CONFIG}) for row in rows]
    for row in flat_rows:
        for key, value in row.items():
            if value is None:
                odd.add(key)
            elif isinstance(value, str) and value in _INFINITIES:
                odd.add(key)
                numbers.add(key)
            # A flag is no number here: None beside it means that it is unknown.
            elif is_real(value):
                numbers.add(key)
            else:
                others.add(key)
    restored = odd & numbers - others
    levels = []
    if restored:
        levels = [(row, "") for row in rows]
    while levels:
        level, prefix = levels.pop()
        for key, value in level.items():
            path = f"{prefix}{key}"
            if isinstance(value, dict):
                if path != CONFIG:
                    levels.append((value, f"{path}/"))
            elif path in restored and not is_real(value):
                level[key] = _INFINITIES[value]
