"""How a driver takes a run's directory: lock, cleaning, journal, and the first records."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack, suppress

from minitune.base import files
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


def open_run(
    closing: ExitStack,
    plan: Plan,
    run: RunDirectory,
    *,
    lock: RunLock | None = None,
    listen: RecordHook | None = None,
) -> Recorder:
    """Take a run's directory, which belongs to this driver until `closing` is closed, and open its journal. Blocks.

    Args:
        closing: The clean-ups of the driver.
        plan: What the driver runs.
        run: The run.
        lock: The lock of a new run, which this process holds; None for an earlier run, whose lock is taken.
        listen: Called with each record when it has been added to the journal.

    Raises:
        RunLockedError: If another driver holds the lock.
        JournalCorruptError: If the journal is damaged.
        TuneError: If a file cannot be created or read.
    """
    is_new = lock is not None
    lock = lock or RunLock(run.lock)
    closing.callback(lock.release)  # does nothing if the lock cannot be taken
    # Before anything is cleaned: the files belong to another driver as long as that has the lock.
    if not lock.is_held:
        lock.acquire()
    housekeeper = Housekeeper()
    closing.callback(housekeeper.close)
    housekeeper.start()  # before the first record: without its thread, nothing has begun
    _prepare(run, is_new)
    journal = Journal(run.journal, housekeeper, lock, is_new=is_new, listen=listen)
    closing.callback(journal.close)
    housekeeper.disk_failed = lambda path, error: journal.fail(path, "synced to the disk", error)
    housekeeper.sync_records = journal.sync
    # A lost journal must not become a new run, which would use the directories of the old one.
    if not journal.offset and run.has_trials():
        raise run.lost_journal()
    creator = plan.experiment.trial_dirname_creator
    directories = TrialDirectories(run, journal, creator and guarded(creator, "trial_dirname_creator"))
    return Recorder(run, journal, CheckpointManager(plan.checkpoint_config, housekeeper=housekeeper), directories)


def _prepare(run: RunDirectory, is_new: bool) -> None:
    """Check and clean the directory, whose lock the caller holds, before the journal is opened.

    The first files of a run come in this order: an empty journal, `tuner.pkl`, the first record. So a directory
    without `tuner.pkl` holds no run yet; with it and an empty journal, the run has not started; without a journal,
    that was lost.
    """
    if not is_new and not os.path.exists(run.journal):
        raise TuneError(f"{run.journal} is missing; without it the run cannot be resumed")
    try:
        run.clean()
    except OSError as error:
        raise TuneError(f"the run's directory {run.path} cannot be used: {error}") from error
    if is_new:
        files.remove_file(run.journal)  # if there is one, it is empty


def begin(recorder: Recorder, plan: Plan, description: RunDescription, first: records.Record | None = None) -> None:
    """Write the first records of this driver. Blocks for a sync."""
    journal = recorder.journal
    if first is not None:
        journal.append(first)
    journal.append(records.opened(os.getpid(), socket.gethostname(), plan.tune_config.budget_s(), description))
    journal.sync()  # from here on the run can be resumed even after a power cut
    with suppress(PermissionError):  # a user may be allowed to write to a directory but not to read
        files.sync_directory(os.path.dirname(recorder.run.path))
