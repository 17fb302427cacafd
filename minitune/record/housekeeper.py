"""Housekeeper: the threads of a run that sync and delete, so that slow disks do not delay the driver's loop.

One syncs the journal, the other one does everything else: however long a checkpoint takes, records wait for nothing.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial

from minitune.base import files
from minitune.base.disk import ends_run
from minitune.base.process_limits import start_thread

logger = logging.getLogger("minitune")

SYNC_DELAY_S = 0.05
"""The delay from a journal's first unsynced record to the sync; the promise is 100 ms, so more would break it.

On a slow disk `SYNC_SHARE` sets the delay: then the promise is the time of twenty syncs.
"""

SYNC_SHARE = 0.05
"""The largest share of time for syncs: some disks need 30 ms for one. Not measured: more slows trials that write."""

CHECKPOINT_PERIOD_S = 1.0
"""A trial's checkpoints are synced at most once in this time. Not measured: in less, syncs of large files fill the
disk's queue; in more, a power cut costs more training.
"""

CLOSE_LIMIT_S = 10.0
"""How long the end of a run waits for deletions and syncs; the next open removes the rest."""

Sync = Callable[[], object]
"""Syncs everything written so far, such as `Journal.sync`. Blocks, and raises nothing."""

_JOURNAL = "journal"


class _Worker:
    """Calls functions one after the other, each when it is due, on a thread that the first one starts and `close`
    joins. It uses real time, also in a run with a virtual clock.

    Attributes:
        waiting: By key, when a function is due, and the function. The caller holds `changed`.
        present: The key of the function that is being called; None if there is none.
    """

    def __init__(self, name: str):
        self.changed = threading.Condition()
        self.waiting: dict[str, tuple[float, Callable[[], object]]] = {}
        self.present: str | None = None
        self._name = name
        self._thread: threading.Thread | None = None
        self._close_by: float | None = None  # not None while `close` waits for the thread

    def call(self, key: str, function: Callable[[], object], due_s: float = 0.0) -> None:
        """Call a function when it is due, in place of one with the same key that still waits."""
        with self.changed:
            self.waiting[key] = due_s, function
            self.start()

    def start(self) -> None:
        """Start the thread, or wake it if it runs. TuneError: the system does not allow another one."""
        with self.changed:
            if self._thread is None:
                # A daemon thread does not keep an interpreter alive that exits without `close`.
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                start_thread(thread)
                self._thread = thread
            self.changed.notify_all()

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is left to call. Blocks. Returns False if `timeout_s` seconds passed first."""
        with self.changed:
            return self.changed.wait_for(lambda: self.present is None and not self.waiting, timeout_s)

    def is_late(self) -> bool:
        """Whether `close` has waited for its limit."""
        return self._close_by is not None and time.monotonic() > self._close_by

    def close(self, limit_s: float) -> None:
        """Call what waits without delay, or give it up after `limit_s` seconds, and end the thread. Blocks."""
        with self.changed:
            thread = self._thread
            self._close_by = time.monotonic() + limit_s
            self.changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with self.changed:
            self._thread = None
            self._close_by = None

    def _run(self) -> None:
        while True:
            with self.changed:
                self.present = None
                self.changed.notify_all()
                self.present = self._next()
                if self.present is None:
                    return
                _, function = self.waiting.pop(self.present)
            function()

    def _next(self) -> str | None:
        """Wait until a function is due; None if the thread should end. The caller holds the condition."""
        while self._close_by is None:
            delay_s = None
            for key in self.waiting:
                left_s = self.waiting[key][0] - time.monotonic()
                if left_s <= 0:
                    return key
                delay_s = left_s if delay_s is None else min(delay_s, left_s)
            self.changed.wait(delay_s)
        if self.is_late():
            self.waiting.clear()
        return next(iter(self.waiting), None)


class Housekeeper:
    """Syncs the journal and the checkpoints of a run, and removes files.

    Attributes:
        sync_records: Syncs the journal. Called after the files of a checkpoint were synced: then its record is on the
            disk, too, before an older checkpoint may go.
        disk_failed: Called with a path and an error if the disk refuses to sync a checkpoint. By default it is logged.
    """

    def __init__(self) -> None:
        self._records = _Worker("minitune-sync")
        self._files = _Worker("minitune-housekeeper")
        self._last_sync_s = 0.0  # how long the last sync of the journal took
        # By the trial's directory: the newest synced checkpoint, and when the next one is due.
        self._synced: dict[str, str] = {}
        self._next_s: dict[str, float] = {}
        self._syncing = ""  # the checkpoint that is being synced now
        self.sync_records: Sync | None = None
        self.disk_failed: Callable[[str, OSError], object] | None = None

    # -- chores ------------------------------------------------------------------------------------------------

    def sync_soon(self, sync: Sync) -> None:
        """Call `sync` within 100 ms, or later if syncs would take more than `SYNC_SHARE`. Does not block."""
        with self._records.changed:
            if _JOURNAL not in self._records.waiting:
                delay_s = max(SYNC_DELAY_S, self._last_sync_s * (1 / SYNC_SHARE - 1))
                self._records.call(_JOURNAL, partial(self._sync, sync), time.monotonic() + delay_s)

    def forget_sync(self) -> None:
        """Do not sync any more, because the journal is about to sync and close itself."""
        with self._records.changed:
            self._records.waiting.pop(_JOURNAL, None)

    def delete(self, path: str) -> None:
        """Remove a path of the run in the background. A failure is logged."""
        self._files.call(path, partial(self._do_steps, files.remove_tree_steps, path, "removed"))

    def sync_checkpoint(self, directory: str) -> None:
        """Sync the directory of a checkpoint, whose record was written, in the background. Does not block.

        A later checkpoint of the trial replaces one that still waits for its sync.
        """
        trial = os.path.dirname(directory)
        self._files.call(trial, partial(self._sync_checkpoint, directory), self._next_s.get(trial, 0.0))

    def needs(self, directory: str) -> bool:
        """Whether a checkpoint must stay: it is the newest of its trial that is on the disk with its record, or is
        being synced now.
        """
        with self._files.changed:
            return directory in (self._syncing, self._synced.get(os.path.dirname(directory)))

    # -- life --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the threads.

        Raises:
            TuneError: If the system does not allow another thread.
        """
        self._files.start()
        self._records.start()

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until there are no chores, including those that wait for `CHECKPOINT_PERIOD_S`. Blocks. Returns False if
        one of the threads has not come to rest in `timeout_s` seconds.
        """
        return self._files.wait_idle(timeout_s) and self._records.wait_idle(timeout_s)

    def close(self, limit_s: float = CLOSE_LIMIT_S) -> None:
        """Do the remaining chores without delay, and end the threads. Blocks. It gives up deletions and syncs of
        checkpoints after `limit_s` seconds; a step may take longer. A later chore starts a thread again.
        """
        self._files.close(limit_s)
        self._records.close(math.inf)

    # -- on the threads ----------------------------------------------------------------------------------------

    def _sync(self, sync: Sync) -> None:
        begin_s = time.monotonic()
        sync()
        self._last_sync_s = time.monotonic() - begin_s

    def _sync_checkpoint(self, directory: str) -> None:
        trial = os.path.dirname(directory)
        self._syncing = directory
        self._next_s[trial] = time.monotonic() + CHECKPOINT_PERIOD_S
        if self._do_steps(files.sync_tree_steps, directory, "synced to the disk", self.disk_failed):
            if self.sync_records is not None:
                self.sync_records()
            self._synced[trial] = directory
        self._syncing = ""

    def _do_steps(
        self,
        chore: Callable[[str], Generator[None, None, None]],
        path: str,
        what: str,
        disk_failed: Callable[[str, OSError], object] | None = None,
    ) -> bool:
        """Do a chore until `close` has waited long enough; return whether it was completed. `what`, a participle, says
        for the log what it does to `path`. `disk_failed` is called if the disk refuses it.
        """
        try:
            with closing(chore(path)) as steps:  # it may hold descriptors
                for _ in steps:
                    if self._files.is_late():
                        return False
        except FileNotFoundError:
            return False  # the checkpoint was dropped, or the user removed the directory
        except Exception as error:  # it must not end the thread
            if disk_failed is not None and isinstance(error, OSError) and ends_run(error):
                disk_failed(path, error)
            else:
                logger.warning("%s could not be %s: %s", path, what, error)
            return False
        return True
