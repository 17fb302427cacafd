"""What a trial has reported, read back from the plain files of its directory; nothing is unpickled."""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from minitune.base import files
from minitune.experiment.best import best_of, is_number
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
    TRIAL_ID,
    flatten,
)

logger = logging.getLogger("minitune")

Row = dict[str, Any]

_TEXT_COLUMNS = frozenset({TRIAL_ID, EXPERIMENT_TAG, DATE, HOSTNAME, NODE_IP, CHECKPOINT_DIR_NAME})
_INT = re.compile(r"[+-]?\d{1,4000}")
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf|nan", re.IGNORECASE)
_INFINITIES = {"Infinity": math.inf, "-Infinity": -math.inf}


def read_rows(directory: str | os.PathLike[str]) -> list[Row] | None:
    """All reports of a trial, in order.

    Args:
        directory: The trial's directory. `result.json` is read; if it is not there, `progress.csv`, whose rows are
            flattened and hold no `config`.

    Returns:
        The reports, without lines that are torn; None if there is neither file. In metrics that are numbers in all
        other rows, or NaN in `progress.csv`, `null` is NaN again, and `"Infinity"` a float.

    Raises:
        OSError: If a file cannot be read.
    """
    for name, parse in ((EXPR_RESULT_FILE, _parse_json), (EXPR_PROGRESS_FILE, _parse_csv)):
        path = os.path.join(directory, name)
        try:
            with io.TextIOWrapper(files.open_to_read(path), "utf-8", "replace", newline="\n") as file:
                rows = parse(file, path)
        except FileNotFoundError:
            continue
        _restore_numbers(rows, directory)
        return rows
    return None


def read_params(directory: str | os.PathLike[str]) -> Row:
    """The trial's configuration from `params.json`; `{}` if that is not there or damaged."""
    try:
        with files.open_to_read(os.path.join(directory, EXPR_PARAM_FILE)) as file:
            params = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return params if isinstance(params, dict) else {}


def flat_row(result: Mapping[str, Any], delimiter: str = "/") -> Row:
    """A result on one level, as a row of a data frame: nested metrics come last, and empty mappings go.

    Args:
        result: The result.
        delimiter: What joins the keys.
    """
    top = {key: value for key, value in result.items() if not isinstance(value, Mapping)}
    nested = flatten({key: value for key, value in result.items() if isinstance(value, Mapping)}, delimiter)
    return top | {key: value for key, value in nested.items() if not isinstance(value, Mapping)}


def pick_row(rows: list[Row], metric: str | None, mode: str | None) -> Row:
    """The row with the best value of `metric`; the last one if there is no such value, or nothing to choose by.

    Args:
        rows: Flattened rows, at least one.
        metric: The metric's flattened name, or None.
        mode: `"min"`, `"max"` or None.
    """
    if metric is None or mode is None:
        return rows[-1]
    best = best_of(((row[metric], row) for row in rows if is_number(row.get(metric))), mode)
    return rows[-1] if best is None else best


def import_pandas() -> Any:
    """The module pandas.

    Raises:
        ImportError: If it is not installed, saying what needs nothing.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError("data frames need pandas (`pip install pandas`); get_rows() needs nothing") from error
    return pandas


def _parse_json(lines: Iterable[str], path: str) -> list[Row]:
    rows = []
    for number, line in enumerate(lines, 1):
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


def _parse_csv(lines: Iterable[str], path: str) -> list[Row]:
    """The rows of complete lines; empty cells are left out."""
    table = csv.reader(line for line in lines if line.endswith("\n"))
    header = next(table, [])
    return [
        {name: _cell(name, text) for name, text in zip(header, cells, strict=False) if text != ""} for cells in table
    ]


def _cell(name: str, text: str) -> Any:
    if name in _TEXT_COLUMNS:
        return text
    if text in ("True", "False"):
        return text == "True"
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _restore_numbers(rows: list[Row], directory: str | os.PathLike[str]) -> None:
    """Undo, in place, what strict JSON cannot spell, in the metrics where nothing else can be meant."""
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
            elif isinstance(value, (int, float)) and not isinstance(value, bool):
                numbers.add(key)
            else:
                others.add(key)
    if odd - numbers - others - _TEXT_COLUMNS:  # nothing but null: None, or NaN all the time
        numbers |= _nan_columns(directory)
    restored = odd & numbers - others
    if restored:
        for result in rows:
            _restore(result, "", restored)


def _nan_columns(directory: str | os.PathLike[str]) -> set[str]:
    """The metrics that are NaN somewhere in `progress.csv`, which tells NaN from None."""
    path = os.path.join(directory, EXPR_PROGRESS_FILE)
    try:
        with io.TextIOWrapper(files.open_to_read(path), "utf-8", "replace", newline="\n") as file:
            return {name for row in _parse_csv(file, path) for name, value in row.items() if value != value}
    except FileNotFoundError:
        return set()


def _restore(tree: Row, prefix: str, restored: set[str]) -> None:
    for key, value in tree.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict):
            if path != CONFIG:
                _restore(value, f"{path}/", restored)
        elif path in restored and not isinstance(value, (int, float)):
            tree[key] = math.nan if value is None else _INFINITIES[value]
