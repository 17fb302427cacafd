"""Disk: whether a run can be written down, and its patience while it cannot. Its directory may be full, or gone.

Full: a file of 64 kB lies beside the journal. Where the disk is full, it is given up piece by piece, each as the
journal needs it, since workers would at once use up whatever is free.

Gone: the directory was renamed or removed, or a mount was lost. A descriptor of it is held, so that another directory
at its path is not taken for it. What is open stays open: the journal goes on where it is, so nothing is lost if the
directory was only moved.

In either case no trial is to blame, and none is started. The driver looks for a while whether it can go on; then it
ends the run so that it can be resumed.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import sys

from minitune.base import files
from minitune.error import TuneError

logger = logging.getLogger("minitune")

RESERVE_BYTES = 64 * 1024
PATIENCE_S = 30.0
"""How long a run waits before it ends, to be resumed."""
RETRY_S = 1.0
"""How often it looks."""
_PIECE_BYTES = 8 * 1024
_FULL = (errno.ENOSPC, errno.EDQUOT)


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
        """What a run has to raise that has ended because its directory is gone; None if it is not gone."""
        if not self.has_gone:
            return None
        return TuneError(
            f"{self.trouble}{self._whereabouts()}, and has not come back within {PATIENCE_S:g} s: the run has ended, "
            "and no trial is to blame; put the directory back, then resume the run with "
            f"Tuner.restore({self._directory!r}, trainable).fit()"
        )

    def _goes_on(self, why: str) -> None:
        self.trouble, self._since_s, self._next_look_s = "", None, 0.0
        logger.warning("%s; the run goes on", why)

    def _is_there(self) -> bool:
        if self._descriptor is None:
            return os.path.isdir(self._directory)
        try:
            # both anew: some file systems number what nobody has open anew
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
