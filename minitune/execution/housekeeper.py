"""Housekeeper: one thread that does what must not hold up the driver's loop: sync, settle, delete; nothing else."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Protocol

from minitune import _descriptors
from minitune.base import files

logger = logging.getLogger("minitune")

SYNC_DELAY_S = 0.05
"""From a journal's first unsynced record to the sync: half of the promised 100 ms, the rest is for a late thread."""
SYNC_SHARE = 0.05
"""Syncs that would take more than this share of the time wait longer: some disks need 30 ms for one."""
SETTLE_PERIOD_S = 1.0
"""A trial's checkpoints are settled at most once in this time."""
CLOSE_LIMIT_S = 10.0
"""How long the end of a run waits for deletions and settling. What is left over is removed at the next open."""


class Syncable(Protocol):
    """What can be synced from another thread: a journal."""

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
            path: What is removed.
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
            what: What it does, for the log.
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
            if again is not None and self._close_by is None and _descriptors.is_lack(error):
                again()
            else:
                logger.warning("%s could not be %s: %s", path, what, error)
            return False
        finally:
            if isinstance(steps, Generator):
                with contextlib.suppress(Exception):
                    steps.close()  # it may hold descriptors
        return True
