"""Reading a run into a `Story`, once or again and again, without a lock: a driver may be writing.

Objects are unpickled only on request. A torn end is ignored: its record may still be on its way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from minitune.base.checks import require, shown
from minitune.base.collecting import collector_paused
from minitune.base.files import local_path
from minitune.error import JournalCorruptError
from minitune.experiment.run_description import RunDescription
from minitune.experiment.trial import EarlierRun
from minitune.record import journal, records
from minitune.record.layout import RunDirectory, no_run, run_path
from minitune.record.story import Effect, Story
from minitune.result import own_metrics

# These records are about the run itself.
_OF_RUN = (records.RUN, records.OPEN, records.EXTEND, records.CLOSE)


def read_beginnings(path: str | os.PathLike[str]) -> Story:
    """Read how a run was begun and continued, and how its drivers ended, without its trials. Blocks.

    JournalCorruptError: a record is malformed or comes twice.
    """
    run = RunDirectory(local_path(path))
    story = Story(run.path, has_details=False)
    if os.path.isfile(run.journal):
        for _ in story.follow(journal.of_kinds(run.journal, *_OF_RUN)):
            pass
    return story


def read_description(path: str | os.PathLike[str]) -> RunDescription:
    """What the last driver of a run runs; see `read_beginnings`."""
    return read_beginnings(path).description


def recorded_directories(path: str | os.PathLike[str]) -> set[str]:
    """The names of the directories that a run has given to its trials, also to those that others have replaced. Blocks.

    Raises:
        JournalCorruptError: If the journal is damaged, or holds no record: then it may be a file of something else.
        TuneError: If the journal cannot be read.
    """
    file = RunDirectory(local_path(path)).journal
    if not any(True for _ in journal.lines(file)):
        raise JournalCorruptError(f"{file} holds no record of a run")
    return {record["directory"] for record in journal.of_kinds(file, records.START)}


def read_run(path: str | os.PathLike[str], unpickle: bool = False) -> Story:
    """Read a run. Blocks. A driver may be running, and the directory may have been moved. Pass `unpickle` only after
    `lock.check_trusted`.

    Raises:
        FileNotFoundError: If there is no journal.
        JournalCorruptError: If the journal is damaged.
        TuneError: If the journal cannot be read, or was written by a newer version, or an object cannot be unpickled.
    """
    follower = RunFollower(path, unpickle)
    follower.read_new()
    return follower.run


def read_earlier(sources: Any) -> list[EarlierRun]:
    """Read the trials of earlier runs, for an argument `warm_start`: runs, objects with trials such as a `ResultGrid`,
    or results of this function. Blocks. Unpickles nothing.

    Raises:
        ValueError: If `sources` is no such list, or no trial has ended with a result.
        FileNotFoundError: If a directory holds no run.
        TuneError: If a run cannot be read.
    """
    is_list = isinstance(sources, (list, tuple))
    require(is_list, "warm_start: a list of directories of runs, or of ResultGrids", sources)
    found = []
    for source in sources:
        if isinstance(source, EarlierRun):
            found.append(source)
            continue
        results = getattr(source, "_run", None)  # of a ResultGrid or an ExperimentAnalysis
        if isinstance(source, (str, os.PathLike)):
            run = read_run(run_path(source))
            earlier = EarlierRun.of(run.path, run.trials)
        elif results is not None:
            earlier = EarlierRun.of(results.path, results.trials)
        else:
            raise ValueError(f"warm_start must hold directories of runs, or ResultGrids, but got {shown(source)}")
        if not any(own_metrics(metrics or {}) for _, metrics in earlier.tried):
            raise ValueError(f"warm_start: no trial of the run in {earlier.path} has ended with a result; leave it out")
        found.append(earlier)
    return found


class RunFollower:
    """Reads a run on which a driver may be running, and later only the new records. Takes no lock.

    Args:
        unpickle: Only after `lock.check_trusted`.
        listener: Hears the effect of each record that is read.
    """

    def __init__(
        self, path: str | os.PathLike[str], unpickle: bool = False, listener: Callable[[Effect], object] | None = None
    ):
        directory = local_path(path)
        self._directory = RunDirectory(directory)
        self._journal = self._directory.journal
        self.run = Story(directory)
        self._unpickle = unpickle
        self._listener = listener
        self._last: int | None = None  # the offset of the last applied record
        self._size_bytes = -1

    def read_new(self) -> bool:
        """Read the new records, and return whether there were any. Blocks.

        Raises:
            JournalCorruptError: If the journal has been damaged, or emptied.
            FileNotFoundError: If there is no journal.
            TuneError: See `journal.read`.
        """
        if not os.path.isfile(self._journal):
            raise FileNotFoundError(no_run(self.run.path))
        size_bytes = os.path.getsize(self._journal)
        if size_bytes == self._size_bytes:
            return False
        # A look at the size is cheap, and most looks at a run find nothing new.
        self._size_bytes = size_bytes
        before = self._last
        must_hold = before is None and self._directory.has_trials()  # a directory that exists now must have a record
        listener = self._listener
        found = journal.scan(self._journal, self._unpickle, before or 0)

        def new_records() -> Iterator[records.Record]:
            for offset, record in found:
                if offset == before:  # the last record is read again to find its end
                    continue
                self._last = offset
                yield record

        with collector_paused():
            for effect in self.run.follow(new_records()):
                if listener is not None:
                    listener(effect)
        if must_hold and self._last is None:
            raise self._directory.lost_journal()
        return self._last != before


def journal_version(path: str | os.PathLike[str]) -> tuple[str, int, int]:
    """The journal of the run in a directory, its size in bytes, and when it was changed, in nanoseconds."""
    file = RunDirectory(local_path(path)).journal
    found = os.stat(file)
    return file, found.st_size, found.st_mtime_ns
