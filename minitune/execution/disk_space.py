"""DiskSpace: some space kept for the journal, so that a full disk ends a run in order and loses nothing.

A file of 64 kB lies beside the journal. Where the disk is full, it is given up piece by piece, each as the journal
needs it, since workers would at once use up whatever is free. Meanwhile no trial is started, and the driver looks for a
while whether there is space again.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil

from minitune.execution import files

logger = logging.getLogger("minitune")

RESERVE_BYTES = 64 * 1024
PATIENCE_S = 30.0
"""How long a run waits for space before it ends, to be resumed."""
RETRY_S = 1.0
"""How often it looks."""
_PIECE_BYTES = 8 * 1024
_FULL = (errno.ENOSPC, errno.EDQUOT)


class DiskSpace:
    """The space kept for the journal of one run. Times are seconds of any clock that the caller always uses.

    Args:
        directory: The run's directory.
    """

    def __init__(self, directory: str):
        self.is_short = False
        self._directory = directory
        self._path = os.path.join(directory, "reserve")
        self._held_bytes = 0
        self._since_s: float | None = None
        self._next_look_s = 0.0

    def hold(self) -> None:
        """Set the space aside.

        Raises:
            OSError: If there is not so much.
        """
        self._write(self._path)
        self._held_bytes = RESERVE_BYTES

    def free(self) -> None:
        """The run ends: the space is not needed any more."""
        self._held_bytes = 0
        with contextlib.suppress(OSError):
            files.remove_file(self._path)

    def give_up_piece(self, error: OSError) -> bool:
        """The journal could not be written; let go of a piece of the reserve if that was for want of space.

        Returns:
            Whether it makes sense to write once more.
        """
        if not self.is_lack(error):
            return False
        if not self._held_bytes:
            return False
        try:
            os.truncate(self._path, self._held_bytes - _PIECE_BYTES)
        except OSError:
            return False
        self._held_bytes -= _PIECE_BYTES
        return True

    def is_lack(self, error: OSError) -> bool:
        """Whether an error says that there is no space left; if so, the run is short of it from now on."""
        if error.errno not in _FULL:
            return False
        self._run_short()
        return True

    def look(self) -> bool:
        """Whether the run is short of space; looks at the disk, for a trial has failed, and that may be why."""
        if not self.is_short and shutil.disk_usage(self._directory).free < RESERVE_BYTES:
            probe = os.path.join(self._directory, files.temporary_name())
            try:
                self._write(probe)
                files.remove_file(probe)
            except OSError as error:
                return self.is_lack(error)
        return self.is_short

    def regain(self, now_s: float) -> bool:
        """Look, now and then, whether there is space again, and set it aside anew.

        Args:
            now_s: The time.

        Returns:
            Whether there is.
        """
        if self._since_s is None:
            self._since_s = now_s
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + RETRY_S
            with contextlib.suppress(OSError):
                # beside the old one, which stays what it is if there is no space
                spare = os.path.join(self._directory, files.temporary_name())
                self._write(spare)
                files.replace(spare, self._path)
                self._held_bytes, self.is_short, self._since_s, self._next_look_s = RESERVE_BYTES, False, None, 0.0
                logger.warning("there is space again at %s; the run goes on", self._directory)
        return not self.is_short

    def is_hopeless(self, now_s: float) -> bool:
        """Whether the run should end: it has waited long enough, or half of the reserve is used up.

        Args:
            now_s: The time.
        """
        waited_s = 0.0 if self._since_s is None else now_s - self._since_s
        return waited_s >= PATIENCE_S or self._held_bytes < RESERVE_BYTES // 2

    def _run_short(self) -> None:
        if self.is_short:
            return
        self.is_short = True
        free_bytes = shutil.disk_usage(self._directory).free
        logger.warning(
            "no space is left at %s (%d bytes free): no new trials are started; the run waits %g s for space, then it "
            "ends so that it can be resumed",
            self._directory,
            free_bytes,
            PATIENCE_S,
        )

    def _write(self, path: str) -> None:
        """Take up space in a file, as random bytes since some file systems would take up none for zeros."""
        try:
            with open(path, "wb", buffering=0) as file:
                left = memoryview(os.urandom(RESERVE_BYTES))
                while left:
                    left = left[file.write(left) :]
        except OSError:
            with contextlib.suppress(OSError):
                files.remove_file(path)
            raise
