"""OpenRun: the directory and the journal of a run, while they belong to this driver."""

from __future__ import annotations

import contextlib
import os
import socket
from types import TracebackType

from minitune.base import files
from minitune.base.forks import Origin
from minitune.base.plugin_calls import guarded
from minitune.driver.plan import Plan
from minitune.error import TuneError
from minitune.experiment.run_description import RunDescription
from minitune.record import records
from minitune.record.checkpoint_manager import CheckpointManager
from minitune.record.housekeeper import Housekeeper
from minitune.record.journal import Journal, RecordHook
from minitune.record.layout import RunDirectory
from minitune.record.lock import RunLock
from minitune.record.recorder import Recorder
from minitune.record.trial_directories import TrialDirectories


class OpenRun:
    """A context in which a run's directory belongs to this driver. Entering takes the lock and opens the journal.

    Args:
        lock: The lock of a new run, which this process holds; None for an earlier run, whose lock is taken.
        listen: Called with each record when it has been added to the journal.

    Raises:
        RunLockedError: If another driver holds the lock.
        JournalCorruptError: If the journal is damaged.
        TuneError: If a file cannot be created or read.
    """

    recorder: Recorder
    _journal: Journal

    def __init__(self, plan: Plan, run: RunDirectory, *, lock: RunLock | None = None, listen: RecordHook | None = None):
        self.run = run
        self._plan = plan
        self._is_new = lock is not None
        self._lock = lock or RunLock(run.lock)
        self._housekeeper = Housekeeper()
        self._listen = listen
        self._closing = contextlib.ExitStack()
        self._origin = Origin()

    def __enter__(self) -> OpenRun:
        with contextlib.ExitStack() as stack:
            stack.callback(self._lock.release)  # does nothing if the lock cannot be taken
            # Before anything is cleaned: the files belong to another driver as long as that has the lock.
            if not self._lock.is_held:
                self._lock.acquire()
            stack.callback(self._housekeeper.close)
            self._housekeeper.start()  # before the first record: without its thread, nothing has begun
            self._prepare()
            self._journal = Journal(
                self.run.journal, self._housekeeper, self._lock, is_new=self._is_new, listen=self._listen
            )
            stack.callback(self._journal.close)
            self._housekeeper.disk_failed = self._sync_failed
            self._housekeeper.sync_records = self._journal.sync
            # A lost journal must not become a new run, which would use the directories of the old one.
            if self.is_blank and self.run.has_trials():
                raise self.run.lost_journal()
            creator = self._plan.experiment.trial_dirname_creator
            named = creator and guarded(creator, "trial_dirname_creator")
            manager = CheckpointManager(self._plan.checkpoint_config, housekeeper=self._housekeeper)
            directories = TrialDirectories(self.run, self._journal, named)
            self.recorder = Recorder(self.run, self._journal, manager, directories)
            self._closing = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._origin.is_here():  # otherwise a child that a plug-in forked exits; the run continues in its parent
            self._closing.close()

    def _prepare(self) -> None:
        """Check and clean the directory, whose lock the caller holds, before the journal is opened.

        The first files of a run come in this order: an empty journal, `tuner.pkl`, the first record. So a directory
        without `tuner.pkl` holds no run yet; with it and an empty journal, the run has not started; without a journal,
        that was lost.
        """
        if not self._is_new and not os.path.exists(self.run.journal):
            raise TuneError(f"{self.run.journal} is missing; without it the run cannot be resumed")
        try:
            self.run.clean()
        except OSError as error:
            raise TuneError(f"the run's directory {self.run.path} cannot be used: {error}") from error
        if self._is_new:
            files.remove_file(self.run.journal)  # if there is one, it is empty

    def _sync_failed(self, path: str, error: OSError) -> None:
        self._journal.fail(path, "synced to the disk", error)

    @property
    def is_blank(self) -> bool:
        """Whether the journal has no records."""
        return self._journal.offset == 0

    def begin(self, description: RunDescription, first: records.Record | None = None) -> None:
        """Write the first records of this driver. Blocks for a sync."""
        if first is not None:
            self._journal.append(first)
        limits = self._plan.experiment.stopping_criterion
        budget_s = self._plan.tune_config.budget_s()
        record = records.opened(os.getpid(), socket.gethostname(), budget_s, limits, description)
        self._journal.append(record)
        self._journal.sync()  # from here on the run can be resumed even after a power cut
        with contextlib.suppress(PermissionError):  # a user may be allowed to write to a directory but not to read
            files.sync_directory(os.path.dirname(self.run.path))
