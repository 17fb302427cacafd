"""Reading a run from its directory alone: its trials, for people and analyses. Nothing is unpickled or changed.

Unlike `replay`, which makes a run ready to go on, this needs no plug-ins and asks no questions: it takes what the
journal says, also while a driver is writing it, and passes over what it does not know.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from minitune._paths import local_path
from minitune.error import JournalCorruptError, trial_error_of_text
from minitune.execution import journal, records
from minitune.execution.failure import LOST
from minitune.execution.past_results import PastResults, SummedUp
from minitune.execution.storage import RunDirectory, last_error_text
from minitune.experiment.lifecycle import ERROR, OWNS_ACTOR, PAUSED, PENDING, RUNNING, TERMINATED, Phase
from minitune.experiment.trial import HAS_RETURNED, KeptCheckpoint, Trial

_PHASES = {
    PENDING: Phase.QUEUED,
    RUNNING: Phase.TRAINING,
    PAUSED: Phase.PAUSED,
    TERMINATED: Phase.TERMINATED,
    ERROR: Phase.ERROR,
}


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
        unpickle: Whether objects that only pickle can hold are loaded: only after `trust.check_trusted`.

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
        self._reader = _Reader(RecordedRun(directory))
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


class _Reader:
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
