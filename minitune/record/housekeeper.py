"""Housekeeper: the thread of a run that syncs and deletes, so that slow disks do not delay the driver's loop."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import closing

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


class _CheckpointSyncs:
    """Which checkpoints to sync, and when. The caller holds the housekeeper's condition.

    A trial's checkpoints are synced one after the other, at most one in each `CHECKPOINT_PERIOD_S`, and only the newest
    one that waits.
    """

    def __init__(self) -> None:
        self.due_s: dict[str, tuple[float, str]] = {}
        # By the trial's directory: the newest synced checkpoint, and when the next one is due.
        self._synced: dict[str, str] = {}
        self._next_s: dict[str, float] = {}
        self._present: str | None = None  # the checkpoint that is being synced now

    def add(self, directory: str) -> None:
        """Let a checkpoint wait, in place of an older one of its trial."""
        trial = os.path.dirname(directory)
        self.due_s[trial] = (self._next_s.get(trial, 0.0), directory)

    def needs(self, directory: str) -> bool:
        """Whether a checkpoint is the newest synced one of its trial, or is being synced now."""
        return directory in (self._present, self._synced.get(os.path.dirname(directory)))

    def take(self, *, at_once: bool) -> str | None:
        """Begin the sync of a checkpoint that is due, or of any if `at_once`."""
        now_s = time.monotonic()
        for trial, (due_s, directory) in self.due_s.items():
            if due_s <= now_s or at_once:
                del self.due_s[trial]
                self._present = directory
                self._next_s[trial] = now_s + CHECKPOINT_PERIOD_S
                return directory
        return None

    def end(self, directory: str, *, done: bool) -> None:
        self._present = None
        if done:
            self._synced[os.path.dirname(directory)] = directory


class Housekeeper:
    """Does the chores of a run on one thread, which the first chore starts and `close` joins.

    Between small steps it syncs, so that removing a large checkpoint delays no sync. It uses real time, also in a run
    with a virtual clock.

    Attributes:
        disk_failed: Called with a path and an error if the disk refuses to sync a checkpoint. By default it is logged.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._sync: Sync | None = None  # None if the journal has nothing to sync
        self._sync_due_s = 0.0
        self._last_sync_s = 0.0  # how long the last sync took
        self._deletions: deque[str] = deque()
        self._checkpoints = _CheckpointSyncs()
        self._close_by: float | None = None  # not None while `close` waits for the thread
        self._is_busy = False
        self.disk_failed: Callable[[str, OSError], object] | None = None

    # -- chores ------------------------------------------------------------------------------------------------

    def sync_soon(self, sync: Sync) -> None:
        """Call `sync` within 100 ms, or later if syncs would take more than `SYNC_SHARE`. Does not block."""
        with self._changed:
            if self._sync is None:
                delay_s = max(SYNC_DELAY_S, self._last_sync_s * (1 / SYNC_SHARE - 1))
                self._sync_due_s = time.monotonic() + delay_s
                self._sync = sync
            self._wake()

    def forget_sync(self) -> None:
        """Do not sync any more, because the journal is about to sync and close itself."""
        with self._changed:
            self._sync = None

    def delete(self, path: str) -> None:
        """Remove a path of the run in the background. A failure is logged."""
        with self._changed:
            self._deletions.append(path)
            self._wake()

    def sync_checkpoint(self, directory: str) -> None:
        """Sync the directory of a checkpoint to the disk in the background. Does not block.

        A later checkpoint of the trial replaces one that still waits for its sync.
        """
        with self._changed:
            self._checkpoints.add(directory)
            self._wake()

    def needs(self, directory: str) -> bool:
        """Whether a checkpoint must stay: it is the newest synced one of its trial, or is being synced now."""
        with self._changed:
            return self._checkpoints.needs(directory)

    # -- life --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread.

        Raises:
            TuneError: If the system does not allow another thread.
        """
        with self._changed:
            self._wake()

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until there are no chores, including those that wait for `CHECKPOINT_PERIOD_S`. Blocks. Returns False if
        `timeout_s` seconds passed first.
        """
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_busy and not self._has_chores(), timeout_s)

    def close(self, limit_s: float = CLOSE_LIMIT_S) -> None:
        """Do the remaining chores without delay, and end the thread. Blocks. It gives up deletions and syncs of
        checkpoints after `limit_s` seconds; a step may take longer. A later chore starts the thread again.
        """
        with self._changed:
            thread = self._thread
            self._close_by = time.monotonic() + limit_s
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with self._changed:
            self._thread = None
            self._close_by = None

    def _wake(self) -> None:
        """Start the thread, or wake it if it runs. The caller holds the condition. See `start`."""
        if self._thread is None:
            # A daemon thread does not keep an interpreter alive that exits without `close`.
            thread = threading.Thread(target=self._run, name="minitune-housekeeper", daemon=True)
            start_thread(thread)
            self._thread = thread
        self._changed.notify_all()

    def _has_chores(self) -> bool:
        return self._sync is not None or bool(self._deletions or self._checkpoints.due_s)

    # -- the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()
                if not self._wait_for_chore():
                    return
                self._is_busy = True
                # A sync frees older checkpoints, so it goes before removing them.
                checkpoint = self._checkpoints.take(at_once=self._close_by is not None)
                deletion = None
                if self._deletions and checkpoint is None:
                    deletion = self._deletions.popleft()
            self._sync_due()
            if checkpoint is not None:
                self._do_checkpoint(checkpoint)
            elif deletion is not None:
                self._do_steps(files.remove_tree_steps, deletion, "removed")

    def _wait_for_chore(self) -> bool:
        """Wait until a chore is due; False if the thread should end. The caller holds the condition."""
        while True:
            if self._close_by is not None:
                if not self._has_chores():
                    return False
                if time.monotonic() > self._close_by:
                    self._deletions.clear()
                    self._checkpoints.due_s.clear()
                    return self._sync is not None
                return True
            due_s = [at_s for at_s, _ in self._checkpoints.due_s.values()]
            if self._sync is not None:
                due_s.append(self._sync_due_s)
            delay_s = None
            if due_s:
                delay_s = min(due_s) - time.monotonic()
            if self._deletions or (delay_s is not None and delay_s <= 0):
                return True
            self._changed.wait(delay_s)

    def _sync_due(self) -> None:
        with self._changed:
            sync = self._sync
            begin_s = time.monotonic()
            if sync is None or (begin_s < self._sync_due_s and self._close_by is None):
                return
            # Before the call, so that a write during the sync can ask for another one.
            self._sync = None
        sync()
        self._last_sync_s = time.monotonic() - begin_s

    def _do_checkpoint(self, directory: str) -> None:
        done = self._do_steps(files.sync_tree_steps, directory, "synced to the disk", self.disk_failed)
        with self._changed:
            self._checkpoints.end(directory, done=done)

    def _do_steps(
        self,
        chore: Callable[[str], Generator[None, None, None]],
        path: str,
        what: str,
        disk_failed: Callable[[str, OSError], object] | None = None,
    ) -> bool:
        """Do a chore, with syncs between its steps; return whether it was completed. `what`, a participle, says for the
        log what it does to `path`. `disk_failed` is called if the disk refuses it. An exception from it does not end
        the thread.
        """
        try:
            with closing(chore(path)) as steps:  # it may hold descriptors
                for _ in steps:
                    self._sync_due()
                    if self._close_by is not None and time.monotonic() > self._close_by:
                        return False
        except FileNotFoundError:
            return False  # the checkpoint was dropped, or the user removed the directory
        except Exception as error:
            if disk_failed is not None and isinstance(error, OSError) and ends_run(error):
                disk_failed(path, error)
            else:
                logger.warning("%s could not be %s: %s", path, what, error)
            return False
        return True
