"""The disk under a run: the thread that syncs, settles and deletes, and the patience of a run that cannot write.

The `Housekeeper` does what must not hold up the driver's loop, and nothing else.

`Disk` knows whether the run can be written down. Two things may stop that:

* The disk is full. A file of 64 kB lies beside the journal for this. It is given up piece by piece, each as the journal
  needs it, since workers would at once use up whatever is free.
* The run's directory is gone: it was renamed or removed, or a mount was lost. The run holds a descriptor of the
  directory, so that it does not take another one at the same path for its own. Open files stay open: the journal goes
  on where it is, so nothing is lost if the directory was only moved.

In either case no trial is to blame, and none is started. The driver looks for a while whether it can go on. Then it
ends the run so that it can be resumed.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Protocol

from minitune.base import descriptors, files
from minitune.error import TuneError

logger = logging.getLogger("minitune")

SYNC_DELAY_S = 0.05
"""From a journal's first unsynced record to the sync: half of the promised 100 ms, the rest is for a late thread."""

SYNC_SHARE = 0.05
"""Syncs that would take more than this share of the time wait longer: some disks need 30 ms for one."""

SETTLE_PERIOD_S = 1.0
"""A trial's checkpoints are settled at most once in this time."""

CLOSE_LIMIT_S = 10.0
"""How long the end of a run waits for deletions and settling. The rest is removed at the next open."""

RESERVE_BYTES = 64 * 1024

PATIENCE_S = 30.0
"""How long a run waits before it ends, to be resumed."""

RETRY_S = 1.0
"""How often it looks."""

_PIECE_BYTES = 8 * 1024

_FULL = (errno.ENOSPC, errno.EDQUOT)


# -- sync, settle, delete ----------------------------------------------------------------------------------------------


class Syncable(Protocol):
    """A file that can be synced from another thread: a journal."""

    def sync(self) -> None:
        """Bring everything written so far to the disk. Blocks; raises nothing, keeps its failure."""
        ...


class Housekeeper:
    """Does the chores of a run on one thread, which is started with the first chore and joined by `close`.

    Chores are done in small steps with syncs between them, so that removing a large checkpoint delays no sync.
    Time is always real here, also in a run on a virtual clock: disks do not simulate.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._syncs: dict[Syncable, float] = {}
        self._last_sync_s: dict[Syncable, float] = {}
        self._deletions: deque[tuple[str, str]] = deque()
        self._settles: dict[str, tuple[float, str]] = {}
        self._settling: tuple[str, str] | None = None
        self._settled: dict[str, str] = {}
        self._next_settle: dict[str, float] = {}
        self._close_by: float | None = None
        self._is_busy = False

    # -- chores ------------------------------------------------------------------------------------------------

    def sync_soon(self, journal: Syncable, delay_s: float = SYNC_DELAY_S) -> None:
        """Sync `journal` within 100 ms, or later where that would take too much of the time. Does not block.

        Args:
            journal: The journal.
            delay_s: Not before so many seconds have passed.
        """
        with self._changed:
            last_s = self._last_sync_s.get(journal, 0.0)
            delay_s = max(delay_s, last_s * (1 / SYNC_SHARE - 1))
            self._syncs.setdefault(journal, time.monotonic() + delay_s)
            self._wake()

    def forget(self, journal: Syncable) -> None:
        """Do not sync `journal` any more: it syncs itself and closes."""
        with self._changed:
            self._syncs.pop(journal, None)
            self._last_sync_s.pop(journal, None)

    def delete(self, path: str, within: str) -> None:
        """Remove a directory, a file or a link that lies in the run. Does not block; a failure is logged.

        Args:
            path: The file or directory to remove.
            within: See `files.entry_of`.
        """
        with self._changed:
            self._deletions.append((path, within))
            self._wake()

    def settle(self, key: str, directory: str) -> None:
        """Bring a checkpoint to the disk; a later one under the same key takes its place. Does not block.

        Args:
            key: The trial's id.
            directory: The checkpoint's directory.
        """
        with self._changed:
            due = self._next_settle.get(key, 0.0)
            self._settles[key] = (due, directory)
            self._wake()

    def settled(self, key: str) -> tuple[str, ...]:
        """The directories under `key` that must stay: the newest settled one, and one that is being settled now."""
        with self._changed:
            found = [self._settled[key]] if key in self._settled else []
            if self._settling is not None and self._settling[0] == key:
                found.append(self._settling[1])
            return tuple(found)

    # -- life --------------------------------------------------------------------------------------------------

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until there is nothing to do, settling in its own time included. Blocks.

        Returns:
            False after `timeout_s` seconds.
        """
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_busy and not self._has_chores(), timeout_s)

    def close(self, limit_s: float = CLOSE_LIMIT_S) -> None:
        """Do what is left, without further delay, and end the thread. Blocks. Further chores start it anew.

        Args:
            limit_s: Give up on deletions and settling after so many seconds; a single one in progress may take longer.
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
        """Start the thread if there is none, else tell it that there is something new. Holds the condition."""
        if self._thread is None:
            # A daemon, so that an interpreter that ends without `close` is not held up.
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
                self._do_steps(files.remove_tree_steps(*deletion), "removed", deletion[0])

    def _wait_for_chore(self) -> bool:
        """Wait until something is due; False if the thread is to end. Holds the condition, lets go of it to wait."""
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
        """The next (key, directory) to settle, if one is due. Holds the condition."""
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
                journal = next((one for one, due in self._syncs.items() if due <= now or closing), None)
                if journal is None:
                    return
                del self._syncs[journal]
            begin = time.monotonic()
            journal.sync()
            with self._changed:
                self._last_sync_s[journal] = time.monotonic() - begin

    def _do_settle(self, key: str, directory: str) -> None:
        again = functools.partial(self.settle, key, directory)
        done = self._do_steps(files.settle_steps(directory), "brought to the disk", directory, again)
        with self._changed:
            self._settling = None
            if done:
                self._settled[key] = directory

    def _do_steps(self, steps: Iterator[None], what: str, path: str, again: Callable[[], object] | None = None) -> bool:
        """Do a chore with syncs between its steps. Nothing that it raises ends the thread.

        Args:
            steps: The chore.
            what: Its purpose, for the log.
            path: To what.
            again: Called if there is no descriptor left for it now.

        Returns:
            Whether it was completed.
        """
        try:
            for _ in steps:
                self._sync_due()
                if self._close_by is not None and time.monotonic() > self._close_by:
                    return False
        except FileNotFoundError:
            return False  # a checkpoint that was dropped, or a directory that the user has removed
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
    """The place of one run on disk. Times are seconds of any clock that the caller always uses.

    Any thread may ask `is_gone`; everything else is for one.

    Args:
        directory: The run's directory.

    Attributes:
        trouble: Why nothing can be written now, as the end of a sentence; empty if all is well.
        has_gone: Whether that is because the directory is gone.
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

    @property
    def is_down(self) -> bool:
        """Whether the run waits: no trials are started."""
        return bool(self.trouble)

    def hold(self) -> None:
        """Set the space aside, and remember which directory it is.

        Raises:
            OSError: If there is not so much space.
        """
        self._reserve()
        if sys.platform != "win32":  # there a directory in which a file is open can be neither renamed nor removed
            self._descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)

    def free(self) -> None:
        """The run ends: the space is not needed any more."""
        if self._is_there():  # also when all of it was given up: an empty file is left then
            with contextlib.suppress(OSError):
                files.remove_file(self._path)
        self._held_bytes = 0
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    # -- what is wrong ---------------------------------------------------------------------------------------------

    def is_to_blame(self, error: OSError) -> bool:
        """Whether something could not be written or read because of the disk; if so, the run waits from now on."""
        if error.errno in _FULL:
            self._run_short()
            return True
        return self.is_gone()

    def look(self) -> bool:
        """Whether the run has to wait; looks at the disk, for a trial has failed, and that may be why."""
        if self.is_down or self.is_gone():
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
        """Whether the directory is not at its path any more; if so, the run waits from now on."""
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
        """The journal could not be written; let go of a piece of the reserve if that was for want of space.

        Returns:
            Whether it makes sense to write once more.
        """
        if not self.is_to_blame(error) or not self._held_bytes:
            return False
        try:
            with open(files.open_own(self._path, os.O_RDWR, within=self._directory), "r+b") as file:
                file.truncate(self._held_bytes - _PIECE_BYTES)
        except OSError:
            return False
        self._held_bytes -= _PIECE_BYTES
        return True

    # -- waiting ---------------------------------------------------------------------------------------------------

    def regain(self, now_s: float) -> bool:
        """Look, now and then, whether the run can go on.

        Args:
            now_s: The time.

        Returns:
            Whether it can.
        """
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
        return not self.is_down

    def is_hopeless(self, now_s: float) -> bool:
        """Whether the run should end: it has waited long enough, or half of the reserve is used up.

        Args:
            now_s: The time.
        """
        waited_s = 0.0 if self._since_s is None else now_s - self._since_s
        return waited_s >= PATIENCE_S or (not self.has_gone and self._held_bytes < RESERVE_BYTES // 2)

    def loss(self) -> TuneError | None:
        """The error of a run that has ended because its directory is gone; None if it is not gone."""
        if not self.has_gone:
            return None
        return TuneError(
            f"{self.trouble}{self._whereabouts()}, and has not come back within {PATIENCE_S:g} s: the run has ended, "
            "and no trial counts as failed; put the directory back, then resume the run with "
            f"Tuner.restore({self._directory!r}, trainable).fit()"
        )

    def _goes_on(self, why: str) -> None:
        self.trouble, self._since_s, self._next_look_s = "", None, 0.0
        logger.warning("%s; the run goes on", why)

    def _is_there(self) -> bool:
        if self._descriptor is None:
            return os.path.isdir(self._directory)
        try:
            # ask for both: some file systems give a file that is not open a new number
            return os.path.samestat(os.stat(self._directory), os.fstat(self._descriptor))
        except OSError:
            return False

    def _whereabouts(self) -> str:
        """Where the directory is instead, as a part of a sentence; empty if that is not known."""
        try:
            path = os.readlink(f"/proc/self/fd/{self._descriptor}")
        except OSError:
            return ""
        if path.endswith(" (deleted)"):
            return " (it was removed)"
        return "" if path == os.path.realpath(self._directory) else f" (it is at {path} now)"

    def _run_short(self) -> None:
        if self.is_down:
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
        """Set the space aside: beside what is left of it, which stays what it is if there is not so much."""
        spare = os.path.join(self._directory, files.temporary_name())
        self._write(spare)
        files.replace(spare, self._path)
        self._held_bytes = RESERVE_BYTES

    def _write(self, path: str) -> None:
        """Take up space in a new file, as random bytes since some file systems would take up none for zeros."""
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with open(files.open_own(path, flags, within=self._directory), "wb", buffering=0) as file:
                left = memoryview(os.urandom(RESERVE_BYTES))
                while left:
                    left = left[file.write(left) :]
        except OSError:
            with contextlib.suppress(OSError):
                files.remove_file(path)
            raise
