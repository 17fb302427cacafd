"""Recorder: writes down what happens to the trials, before anything follows from it.

It owns the run's journal, the trials' directories and the retention of checkpoints. What it has written is all that a
later driver knows of the run.

Each event is recorded at once. The next `write` writes the records, so one write serves all events of a turn of the
driver's loop. A caller must call `write` before anything that follows from a record.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from minitune.base import files
from minitune.checkpoint import CheckpointRecord
from minitune.decision import Decision
from minitune.error import TrialError, TuneError
from minitune.experiment.trial import KeptCheckpoint, Trial
from minitune.record import records
from minitune.record.checkpoint_manager import CheckpointManager, Surplus
from minitune.record.codec import is_small
from minitune.record.disk import Disk
from minitune.record.journal import Journal
from minitune.record.layout import (
    RunDirectory,
    append_error,
    clean_trial_directory,
    create_trial_directory,
    date_text,
    identifier_limit,
    remove_error_pickle,
)
from minitune.resources import Resources
from minitune.result import CONFIG

logger = logging.getLogger("minitune")

_RESULTS_WORTH_A_SUM = 32
"""A sum takes about the place of three results."""


class RecordSink(Protocol):
    """Where records go: a `Journal`, or who listens to one."""

    @property
    def offset(self) -> int:
        """Length of what is written, in bytes."""
        ...

    @property
    def unwritten(self) -> list[bytes]:
        """The records for the next `write`: one and the same list at any time."""
        ...

    def add(self, record: records.Record) -> None:
        """Take one record as it is now."""
        ...

    def write(self) -> None:
        """Write what was added; it is there for good when this returns."""
        ...

    def by_reference(self, record: records.Record) -> records.Record:
        """A record with references in place of large values, which have files of their own then."""
        ...


class Recorder:
    """Writes a run's journal and files.

    Args:
        run: The run's directory.
        journal: The open journal.
        checkpoints: Which checkpoints are kept.
        disk: Whether the run can be written down.
        dirname_creators: Make the names of trial directories, by experiment; None for the usual ones.
        is_strict: Whether a checkpoint is on the disk before the record that names it is written.

    Attributes:
        is_closed: Whether it has been said how the run ends.
        unwritten: The records since the last `write`; not to be changed.
        write: Writes them; they are there for good when this returns. Blocks.
        journal: The journal if it takes whole lines; None if somebody listens to the single records.
    """

    def __init__(
        self,
        run: RunDirectory,
        journal: RecordSink,
        checkpoints: CheckpointManager,
        disk: Disk,
        dirname_creators: Sequence[Callable[[Trial], str] | None] = (None,),
        *,
        is_strict: bool = False,
    ):
        self.run = run
        self.disk = disk
        self._journal = journal
        self.unwritten = journal.unwritten
        self.write = journal.write
        self.journal = journal if isinstance(journal, Journal) else None
        self._checkpoints = checkpoints
        self._dirname_creators = dirname_creators
        self._is_strict = is_strict
        self._name_characters = identifier_limit()
        self.is_closed = False
        self._pid = os.getpid()
        # by trial id, what plug-ins may change, as it is on record
        self._known: dict[str, _Changeable] = {}

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that has begun; a child that a plug-in has forked must end nothing of the run."""
        return os.getpid() == self._pid

    @property
    def offset(self) -> int:
        """The journal's length in bytes, after all that has been recorded. Blocks to write it."""
        self.write()
        return self._journal.offset

    def state_saved(self, component: str, plugin: str, written: dict[str, str], offset: int) -> None:
        """A component's state was written; see `records.state`."""
        self._journal.add(records.state(component, plugin, written, offset))
        self.write()

    def close(self, reason: str, took_s: float | None = None) -> None:
        """The driver ends in order; nothing is written after this. Blocks while checkpoints are settled.

        Args:
            reason: Why it ends.
            took_s: How long it was at work, in seconds.
        """
        self.is_closed = True
        self._drop(self._checkpoints.finish())
        self._journal.add(records.close(reason, took_s))
        self.write()

    # -- trials ----------------------------------------------------------------------------------------------------

    def trial_added(self, trial: Trial, replaces: str = "") -> None:
        """A trial is part of the run; to be written before it may start.

        Args:
            trial: The trial.
            replaces: Id of the trial whose place it takes, or an empty text.
        """
        trial.experiment_path = self.run.path
        self.note_changes(trial)
        record = records.trial(
            trial.trial_id,
            trial.number,
            trial.config,
            seed=trial.seed,
            resources=trial.resources,
            name=trial.name,
            directory="",
            tag=trial.experiment_tag,
            evaluated_params=trial.evaluated_params,
            experiment=trial.experiment_number,
            replaces=replaces,
        )
        if not (is_small(trial.config) and is_small(trial.evaluated_params)):
            record = self._journal.by_reference(record)
            trial.set_light_config(record["config"])
        self._journal.add(record)

    def note_changes(self, trial: Trial) -> None:
        """Put on record what a plug-in has changed about a trial since it was last looked at."""
        now = _Changeable(trial.config, trial.experiment_tag, trial.resources, trial.evaluated_params)
        before = self._known.get(trial.trial_id, now)
        self._known[trial.trial_id] = now
        if before.config is now.config and before[1:] == now[1:]:
            return
        self._journal.add(
            records.change(
                trial.trial_id,
                config=self._recorded_config(trial) if before.config is not now.config else None,
                tag=now.tag if before.tag != now.tag else None,
                resources=now.resources if before.resources != now.resources else None,
                evaluated_params=now.evaluated_params if before.evaluated_params != now.evaluated_params else None,
            )
        )

    def _recorded_config(self, trial: Trial) -> dict[str, Any]:
        """The configuration as it is recorded and sent: large values in it are stored once, and stand by reference."""
        if trial.light is None and is_small(trial.config):
            return trial.config
        if trial.light_config is trial.config:
            trial.set_light_config(self._journal.by_reference({"config": trial.config})["config"])
        return trial.light_config

    def extends(self, samples: int) -> None:
        """The run is to have more samples."""
        self._journal.add(records.extend(samples))

    def prepare_directory(self, trial: Trial) -> str:
        """Make the trial's directory, or clear it of what an earlier attempt has left half done.

        Returns:
            Its path.

        Raises:
            OSError: If it cannot be used.
        """
        if trial.custom_dirname is None:
            creator = self._dirname_creators[trial.experiment_number]
            trial.custom_dirname = create_trial_directory(self.run.path, trial, creator, self._name_characters)
        else:
            fault = self.directory_fault(trial)
            if fault is not None:
                raise fault
            self._clean(trial)
        return trial.local_path

    def directory_fault(self, trial: Trial) -> OSError | None:
        """The fault of the directory of a trial that has been started; None if it is there."""
        try:
            mode = os.lstat(trial.local_path).st_mode
        except OSError:
            return FileNotFoundError(f"{trial.local_path} does not exist any more")
        if stat.S_ISDIR(mode):
            return None
        return files.LinkError(trial.local_path) if stat.S_ISLNK(mode) else NotADirectoryError(trial.local_path)

    def note(self, trial_id: str, text: str) -> None:
        """Keep something about a trial for those who read the run; see `records.note`."""
        self._journal.add(records.note(trial_id, text))

    def worker_is_gone(self, trial: Trial) -> None:
        """A worker has gone in the midst of something: remove checkpoints that it wrote and never reported.

        Files that cannot be removed now are removed at the next attempt, or when the run is opened again.
        """
        if trial.custom_dirname is not None:
            with contextlib.suppress(OSError):
                self._clean(trial)

    def _clean(self, trial: Trial) -> None:
        recorded = {kept.record.number for kept in trial.checkpoints}
        clean_trial_directory(self.run.path, trial.local_path, recorded)

    def attempt_starts(self, trial: Trial) -> None:
        """An attempt begins; to be written before its worker is started."""
        self.note_changes(trial)
        self._recorded_config(trial)  # of a resumed run, it may not have been stored yet
        checkpoint = trial.checkpoints[-1].record.number if trial.checkpoints else None
        self._journal.add(records.start(trial.trial_id, trial.attempt, checkpoint, trial.custom_dirname or ""))

    def rolls_back(self, trial: Trial, number: int) -> None:
        """The next attempt starts after report `number`; later ones leave the live view."""
        self._journal.add(records.rollback(trial.trial_id, trial.attempt + 1, number))

    def status(self, trial: Trial, cause: str) -> None:
        """The trial's public status has changed."""
        # Many results, and no resume may need the state in between.
        is_worth_a_sum = (
            trial.report_count >= _RESULTS_WORTH_A_SUM and trial.attempt == 1 and trial.next_checkpoint == 0
        )
        total = trial.sum_up() if is_worth_a_sum and trial.is_finished() else None
        if total is not None and CONFIG in total["last"]:
            total["last"] = {**total["last"], CONFIG: None}
        self._journal.add(records.status(trial.trial_id, trial.status, cause, total, trial.stopped_by))

    def result(
        self, trial: Trial, result: dict[str, Any], decision: Decision, checkpoint: CheckpointRecord | None
    ) -> None:
        """A result with what was decided upon it; to be written before the worker hears of it."""
        metrics = {**result, CONFIG: None} if CONFIG in result else result
        if checkpoint is not None and self._is_strict:
            self._settle(trial, checkpoint)
        self._journal.add(
            records.result(
                trial.trial_id,
                trial.attempt,
                trial.report_count,
                metrics,
                decision,
                decision.reason,
                checkpoint,
                decision.facts,
            )
        )

    def failure(self, trial: Trial, error: TrialError) -> None:
        """An attempt has failed: a new entry in the trial's `error.txt`, and its `error.pkl`.

        A directory that cannot be written (it may be the reason of the failure) is no second failure.
        """
        with _told("the failure of trial %s could not be written to its directory: %s", trial):
            if trial.custom_dirname is None:
                self.prepare_directory(trial)
            append_error(trial.local_path, trial.num_failures, str(error), date_text(), error)

    def trial_ends(self, trial: Trial) -> None:
        """The trial has ended: a failure that a retry has made good leaves no `error.pkl`."""
        if trial.attempt > 1 and trial.error is None:
            with _told("error.pkl of trial %s could not be removed: %s", trial):
                remove_error_pickle(trial.local_path)
        self._known.pop(trial.trial_id, None)
        if trial.checkpoints:
            self._drop(self._checkpoints.trial_ended(trial))

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def adopt(self, trial: Trial) -> None:
        """Take in a trial of a resumed run with its checkpoints; what an earlier driver was about to remove goes.

        Of a trial that goes on it does when that is started again.
        """
        if not trial.is_finished():
            self.note_changes(trial)
        elif trial.next_checkpoint:
            self.worker_is_gone(trial)
        self._drop(self._checkpoints.adopt(trial))

    def checkpoint(self, trial: Trial, kept: KeptCheckpoint, *, reported: bool) -> None:
        """A checkpoint has arrived: commit it, then let those go that are not to be kept.

        Args:
            trial: The trial.
            kept: The checkpoint.
            reported: True if it came with a report, whose record has committed it already.
        """
        if not reported:
            if self._is_strict:
                self._settle(trial, kept.record)
            self._journal.add(records.checkpoint(trial.trial_id, trial.attempt, kept.report_number, kept.record))
        self._drop(self._checkpoints.add(trial, kept))

    def _settle(self, trial: Trial, record: CheckpointRecord) -> None:
        """Bring a checkpoint to the disk. Blocks.

        Raises:
            TuneError: If that fails: the promise of durability `strict` cannot be kept.
        """
        directory = os.path.join(trial.local_path, record.directory)
        try:
            files.settle(directory)
        except OSError as error:
            raise TuneError(
                f"the checkpoint {directory} could not be brought to the disk ({error.strerror or error}); check the "
                "disk, then resume the run"
            ) from error

    def discard(self, trial: Trial, record: CheckpointRecord) -> bool:
        """A checkpoint is of no use: the one before it is the newest now. False if another trial still needs it."""
        surplus = self._checkpoints.discard(trial, record)
        self._drop(surplus)
        return bool(surplus)

    def pin(self, trial: Trial, record: CheckpointRecord) -> None:
        """Keep a checkpoint while another trial loads it."""
        self._checkpoints.pin(trial, record)

    def unpin(self, trial: Trial, record: CheckpointRecord) -> None:
        """The checkpoint has been loaded."""
        self._drop(self._checkpoints.unpin(trial, record))

    def _drop(self, surplus: list[Surplus]) -> None:
        """Remove what is surplus: first from the record, then from the disk."""
        for item in surplus:
            self._journal.add(records.drop(item.trial.trial_id, item.record.number))
            self.write()
            self._checkpoints.remove(item)

    def exploit(
        self, trial: Trial, donor: Trial, record: CheckpointRecord, config: dict[str, Any], reason: str = ""
    ) -> None:
        """A trial is to go on from another one's checkpoint under a new configuration."""
        self._journal.add(
            self._journal.by_reference(records.exploit(trial.trial_id, donor.trial_id, record.number, config, reason))
        )
        self._known[trial.trial_id] = self._known[trial.trial_id]._replace(config=config)


@contextlib.contextmanager
def _told(text: str, trial: Trial) -> Iterator[None]:
    """Log an OSError of the `with` block, and go on; that a directory is not there any more is told elsewhere."""
    try:
        yield
    except FileNotFoundError:
        pass
    except OSError as error:
        logger.warning(text, trial.name, error.strerror or error)


class _Changeable(NamedTuple):
    """The facts of a trial that plug-ins may change."""

    config: dict[str, Any]
    tag: str
    resources: Resources
    evaluated_params: dict[str, Any]
