"""Compares the files of a run with the reports that it made. If some are missing, the run's figures mean nothing."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Rows = Iterator[tuple[str, float]]
"""The trial's id and the number of each report."""


class VoidError(Exception):
    """The run failed, or did not record all reports."""


def check(storage: Path, records: tuple[str, ...], parameters: Mapping[str, Any], seen: Mapping[str, Any]) -> None:
    """Compare the reports that the driver has received with the workload and with the files. Blocks.

    Args:
        storage: The directory of the run's directories.
        records: The kinds of files that the engine writes.
        parameters: The parameters of the workload.
        seen: The object that the run has printed: `errors`; `reports`, their count by trial id; and `numbers`, those
            of a trial's reports if they are not 0, 1, 2 and so on.

    Raises:
        VoidError: If anything differs.
    """
    reports = {str(trial): count for trial, count in seen["reports"].items()}
    trials = parameters.get("trials") or sum(parameters["sizes"])
    if (len(reports), seen["errors"]) != (trials, 0):
        raise VoidError(f"{len(reports)} trials with {seen['errors']} errors instead of {trials} with 0")
    if "reports" in parameters and set(reports.values()) != {parameters["reports"]}:
        raise VoidError(f"{sorted(set(reports.values()))} reports per trial instead of {parameters['reports']}")
    made = seen.get("numbers") or {trial: list(range(count)) for trial, count in reports.items()}
    for kind in records:
        found: dict[str, list[float]] = {}
        for trial, number in _READERS[kind](storage):
            found.setdefault(trial, []).append(number)
        if found != made:
            rows, count = sum(map(len, found.values())), sum(reports.values())
            raise VoidError(f"{kind}: {rows} rows of {len(found)} trials do not equal {count} reports of {trials}")
    if "checkpoint_bytes" in parameters:
        sizes = [path.stat().st_size for path in storage.glob("*/*/checkpoint_*/model")]
        whole = sum(size == parameters["checkpoint_bytes"] for size in sizes)
        if whole != sum(reports.values()):
            raise VoidError(f"{whole} whole checkpoints instead of {sum(reports.values())}")


def _from_json(storage: Path) -> Rows:
    for path in storage.glob("*/*/result.json"):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            yield row["trial_id"], row["number"]


def _from_csv(storage: Path) -> Rows:
    for path in storage.glob("*/*/progress.csv"):
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                yield row["trial_id"], float(row["number"])


def _from_journal(storage: Path) -> Rows:
    """A line of the journal is a checksum, a space and a JSON object."""
    for path in storage.glob("*/journal"):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line.partition(" ")[2])
            if record["type"] == "result":
                yield record["trial"], record["metrics"]["number"]


_READERS: Mapping[str, Callable[[Path], Rows]] = {"json": _from_json, "csv": _from_csv, "journal": _from_journal}
