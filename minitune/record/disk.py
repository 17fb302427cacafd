"""The disk of a run: the thread that syncs, settles and deletes, and the waiting of a run that cannot write.

The `Housekeeper` does slow disk work in the background, so that it does not delay the driver's loop.

`Disk` knows whether the run can write. Two faults may prevent that:

* The disk is full. For this case the run reserves a file of 64 kB beside the journal. It frees the file piece by piece,
  each time that the journal needs space. It does not free all at once, because workers would use up the free space.
* The run's directory is gone: it was renamed or removed, or a mount was lost. The run holds a descriptor of the
  directory, so that it does not mistake another directory at the same path for its own. Open files stay open: the
  journal is still written, wherever it is now. So nothing is lost if the directory was only moved.

In both cases no trial is to blame, and the driver starts no trials. For a while it checks whether the fault is gone.
After that it ends the run so that it can be resumed.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator

from minitune.base import descriptors, files
from minitune.error import TuneError

logger = logging.getLogger("minitune")

SYNC_DELAY_S = 0.05
"""The delay from a journal's first unsynced record to the sync. The promise is 100 ms; the thread may be late."""

SYNC_SHARE = 0.05
"""The largest share of time that syncs may take. They are delayed further on slow disks: some need 30 ms for a sync."""

SETTLE_PERIOD_S = 1.0
"""A trial's checkpoints are settled at most once in this time."""

CLOSE_LIMIT_S = 10.0
"""How long the end of a run waits for deletions and settling. The next open of the run removes the rest."""

RESERVE_BYTES = 64 * 1024

PATIENCE_S = 30.0
"""How long a run waits for the disk before it ends."""

RETRY_S = 1.0
"""How often a waiting run checks the disk."""

_PIECE_BYTES = 8 * 1024

_FULL = (errno.ENOSPC, errno.EDQUOT)


# -- sync, settle, delete ----------------------------------------------------------------------------------------------


Sync = Callable[[], object]
"""Syncs everything written so far to the disk, such as `Journal.sync`. Blocks, and raises nothing."""


class Housekeeper:
    """Does the chores of a run on one thread. The first chore starts the thread, and `close` joins it.

    The thread does chores in small steps and syncs between them, so that removing a large checkpoint delays no sync.
    It always uses real time, also in a run with a virtual clock, because disk operations take real time.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._syncs: dict[Sync, float] = {}
        self._last_sync_s: dict[Sync, float] = {}
        self._deletions: deque[str] = deque()
        self._settles: dict[str, tuple[float, str]] = {}
        self._settling: tuple[str, str] | None = None
        self._settled: dict[str, str] = {}
        self._next_settle: dict[str, float] = {}
        self._close_by: float | None = None
        self._is_busy = False

    # -- chores ------------------------------------------------------------------------------------------------

    def sync_soon(self, sync: Sync, delay_s: float = SYNC_DELAY_S) -> None:
        """Call `sync` within 100 ms, or later if syncs would take more than `SYNC_SHARE`. Does not block."""
        with self._changed:
            last_s = self._last_sync_s.get(sync, 0.0)
            delay_s = max(delay_s, last_s * (1 / SYNC_SHARE - 1))
            self._syncs.setdefault(sync, time.monotonic() + delay_s)
            self._wake()

    def forget(self, sync: Sync) -> None:
        """Do not call `sync` any more, because its journal is about to sync and close itself."""
        with self._changed:
            self._syncs.pop(sync, None)
            self._last_sync_s.pop(sync, None)

    def delete(self, path: str) -> None:
        """Remove a path of the run in the background. A failure is logged."""
        with self._changed:
            self._deletions.append(path)
            self._wake()

    def settle(self, key: str, directory: str) -> None:
        """Sync the directory of a checkpoint to the disk in the background. Does not block.

        The key is the trial's id. A later checkpoint of the trial replaces one that still waits for its sync.
        """
        with self._changed:
            due = self._next_settle.get(key, 0.0)
            self._settles[key] = (due, directory)
            self._wake()

    def settled(self, key: str) -> tuple[str, ...]:
        """The checkpoint directories of `key` to keep: the newest settled one, and one that is being settled now."""
        with self._changed:
            found = [self._settled[key]] if key in self._settled else []
            if self._settling is not None and self._settling[0] == key:
                found.append(self._settling[1])
            return tuple(found)

    # -- life --------------------------------------------------------------------------------------------------

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until there are no chores, including those that wait for `SETTLE_PERIOD_S`. Blocks.

        Returns:
            True; False if `timeout_s` seconds passed first.
        """
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_busy and not self._has_chores(), timeout_s)

    def close(self, limit_s: float = CLOSE_LIMIT_S) -> None:
        """Do the remaining chores without delay, and end the thread. Blocks. A later chore starts the thread again.

        Args:
            limit_s: Give up deletions and settling after this many seconds. One step in progress may take longer.
        """
        with self._changed:
            thread, self._close_by = self._thread, time.monotonic() + limit_s
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with self._changed:
            self._thread = self._close_by = None

    def __enter__(self) -> Housekeeper:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def _wake(self) -> None:
        """Start the thread, or wake it if it runs. The caller holds the condition."""
        if self._thread is None:
            # A daemon thread does not keep an interpreter alive that exits without `close`.
            self._thread = threading.Thread(target=self._run, name="minitune-housekeeper", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _has_chores(self) -> bool:
        return bool(self._syncs or self._deletions or self._settles)

    # -- the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()
                if not self._wait_for_chore():
                    return
                self._is_busy = True
                settle = self._take_settle()
                deletion = self._deletions.popleft() if self._deletions and settle is None else None
            self._sync_due()
            if settle is not None:
                self._do_settle(*settle)
            elif deletion is not None:
                self._do_steps(files.remove_tree_steps(deletion), "removed", deletion)

    def _wait_for_chore(self) -> bool:
        """Wait until a chore is due; False if the thread should end. The caller holds the condition."""
        while True:
            if self._close_by is not None:
                if not self._has_chores():
                    return False
                if time.monotonic() > self._close_by:
                    self._deletions.clear()
                    self._settles.clear()
                    return bool(self._syncs)
                return True
            due = min([*self._syncs.values(), *(at for at, _ in self._settles.values())], default=None)
            delay_s = None if due is None else due - time.monotonic()
            if self._deletions or (delay_s is not None and delay_s <= 0):
                return True
            self._changed.wait(delay_s)

    def _take_settle(self) -> tuple[str, str] | None:
        """The next (key, directory) to settle, or None if none is due. The caller holds the condition."""
        now = time.monotonic()
        for key, (due, directory) in self._settles.items():
            if due <= now or self._close_by is not None:
                del self._settles[key]
                self._settling = (key, directory)
                self._next_settle[key] = now + SETTLE_PERIOD_S
                return key, directory
        return None

    def _sync_due(self) -> None:
        while True:
            with self._changed:
                now, closing = time.monotonic(), self._close_by is not None
                sync = next((one for one, due in self._syncs.items() if due <= now or closing), None)
                if sync is None:
                    return
                del self._syncs[sync]
            begin = time.monotonic()
            sync()
            with self._changed:
                self._last_sync_s[sync] = time.monotonic() - begin

    def _do_settle(self, key: str, directory: str) -> None:
        again = functools.partial(self.settle, key, directory)
        done = self._do_steps(files.settle_steps(directory), "synced to the disk", directory, again)
        with self._changed:
            self._settling = None
            if done:
                self._settled[key] = directory

    def _do_steps(self, steps: Iterator[None], what: str, path: str, again: Callable[[], object] | None = None) -> bool:
        """Do a chore, with syncs between its steps. An exception from it does not end the thread.

        Args:
            steps: The chore.
            what: What it does to `path`, as a participle for the log.
            path: The file or directory.
            again: Called to try again later if the process has no free descriptor now.

        Returns:
            Whether the chore was completed.
        """
        try:
            for _ in steps:
                self._sync_due()
                if self._close_by is not None and time.monotonic() > self._close_by:
                    return False
        except FileNotFoundError:
            return False  # the checkpoint was dropped, or the user removed the directory
        except Exception as error:
            if again is not None and self._close_by is None and descriptors.is_lack(error):
                again()
            else:
                logger.warning("%s could not be %s: %s", path, what, error)
            return False
        finally:
            if isinstance(steps, Generator):
                with contextlib.suppress(Exception):
                    steps.close()  # it may hold descriptors
        return True


# -- a disk that is full or gone ---------------------------------------------------------------------------------------


class Disk:
    """Knows whether one run can write to its directory, and how long it has waited for that.

    The caller passes the time, in seconds of a clock of its choice. Any thread may call `is_gone`; only one thread may
    call the other methods.

    Args:
        directory: The run's directory.

    Attributes:
        trouble: Why the run cannot write now, as the end of a sentence; empty if it can. Meanwhile it starts no trials.
        has_gone: Whether the reason is that the directory is gone.
    """

    def __init__(self, directory: str):
        self.trouble = ""
        self._directory = directory
        self._path = os.path.join(directory, "reserve")
        self._descriptor: int | None = None
        self.has_gone = False
        self._held_bytes = 0
        self._since_s: float | None = None
        self._next_look_s = 0.0

    def hold(self) -> None:
        """Reserve the space, and remember the identity of the directory.

        Raises:
            OSError: If there is too little space.
        """
        self._reserve()
        self._descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)

    def free(self) -> None:
        """Free the reserved space at the end of the run."""
        if self._is_there():  # even if all of it was given up, because an empty file is left then
            with contextlib.suppress(OSError):
                files.remove_file(self._path)
        self._held_bytes = 0
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    # -- faults ----------------------------------------------------------------------------------------------------

    def is_to_blame(self, error: OSError) -> bool:
        """Whether `error` is due to a full disk or a lost directory. If so, the run waits from now on."""
        if error.errno in _FULL:
            self._run_short()
            return True
        return self.is_gone()

    def look(self) -> bool:
        """Check the disk after a trial has failed, since that may be the cause. Return whether the run has to wait."""
        if self.trouble or self.is_gone():
            return True
        if shutil.disk_usage(self._directory).free < RESERVE_BYTES:
            probe = os.path.join(self._directory, files.temporary_name())
            try:
                self._write(probe)
                files.remove_file(probe)
            except OSError as error:
                return self.is_to_blame(error)
        return False

    def is_gone(self) -> bool:
        """Whether the directory is no longer at its path. If so, the run waits from now on."""
        if self._is_there():
            return False
        if not self.has_gone:
            self.has_gone = True
            self.trouble = f"the run's directory {self._directory} is gone"
            logger.warning(
                "%s%s: no new trials are started; the run waits %g s for it, then it ends so that it can be resumed",
                self.trouble,
                self._whereabouts(),
                PATIENCE_S,
            )
        return True

    def give_up_piece(self, error: OSError) -> bool:
        """Free a piece of the reserve if `error` shows that the disk is full.

        Returns:
            Whether a piece was freed, so that the caller should write again.
        """
        if not self.is_to_blame(error) or not self._held_bytes:
            return False
        try:
            with open(self._path, "r+b") as file:
                file.truncate(self._held_bytes - _PIECE_BYTES)
        except OSError:
            return False
        self._held_bytes -= _PIECE_BYTES
        return True

    # -- waiting ---------------------------------------------------------------------------------------------------

    def regain(self, now_s: float) -> bool:
        """Check, at most every `RETRY_S` seconds, whether the fault is gone. Return whether the run can continue."""
        if self._since_s is None:
            self._since_s = now_s
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + RETRY_S
            if self.has_gone and self._is_there():
                self.has_gone = False
                self._goes_on(f"the run's directory {self._directory} is back")
            elif not self.has_gone:
                with contextlib.suppress(OSError):
                    self._reserve()
                    self._goes_on(f"there is space again at {self._directory}")
        return not self.trouble

    def is_hopeless(self, now_s: float) -> bool:
        """Whether the run should end: it has waited for `PATIENCE_S` seconds, or half of the reserve is used up."""
        waited_s = 0.0 if self._since_s is None else now_s - self._since_s
        return waited_s >= PATIENCE_S or (not self.has_gone and self._held_bytes < RESERVE_BYTES // 2)

    def loss(self) -> TuneError | None:
        """The error of a run that ended because its directory is gone; None if it is not gone."""
        if not self.has_gone:
            return None
        return TuneError(
            f"{self.trouble}{self._whereabouts()}, and has not come back within {PATIENCE_S:g} s: the run has ended, "
            "and no trial counts as failed; put the directory back, then resume the run with "
            f"Tuner.restore({self._directory!r}, trainable).fit()"
        )

    def _goes_on(self, why: str) -> None:
        self.trouble, self._since_s, self._next_look_s = "", None, 0.0
        logger.warning("%s; the run continues", why)

    def _is_there(self) -> bool:
        if self._descriptor is None:
            return os.path.isdir(self._directory)
        try:
            # stat both each time: some file systems give a file that is not open a new inode number
            return os.path.samestat(os.stat(self._directory), os.fstat(self._descriptor))
        except OSError:
            return False

    def _whereabouts(self) -> str:
        """Where the directory is now, as a part of a sentence; empty if this is unknown."""
        try:
            path = os.readlink(f"/proc/self/fd/{self._descriptor}")
        except OSError:
            return ""
        if path.endswith(" (deleted)"):
            return " (it was removed)"
        return "" if path == os.path.realpath(self._directory) else f" (it is at {path} now)"

    def _run_short(self) -> None:
        if self.trouble:
            return
        self.trouble = f"no space is left at {self._directory}"
        logger.warning(
            "%s (%d bytes free): no new trials are started; the run waits %g s for space, then it "
            "ends so that it can be resumed",
            self.trouble,
            shutil.disk_usage(self._directory).free,
            PATIENCE_S,
        )

    def _reserve(self) -> None:
        """Reserve the full space in a new file that replaces the old one. If there is too little, the old one stays."""
        spare = os.path.join(self._directory, files.temporary_name())
        self._write(spare)
        os.replace(spare, self._path)
        self._held_bytes = RESERVE_BYTES

    def _write(self, path: str) -> None:
        """Write `RESERVE_BYTES` to a new file. The bytes are random, because some file systems store no zeros."""
        try:
            with open(path, "xb", buffering=0) as file:
                left = memoryview(os.urandom(RESERVE_BYTES))
                while left:
                    left = left[file.write(left) :]
        except OSError:
            with contextlib.suppress(OSError):
                files.remove_file(path)
            raise
