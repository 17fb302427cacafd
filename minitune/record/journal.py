"""Journal: the append-only log of a run. Each event is written to it before it is acknowledged.

A journal is one file with one writer and one line per event: `crc32 in 8 hex digits, space, JSON, newline`. Lines are
written by one unbuffered write, and then survive the death of the process. The housekeeper syncs them soon after.

If the disk refuses a write or a sync, the run ends, and also if the file is gone or was changed. `close` writes a
removed file again, from its descriptor.

A killed writer or a power cut leaves at most a *torn end*: bad lines without a good line after them, or one with zeros
in place of a page, whatever follows. The next open moves it to a separate file. Any other bad line means a lost record:
an error.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

from minitune.base import files
from minitune.base.disk import disk_error, gone_error, reason_of, refusal
from minitune.base.shared_values import ObjectStore
from minitune.error import JournalCorruptError, ObjectLostError, TuneError
from minitune.record import codec, records
from minitune.record.housekeeper import Housekeeper
from minitune.record.lock import OBJECTS_DIRECTORY, RunLock, is_at

logger = logging.getLogger("minitune")

_FLAGS = os.O_RDWR | os.O_APPEND
LOOK_S = 1.0
"""Seconds between two checks of the file. Not measured: with more, more is written that is lost."""
# For copies, and for reading line by line. Not measured.
_CHUNK_BYTES = 1 << 20
_BUFFER_BYTES = 1 << 16
_BODY = 9
"""The position of the JSON in a line, after eight digits and a space."""
_HEAD = re.compile(rb'\{"%b":"(\w+)"(?:,"trial":"([^"]*)")?' % records.KIND.encode())
_ZEROS = re.compile(rb"\0+")
_SECTOR_BYTES = 512


RecordHook = Callable[[records.Record], None]
"""Called with each record of a run, in order."""


class Journal:
    """The writer of a journal. Only one thread may use it, except for `sync`.

    Args:
        path: The file.
        lock: The run's lock. The run ends if it is removed.
        listen: Called with each record when it has been added.
        is_new: Whether to create the file; if not, the constructor blocks while it checks the whole file, and moves a
            torn end away.

    Attributes:
        offset: The journal's length in bytes, without the unwritten records.
        unwritten: The records for the next `write`, as `codec.encode` makes them.

    Raises:
        JournalCorruptError: If there is a bad line before good lines.
        TuneError: If the file cannot be created or opened, or was written by a newer version.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        housekeeper: Housekeeper,
        lock: RunLock | None = None,
        *,
        is_new: bool,
        listen: RecordHook | None = None,
    ):
        path = os.path.abspath(path)
        try:
            if is_new:
                descriptor = _create(path)
            else:
                descriptor = _open(path, _end_of(path))
        except OSError as error:
            raise _os_error(path, "created" if is_new else "opened", error) from error
        self.objects = _objects_of(path)
        self.unwritten: list[str] = []
        self.offset = os.fstat(descriptor).st_size
        self._path = path
        self._directory = os.path.dirname(path)
        self._descriptor = descriptor
        self._is_closed = False
        self._lock = lock
        self._listen = listen
        self._next_look_s = 0.0
        self._failure: TuneError | None = None
        self._is_unsynced = False
        self._sync_guard = threading.Lock()  # held during a sync, so that the file is not closed meanwhile
        self._housekeeper = housekeeper

    def append(self, record: dict[str, Any]) -> None:
        """Write one record, and those that were added before. Blocks and raises like `add` and `write`."""
        self.add(record)
        self.write()

    def add(self, record: dict[str, Any]) -> None:
        """Encode a record for the next `write`. Blocks while large objects are stored. Later changes of the record have
        no effect.

        Raises:
            DiskError: If an object could not be stored.
        """
        try:
            self.unwritten.append(codec.encode(record, self.objects))
        except OSError as error:
            raise self.fail(self.objects.directory, "written", error) from error
        if self._listen is not None:
            self._listen(record)

    def write(self) -> None:
        """Write the added records.

        Raises:
            DiskError: If the records could not be written (then no part of them is there), the last sync has failed, or
                the file or the run's directory is gone. Nothing more is written then.
            TuneError: If another program has changed the file, or the journal is closed.
        """
        if not self.unwritten:
            return
        if self._failure is not None or self._is_closed:
            raise self._failure or TuneError(f"the journal {self._path} is closed")
        now_s = time.monotonic()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + LOOK_S
            self.look()
        lines = []
        for text in self.unwritten:
            body = text.encode("ascii")
            lines.append(b"%08x %b\n" % (zlib.crc32(body), body))
        # One call for all lines of a turn: a kill can tear only their end, and the driver waits once.
        data = b"".join(lines)
        try:
            written = os.write(self._descriptor, data)
            if written < len(data):
                files.finish_append(self._descriptor, data, written)
        except OSError as error:
            raise self.fail(self._path, "written", error) from error
        self.offset += len(data)
        self.unwritten.clear()
        if not self._is_unsynced:
            self._is_unsynced = True
            self._housekeeper.sync_soon(self.sync)

    def sync(self) -> None:
        """Sync everything written so far to the disk. Blocks. After an error the next `write` or `close` raises it.

        It is not tried again: the content of the disk is unknown then, and a second sync may wrongly succeed.
        """
        self._is_unsynced = False  # before the sync, so that a write during the sync asks for another one
        with self._sync_guard:
            if self._is_closed or self._failure is not None:
                return
            try:
                self.objects.sync()
                files.sync_descriptor(self._descriptor)
            except OSError as error:
                self.fail(self._path, "synced to the disk", error)

    def fail(self, path: str, action: str, error: OSError) -> TuneError:
        """Note that the disk has refused a file, so that nothing more is written; return the first error. `action`, a
        participle, is what could not be done. Any thread may call this.
        """
        # The first failure is the one that the user sees. If the run's directory goes away, the housekeeper's sync may
        # meet that before the driver's next look. Its ENOENT would send the user to a file instead of the directory.
        gone = self._missing()
        if gone is not None:
            return self._fail(gone_error(self._directory, gone), error)
        return self._fail(disk_error(self._directory, path, action, error), error)

    def _fail(self, failure: TuneError, cause: OSError | None = None) -> TuneError:
        if self._failure is None:
            failure.__cause__ = cause
            self._failure = failure
        return self._failure

    def look(self) -> None:
        """Check that the file is at its path and as long as what was written.

        Raises:
            DiskError: If the file, the lock or the run's directory is not at its path.
            TuneError: If another program has changed the file.
        """
        if self._is_closed:
            return
        # A longer file has a second writer, and a shorter one was cut. The checksums of its lines would fit
        # nevertheless.
        length = os.fstat(self._descriptor).st_size
        if length != self.offset:
            raise self._fail(
                TuneError(
                    f"the journal {self._path} was changed by another program during the run: it has {length} bytes, "
                    f"but {self.offset} were written; put back a copy, then resume the run"
                )
            )
        gone = self._missing()
        if gone is not None:
            raise self._fail(gone_error(self._directory, gone))

    def _missing(self) -> str | None:
        """The path of the run's directory, the file or the lock if it is not there any more. Any thread may call it."""
        if self._is_closed:
            return None
        if not os.path.isdir(self._directory):
            return self._directory
        if not is_at(self._path, self._descriptor):
            return self._path
        if self._lock is not None and not self._lock.is_in_place():  # so another driver could take it
            return self._lock.path
        return None

    def _put_back(self) -> None:
        """Write a copy of a removed file to its path. Blocks. Another file in its place is renamed."""
        try:
            if os.path.lexists(self._path):
                os.rename(self._path, files.free_name(f"{self._path}.other"))
            with files.new_file(self._path, files.OWN_FILE_MODE, sync=True) as copy:
                os.lseek(self._descriptor, 0, os.SEEK_SET)
                while chunk := os.read(self._descriptor, _CHUNK_BYTES):
                    copy.write(chunk)
        except OSError as error:
            logger.error("%s, so its records are lost", refusal(self._path, "written again", error))

    def close(self) -> None:
        """Sync the journal and close it. Blocks. A second call does nothing.

        A removed file is written again, unless the run's directory is gone, too.

        Raises:
            TuneError: If a write, a sync or `look` has failed.
        """
        if self._is_closed:
            return
        # Its thread may outlive this journal, and must not sync a closed descriptor.
        self._housekeeper.forget_sync()
        self.sync()
        with contextlib.suppress(TuneError):  # it is raised below
            self.look()
        if self._missing() == self._path:
            self._put_back()
        # The housekeeper may just be syncing this descriptor, and its number may be given to another file.
        with self._sync_guard:
            self._is_closed = True
            os.close(self._descriptor)
        if self._failure is not None:
            raise self._failure


def _create(path: str) -> int:
    """Create the file of a journal, and return its descriptor. Blocks for a sync."""
    descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, files.OWN_FILE_MODE)
    try:
        # After a power cut the synced records would be lost if the name of the file were not on the disk.
        files.sync_directory(os.path.dirname(path))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _open(path: str, good_bytes: int) -> int:
    """Open the file of a journal, and return its descriptor. A torn end is moved away."""
    if good_bytes < os.path.getsize(path):
        _cut(path, good_bytes)
    return os.open(path, _FLAGS)


# -- reading -------------------------------------------------------------------------------------------------------


def head(line: bytes) -> tuple[bytes, bytes]:
    """The kind of a line's record, and its trial's id as in JSON, without decoding; both empty for a bad line.

    The id is empty for a record about the run.
    """
    found = _HEAD.match(line, _BODY)
    if found is None:
        return b"", b""
    return found[1], found[2] or b""


def _is_good(line: bytes) -> bool:
    """Whether a line consists of a checksum, a space, JSON in ASCII and a newline, and the checksum fits."""
    if line[-1:] != b"\n" or line[8:9] != b" " or not line.isascii():
        return False
    # compare texts, not numbers: a flipped bit may only change the case of a hex digit
    return line[:8] == b"%08x" % zlib.crc32(line[_BODY:-1])


def _lacks_pages(offset: int, line: bytes) -> bool:
    """Whether zeros stand in the bad line at `offset`, in bytes, up to the end of a sector. A power cut leaves them
    where a page has not reached the disk, although later ones have.
    """
    for zeros in _ZEROS.finditer(line):
        sector_end = (offset + zeros.end()) // _SECTOR_BYTES * _SECTOR_BYTES
        if sector_end > offset + zeros.start():
            return True
    return False


def _each_line(file: BinaryIO, begin: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line) from the line at `begin`, in bytes, up to the present length of the file."""
    size_bytes = os.fstat(file.fileno()).st_size  # fixed now, since a driver may write faster than this reads
    offset = begin
    file.seek(begin)
    # Lines that a file yields cost a third of those of a split block: each takes the memory of the one before.
    for line in file:
        yield offset, line
        offset += len(line)
        if offset >= size_bytes:
            return


@contextlib.contextmanager
def _reading(path: str) -> Iterator[BinaryIO]:
    """A journal as a file to read, with TuneErrors in place of OSErrors."""
    try:
        with open(path, "rb", buffering=_BUFFER_BYTES) as file:
            yield file
    except OSError as error:
        raise _os_error(path, "read", error) from error


def lines(path: str | os.PathLike[str], begin: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield (offset in bytes, line) of a journal, which another process may be writing, from the line at `begin` on.
    Blocks. Each line is checked; a torn end is left out.

    Raises:
        JournalCorruptError: If there is a bad line before good lines. It is raised there.
        TuneError: If the file cannot be read, or was written by a newer version.
    """
    file_path = os.path.abspath(path)
    with _reading(file_path) as file:
        for offset, line in _each_line(file, begin):
            if not _is_good(line):
                _require_torn(file, file_path, offset, line)
                return
            # Whatever follows another first record is not ours to interpret.
            if offset == 0:
                _check_schema(file_path, line)
            yield offset, line


def scan(path: str | os.PathLike[str], unpickle: bool = False, begin: int = 0) -> Iterator[tuple[int, records.Record]]:
    """Like `read`, but yields (offset in bytes, record), from the record at `begin` on."""
    file_path = os.path.abspath(path)
    objects = _objects_of(file_path)
    for offset, line in lines(file_path, begin):
        yield offset, _decode(file_path, offset, line, unpickle, objects)


def read(path: str | os.PathLike[str], unpickle: bool = False) -> Iterator[records.Record]:
    """Read the records of a journal, one after the other, as `lines`. Blocks. Pass `unpickle` only after
    `lock.check_trusted`.

    Raises:
        JournalCorruptError: See `lines`; or a line has no record, or an object is damaged.
        TuneError: See `lines`; or an object cannot be unpickled.
    """
    for _, record in scan(path, unpickle):
        yield record


def at(path: str | os.PathLike[str], offsets: Iterable[int]) -> Iterator[records.Record]:
    """Read the records at some offsets, in bytes, without unpickling. Blocks, and raises as `read`."""
    file_path = os.path.abspath(path)
    objects = _objects_of(file_path)
    with _reading(file_path) as file:
        for offset in offsets:
            file.seek(offset)
            line = file.readline()
            if not _is_good(line):
                raise _no_record(file_path, offset, "it was changed while it was read")
            yield _decode(file_path, offset, line, False, objects)


def _decode(path: str, offset: int, line: bytes, unpickle: bool, objects: ObjectStore) -> records.Record:
    """The record in the good line at `offset`."""
    try:
        return codec.decode(line[_BODY:-1].decode("ascii"), unpickle, objects)
    except ValueError as error:
        raise _no_record(path, offset, str(error)) from error
    except ObjectLostError as error:
        raise JournalCorruptError(
            f"{error}. Put back a copy; or {_way_out('the record that names it', path, offset)}"
        ) from error


def _no_record(path: str, offset: int, why: str) -> JournalCorruptError:
    return JournalCorruptError(
        f"the journal {path} has no record at byte {offset}: {why}. Read it again, or put back a copy"
    )


def of_kinds(path: str | os.PathLike[str], *kinds: str) -> Iterator[records.Record]:
    """Read only the records of some kinds, in order, without unpickling. Blocks. Bad lines are left out."""
    file_path = os.path.abspath(path)
    objects = _objects_of(file_path)
    marks = tuple(b'{"%b":"%b",' % (records.KIND.encode(), kind.encode()) for kind in kinds)
    with _reading(file_path) as file:
        for offset, line in _each_line(file):
            if line.startswith(marks, _BODY) and _is_good(line):
                yield _decode(file_path, offset, line, False, objects)


def _end_of(path: str) -> int:
    """Where the last good line ends, in bytes. Blocks, and raises as `lines`."""
    end = 0
    for offset, line in lines(path):
        end = offset + len(line)
    return end


def _require_torn(file: BinaryIO, path: str, offset: int, line: bytes) -> None:
    """Raise JournalCorruptError unless the bad line at `offset` begins a torn end."""
    if _lacks_pages(offset, line):
        return
    later = next((position for position, line in _each_line(file, offset) if _is_good(line)), offset)
    if later == offset:  # no good line follows, or a writer has completed the line at `offset` meanwhile
        return
    way_out = _way_out("the bad one", path, offset)
    raise JournalCorruptError(
        f"the journal {path} has a bad line at byte {offset}, but good ones after it, from byte {later}: it was "
        f"damaged or edited. Put back a copy; {f'or {way_out}' if offset else 'without its beginning it is lost'}"
    )


def _way_out(bad: str, path: str, offset: int) -> str:
    return (
        f"to keep the lines before {bad}: copy the run's directory, then run "
        f'python -c "import os; os.truncate({path!r}, {offset})"'
    )


def _check_schema(path: str, first: bytes) -> None:
    record = _decode(path, 0, first, False, _objects_of(path))
    if record.get(records.KIND) != records.RUN:
        raise JournalCorruptError(
            f"the journal {path} must begin with a record of kind {records.RUN!r}, but its first is of kind "
            f"{record.get(records.KIND)!r} (byte 0): its beginning is missing; put back a copy"
        )
    schema = record.get("schema")
    if schema != records.SCHEMA:
        raise TuneError(
            f"the journal {path} has schema {schema!r}, but this version of minitune reads schema {records.SCHEMA} "
            "only; use the version that wrote it"
        )


def _cut(path: str, length: int) -> None:
    """Move the content after byte `length` to a separate file.

    It is synced before the journal is cut: nothing is lost.
    """
    with open(path, "r+b") as file:
        aside = files.free_name(f"{path}.torn")
        file.seek(length)
        with open(aside, "xb") as copy:
            while chunk := file.read(_CHUNK_BYTES):
                copy.write(chunk)
            copy.flush()
            files.sync_descriptor(copy.fileno())
        files.sync_directory(os.path.dirname(path))
        file.truncate(length)
        files.sync_descriptor(file.fileno())
    logger.warning("the journal %s had a torn end after byte %d; it is in %s now", path, length, aside)


def _objects_of(journal_path: str) -> ObjectStore:
    """The store of a journal's large objects."""
    return ObjectStore.of(os.path.join(os.path.dirname(journal_path), OBJECTS_DIRECTORY))


def _os_error(path: str, action: str, error: OSError) -> TuneError:
    return TuneError(f"the journal {path} could not be {action}: {reason_of(error)}; check path and disk")
