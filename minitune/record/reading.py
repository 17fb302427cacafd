"""Reading a run into a `Story`, once or again and again, without a lock: a driver may be writing.

Each reader skips lines that it does not need: `read_overview` all results, `read_run` those of a trial whose last
record has their sum, `Decisions` those without a decision. A `Listener` hears what a `RunFollower` reads.

Objects are unpickled only on request. A torn end is ignored: its record may still be on its way.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from minitune.base.checks import require, shown
from minitune.base.collecting import collector_paused
from minitune.base.files import local_path
from minitune.error import JournalCorruptError
from minitune.experiment.run_description import RunDescription
from minitune.experiment.trial import EarlierRun
from minitune.record import codec, journal, journal_lines, records
from minitune.record.layout import RunDirectory, no_run, run_path
from minitune.record.story import Effect, Story
from minitune.result import own_metrics

# An overview skips these records: they change neither the run nor the status of a trial, except for a result with which
# its trial ends.
_NOT_IN_OVERVIEW = frozenset(
    kind.encode()
    for kind in (
        records.RESULT,
        records.CHECKPOINT,
        records.DROP,
        records.ROLLBACK,
        records.EXPLOIT,
        records.CHANGE,
        records.NOTE,
        records.USAGE,
        records.STATE,
    )
)
# These records are about the run itself.
_OF_RUN = (records.RUN, records.OPEN, records.EXTEND, records.CLOSE)

_ENDS_TRIAL = b'"%b":true' % records.ENDS.encode()


def _is_not_in_overview(offset: int, line: bytes) -> bool:
    """Whether an overview skips the line at `offset`."""
    return journal_lines.head(line)[0] in _NOT_IN_OVERVIEW and _ENDS_TRIAL not in line


class Overview(Story):
    """A story without the results of its trials, as `read_overview` returns it."""

    def __init__(self, path: str):
        super().__init__(path, has_details=False)
        self.damage: JournalCorruptError | None = None


def read_overview(path: str | os.PathLike[str]) -> Overview:
    """Read the state of a run and of its trials without their results. Blocks. A driver may be running on the run.

    A damaged journal raises no error, but is in `Overview.damage`, beside what the good lines say about the run.
    TuneError: the journal cannot be read.
    """
    run = RunDirectory(local_path(path))
    has_trials = run.has_trials()  # check before reading: a directory that exists now must have a record
    story = Overview(run.path)
    is_empty = True
    damage = None
    try:
        scan = journal.scan(run.journal, leaves_out=_is_not_in_overview)
        for _ in story.follow(record for _, record in scan):
            is_empty = False
        if is_empty and has_trials:
            damage = run.lost_journal()
    except JournalCorruptError as error:
        damage = error
        story = Overview(run.path)
        good = journal.of_kinds(run.journal, *_OF_RUN)
        with contextlib.suppress(JournalCorruptError):  # good lines may be damage, too, if they come again
            for _ in story.follow(good):
                pass
    story.damage = damage
    if story.driver.ending is None:  # the last event may be a result, and results were not read
        story.noted_s = max(story.noted_s, os.path.getmtime(run.journal))
    return story


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
    is_list = isinstance(sources, Iterable) and not isinstance(sources, (str, bytes, os.PathLike, Mapping))
    is_list = is_list and not hasattr(sources, "_run")  # a ResultGrid is a sequence of results
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


class Listener:
    """Hears each effect of a story while its records are read.

    Class attributes:
        needs_results: Whether it also hears of the results that the story skips, by `tell_summed_up`.
    """

    needs_results = False

    def tell(self, effect: Effect) -> None:
        """A record has been applied. Those of results without a decision may be skipped."""

    def tell_summed_up(self, trial_id: str, metrics: dict[str, Any]) -> None:
        """A result without a decision that a later sum of its trial covers."""


class RunFollower:
    """Reads a run on which a driver may be running, and later only the new records. Takes no lock.

    Pass `unpickle` only after `lock.check_trusted`.
    """

    def __init__(self, path: str | os.PathLike[str], unpickle: bool = False, listener: Listener | None = None):
        directory = local_path(path)
        if os.path.isfile(directory):
            directory = os.path.dirname(directory)
        self._directory = RunDirectory(directory)
        self._journal = self._directory.journal
        if not os.path.isfile(self._journal):
            raise FileNotFoundError(no_run(directory))
        self.run = Story(directory)
        self._unpickle = unpickle
        self._listener = listener
        self._last: int | None = None  # the offset of the last applied record
        self._size_bytes = -1

    def read_new(self) -> bool:
        """Read the new records, and return whether there were any. Blocks.

        Raises:
            JournalCorruptError: If the journal has been damaged, or emptied.
            TuneError: See `journal.read`.
        """
        size_bytes = os.path.getsize(self._journal)
        if size_bytes == self._size_bytes:
            return False
        # A look at the size is cheap, and most looks at a run find nothing new.
        self._size_bytes = size_bytes
        before = self._last
        must_hold = before is None and self._directory.has_trials()  # a directory that exists now must have a record
        listener = self._listener
        found: Iterable[tuple[int, records.Record]]
        if before is not None:
            found = journal.scan(self._journal, self._unpickle, begin=before)
        elif listener is not None and listener.needs_results:
            summed_up = SummedUp(self._journal, listener.tell_summed_up)
            found = journal.scan(self._journal, self._unpickle, leaves_out=summed_up.takes)
        else:
            spans = cached_index(*journal_version(self._directory.path)).spans(needs_decisions=listener is not None)
            found = journal.pick(self._journal, spans, self._unpickle)

        def new_records() -> Iterator[records.Record]:
            for offset, record in found:
                if offset == before:  # the last record is read again to find its end
                    continue
                self._last = offset
                yield record

        with collector_paused():
            for effect in self.run.follow(new_records()):
                if listener is not None:
                    listener.tell(effect)
        if must_hold and self._last is None:
            raise self._directory.lost_journal()
        return self._last != before


_NO_SUM = (0, "")


class SummedUp:
    """The results of a journal without a decision that a later sum of their trial covers. The constructor blocks."""

    def __init__(self, path: str, tell: Callable[[str, dict[str, Any]], None]):
        self._tell = tell
        self._objects = journal.objects_of(path)
        self._ends: dict[bytes, tuple[int, str]] = {}  # by trial id as in JSON, the offset of the last sum, and the id
        for offset, line in journal.lines_of_kind(path, records.STATUS, holding=journal_lines.SUM):
            written = journal_lines.head(line)[1]
            self._ends[written] = offset, json.loads(b'"%b"' % written)

    def takes(self, offset: int, line: bytes) -> bool:
        """Whether the line at `offset` is such a result. Then its trial's id and its metrics are told."""
        if not line.endswith(journal_lines.UNDECIDED):
            return False
        end, trial_id = self._ends.get(journal_lines.result_of(line), _NO_SUM)
        if offset >= end:
            return False
        body = line[journal_lines.BODY : -1].decode("ascii")  # its checksum fits
        self._tell(trial_id, codec.decode_metrics(body, self._objects))
        return True


@lru_cache(maxsize=1)  # so that results, and then the reports of their trials, take one reading
def cached_index(file: str, size_bytes: int, changed_ns: int) -> journal_lines.LineIndex:
    """The index of a journal in this version."""
    return journal.index_of(file)


def journal_version(path: str | os.PathLike[str]) -> tuple[str, int, int]:
    """The journal of the run in a directory, its size in bytes, and when it was changed, in nanoseconds."""
    file = RunDirectory(local_path(path)).journal
    found = os.stat(file)
    return file, found.st_size, found.st_mtime_ns
