"""Journal: the append-only log of a run. Each event is written to it before it is acknowledged. Also its readers.

A journal is one file with one writer and one line per event (`codec`). All added lines are written by one unbuffered
write. Once the write has returned, the lines survive the death of the process, because the kernel has them. What a
power cut may destroy depends on `durability`:

* `process`: the file is never synced;
* `batched`: the housekeeper syncs the file at most 100 ms after the first unsynced record, or later on a disk so slow
  that syncs would take over 5 % of the time; `close` syncs the rest;
* `strict`: `write` syncs the file before it returns.

The journal also checks its file after each sync, or once a second without syncs. The file must be at its path and as
long as the written lines. If it was removed or replaced, the journal writes it again from its descriptor, which still
refers to the old file. It does so only a second later, because a user may be removing the whole run. If the file was
cut, or another program has written to it, its content is unreliable, and the run ends.

A killed writer or a power cut leaves at most a *torn end*: bad lines without a good line after them. The next open
moves it to a separate file. A bad line *before* good lines is another kind of damage: a record is lost. Then the
journal raises an error, and the user must decide what to do.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, TypeVar

from minitune.base import files
from minitune.base.checks import require
from minitune.config import DURABILITIES
from minitune.error import JournalCorruptError, TuneError
from minitune.record import codec, records
from minitune.record.codec import ObjectStore
from minitune.record.disk import Disk, Housekeeper
from minitune.record.lock import OBJECTS_DIRECTORY, RunLock

logger = logging.getLogger("minitune")

_MODE = 0o666
_FLAGS = os.O_RDWR | os.O_APPEND
_WRITE_TRIES = 3
LOOK_S = 1.0
"""The period of checks of a journal without syncs, and the delay from finding it gone to writing it again."""
_CHUNK_BYTES = 1 << 20
_LINES_BYTES = 1 << 16
_T = TypeVar("_T")


class Journal:
    """The writer of a journal. Only one thread may use it, except for `sync`.

    It has two locks. `_sync_guard` is held during a sync and the check after it, so that the descriptor is not closed
    meanwhile. `_writing` is held during one write, so that a copy of the file misses no record. A thread that needs
    both takes `_sync_guard` first.

    Args:
        path: The file.
        durability: See the docstring of the module.
        housekeeper: Syncs a `batched` journal. By default the journal has its own housekeeper with one thread.
        disk: The run's disk. By default there is no reserve for a full disk.
        lock: The run's lock. The journal takes it again if its file was removed.
        is_new: Whether to create the file. If not, the file must exist. Then the constructor blocks while it checks the
            whole file, and moves a torn end to a separate file.

    Attributes:
        path: The path of the file, absolute.
        durability: `process`, `batched` or `strict`.
        objects: The store of large objects.
        unwritten: The lines for the next `write`.

    Raises:
        ValueError: If `durability` is unknown.
        JournalCorruptError: If there is a bad line before good lines.
        TuneError: If the file cannot be created or opened, or was written by a newer version.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        durability: str = "batched",
        housekeeper: Housekeeper | None = None,
        disk: Disk | None = None,
        lock: RunLock | None = None,
        *,
        is_new: bool,
    ):
        require(durability in DURABILITIES, f"durability: one of {', '.join(DURABILITIES)}", durability)
        self.path = os.path.abspath(path)
        self.durability = durability
        try:
            descriptor = self._create() if is_new else self._open()
        except OSError as error:
            raise _os_error(self.path, "created" if is_new else "opened", error) from error
        self._descriptor: int | None = descriptor
        self.objects = ObjectStore(_objects_directory(self.path), durability)
        self.unwritten: list[bytes] = []
        self._disk = disk or Disk(os.path.dirname(self.path))
        self._lock = lock
        self._next_look_s = 0.0
        self._missed_s: float | None = None  # when the journal or the lock was first found missing
        self._failure: TuneError | None = None
        self._end = os.fstat(descriptor).st_size  # the end of the last record
        self._torn_bytes = 0  # at the end of the file, from a short write that could not be cut back yet
        self._is_unsynced = False
        self._synced_bytes = self._end
        self._unsynced: list[bytes] = []  # the lines after `_synced_bytes`
        self._sync_guard = threading.Lock()
        self._writing = threading.Lock()
        self._owns_housekeeper = durability == "batched" and housekeeper is None
        self._housekeeper = housekeeper or Housekeeper() if durability == "batched" else None

    def _create(self) -> int:
        descriptor = os.open(self.path, _FLAGS | os.O_CREAT | os.O_EXCL, _MODE)
        try:
            if self.durability != "process":
                files.sync_directory(os.path.dirname(self.path))
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def _open(self) -> int:
        with files.open_to_read(self.path) as file:
            good_bytes, has_bad = _good_beginning(file, self.path)
            if has_bad:
                _require_torn(file, self.path, good_bytes)
        if good_bytes < os.path.getsize(self.path):
            _cut(self.path, good_bytes)
        _cut_before_torn(self.path)
        return os.open(self.path, _FLAGS)

    @property
    def offset(self) -> int:
        """The journal's length in bytes, without the unwritten lines."""
        return self._end

    def append(self, record: dict[str, Any]) -> None:
        """Write one record, and the records that were added before it. Blocks and raises like `add` and `write`.

        If the write fails, the record is dropped, so the caller may call `append` again.
        """
        self.add(record)
        try:
            self.write()
        except TuneError:
            del self.unwritten[-1:]  # the list is empty if the record was written and only the sync failed
            raise

    def add(self, record: dict[str, Any]) -> None:
        """Encode a record for the next `write`. Blocks if it has large objects, which are stored at once.

        Args:
            record: A record from a function of `records`. Later changes of it have no effect.

        Raises:
            TuneError: If an object could not be stored; the text has the path and the reason.
        """
        try:
            line = codec.encode(record, None if self._disk.has_gone else self.objects)
        except OSError:  # an object could not be stored
            line = self._insist(lambda objects: codec.encode(record, objects))
        self.unwritten.append(line)

    def write(self) -> None:
        """Write the added records. Blocks for a sync if the journal is `strict`.

        Raises:
            TuneError: If the records could not be written; the text has the path and the reason. No part of them stays
                in the journal, and the caller may call `write` again. This does not hold after a failed sync, because
                then the content of the disk is unknown.
        """
        if not self.unwritten:
            return
        descriptor = self._descriptor
        if descriptor is None or self._failure is not None:
            raise self._failure or TuneError(f"the journal {self.path} is closed")
        lines = b"".join(self.unwritten)
        try:
            self._write(descriptor, lines)
        except OSError:
            self._insist(lambda objects: self._write(descriptor, lines))
        self.unwritten.clear()
        if self.durability != "process":
            self._unsynced.append(lines)
        elif time.monotonic() >= self._next_look_s:
            self._next_look_s = time.monotonic() + LOOK_S
            with self._sync_guard:
                self._look(descriptor)
        if self.durability == "strict":
            self.sync()
            if self._failure is not None:
                raise self._failure
        elif self._housekeeper is not None and not self._is_unsynced:
            self._is_unsynced = True
            self._housekeeper.sync_soon(self.sync)

    def by_reference(self, record: dict[str, Any]) -> dict[str, Any]:
        """See `ObjectStore.by_reference`. Use it if the references of a record are needed elsewhere, too.

        Raises:
            TuneError: If a file could not be written; the text has the path and the reason.
        """
        return self._insist(lambda objects: record if objects is None else objects.by_reference(record))

    def _insist(self, write: Callable[[ObjectStore | None], _T]) -> _T:
        """Call `write` with the object store until it succeeds. Return its result.

        If the disk is full, free a piece of its reserve and try again. If the run's directory is gone, pass None in
        place of the store: large objects then go into the journal, which is still open. After another error, or if the
        reserve is used up, raise a TuneError.
        """
        while True:
            had_gone = self._disk.has_gone
            try:
                return write(None if had_gone else self.objects)
            except OSError as error:
                if (had_gone or not self._disk.is_gone()) and not self._disk.give_up_piece(error):
                    raise _os_error(self.path, "written", error) from error

    def sync(self, at_end: bool = False) -> None:
        """Sync everything written so far to the disk. Blocks. After an error the next `write` or `close` raises it."""
        self._is_unsynced = False  # before the sync, so that a write during the sync asks for another one
        with self._sync_guard:
            if self._descriptor is None or self._failure is not None:
                return
            count = len(self._unsynced)
            try:
                self._sync_objects(at_end)
                self._sync_lines(self._descriptor, b"".join(self._unsynced[:count]))
            except OSError as error:
                self._failure = self._sync_error(error)
            else:
                self._look(self._descriptor)
            del self._unsynced[:count]

    def _sync_objects(self, at_end: bool) -> None:
        """Sync the objects that the lines refer to. If the run's directory is gone, the next sync tries again.

        Before the last sync a missing file is not an error: somebody may just be removing the whole directory.
        """
        try:
            self.objects.sync()
        except OSError as error:
            is_going = isinstance(error, FileNotFoundError) and not at_end
            if not is_going and not self._disk.is_gone():
                raise

    def _sync_lines(self, descriptor: int, lines: bytes) -> None:
        """Sync the file. Its last lines, `lines`, have not been synced yet.

        After a failed sync the content of the disk is unknown, and a second sync may wrongly report success. So write
        the lines once more through a new descriptor, and sync that. If this works, the new descriptor replaces the old.
        """
        try:
            files.sync_descriptor(descriptor)
        except OSError as error:
            if not self._is_in_place(descriptor):
                raise
            logger.warning("the journal %s could not be synced (%s); the sync is tried once more", self.path, error)
            writer = os.open(self.path, os.O_RDWR)
            try:
                os.lseek(writer, self._synced_bytes, os.SEEK_SET)
                rest = memoryview(lines)
                while rest:
                    rest = rest[os.write(writer, rest) :]
                files.sync_descriptor(writer)
            finally:
                os.close(writer)
            self._go_on_with(descriptor)
        self._synced_bytes += len(lines)

    def close(self) -> None:
        """Sync the journal unless its durability is `process`, and close it. Blocks. A second call does nothing.

        Raises:
            TuneError: If a sync has failed, or another program has changed the file.
        """
        if self._descriptor is None:
            return
        if self._housekeeper is not None:
            self._housekeeper.forget(self.sync)
        if self.durability != "process":
            self.sync(at_end=True)
        with self._sync_guard:
            if self._failure is None:
                self._look(self._descriptor, at_end=True)
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)
        self.objects.forget()
        if self._housekeeper is not None and self._owns_housekeeper:
            self._housekeeper.close()
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self.close()
        except TuneError:
            if error is None:  # otherwise the first error tells more
                raise

    def _write(self, descriptor: int, lines: bytes) -> None:
        """Write all lines at once. After a short write, cut off its part and try again."""
        with self._writing:
            for _ in range(_WRITE_TRIES):
                if self._torn_bytes:
                    self._cut_back(descriptor)
                written = os.write(descriptor, lines)
                if written == len(lines):
                    self._end += written
                    return
                self._torn_bytes = written
            try:
                # write the rest: this raises the error that explains the short writes
                self._torn_bytes += os.write(descriptor, lines[self._torn_bytes :])
            finally:
                self._cut_back(descriptor)
            raise OSError(errno.ENOSPC, "only a part of a record could be written")

    def _cut_back(self, descriptor: int) -> None:
        os.ftruncate(descriptor, os.fstat(descriptor).st_size - self._torn_bytes)
        self._torn_bytes = 0

    def _look(self, descriptor: int, at_end: bool = False) -> None:
        """Check that the file and the lock are in place, and restore them if not. Keep an error as the failure.

        The caller holds `_sync_guard`.
        """
        is_here = self._is_in_place(descriptor)
        is_locked = self._lock is None or self._lock.is_in_place()
        try:
            with self._writing:
                length = os.fstat(descriptor).st_size - self._torn_bytes
                if length != self._end:
                    raise TuneError(
                        f"the journal {self.path} was changed by another program during the run: it has "
                        f"{length} bytes, but {self._end} were written; put back a copy, then resume the run"
                    )
            if (is_here and is_locked) or self._disk.is_gone():
                self._missed_s = None
                return
            if not at_end and not self._is_missed_for_long():
                return
            if not is_here:
                self._write_again(descriptor)
            if not is_locked and self._lock is not None:
                self._lock.take_again()
        except OSError as error:
            self._failure = _os_error(self.path, "written again after it was removed", error)
        except TuneError as error:
            self._failure = error

    def _is_missed_for_long(self) -> bool:
        """Whether the file or the lock has been missing for `LOOK_S`. If not, schedule another check."""
        now_s = time.monotonic()
        if self._missed_s is None:
            self._missed_s = now_s
        if now_s - self._missed_s >= LOOK_S:
            return True
        if self._housekeeper is not None:
            self._housekeeper.sync_soon(self.sync, LOOK_S)
        return False

    def _is_in_place(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.lstat(self.path), os.fstat(descriptor))
        except OSError:
            return False

    def _write_again(self, descriptor: int) -> None:
        """Write a copy of the file to its path, and continue with it. Blocks; delays other writes only at the end."""
        what = "removed"
        if os.path.lexists(self.path):
            aside = files.free_name(f"{self.path}.other")
            os.rename(self.path, aside)
            what = f"replaced by another file, which is now {aside},"
        is_durable = self.durability != "process"
        with contextlib.ExitStack() as stack:
            copy = stack.enter_context(files.new_file(self.path, _MODE, sync=is_durable))
            copied = self._copy(descriptor, copy, 0)
            if is_durable:
                copy.flush()
                files.sync_descriptor(copy.fileno())
            with self._writing:
                self._copy(descriptor, copy, copied)
                stack.close()
                self._go_on_with(descriptor)
        logger.warning("the journal %s was %s during the run; it has been written again", self.path, what)

    def _copy(self, descriptor: int, copy: BinaryIO, offset: int) -> int:
        """Copy the records from `offset` on. Return where they end.

        Moving the descriptor's position for reading is safe, because the file is open for appending.
        """
        while offset < self._end:
            os.lseek(descriptor, offset, os.SEEK_SET)
            chunk = os.read(descriptor, min(_CHUNK_BYTES, self._end - offset))
            if not chunk:
                raise OSError(errno.EIO, "it has become shorter")
            copy.write(chunk)
            offset += len(chunk)
        return offset

    def _go_on_with(self, descriptor: int) -> None:
        """Let the descriptor refer to the file that is at the path now. The exchange is atomic, so no write is lost."""
        fresh = os.open(self.path, _FLAGS)
        os.dup2(fresh, descriptor, inheritable=False)
        os.close(fresh)

    def _sync_error(self, failure: OSError) -> TuneError:
        error = TuneError(
            f"the journal {self.path} could not be synced to the disk ({failure.strerror}, errno {failure.errno}): "
            "records of the last moments may be lost after a power cut; check the disk, then resume the run"
        )
        error.__cause__ = failure
        return error


# -- reading -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _reading(path: str) -> Iterator[BinaryIO]:
    """A journal as a file to read. An OSError of the `with` block becomes a TuneError."""
    try:
        with files.open_to_read(path) as file:
            yield file
    except OSError as error:
        raise _os_error(path, "read", error) from error


def read(path: str | os.PathLike[str], unpickle: bool = False) -> Iterator[dict[str, Any]]:
    """Read the records of a journal one after the other. Another process may be writing it. Blocks.

    Args:
        path: The file. A torn end is ignored and not changed.
        unpickle: See `codec.decode`. Pass True only after `lock.check_trusted`.

    Yields:
        The records. The memory does not grow with the file.

    Raises:
        JournalCorruptError: If there is a bad line before good lines. It is raised at the bad line.
        TuneError: If the file cannot be read, was written by a newer version, or an object cannot be unpickled.
    """
    for _, record in scan(path, unpickle):
        yield record


def scan(
    path: str | os.PathLike[str],
    unpickle: bool = False,
    begin: int = 0,
    leaves_out: Callable[[int, bytes], bool] | None = None,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Like `read`, but also yields the offset of each record.

    Args:
        path: The file.
        unpickle: See `read`.
        begin: The offset, in bytes, at which to start reading. It must be the beginning of a record.
        leaves_out: Called with the offset and the line of each record; True leaves the record out. The checksums of
            such lines are still checked.

    Yields:
        (offset of the record in bytes, record).
    """
    file_path = os.path.abspath(path)
    objects = ObjectStore.to_read(_objects_directory(file_path))
    with _reading(file_path) as file:
        for offset, line in _lines(file, begin):
            try:
                if leaves_out is not None and leaves_out(offset, line):
                    codec.check(line)
                    continue
                record = codec.decode(line, unpickle, objects)
            except ValueError:
                _require_torn(file, file_path, offset)
                return
            if offset == 0:
                _check_schema(file_path, record)
            yield offset, record


def at(path: str | os.PathLike[str], offsets: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Read the records at some offsets in bytes, which `scan` has yielded. Objects stay pickled. Blocks.

    Raises:
        JournalCorruptError: If no good record begins at an offset any more.
        TuneError: If the file cannot be read.
    """
    file_path = os.path.abspath(path)
    objects = ObjectStore.to_read(_objects_directory(file_path))
    with _reading(file_path) as file:
        for offset in offsets:
            file.seek(offset)
            try:
                yield codec.decode(file.readline(), False, objects)
            except ValueError as error:
                raise JournalCorruptError(
                    f"{file_path} was changed while it was read: the record at byte {offset} is gone; read it again"
                ) from error


def of_kinds(path: str | os.PathLike[str], *kinds: str) -> Iterator[dict[str, Any]]:
    """Read only the records of some kinds, in order. Objects stay pickled. Blocks. Bad lines are left out."""
    objects = ObjectStore.to_read(_objects_directory(os.path.abspath(path)))
    return (codec.decode(line, False, objects) for _, line in lines_of_kind(path, *kinds))


def lines_of_kind(path: str | os.PathLike[str], *kinds: str, holding: bytes = b"") -> Iterator[tuple[int, bytes]]:
    """Yield (offset in bytes, line) of the records of some kinds, without decoding them. Blocks.

    Bad lines are left out, and so are lines without the text `holding`. A TuneError means that the file cannot be read.
    """
    marks = tuple(b'{"%b":"%b",' % (records.KIND.encode(), kind.encode()) for kind in kinds)
    with _reading(os.path.abspath(path)) as file:
        for offset, line in _lines(file, 0, (holding,) if holding else marks):
            if line.startswith(marks, codec.BODY) and holding in line and _is_good(line):
                yield offset, line


def _is_good(line: bytes) -> bool:
    try:
        codec.check(line)
    except ValueError:
        return False
    return True


def repair(path: str | os.PathLike[str]) -> str | None:
    """Keep the lines before the first bad line, and move the rest to a separate file. No driver may be running.

    Returns:
        The path of the file with the rest, or None if there was no rest.

    Raises:
        TuneError: If the file cannot be read or written.
    """
    file_path = os.path.abspath(path)
    try:
        with files.open_to_read(file_path) as file:
            kept_bytes, _ = _good_beginning(file, file_path)
        return None if kept_bytes == os.path.getsize(file_path) else _cut(file_path, kept_bytes)
    except OSError as error:
        raise _os_error(file_path, "repaired", error) from error


def _lines(file: BinaryIO, begin: int, marks: tuple[bytes, ...] = ()) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line) up to the present length of the file. Lines that are written later are left out.

    Args:
        file: The journal.
        begin: Where the first line begins, in bytes.
        marks: If given, lines without any of these texts may be left out. Most blocks are then skipped at once, because
            nearly all records are results.
    """
    left = os.fstat(file.fileno()).st_size - begin
    file.seek(begin)
    offset = begin
    while left > 0:
        block = file.read(min(left, _LINES_BYTES))
        if not block:
            return  # the file has been cut meanwhile
        if not block.endswith(b"\n"):
            block += file.readline(left - len(block))
        left -= len(block)
        if marks and not any(mark in block for mark in marks):
            offset += len(block)
            continue
        for line in block.splitlines(keepends=True):
            yield offset, line
            offset += len(line)


def _good_beginning(file: BinaryIO, path: str) -> tuple[int, bool]:
    """Length in bytes of the lines before the first bad line, and whether there is a bad line."""
    length = 0
    for offset, line in _lines(file, 0):
        try:
            codec.check(line)
            if offset == 0:
                _check_schema(path, codec.decode(line))
        except ValueError:
            return length, True
        length = offset + len(line)
    return length, False


def _require_torn(file: BinaryIO, path: str, offset: int) -> None:
    """Raise JournalCorruptError if a good line follows the bad line at `offset`."""
    later = next((position for position, line in _lines(file, offset) if _is_good(line)), offset)
    if later == offset:  # no good line follows, or a writer has completed the line at `offset` meanwhile
        return
    way_out = (
        "to keep the lines before the bad one: copy the run's directory, then run "
        f'python -c "from minitune.record import journal; print(journal.repair({path!r}))"'
    )
    raise JournalCorruptError(
        f"the journal {path} has a bad line at byte {offset}, but good ones after it, from byte {later}: it was "
        f"damaged or edited. Put back a copy; {f'or {way_out}' if offset else 'without its beginning it is lost'}"
    )


def _check_schema(path: str, record: dict[str, Any]) -> None:
    """Raise an error unless `record`, the first of a journal, shows that this version can read it."""
    if record.get(records.KIND) != records.RUN:
        raise JournalCorruptError(
            f"the journal {path} must begin with a record of kind {records.RUN!r}, but its first is of kind "
            f"{record.get(records.KIND)!r} (byte 0): its beginning is missing; put back a copy"
        )
    schema = record.get("schema")
    if type(schema) is not int or not 1 <= schema <= records.SCHEMA:
        raise TuneError(
            f"the journal {path} has schema {schema!r}, but this version of minitune reads schemas up to "
            f"{records.SCHEMA}; use a newer minitune"
        )


def _cut(path: str, length: int) -> str:
    """Move the content after byte `length` to a separate file, where users can read it. Return the path of that file.

    The copy is synced before the journal is cut, so that the content is never lost.
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
    return aside


def _cut_before_torn(path: str) -> None:
    """Cut a journal before the first record that refers to an object whose file a power cut has damaged.

    That record and the records after it had not been synced either. So they are a torn end, although they are legible.
    """
    objects = ObjectStore(_objects_directory(path))
    torn = objects.find_torn()
    if not torn:
        return
    with files.open_to_read(path) as file:
        marks = [f'"sha256":"{name}"'.encode() for name in torn]
        first = next((offset for offset, line in _lines(file, 0) if any(mark in line for mark in marks)), None)
    if first is not None:
        _cut(path, first)
    for name in torn:
        objects.forget_torn(name)


def _objects_directory(journal_path: str) -> str:
    return os.path.join(os.path.dirname(journal_path), OBJECTS_DIRECTORY)


def _os_error(path: str, action: str, error: OSError) -> TuneError:
    name = errno.errorcode.get(error.errno or 0, "unknown errno")
    advice = "free some space, then try again" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "check path and disk"
    return TuneError(f"the journal {path} could not be {action}: {error.strerror or error} ({name}); {advice}")
