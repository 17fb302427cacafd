"""A run in the hands of this driver: `OpenRun` has its directory and journal, `MemoryRun` has neither.

An open run is locked against other drivers. The driver does not know which of the two it has. What an `OpenRun` writes
down, a `MemoryRun` tells to a listener, and forgets.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType

from minitune.base import files
from minitune.config import CheckpointConfig
from minitune.error import TrialError, TuneError
from minitune.execution.hooks import DriverContext, Hooks
from minitune.experiment.trial import Trial
from minitune.record import journal, records
from minitune.record.checkpoint_manager import CheckpointManager, Surplus
from minitune.record.codec import ObjectStore
from minitune.record.disk import RESERVE_BYTES, Disk, Housekeeper
from minitune.record.journal import Journal
from minitune.record.layout import RunDirectory, is_run
from minitune.record.lock import RunLock
from minitune.record.plugin_states import StateKeeper
from minitune.record.recorder import Recorder

Listener = Callable[[records.Record], None]
"""Hears of each record of a run, in order, when it is written."""


# -- in a directory ----------------------------------------------------------------------------------------------------


class OpenRun:
    """A context in which a run's directory belongs to this driver. Entering takes the lock and opens the journal.

    Args:
        run: The run's directory.
        is_new: True to begin a journal, False to go on with the one that is there.
        checkpoints: Which checkpoints are kept, by experiment.
        durability: `process`, `batched` or `strict`.
        metric: The run's metric, or None.
        mode: Its mode, or None.
        dirname_creators: Make the names of trial directories, by experiment; None for the usual ones.
        listen: Hears of each record of the trials once it is written.

    Raises:
        RunLockedError: If another driver has it.
        JournalCorruptError: If the journal cannot be trusted.
        TuneError: If a file cannot be made or read.
    """

    recorder: Recorder

    def __init__(
        self,
        run: RunDirectory,
        *,
        is_new: bool,
        checkpoints: Sequence[CheckpointConfig],
        durability: str,
        metric: str | None,
        mode: str | None,
        dirname_creators: Sequence[Callable[[Trial], str] | None],
        listen: Callable[[records.Record], None] | None = None,
    ):
        self.run = run
        self._is_new = is_new
        self._durability = durability
        self._lock = RunLock(run.lock)
        self._housekeeper = Housekeeper()
        self._disk = Disk(run.path)
        self._manager = CheckpointManager(
            *checkpoints,
            metric=metric,
            mode=mode,
            housekeeper=self._housekeeper,
            settles=durability == "batched",
        )
        self._dirname_creators = dirname_creators
        self._listen = listen
        self._journal: Journal | None = None
        self._pid = os.getpid()

    def __enter__(self) -> OpenRun:
        self._lock.acquire()
        try:
            self._prepare()
            begin = Journal.create if self._is_new else Journal.open
            self._journal = begin(self.run.journal, self._durability, self._housekeeper, self._disk, self._lock)
            if self.is_blank and self.run.has_trials():
                raise self.run.lost_journal()
            sink = self._journal if self._listen is None else _Overheard(self._journal, self._listen)
            self.recorder = Recorder(
                self.run,
                sink,
                self._manager,
                self._disk,
                self._dirname_creators,
                is_strict=self._durability == "strict",
            )
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if os.getpid() != self._pid:  # a child that a plug-in has forked is on its way out; the run goes on
            return
        try:
            if self._journal is not None:
                self._journal.close()
        finally:
            self._housekeeper.close()
            self._disk.free()
            self._lock.release()

    def _prepare(self) -> None:
        """Make way for the journal, with the lock in hand.

        The order of a run's first files leaves no doubt about a directory: an empty journal, then `tuner.pkl`, then the
        first record. So without `tuner.pkl` there is no run yet, with an empty journal one that has yet to begin, and a
        journal that is missing beside a `tuner.pkl` has been lost.
        """
        if not self._is_new and not os.path.exists(self.run.journal):
            raise TuneError(f"{self.run.journal} is missing; without it the run cannot be resumed")
        if self._is_new and is_run(self.run.path):
            raise TuneError(f"another driver has just started a run in {self.run.path}; choose another name")
        try:
            self.run.clean()
        except OSError as error:
            raise TuneError(f"the run's directory {self.run.path} cannot be used: {error}") from error
        try:
            self._disk.hold()
        except OSError as error:
            raise TuneError(
                f"{RESERVE_BYTES} bytes cannot be set aside in {self.run.path} for the record of the run "
                f"({error.strerror or error}); free some space, or choose another storage_path"
            ) from error
        if self._is_new:
            files.remove_file(self.run.journal)  # an empty one

    @property
    def objects(self) -> ObjectStore:
        """Where large values go."""
        if self._journal is None:
            raise RuntimeError("enter the OpenRun before you store something in it")
        return self._journal.objects

    @property
    def is_blank(self) -> bool:
        """Whether nothing is on record yet: a driver has ended before it had begun the run."""
        return self._journal is not None and self._journal.offset == 0

    def begin(self, first: records.Record | None = None) -> None:
        """Write the records with which a driver's work begins.

        Args:
            first: The `run` record of a new run, or None.
        """
        if self._journal is None:
            raise RuntimeError("enter the OpenRun before you begin it")
        if first is not None:
            self._journal.append(first)
        boot_id = ""  # it tells this boot of the machine from others, where that is known
        with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot_id = file.read().strip()
        self._journal.append(records.opened(os.getpid(), _start_time(), boot_id, socket.gethostname()))
        if self._durability != "process":
            self._journal.sync()  # from here on the run can be resumed, also after a power cut
            with contextlib.suppress(PermissionError):  # one may write to a directory and yet not read it
                files.sync_directory(os.path.dirname(self.run.path))

    def keeper(self, hooks: Hooks, context: DriverContext) -> StateKeeper:
        """What saves the states of the run's plug-ins."""
        return StateKeeper(self.run, self.recorder, hooks, context, self.of_kind(records.STATE))

    def read(self) -> Iterator[records.Record]:
        """The records so far, objects included: this executes code of their author."""
        return journal.read(self.run.journal, unpickle=True)

    def scan(self, listened_from: int | None = 0) -> Iterator[tuple[int, records.Record]]:
        """Like `read`, each with where it begins, in bytes.

        Args:
            listened_from: From where on each single result is needed; None: from nowhere. The results of trials
                that have ended before may be left out where the records of their ends have the sums.
        """
        from minitune.record.story import SummedUp

        path = self.run.journal
        return journal.scan(
            path, unpickle=True, leaves_out=None if listened_from == 0 else SummedUp(path, listened_from)
        )

    def of_kind(self, kind: str) -> list[records.Record]:
        """The records of one kind so far."""
        return list(journal.of_kinds(self.run.journal, kind))


class _Overheard:
    """A journal with a listener.

    Args:
        journal: The journal.
        listen: Told of each record.
    """

    def __init__(self, journal: Journal, listen: Callable[[records.Record], None]):
        self._journal = journal
        self._listen = listen

    @property
    def offset(self) -> int:
        """See `RecordSink.offset`."""
        return self._journal.offset

    @property
    def unwritten(self) -> list[bytes]:
        """See `RecordSink.unwritten`."""
        return self._journal.unwritten

    def add(self, record: records.Record) -> None:
        """See `RecordSink.add`."""
        self._journal.add(record)
        self._listen(record)

    def write(self) -> None:
        """See `RecordSink.write`."""
        self._journal.write()

    def by_reference(self, record: records.Record) -> records.Record:
        """See `RecordSink.by_reference`."""
        return self._journal.by_reference(record)


def _start_time() -> float:
    """When this process was started, in seconds since the epoch; 0 where that is not known."""
    if sys.platform != "linux":
        return 0.0
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as stat, open("/proc/stat", "rb") as system:
            ticks = int(stat.read().rpartition(")")[2].split()[19])
            boot_s = next(int(line.split()[1]) for line in system if line.startswith(b"btime"))
        return boot_s + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return 0.0


# -- in memory ---------------------------------------------------------------------------------------------------------


class MemoryRun:
    """Stands in for an `OpenRun` where nothing is to be written: no lock, no journal, no files.

    Args:
        run: Where the run would lie; nothing is made there.
        checkpoints: Which checkpoints are kept, by experiment.
        metric: The run's metric, or None.
        mode: Its mode, or None.
        listen: Hears of each record.
    """

    def __init__(
        self,
        run: RunDirectory,
        *,
        checkpoints: Sequence[CheckpointConfig],
        metric: str | None,
        mode: str | None,
        listen: Listener,
    ):
        self.run = run
        manager = CheckpointManager(*checkpoints, metric=metric, mode=mode)
        self.recorder: Recorder = _MemoryRecorder(run, _Heard(listen), manager, _NoDisk(run.path))

    def begin(self, first: records.Record | None = None) -> None:
        """See `OpenRun.begin`: nothing is written."""

    def keeper(self, hooks: Hooks, context: DriverContext) -> StateKeeper:
        """What saves the states of plug-ins: nothing does."""
        return _NoKeeper(self.run, self.recorder, hooks, context)


class _Heard:
    """A journal that passes its records on.

    Args:
        listen: To whom.
    """

    offset = 0

    def __init__(self, listen: Listener):
        self.unwritten: list[bytes] = []
        self.add = listen

    def write(self) -> None:
        """See `RecordSink.write`: nothing is written."""

    def by_reference(self, record: records.Record) -> records.Record:
        """See `RecordSink.by_reference`: nothing is stored."""
        return record


class _MemoryRecorder(Recorder):
    """Tells its journal what happens and leaves the disk alone."""

    def directory_fault(self, trial: Trial) -> OSError | None:
        """See `Recorder.directory_fault`: none is needed."""
        return None

    def prepare_directory(self, trial: Trial) -> str:
        """Where the trial's directory would be."""
        if trial.custom_dirname is None:
            trial.custom_dirname = trial.name
        return trial.local_path

    def worker_is_gone(self, trial: Trial) -> None:
        """See `Recorder.worker_is_gone`: nothing is left behind."""

    def failure(self, trial: Trial, error: TrialError) -> None:
        """See `Recorder.failure`: the error is kept in the trial."""

    def trial_ends(self, trial: Trial) -> None:
        """See `Recorder.trial_ends`."""
        self._drop(self._checkpoints.trial_ended(trial))

    def _drop(self, surplus: list[Surplus]) -> None:
        for item in surplus:
            self._journal.add(records.drop(item.trial.trial_id, item.record.number))


class _NoDisk(Disk):
    """Nothing is written, so nothing is ever wrong."""

    def look(self) -> bool:
        """Never."""
        return False

    def is_to_blame(self, error: OSError) -> bool:
        """An error of a plug-in's has nothing to do with the run."""
        return False


class _NoKeeper(StateKeeper):
    """Saves nothing."""

    def save(self, *components: str) -> None:
        """Nothing is saved."""
