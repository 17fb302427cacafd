"""A run as its journal tells it: how far it has come, its trials, what they have reported, and what was decided.

Nothing is unpickled and nothing is changed. A driver may be at work on the run: a torn end of the journal is left out,
and kinds of records that are not known are passed over. `replay` is different. It makes a run ready to go on, so it
needs the plug-ins, and has to understand every record.

There are several readers because a journal may hold millions of results, and each question needs others of its records:

* `read_overview` counts trials; it reads no result.
* `read_run` and `RunFollower` give the trials. If the end of a trial holds the sum of its results, that is enough.
* `read_reports` gives all results of one trial at a time.
* `read_decisions` tells why trials were stopped, paused, promoted or tried again.
* `PastRun` holds the learning curves of all trials, for simulations.
"""

from __future__ import annotations

import json
import math
import os
import re
from array import array
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from minitune.base.checks import is_real
from minitune.base.files import local_path
from minitune.decision import CONTINUE, NOOP, PAUSE, STOP
from minitune.error import JournalCorruptError, TuneError, trial_error_of_text
from minitune.execution.failure import LOST
from minitune.execution.hooks import STOP_CRITERION, TRAINABLE_ENDED
from minitune.experiment.lifecycle import ERROR, NOT_STARTED, OWNS_ACTOR, PAUSED, PENDING, RUNNING, TERMINATED, Phase
from minitune.experiment.trial import HAS_RETURNED, KeptCheckpoint, Trial
from minitune.record import codec, journal, records
from minitune.record.layout import RunDirectory, is_run, last_error_text
from minitune.result import AUTO_RESULT_KEYS, CONFIG, EXPERIMENT_TAG, TIME_THIS_ITER_S, TRAINING_ITERATION, flatten

_MAX_DEPTH = 4
"""Levels below a directory in which runs are looked for."""

_OF_OVERVIEWS = (
    records.RUN,
    records.OPEN,
    records.EXTEND,
    records.TRIAL,
    records.START,
    records.STATUS,
    records.CLOSE,
)
"""The kinds of records that an overview needs."""

_PHASES = {
    PENDING: Phase.QUEUED,
    RUNNING: Phase.TRAINING,
    PAUSED: Phase.PAUSED,
    TERMINATED: Phase.TERMINATED,
    ERROR: Phase.ERROR,
}

_OF_THE_RUN = frozenset(AUTO_RESULT_KEYS) - {TRAINING_ITERATION, "timesteps_total", "episodes_total"}
"""What belongs to the run rather than to the curve."""

Curve = list[tuple[dict[str, Any], float]]
"""(metrics, seconds) for each result."""

EXPLOIT = "EXPLOIT"
"""The trial goes on from another one's checkpoint."""

EXPLORE = "EXPLORE"
"""The trial goes on from its own checkpoint under other hyperparameters."""

RESUME = "RESUME"
"""A paused trial goes on."""

PROMOTE = "PROMOTE"
"""A trial that has waited at a rung goes on."""

RETRY = "RETRY"
"""The trial has failed and is tried again."""

FAIL = "FAIL"
"""The trial has failed for good."""

_VERBS = {
    CONTINUE: "goes on",
    PAUSE: "paused",
    STOP: "stopped",
    EXPLOIT: "exploits another trial",
    EXPLORE: "explores",
    RESUME: "resumed",
    PROMOTE: "promoted",
    RETRY: "tried again",
    FAIL: "failed for good",
}

_RESULT, _STATUS = (
    b'{"%b":"%b","trial":"' % (records.KIND.encode(), kind.encode()) for kind in (records.RESULT, records.STATUS)
)

_OF_REPORTS = re.compile(
    rb'\{"%b":"(?:%b)","trial":"([^"]*)"'
    % (
        records.KIND.encode(),
        "|".join((records.RESULT, records.TRIAL, records.CHANGE, records.EXPLOIT)).encode(),
    )
)
"""The records that the reports of a trial are made of, by their first fields."""

_SUM = b'"%b":{' % records.SUM.encode()


# -- how far a run has come --------------------------------------------------------------------------------------------


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
        started: The ids of the trials that ever had a worker.
        total_samples: How many trials there will be; None: without end, or not known.
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
    started: set[str] = field(default_factory=set)
    total_samples: int | None = None
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
        """How many trials there are of each status; see `Trial.shown_status`."""
        return Counter(
            NOT_STARTED if status == TERMINATED and trial_id not in self.started else status
            for trial_id, status in self.statuses.items()
        )

    @property
    def not_drawn(self) -> int:
        """How many trials the search has not drawn yet; 0 if it is without end."""
        return _not_drawn(self.total_samples, len(self.statuses))

    def take(self, record: records.Record) -> None:
        """Take one record."""
        kind = record[records.KIND]
        self.noted_s = record.get("at", self.noted_s)
        if kind == records.RUN:
            self.trainable_name, self.space_keys = record["trainable"], record["space_keys"]
            self.metric, self.mode, self.begun_s = record["metric"], record["mode"], self.noted_s
            self.total_samples = record.get("total_samples")
        elif kind == records.EXTEND:
            self.total_samples = None if self.total_samples is None else self.total_samples + record["samples"]
        elif kind == records.OPEN:
            self.close_reason = None
            waiting = {trial_id: PENDING for trial_id, status in self.statuses.items() if status == RUNNING}
            self.statuses.update(waiting)
        elif kind == records.CLOSE:
            self.close_reason = record["reason"]
        elif kind == records.TRIAL:
            self.statuses.pop(record.get("replaces", ""), None)
            self.statuses[record["trial"]] = PENDING
        elif kind == records.START:
            self.started.add(record["trial"])
        elif record["trial"] in self.statuses:
            self.statuses[record["trial"]] = record["status"]


def _not_drawn(total: int | None, drawn: int) -> int:
    return 0 if total is None else max(0, total - drawn)


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
    for record in journal.of_kind(run.journal, _OF_OVERVIEWS):
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


# -- its trials --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Origin:
    """What the last attempt of a trial has started from.

    Attributes:
        path: The directory of the checkpoint, its own or another trial's; None: from the beginning.
        metrics: The result that it belongs to.
        report_number: How many reports of the trial counted then.
    """

    path: str | None
    metrics: dict[str, Any]
    report_number: int


@dataclass
class RecordedRun:
    """What the journal of a run says.

    Attributes:
        path: The run's directory, absolute.
        trials: Its trials, in order of submission. Objects that only pickle can hold stay pickled in them.
        metric: The run's metric, or None.
        mode: Its mode, or None.
        trainable_name: The trainable's name.
        close_reason: Why its last driver has ended; None if it is at work, or was killed.
        seed: Its base seed.
        total_samples: How many trials there will be; None: without end, or not known.
        versions: Of Python and of minitune, when it began.
        begun_s: When it began, in seconds since the epoch.
        opened_s: When its last driver began, likewise.
        took_s: How long that driver was at work; None if it still is, or did not come to say so.
        noted_s: When the last record with a time was written, likewise: a driver's or trial's beginning or end.
        origins: By trial id, what the trial's last attempt has started from.
        grafts: By trial id, the last such start that was from another trial's checkpoint.
    """

    path: str
    trials: list[Trial] = field(default_factory=list)
    metric: str | None = None
    mode: str | None = None
    trainable_name: str = ""
    close_reason: str | None = None
    seed: int | None = None
    total_samples: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    begun_s: float = 0.0
    opened_s: float = 0.0
    took_s: float | None = None
    noted_s: float = 0.0
    origins: dict[str, Origin] = field(default_factory=dict)
    grafts: dict[str, Origin] = field(default_factory=dict)

    @property
    def not_drawn(self) -> int:
        """How many trials the search has not drawn yet; 0 if it is without end."""
        return _not_drawn(self.total_samples, len(self.trials))

    @property
    def updated_s(self) -> float:
        """When something was last noted, the results of trials included, in seconds since the epoch."""
        reported = [trial.last_result.get("timestamp") for trial in self.trials]
        return max([self.noted_s, *(at for at in reported if isinstance(at, (int, float)))])

    @property
    def elapsed_s(self) -> float:
        """How long the last driver was at work, in seconds: what it has said itself, or as far as is known."""
        return max(0.0, self.updated_s - self.opened_s) if self.took_s is None else self.took_s


def read_run(path: str | os.PathLike[str], unpickle: bool = False) -> RecordedRun:
    """Read a run; it may be live, and it may have been moved. Blocks while its journal is read.

    Args:
        path: The run's directory, or its journal.
        unpickle: Whether objects that only pickle can hold are loaded: only after `lock.check_trusted`.

    Returns:
        The run as its journal has it; a torn end is left out.

    Raises:
        FileNotFoundError: If there is no journal.
        JournalCorruptError: If the journal has been damaged.
        TuneError: If it cannot be read, or was written by a newer version.
    """
    follower = RunFollower(path, unpickle)
    follower.read_new()
    return follower.run


class RunFollower:
    """Reads a run that may be live, and later what has been added to it since. Takes no lock.

    Args:
        path: The run's directory, or its journal.
        unpickle: See `read_run`.

    Raises:
        FileNotFoundError: If there is no journal.
    """

    def __init__(self, path: str | os.PathLike[str], unpickle: bool = False):
        directory = local_path(path)
        if os.path.isfile(directory):
            directory = os.path.dirname(directory)
        self._directory = RunDirectory(directory)
        self._journal = self._directory.journal
        if not os.path.isfile(self._journal):
            raise FileNotFoundError(
                f"{directory} holds no run: there is no journal in it; pass the directory that the run's results are "
                "in, <storage_path>/<name>"
            )
        self._reader = _TrialReader(RecordedRun(directory))
        self._unpickle = unpickle
        self._last: int | None = None
        self._size_bytes = -1

    @property
    def run(self) -> RecordedRun:
        """The run as it was at the last look."""
        return self._reader.run

    def read_new(self) -> bool:
        """Read what has been added. Blocks while it is read; costs next to nothing if there is nothing.

        Returns:
            Whether anything was.

        Raises:
            JournalCorruptError: If the journal has been damaged, or emptied.
            TuneError: If it cannot be read, or was written by a newer version.
        """
        size_bytes = os.path.getsize(self._journal)
        if size_bytes == self._size_bytes:
            return False
        self._size_bytes = size_bytes
        before = self._last
        must_hold = before is None and self._directory.has_trials()  # the first of them comes after the first record
        self._reader.read(self._new_records())
        if must_hold and self._last is None:
            raise self._directory.lost_journal()
        return self._last != before

    def _new_records(self) -> Iterator[records.Record]:
        """The records after the last one, which is read again to find its end."""
        last = self._last
        left_out = SummedUp(self._journal) if last is None else None
        for offset, record in journal.scan(self._journal, self._unpickle, begin=last or 0, leaves_out=left_out):
            if offset != last:
                self._last = offset
                yield record


class _TrialReader:
    """Applies records to trials.

    Args:
        run: Filled.
    """

    def __init__(self, run: RecordedRun):
        self.run = run
        self._trials: dict[str, Trial] = {}
        # by trial id, where a trial stood when it was given another one's checkpoint, until it has one of its own
        self._given: dict[str, KeptCheckpoint] = {}
        self._donated: dict[str, tuple[str, dict[str, Any]]] = {}  # by trial id, that checkpoint's path and metrics
        self._results = PastResults()
        self._handlers = {
            records.START: self._on_start,
            records.RESULT: self._on_result,
            records.CHECKPOINT: self._commit,
            records.DROP: self._on_drop,
            records.ROLLBACK: self._on_rollback,
            records.EXPLOIT: self._on_exploit,
            records.CHANGE: self._on_change,
            records.STATUS: self._on_status,
        }

    def read(self, journal_records: Iterable[records.Record]) -> None:
        """Apply all records.

        Raises:
            JournalCorruptError: If one lacks what its kind must have.
        """
        for record in journal_records:
            try:
                self._apply(record)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise JournalCorruptError(
                    f"the journal of {self.run.path} has a {record.get(records.KIND)!r} record that is not what it "
                    f"should be ({type(error).__name__}: {error})"
                ) from error

    def _apply(self, record: records.Record) -> None:
        kind = record[records.KIND]
        self.run.noted_s = record.get("at", self.run.noted_s)
        if kind == records.RUN:
            self.run.metric, self.run.mode = record["metric"], record["mode"]
            self.run.trainable_name, self.run.seed = record["trainable"], record.get("seed")
            self.run.versions, self.run.begun_s = record.get("versions", {}), self.run.noted_s
            self.run.total_samples = record.get("total_samples")
        elif kind == records.EXTEND and self.run.total_samples is not None:
            self.run.total_samples += record["samples"]
        elif kind == records.OPEN:
            self._on_open()
        elif kind == records.CLOSE:
            self.run.close_reason, self.run.took_s = record["reason"], record.get("took_s")
        elif kind == records.TRIAL:
            self._on_trial(record)
        elif kind in self._handlers and record["trial"] in self._trials:
            self._handlers[kind](self._trials[record["trial"]], record)

    def _on_open(self) -> None:
        """A driver begins: what had a worker under the one before it waits again."""
        self.run.close_reason = self.run.took_s = None
        self.run.opened_s = self.run.noted_s
        for trial in self.run.trials:
            if trial.phase in OWNS_ACTOR:
                trial.phase = Phase.QUEUED

    def _on_trial(self, record: records.Record) -> None:
        trial = Trial(self.run.trainable_name, config=record["config"], trial_id=record["trial"])
        trial.number, trial.seed = record["number"], record["seed"]
        trial.experiment_number = record.get("experiment", 0)
        trial.evaluated_params, trial.experiment_tag = record["evaluated_params"], record["tag"]
        trial.resources = records.resources_of(record)
        trial.experiment_path = self.run.path
        if record["name"] != trial.name:
            trial.custom_trial_name = record["name"]
        self._trials[trial.trial_id] = trial
        replaced = self._trials.get(record.get("replaces", ""))  # runs of the first versions have no such field
        if replaced is None:
            self.run.trials.append(trial)
        else:  # a later driver has begun it anew
            self.run.trials[self.run.trials.index(replaced)] = trial

    def _on_change(self, trial: Trial, record: records.Record) -> None:
        if record["config"] is not None:
            trial.set_config(record["config"])
        if record["tag"] is not None:
            trial.set_experiment_tag(record["tag"])
        if record.get("evaluated_params") is not None:
            trial.evaluated_params = record["evaluated_params"]
        if record["resources"] is not None:
            trial.resources = records.resources_of(record)

    def _on_start(self, trial: Trial, record: records.Record) -> None:
        trial.custom_dirname, trial.attempt = record["directory"] or None, record["attempt"]
        trial.phase = Phase.STARTING
        self.run.origins[trial.trial_id] = origin = self._origin(trial)
        if trial.trial_id in self._given:
            self.run.grafts[trial.trial_id] = origin

    def _origin(self, trial: Trial) -> Origin:
        given = self._donated.get(trial.trial_id) if trial.trial_id in self._given else None
        if given is None and trial.checkpoints:
            kept = trial.checkpoints[-1]
            given = os.path.join(trial.local_path, kept.record.directory), kept.metrics
        path, metrics = given or (None, {})
        return Origin(path, metrics, trial.report_count)

    def _on_result(self, trial: Trial, record: records.Record) -> None:
        metrics = record["metrics"]
        trial.record_result(metrics, self._results.complete(trial, metrics))
        self._commit(trial, record)

    def _commit(self, trial: Trial, record: records.Record) -> None:
        checkpoint = records.checkpoint_of(record)
        if checkpoint is not None:
            trial.record_checkpoint(checkpoint)
            self._given.pop(trial.trial_id, None)

    def _on_drop(self, trial: Trial, record: records.Record) -> None:
        trial.checkpoints = [kept for kept in trial.checkpoints if kept.record.number != record["checkpoint"]]

    def _on_rollback(self, trial: Trial, record: records.Record) -> None:
        given = self._given.get(trial.trial_id)
        own = trial.checkpoints[-1] if trial.checkpoints else None
        trial.roll_back(given or own)

    def _on_exploit(self, trial: Trial, record: records.Record) -> None:
        trial.set_config(record["config"])
        donor = self._trials.get(record["donor"])
        if donor is None:
            return
        taken = (kept for kept in donor.checkpoints if kept.record.number == record["checkpoint"])
        for kept in taken:
            self._donated[trial.trial_id] = os.path.join(donor.local_path, kept.record.directory), kept.metrics
            self._given[trial.trial_id] = KeptCheckpoint(
                kept.record, trial.report_count, trial.last_result, trial.analysis.copy()
            )

    def _on_status(self, trial: Trial, record: records.Record) -> None:
        status, cause, was_running = record["status"], record["cause"], trial.status == RUNNING
        self._results.take_sum(trial, record)
        if status == TERMINATED and was_running:
            if cause == HAS_RETURNED:
                trial.returns()
            trial.completes()
        elif status == ERROR:
            trial.num_failures += 1
            trial.error = trial_error_of_text(last_error_text(trial.local_path) or cause, cause)
        elif status == PENDING and trial.is_finished():
            trial.num_failures, trial.error = 0, None
        elif status == PENDING and trial.phase in OWNS_ACTOR and not cause.startswith(LOST):
            trial.num_failures += 1
        if status in (TERMINATED, ERROR):
            self._results.forget(trial)
            self._given.pop(trial.trial_id, None)
        trial.phase = _PHASES.get(status, trial.phase)


# -- its results -------------------------------------------------------------------------------------------------------


class PastResults:
    """Gives results their configuration back, and has them on one level.

    A configuration stands in none of them, so it is flattened once for each trial rather than for each result.
    """

    def __init__(self) -> None:
        self._configs: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    def complete(self, trial: Trial, metrics: dict[str, Any]) -> dict[str, Any]:
        """Put the trial's configuration into a result, where it belongs there.

        Returns:
            The result on one level.
        """
        if CONFIG not in metrics:
            return flatten(metrics)
        metrics[CONFIG] = None
        flat = flatten(metrics)
        metrics[CONFIG] = trial.config
        del flat[CONFIG]
        known = self._configs.get(trial.trial_id)
        if known is None or known[0] is not trial.config:
            known = self._configs[trial.trial_id] = trial.config, flatten({CONFIG: trial.config})
        flat.update(known[1])
        return flat

    def forget(self, trial: Trial) -> None:
        """The trial has ended."""
        self._configs.pop(trial.trial_id, None)

    def take_sum(self, trial: Trial, record: records.Record) -> bool:
        """Take the sum of a trial's results from the record of its end. False if it is not there."""
        total = record.get(records.SUM)
        if total is None:
            return False
        trial.take_sum(total)
        if CONFIG in trial.last_result:
            trial.last_result[CONFIG] = trial.config
        return True


def logged_reports(journal_records: Iterable[records.Record]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(Trial id, report as the loggers got it) for each report, those of failed attempts included."""
    configs: dict[str, Any] = {}
    for record in journal_records:
        kind = record[records.KIND]
        if kind == records.RESULT:
            metrics = dict(record["metrics"])
            if CONFIG in metrics:
                metrics[CONFIG] = configs[record["trial"]]
            metrics.pop(EXPERIMENT_TAG, None)  # it was added after the loggers had been told
            yield record["trial"], metrics
        elif kind in (records.TRIAL, records.CHANGE, records.EXPLOIT) and record["config"] is not None:
            configs[record["trial"]] = record["config"]


class Reports:
    """The reports of each trial of a run.

    One pass over the journal only notes where the records of each trial begin: eight bytes for each. The reports of a
    trial are read when they are asked for, so memory holds those of one trial, and data frames of all trials do not
    read the journal once for each.

    Args:
        path: The journal. Blocks while it is read.

    Raises:
        JournalCorruptError: If the journal has been damaged.
        TuneError: If it cannot be read, or was written by a newer version.
    """

    def __init__(self, path: str):
        self._path = path
        self._offsets: dict[bytes, array[int]] = {}  # by trial id, as it is written
        self._trial_ids: dict[str, str] = {}  # by the name of the trial's directory
        for _, record in journal.scan(path, leaves_out=self._note):
            if record[records.KIND] == records.START and record.get("directory"):
                self._trial_ids[record["directory"]] = record["trial"]

    def _note(self, offset: int, line: bytes) -> bool:
        match = _OF_REPORTS.match(line, codec.BODY)
        if match is None:
            return False
        self._offsets.setdefault(match[1], array("Q")).append(offset)
        return True

    def of(self, directory: str) -> list[dict[str, Any]] | None:
        """All reports of a trial, nested, in order, those of failed attempts included; nothing is unpickled.

        Args:
            directory: The name of the trial's directory.

        Returns:
            New dicts; None if no trial of the run has this directory.

        Raises:
            TuneError: If the journal cannot be read any more.
        """
        trial_id = self._trial_ids.get(directory)
        if trial_id is None:
            return None
        written = json.dumps(trial_id)[1:-1].encode("ascii")
        found = journal.at(self._path, self._offsets.get(written, ()))
        return [report for _, report in logged_reports(found)]


def read_reports(path: str | os.PathLike[str]) -> Reports:
    """The reports of a run; it may be live. Blocks while its journal is read, unless it was read just before.

    Args:
        path: The run's directory.

    Raises:
        FileNotFoundError: If there is no journal.
        JournalCorruptError: If the journal has been damaged.
        TuneError: If it cannot be read, or was written by a newer version.
    """
    file = RunDirectory(local_path(path)).journal
    found = os.stat(file)
    return _cached_reports(file, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=1)
def _cached_reports(file: str, size_bytes: int, changed_ns: int) -> Reports:
    return Reports(file)


class SummedUp:
    """Tells the lines of a journal that need not be read: results for which the end of their trial has the sum.

    Args:
        path: The journal. Blocks while it is gone through, at about a microsecond for each line.
        until: Only trials that have ended before this position are looked at, in bytes; None for all.

    Raises:
        TuneError: If it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str], until: int | None = None):
        self._ends: dict[bytes, int] = {}
        for offset, line in journal.lines_of_kind(path, records.STATUS, holding=_SUM):
            if until is None or offset < until:
                self._ends[_trial_of(line, _STATUS)] = offset

    def __call__(self, offset: int, line: bytes) -> bool:
        """Whether the line at `offset`, in bytes, is such a result."""
        return line.startswith(_RESULT, codec.BODY) and offset < self._ends.get(_trial_of(line, _RESULT), 0)


def _trial_of(line: bytes, beginning: bytes) -> bytes:
    """The id of the trial that a line is about, as it is written."""
    begin = codec.BODY + len(beginning)
    return line[begin : line.find(b'"', begin)]


# -- its decisions -----------------------------------------------------------------------------------------------------


# The driver keeps nothing for this. The journal has each decision with its reason and facts, each change of a trial's
# status with its cause, and each exploit. A scheduler gives no reason when it promotes or stops a trial that waits: the
# rank of the trial at its rung by then explains it.


@dataclass(frozen=True)
class TrialDecision:
    """One thing that was decided about a trial. Its text is a sentence.

    Attributes:
        action: `CONTINUE` (only with a reason: it has passed a rung), `PAUSE`, `STOP`, `EXPLOIT`, `EXPLORE`,
            `RESUME`, `PROMOTE`, `RETRY` or `FAIL`.
        reason: Why, in words.
        facts: What the reason rests on, as plain data: as it applies `rule`, `metric`, `value`, `time`, `rung`,
            `bracket`, `band`, `cutoff`, `rank`, `of`, `donor`, `checkpoint`.
        iteration: The trial's last `training_iteration` by then; None if it had reported nothing.
    """

    action: str
    reason: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    iteration: int | None = None

    def __str__(self) -> str:
        when = "at the start" if self.iteration is None else f"after iteration {self.iteration}"
        verb, reason = _VERBS[self.action], self.reason
        if self.action == STOP and reason.startswith(f"{STOP_CRITERION}: "):
            return f"{when}: {verb} because {reason.removeprefix(f'{STOP_CRITERION}: ')}"
        if not reason:
            reason = ", ".join(f"{name}={value}" for name, value in self.facts.items())
        if reason.startswith(verb):
            return f"{when}: {reason}"
        return f"{when}: {verb}: {reason}" if reason else f"{when}: {verb}"


@dataclass
class _Told:
    """What is known of one trial on the way through the journal.

    Attributes:
        decisions: Those so far.
        iteration: Its last one.
        is_open: Whether the last decision is a STOP or PAUSE that its status has not confirmed yet.
        status: Its last one.
        waits_at: The rung where it waits, and its score there, if its pause has told.
    """

    decisions: list[TrialDecision] = field(default_factory=list)
    iteration: int | None = None
    is_open: bool = False
    status: str = PENDING
    waits_at: tuple[Any, float] | None = None

    def add(self, action: str, reason: str = "", facts: Mapping[str, Any] | None = None) -> None:
        """Take one decision."""
        self.decisions.append(TrialDecision(action, reason, facts or {}, self.iteration))


class Decisions:
    """The decisions of a run; `tell` takes its records in order.

    Attributes:
        by_trial: The decisions of each trial, by its id.
        by_directory: The same, by the name of its directory.
    """

    def __init__(self) -> None:
        self.by_trial: dict[str, list[TrialDecision]] = {}
        self.by_directory: dict[str, list[TrialDecision]] = {}
        self._told: dict[str, _Told] = {}
        self._sign = 0
        self._rungs: dict[Any, list[float]] = {}

    def tell(self, record: records.Record) -> None:
        """Take one record; those that decide nothing are passed over."""
        kind = record[records.KIND]
        if kind == records.RESULT:
            self._on_result(self._of(record), record)
        elif kind == records.STATUS:
            self._on_status(self._of(record), record["status"], record["cause"])
        elif kind == records.EXPLOIT:
            self._on_exploit(self._of(record), record)
        elif kind == records.NOTE:
            self._of(record).add(STOP, record["text"])
        elif kind == records.START and record.get("directory"):
            self.by_directory[record["directory"]] = self._of(record).decisions
        elif kind == records.RUN:
            self._sign = {"max": 1, "min": -1}.get(record["mode"], 0)

    def _of(self, record: records.Record) -> _Told:
        trial_id = record["trial"]
        told = self._told.get(trial_id)
        if told is None:
            told = self._told[trial_id] = _Told()
            self.by_trial[trial_id] = told.decisions
        return told

    def _on_result(self, told: _Told, record: records.Record) -> None:
        told.iteration = record["metrics"].get(TRAINING_ITERATION, record["number"])
        action, reason, facts = record["decision"], record["reason"], record.get("facts")
        if (action == CONTINUE and not (reason or facts)) or action == NOOP:
            return
        told.add(action, reason, facts)
        told.is_open = action in (PAUSE, STOP)
        place = self._note_rung(facts) if facts and "rung" in facts else None
        told.waits_at = place if action == PAUSE else None

    def _note_rung(self, facts: Mapping[str, Any]) -> tuple[Any, float] | None:
        """Note a value at a rung: a trial that waits there is ranked among all trials that have come to it."""
        if not self._sign:
            return None
        value: Any = facts.get("value")
        score = self._sign * value if is_real(value) and value == value else -math.inf
        rung = (f"{facts.get('band')} {facts.get('bracket')}", facts["rung"])
        insort(self._rungs.setdefault(rung, []), score)
        return rung, score

    def _standing(self, told: _Told) -> dict[str, Any]:
        """How a trial that waits stands at its rung by now: `rung`, `rank` and `of`; nothing if that is not known."""
        if told.waits_at is None:
            return {}
        (bracket, rung), score = told.waits_at
        scores = self._rungs[bracket, rung]
        return {"rung": rung, "rank": 1 + len(scores) - bisect_right(scores, score), "of": len(scores)}

    def _on_exploit(self, told: _Told, record: records.Record) -> None:
        facts = {"donor": record["donor"], "checkpoint": record["checkpoint"]}
        reason = f"goes on from checkpoint {record['checkpoint']} of trial {record['donor']}"
        reason = record.get("reason") or reason
        if told.is_open and told.decisions[-1].action == PAUSE:  # it was decided upon this very result
            last = told.decisions.pop()
            facts, reason = {**last.facts, **facts}, last.reason or reason
        told.add(EXPLORE if record["donor"] == record["trial"] else EXPLOIT, reason, facts)
        told.is_open = True

    def _on_status(self, told: _Told, status: str, cause: str) -> None:
        before, told.status = told.status, status
        was_open, told.is_open = told.is_open, False
        if status == PAUSED and not was_open:
            told.add(PAUSE, cause)
        elif status == TERMINATED and not (was_open and told.decisions[-1].action == STOP):
            standing = self._standing(told)
            told.add(STOP, f"{cause}; {_in_words(standing)}" if standing else cause, standing)
        elif status == ERROR:
            told.add(FAIL, cause)
        elif status == PENDING and before == PAUSED:
            standing = self._standing(told)
            told.add(PROMOTE if standing else RESUME, _in_words(standing) if standing else cause, standing)
            told.waits_at = None
        elif status == PENDING and before == RUNNING:
            told.add(RETRY, cause)


def _in_words(standing: Mapping[str, Any]) -> str:
    return f"by then rank {standing['rank']} of {standing['of']} at rung {standing['rung']}"


def read_decisions(path: str | os.PathLike[str]) -> Decisions:
    """Read what was decided in a run. Blocks while its journal is read, unless it was read just before.

    Args:
        path: The run's directory.

    Raises:
        FileNotFoundError: If there is no journal.
        TuneError: If it cannot be read.
    """
    file = RunDirectory(local_path(path)).journal
    found = os.stat(file)
    return _cached_decisions(file, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=1)
def _cached_decisions(file: str, size_bytes: int, changed_ns: int) -> Decisions:
    decisions = Decisions()
    for record in journal.read(file):
        decisions.tell(record)
    return decisions


# -- its learning curves -----------------------------------------------------------------------------------------------


@dataclass
class PastRun:
    """What a run has measured. `simulate` takes one in place of a curve.

    Attributes:
        path: The run's directory.
        curves: By trial id, in order of submission, (metrics, seconds) for each result. A result after which the trial
            was set back is left out, and so is everything after an exploit.
        configs: By trial id, the configurations.
        cut: Ids of the trials of which more could be known: they were stopped, paused, interrupted or have failed
            before their own end, which is that of the trainable, of a stop criterion, or of the longest curve.
        metric: The run's metric, or None.
        mode: Its mode, or None.
        took_s: How long its drivers were at work, in seconds, all of them together.
        num_workers: How many of its trials ran at a time, at most.
    """

    path: str
    curves: dict[str, Curve] = field(default_factory=dict)
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    cut: frozenset[str] = frozenset()
    metric: str | None = None
    mode: str | None = None
    took_s: float = 0.0
    num_workers: int = 1

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> PastRun:
        """Read a run; it may be live. Blocks while its journal is read; nothing is unpickled.

        Args:
            path: The run's directory.

        Raises:
            FileNotFoundError: If there is no run.
            TuneError: If it has no results, or its journal cannot be read.
        """
        directory = local_path(path)
        run = RunDirectory(directory)
        file = run.journal
        if not os.path.isfile(file):
            raise FileNotFoundError(f"{directory} holds no run: there is no journal in it; pass <storage_path>/<name>")
        reader = _CurveReader(cls(directory))
        reader.read(journal.read(file))
        if not reader.run.configs and run.has_trials():
            raise run.lost_journal()
        if not any(reader.run.curves.values()):
            raise TuneError(f"the run in {directory} has no results yet")
        return reader.run

    @property
    def num_results(self) -> int:
        """Results of all curves together."""
        return sum(map(len, self.curves.values()))

    @property
    def training_s(self) -> float:
        """Seconds of training of all curves together."""
        return sum(seconds for curve in self.curves.values() for _, seconds in curve)


class _CurveReader:
    """Applies records.

    Args:
        run: Filled.
    """

    def __init__(self, run: PastRun):
        self.run = run
        self._ended: set[str] = set()
        self._exploited: set[str] = set()
        self._running: set[str] = set()
        self._opened_s = self._noted_s = 0.0

    def read(self, journal_records: Iterable[records.Record]) -> None:
        """Apply all of them."""
        for record in journal_records:
            self._apply_to_driver(record)
            self._apply(record)
        self.run.took_s += max(0.0, self._noted_s - self._opened_s)  # of a driver that was killed, or is at work
        for trial_id in [trial_id for trial_id, curve in self.run.curves.items() if not curve]:
            del self.run.curves[trial_id]
        longest = max(map(len, self.run.curves.values()), default=0)
        self.run.cut = frozenset(
            trial_id
            for trial_id, curve in self.run.curves.items()
            if trial_id in self._exploited or (trial_id not in self._ended and len(curve) < longest)
        )

    def _apply_to_driver(self, record: records.Record) -> None:
        """How long drivers have worked, and on how many trials at a time."""
        kind, at_s = record[records.KIND], record.get("at", self._noted_s)
        if kind == records.RUN:
            self._opened_s = at_s
        elif kind == records.OPEN:
            self.run.took_s += max(0.0, self._noted_s - self._opened_s)
            self._opened_s = at_s
            self._running.clear()
        elif kind == records.CLOSE:
            self.run.took_s += record.get("took_s", max(0.0, at_s - self._opened_s))
            self._opened_s = at_s
        elif kind == records.STATUS and record["status"] == RUNNING:
            self._running.add(record["trial"])
            self.run.num_workers = max(self.run.num_workers, len(self._running))
        elif kind == records.STATUS:
            self._running.discard(record["trial"])
        self._noted_s = at_s

    def _apply(self, record: records.Record) -> None:
        kind, trial_id = record[records.KIND], record.get("trial", "")
        if kind == records.RUN:
            self.run.metric, self.run.mode = record["metric"], record["mode"]
        elif kind == records.TRIAL:
            self.run.curves.pop(record.get("replaces", ""), None)
            self.run.curves[trial_id], self.run.configs[trial_id] = [], record["config"]
        elif trial_id in self._exploited:
            return
        elif kind == records.RESULT:
            self._on_result(trial_id, record)
        elif kind == records.ROLLBACK:
            del self.run.curves[trial_id][record["number"] :]
            self._ended.discard(trial_id)
        elif kind == records.EXPLOIT:
            self._exploited.add(trial_id)
        elif kind == records.STATUS and record["status"] == TERMINATED and record["cause"] == HAS_RETURNED:
            self._ended.add(trial_id)
        elif kind == records.STATUS and record["status"] == ERROR:
            self._ended.discard(trial_id)

    def _on_result(self, trial_id: str, record: records.Record) -> None:
        metrics = record["metrics"]
        seconds = metrics.get(TIME_THIS_ITER_S)
        kept = {key: value for key, value in metrics.items() if key not in _OF_THE_RUN}
        self.run.curves[trial_id].append((kept, float(seconds) if is_real(seconds) and seconds >= 0 else 0.0))
        if record["decision"] == "STOP" and record["reason"].startswith((STOP_CRITERION, TRAINABLE_ENDED)):
            self._ended.add(trial_id)
