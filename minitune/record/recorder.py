"""Recorder: writes each event of the trials to disk before the driver acts on it.

Each method adds a record. The next `write` writes all records of a turn of the loop; the caller needs it before it acts
on an event.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from minitune.checkpoint import CheckpointRecord
from minitune.experiment.decision import Decision
from minitune.experiment.endings import Ending
from minitune.experiment.lifecycle import STATUS
from minitune.experiment.trial import KeptCheckpoint, Trial
from minitune.record import records
from minitune.record.checkpoint_manager import CheckpointManager, Surplus
from minitune.record.journal import Journal
from minitune.record.layout import RunDirectory
from minitune.record.trial_directories import TrialDirectories

logger = logging.getLogger("minitune")


class Recorder:
    """Writes a run's journal, and removes surplus checkpoints.

    Attributes:
        record: Adds a record that needs no more than its fields.
    """

    def __init__(
        self,
        run: RunDirectory,
        journal: Journal,
        checkpoints: CheckpointManager,
        directories: TrialDirectories,
    ):
        self.run = run
        self.directories = directories
        self.journal = journal
        self.record = journal.add
        self.write = journal.write
        self.pin = checkpoints.pin
        self._checkpoints = checkpoints
        self.is_closed = False
        # by trial id: the facts that plug-ins may change, as they were last recorded
        self._known: dict[str, _Changeable] = {}

    @property
    def offset(self) -> int:
        """The journal's length in bytes, after all added records were written. Blocks."""
        self.write()
        return self.journal.offset

    def close(self, ending: Ending, took_s: float | None = None) -> None:
        """Record the orderly end of the driver; see `records.close`. Blocks while checkpoints are synced."""
        self.is_closed = True
        # The `close` record must be the last one, and synced checkpoints make older ones surplus.
        self._drop(self._checkpoints.finish())
        self.record(records.close(ending, took_s))
        self.write()

    # -- trials ----------------------------------------------------------------------------------------------------

    def trial_added(self, trial: Trial, replaces: str = "") -> None:
        """Record a new trial of the run; see `records.trial`. To be written before the trial starts."""
        if trial.experiment_path != self.run.path:  # a user's search algorithm may make its trials itself
            trial.set_directory(self.run.path, trial.custom_dirname)
        self._known[trial.trial_id] = _Changeable(trial.current_config, trial.experiment_tag, trial.evaluated_params)
        record = records.trial(
            trial.trial_id,
            trial.number,
            trial.current_config,
            seed=trial.seed,
            resources=trial.resources,
            name=trial.name,
            tag=trial.experiment_tag,
            evaluated_params=trial.evaluated_params,
            replaces=replaces,
            repeats=trial.repeats,
        )
        self.record(record)

    def note_changes(self, trial: Trial) -> None:
        """Record the changes that plug-ins made to a trial since the last call."""
        now = _Changeable(trial.current_config, trial.experiment_tag, trial.evaluated_params)
        before = self._known.get(trial.trial_id, now)
        self._known[trial.trial_id] = now
        # A plug-in replaces the whole configuration, so identity is enough. Comparing large values would take long, and
        # arrays cannot be compared by `==`.
        is_same = before.config is now.config and before.evaluated_params is now.evaluated_params
        if not is_same or before.tag != now.tag:
            self.record(records.change(trial.trial_id, *now))

    def attempt_starts(self, trial: Trial, origin: str) -> None:
        """Record the start of an attempt; see `records.start`. To be written before the worker starts."""
        self.note_changes(trial)
        attempt = trial.attempt.number
        directory = trial.custom_dirname or ""
        self.record(records.start(trial.trial_id, attempt, origin, directory))

    def status(self, trial: Trial, cause: str | Ending) -> None:
        """Record the new public status of the trial."""
        self.record(records.status(trial.trial_id, STATUS[trial.phase], cause))

    def result(self, trial: Trial, decision: Decision, checkpoint: CheckpointRecord | None) -> None:
        """Record the trial's last result and the decision on it. To be written before the worker gets the decision."""
        attempt = trial.attempt.number
        progress = trial.progress
        self.record(
            records.result(trial.trial_id, attempt, progress.num_reports, progress.metrics, decision, checkpoint)
        )

    def trial_ends(self, trial: Trial) -> None:
        """Forget a trial that has ended."""
        self._known.pop(trial.trial_id, None)

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def resume(self, trials: Sequence[Trial]) -> None:
        """Take in the trials of a resumed run with their checkpoints, and remove leftovers of the earlier driver."""
        # Pinned first: what follows removes surplus checkpoints, and a donor may not need these.
        for trial in trials:
            if trial.inherited is not None:
                self.pin(trial.inherited.donor, trial.inherited.record)
        for trial in trials:
            if not trial.is_finished():
                self.note_changes(trial)
            elif trial.next_checkpoint:
                self.directories.clean(trial)
            self._drop(self._checkpoints.load(trial))

    def checkpoint(self, trial: Trial, kept: KeptCheckpoint, *, reported: bool) -> None:
        """Commit a new checkpoint, and remove surplus ones.

        `reported`: a report's record has committed it.
        """
        if not reported:
            self.record(
                records.checkpoint(trial.trial_id, trial.attempt.number, kept.progress.num_reports, kept.record)
            )
        # After its record was written: until then a resume needs the previous checkpoint.
        self.write()
        self._drop(self._checkpoints.add(trial, kept))

    def unpin(self, trial: Trial, record: CheckpointRecord) -> None:
        """End one `pin`, after the checkpoint has been loaded."""
        self._drop(self._checkpoints.unpin(trial, record))

    def _drop(self, surplus: list[Surplus]) -> None:
        """Write the `drop` record of surplus checkpoints, then remove the files."""
        for item in surplus:
            # One write for each. A driver that dies in between leaves directories without a record, which the next one
            # removes.
            self.record(records.drop(item.trial.trial_id, item.record.number))
            self.write()
            self._checkpoints.remove(item)

    def exploit(
        self, trial: Trial, donor: Trial, record: CheckpointRecord, config: dict[str, Any], reason: str = ""
    ) -> None:
        """Record that a trial continues from another trial's checkpoint with a new configuration."""
        self.record(records.exploit(trial.trial_id, donor.trial_id, record.number, config, reason))
        self._known[trial.trial_id] = self._known[trial.trial_id]._replace(config=config)


class _Changeable(NamedTuple):
    """The attributes of a trial that plug-ins may change."""

    config: dict[str, Any]
    tag: str
    evaluated_params: dict[str, Any]
