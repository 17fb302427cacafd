"""MemoryRun: a run without a directory. What an `OpenRun` writes down is told to a listener and forgotten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType

from minitune.config import CheckpointConfig
from minitune.error import TrialError
from minitune.execution import records
from minitune.execution.checkpoint_manager import CheckpointManager, Surplus
from minitune.execution.disk import Disk
from minitune.execution.hooks import Hooks
from minitune.execution.plugin_states import StateKeeper
from minitune.execution.recorder import Recorder
from minitune.execution.scheduler_context import DriverContext
from minitune.execution.storage import RunDirectory
from minitune.experiment.trial import Trial

Listener = Callable[[records.Record], None]
"""Hears of each record of a run, in order, when it is written."""


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

    def __enter__(self) -> MemoryRun:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        return None

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
        self.append = listen

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
            self._journal.append(records.drop(item.trial.trial_id, item.record.number))


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

    def save_if_due(self) -> None:
        """Nothing is due."""

    def save(self, *components: str) -> None:
        """Nothing is saved."""
