"""The reports of one trial as rows, from the journal of its run.

This module unpickles nothing, so it can read runs that are not trusted.
"""

from __future__ import annotations

import os
from typing import Any

from minitune.base import json_text
from minitune.result import complete, flat_row

ResultRow = dict[str, Any]

_PLAIN = frozenset({str, int, float, bool, type(None)})


def result_rows(directory: str, last_only: bool = False) -> list[ResultRow]:
    """All reports of a trial in order, flattened, including those of failed attempts. Empty outside of a run.

    Values are plain, as in `result.json`, except for NaN and infinities. One that the journal stores as a pickle, such
    as an array, is a text.

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
    rows = (flat_row(complete(metrics, config)) for metrics, config in reports or ())
    return [{key: _plain(value) for key, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    scalar = json_text.scalar_of(value)
    return json_text.clean(value) if scalar is None else scalar


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
