"""What a run is and how far it has come, without its results: quick to read, however many there are."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from minitune._paths import local_path
from minitune.error import JournalCorruptError
from minitune.execution import journal, records
from minitune.execution.storage import RunDirectory, is_run
from minitune.experiment.lifecycle import PENDING, RUNNING

_MAX_DEPTH = 4
_KINDS = (records.RUN, records.OPEN, records.TRIAL, records.STATUS, records.CLOSE)


@dataclass
class RunOverview:
    """What a run is and how far it has come.

    Attributes:
        path: Its directory, absolute.
        trainable_name: The trainable's name.
        space_keys: The flattened keys of its search space.
        metric: Its metric, or None.
        mode: Its mode, or None.
        begun_s: When it began, in seconds since the epoch.
        noted_s: When the last record with a time was written, likewise.
        statuses: The status of each trial by its id.
        close_reason: Why its last driver has ended; None if it is at work, or was killed.
        damage: What is wrong with its record, of which this is what can be read; None if nothing is.
    """

    path: str
    trainable_name: str = ""
    space_keys: list[str] = field(default_factory=list)
    metric: str | None = None
    mode: str | None = None
    begun_s: float = 0.0
    noted_s: float = 0.0
    statuses: dict[str, str] = field(default_factory=dict)
    close_reason: str | None = None
    damage: JournalCorruptError | None = None

    @property
    def updated_s(self) -> float:
        """When something was last noted, in seconds since the epoch: results have no times, but the file has."""
        if self.close_reason is not None:
            return self.noted_s
        return max(self.noted_s, os.path.getmtime(RunDirectory(self.path).journal))

    @property
    def is_unfinished(self) -> bool:
        """Whether its last driver has ended before its trials, or is at work."""
        reason = self.close_reason
        return reason is None or not (reason == records.FINISHED or reason.startswith(records.ENDED))

    def counts(self) -> Counter[str]:
        """How many trials there are of each status."""
        return Counter(self.statuses.values())

    def take(self, record: records.Record) -> None:
        """Take one record."""
        kind = record[records.KIND]
        self.noted_s = record.get("at", self.noted_s)
        if kind == records.RUN:
            self.trainable_name, self.space_keys = record["trainable"], record["space_keys"]
            self.metric, self.mode, self.begun_s = record["metric"], record["mode"], self.noted_s
        elif kind == records.OPEN:
            self.close_reason = None
            waiting = {trial_id: PENDING for trial_id, status in self.statuses.items() if status == RUNNING}
            self.statuses.update(waiting)
        elif kind == records.CLOSE:
            self.close_reason = record["reason"]
        elif kind == records.TRIAL:
            self.statuses.pop(record.get("replaces", ""), None)
            self.statuses[record["trial"]] = PENDING
        elif record["trial"] in self.statuses:
            self.statuses[record["trial"]] = record["status"]


def find_runs(directory: str, depth: int = _MAX_DEPTH) -> Iterator[str]:
    """The directories of runs in a directory and in those that are no runs themselves, in order of their names.

    Args:
        directory: Where to look; it need not exist.
        depth: How many levels below it: `project/model` is a name.
    """
    try:
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return
    for name in names:
        path = os.path.join(directory, name)
        if is_run(path):
            yield path
        elif depth > 1 and not name.startswith("."):
            yield from find_runs(path, depth - 1)


def read_overview(path: str | os.PathLike[str]) -> RunOverview:
    """Read what a run is and how far it has come; it may be live. Blocks while its journal is read.

    Args:
        path: The run's directory.

    Raises:
        JournalCorruptError: If a record is not what it should be.
        TuneError: If the journal cannot be read.
    """
    overview = RunOverview(local_path(path))
    run = RunDirectory(overview.path)
    has_trials = run.has_trials()  # before it is read: the first of them comes after the first record
    for record in journal.of_kind(run.journal, _KINDS):
        try:
            overview.take(record)
        except (KeyError, TypeError) as error:
            raise JournalCorruptError(
                f"the journal of {overview.path} has a {record.get(records.KIND)!r} record that is not what it should "
                f"be ({type(error).__name__}: {error})"
            ) from error
    try:
        if not journal.valid_bytes(run.journal) and has_trials:
            overview.damage = run.lost_journal()
    except JournalCorruptError as error:
        overview.damage = error
    return overview
