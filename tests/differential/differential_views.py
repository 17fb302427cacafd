"""What a run has come to, as texts that do not depend on when, where and by which processes it ran."""

from __future__ import annotations

import csv
import difflib
import json
import logging
import os
import re
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from unittest.mock import patch

from differential_plan import RUN
from differential_plugins import Notes

from minitune import ResultGrid, TuneError
from minitune.error import STOP_SWALLOWED
from minitune.record import journal
from minitune.record.housekeeper import Housekeeper

Views = dict[str, list[str]]
"""Lines by the name of what they show."""

MASK = "<masked>"
_MASKED_METRICS = frozenset(
    ("timestamp", "date", "time_this_iter_s", "time_total_s", "time_since_restore", "pid", "hostname", "node_ip")
)
_STAMP = re.compile(r"(?<=-)\d{12}(?=\.)")
"""How long the journal was when a state was saved, in a name; it depends on what is masked."""
_MASKED_FIELDS = frozenset(("at", "pid", "start_time", "host", "took_s"))
_DATE = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
_OUTPUT_FILES = frozenset(("stdout", "stderr"))
_DRIVER_LOG = frozenset(("tune_controller", "hooks", "launcher", "metric_analysis"))


@dataclass
class Outcome:
    """One run of a plan: what `fit` returned or raised, what was noted, and where it lies."""

    storage: Path
    grid: ResultGrid | None = None
    raised: BaseException | None = None
    notes: Notes = field(default_factory=list)
    log: list[str] = field(default_factory=list)


def run(plan, executor, storage):
    """Run the experiment. Blocks."""
    outcome = Outcome(storage)
    # Otherwise a slow run saves its state more often, and when a checkpoint is dropped depends on when another one has
    # been synced.
    rarely = patch.dict(os.environ, MINITUNE_GLOBAL_CHECKPOINT_S="3600")
    at_close = patch.object(Housekeeper, "sync_checkpoint", _sync_at_close)
    with _listening(outcome.log), rarely, at_close:
        tuner = plan.tuner(executor, storage, outcome.notes)
        try:
            outcome.grid = tuner.fit()
        except BaseException as error:
            outcome.raised = error
    return outcome


def _sync_at_close(keeper, directory):
    """Let a checkpoint wait for its sync until the housekeeper is closed."""
    trial = os.path.dirname(directory)
    keeper._files.call(trial, partial(keeper._sync_checkpoint, directory), time.monotonic() + 3600.0)


@contextmanager
def _listening(lines):
    """Collect what the driver itself logs; user code logs in its own process, or in the driver's on a thread."""
    thread = threading.get_ident()

    class Collector(logging.Handler):
        def emit(self, record):
            if record.thread == thread and record.module in _DRIVER_LOG:
                lines.append(f"{record.levelname} {record.getMessage()}")

    logger, handler = logging.getLogger("minitune"), Collector()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


# -- masks ---------------------------------------------------------------------------------------------------------


class Masker:
    """Makes texts of values, and masks what may differ.

    Args:
        storage: The directory of the run's storage.
        prefix: The prefix of the trials' ids.
    """

    def __init__(self, storage, prefix):
        self._storage = str(storage)
        self._temporary = re.compile(re.escape(tempfile.gettempdir()) + r"/[a-z0-9_]+")
        self._prefix = f"{prefix}_"

    def text(self, text):
        """`text` without storage path, temporary names, the ids' prefix, dates and addresses."""
        text = text.replace(self._storage, "<storage>").replace(self._prefix, "<prefix>_")
        text = self._temporary.sub("<temporary>", text)
        return _ADDRESS.sub("<address>", _DATE.sub("<date>", text))

    def show(self, value, masked=_MASKED_METRICS):
        """`value` with its types; NaN is equal to itself here, and the order of a dict counts."""
        if isinstance(value, Mapping):
            shown = [f"{self.show(k)}: {MASK if k in masked else self.show(v, masked)}" for k, v in value.items()]
            return f"{type(value).__name__}{{{', '.join(shown)}}}"
        if isinstance(value, (list, tuple)):
            return f"{type(value).__name__}({', '.join(self.show(item, masked) for item in value)})"
        if isinstance(value, BaseException):
            return f"{type(value).__qualname__}{self.show(value.args)}"
        text = self.text(repr(value))
        return text if len(text) < 1000 else f"{text[:400]}...{len(text)}...{hash(text)}"


# -- views -----------------------------------------------------------------------------------------------------------


def views(plan, outcome):
    """All that can be seen of a run."""
    directory = outcome.storage / RUN
    records = list(journal.read(directory / "journal", unpickle=True)) if directory.exists() else []
    trials = [record for record in records if record["type"] == "trial"]
    prefix = trials[0]["trial"].partition("_")[0] if trials else "?????"
    masker = Masker(outcome.storage, prefix)
    views = {"raised": _error_lines(masker, outcome.raised), "log of the driver": _log(plan, masker, outcome)}
    views |= _journal_views(plan, masker, records)
    views |= _note_views(plan, masker, outcome.notes)
    views["files of the run"] = (
        sorted(_STAMP.sub(MASK, masker.text(name)) for name in os.listdir(directory)) if records else []
    )
    for record in trials:
        number = record["number"]
        found = list(directory.glob(f"*{record['trial']}*"))
        views |= _directory_views(masker, number, found[0] if found else None)
    for number, result in enumerate(outcome.grid or ()):
        views[f"result {number}"] = _result_lines(masker, result)
    if outcome.grid is not None:
        views["grid"] = _grid_lines(plan, outcome.grid)
    return views


def differences(first, second):
    """What differs between two runs; empty if nothing does."""
    found = []
    for name in {**first, **second}:
        a, b = first.get(name), second.get(name)
        if a is None or b is None:
            found.append(f"{name}: only in the {'second' if a is None else 'first'} run")
        elif a != b:
            lines = list(difflib.unified_diff(a, b, "first", "second", n=2, lineterm=""))
            found.append(f"{name}:\n    " + "\n    ".join(_shorten(line) for line in lines[2:14]))
    return found


def _shorten(line):
    return line if len(line) <= 2000 else f"{line[:1000]} ... {line[-1000:]}"


def _journal_views(plan, masker, records):
    """The records in order; where trials run side by side, in order for each trial."""
    views = {}
    for record in records:
        if record["type"] == "state":  # how long the journal was then depends on what is masked
            record = {**record, "offset": MASK, "file": MASK, "sha256": MASK}
        trial = "" if plan.is_ordered else record.get("trial", "").rpartition("_")[2]
        views.setdefault(f"journal {trial}", []).append(masker.show(record, _MASKED_FIELDS | _MASKED_METRICS))
    return views


def _note_views(plan, masker, notes):
    views = {}
    for what, trial_id, details in notes:
        trial = "" if plan.is_ordered else trial_id.rpartition("_")[2]
        views.setdefault(f"notes {trial}", []).append(f"{what} {masker.text(trial_id)} {masker.show(details)}")
    return views


def _log(plan, masker, outcome):
    hidden = ("nothing else was served", STOP_SWALLOWED)
    lines = [masker.text(line) for line in outcome.log if not any(text in line for text in hidden)]
    return lines if plan.is_ordered else sorted(lines)


def _error_lines(masker, error):
    """Types, texts and causes of an error."""
    if error is None:
        return ["no error"]
    try:
        text = str(error)
    except Exception as broken:
        text = f"<{broken}>"
    names = [kind.__name__ for kind in type(error).__mro__]
    lines = [f"{names} {masker.show(error.args)}", *masker.text(text).splitlines(), f"attributes {vars(error).keys()}"]
    remote = getattr(error, "remote", None)
    if remote is not None:
        lines += [
            f"remote {masker.show((remote.type_name, remote.message))}",
            *masker.text(remote.traceback).split("\n"),
        ]
    cause = error.__cause__
    if cause is not None and isinstance(error, TuneError):  # causes of a user's exception do not travel
        lines += ["caused by", *_error_lines(masker, cause)]
    return lines


def _result_lines(masker, result):
    checkpoint = result.checkpoint
    return [
        f"metrics {masker.show(result.metrics)}",
        f"config {masker.show(result.config)}",
        f"path {masker.text(result.path)}",
        f"checkpoint {checkpoint and masker.text(checkpoint.path)}",
        *_tree_lines(masker, Path(checkpoint.path) if checkpoint else None),
        *(f"kept {masker.text(kept.path)} {masker.show(metrics)}" for kept, metrics in result.best_checkpoints),
        *_error_lines(masker, result.error),
    ]


def _grid_lines(plan, grid):
    lines = [f"{len(grid)} trials, {grid.num_errors} errors, {grid.num_terminated} finished, {grid.interrupted}"]
    for scope in ("last", "all", "avg", "last-5-avg"):
        try:
            lines.append(
                f"best {scope}: {[r.path for r in grid].index(grid.get_best_result('score', 'max', scope).path)}"
            )
        except RuntimeError:
            lines.append(f"best {scope}: none")
    return lines


def _directory_views(masker, number, directory):
    """The files of a trial: names and content; those of each checkpoint too."""
    views = {f"files {number}": _tree_lines(masker, directory)}
    if directory is None:
        return views
    result, progress, error = (directory / name for name in ("result.json", "progress.csv", "error.txt"))
    if result.exists():
        rows = [json.loads(line) for line in result.read_text("utf-8").splitlines()]
        views[f"result.json {number}"] = [masker.show(row) for row in rows]
    if progress.exists():
        with open(progress, encoding="utf-8", newline="") as file:
            views[f"progress.csv {number}"] = [masker.show(dict(row)) for row in csv.DictReader(file)]
    if error.exists():
        views[f"error.txt {number}"] = masker.text(error.read_text("utf-8", "backslashreplace")).split("\n")
    if (directory / "params.json").exists():
        views[f"params.json {number}"] = masker.text((directory / "params.json").read_text("utf-8")).split("\n")
    return views


def _tree_lines(masker, directory):
    """Every file below `directory`; those of checkpoints with their content. A worker's output files are its own."""
    if directory is None:
        return []
    lines = []
    for path in sorted(directory.rglob("*")):
        if path.parent == directory and path.name in _OUTPUT_FILES:
            continue
        content = path.read_bytes() if path.is_file() and "checkpoint_" in str(path) else b""
        lines.append(f"{masker.text(str(path.relative_to(directory)))} {content[:200]!r} {len(content)}")
    return lines
