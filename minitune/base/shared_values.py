"""Values that are stored once, for any number of trials, and `ObjectRef`, the handle of such a value.

A value is in a file, or in anonymous memory, which has a descriptor and a path below `/proc` like a file. A `ValueFile`
has those of a process, an `ObjectStore` those that the journal names, and `hold` keeps an object in this process.

    header | the pickle | sizes of the buffers | buffer | buffer | ...        (each buffer at a multiple of 64 bytes)

Protocol 5 keeps large buffers, such as those of numpy, out of the pickle: storing does not copy them, and a reader maps
them, privately (copy-on-write). So all processes share the pages that none has written to.

As in `pickling`, `what` is the name in errors, and a value that cannot be pickled raises a TypeError; OSError: a file
cannot be read or written.
"""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import math
import os
import pickle
import re
import struct
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from minitune.base import files
from minitune.base.forks import only_here
from minitune.base.pickling import dump, dump_for_later, load
from minitune.base.preload import Import, import_ahead
from minitune.error import ObjectLostError

if TYPE_CHECKING:
    import mmap

# Magic, token, size of the pickle in bytes, number of buffers.
_HEADER = struct.Struct("<8s16sQQ")
_MAGIC = b"mtvalue1"
_TOKEN_BYTES = 16
_CHUNK_BYTES = 1 << 20
# The alignment of buffers, in bytes, for vector instructions.
_ALIGNMENT_BYTES = 64
# Smaller buffers stay in the pickle. Not measured: a buffer of its own costs an entry, and one in the pickle a copy.
_OWN_BUFFER_BYTES = 64 * 1024
# Here, a file without a name can be opened through the process that keeps it open.
_PROCESSES = "/proc/"
# If all buffers together are smaller than this, they are read, because a mapping needs a descriptor.
_MAP_BYTES = 1 << 20
# A mapping must begin at a multiple of this.
_MAP_STEP_BYTES = os.sysconf("SC_PAGE_SIZE")
Dump = Callable[[Any, Any, str, Callable[[pickle.PickleBuffer], Any]], None]
"""Pickles a value into a file; see `pickling.dump`."""
# By path, offset and token: the values that callers in this process share, and whether each has mapped buffers.
_loaded: dict[tuple[str, int, str], tuple[Any, bool]] = {}
# Lets one thread load at a time, so that two threads get the same object for the same value.
_loading = threading.RLock()
fetchers: dict[str, Callable[[], Any]] = {}
"""By token: functions that get a value from another store than its file, which may be on another machine."""
# The references that were pickled inside `noting`.
_noted: list[ObjectRef] | None = None
_tokens = itertools.count()
# The references of `hold`, by token.
_held: weakref.WeakValueDictionary[str, ObjectRef] = weakref.WeakValueDictionary()
# The stores of `ObjectStore.to_read`, by directory.
_stores: weakref.WeakValueDictionary[str, ObjectStore] = weakref.WeakValueDictionary()
_SHA256 = re.compile(r"[0-9a-f]{64}")


# -- the handle --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ObjectRef:
    """A small picklable reference to a stored value. A search space may contain the reference that `put` returns.

    Attributes:
        path: The file; empty if the value is elsewhere.
        token: The sha256 of a value in a run's directory, else a random text; the empty one accepts any value. Its
            first 16 characters in the value's header show whether the path is still that of the value.
        number: The number of the value in the process that has called `put`; 0 if minitune has stored it.
        size_bytes: The size of the file if the reference stands for a value in a configuration, which is then small in
            the journal and in messages, else 0. Unpickling it returns the value.
    """

    path: str
    offset: int = 0
    token: str = ""
    number: int = 0
    size_bytes: int = 0
    shown: str = ""

    @property
    def __name__(self) -> str:
        """The text that represents the value in names of trials."""
        return f"object_{self.number}"

    def __repr__(self) -> str:
        return self.shown if self.size_bytes else f"ObjectRef({self.__name__})"

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.path:
            return _without_file, (self.token,)
        _note(self)
        if self.size_bytes:
            return _read_stored, (self.path, self.token)
        return ObjectRef, (self.path, self.offset, self.token, self.number)

    def get(self) -> Any:
        """The value. Blocks while it is loaded.

        Large buffers are mapped. A value with such, and one of `put`, belongs to the caller: each call loads it again.
        All callers in a process share any other value; treat it as read-only.

        Raises:
            ObjectLostError: If the value no longer exists.
        """
        if self.number:
            return _load(self)[0]
        with _loading:
            value, is_mapped = _loaded.get(_key(self)) or _keep(self)
            if is_mapped:
                forget(self)
            return value


def hold(value: Any) -> ObjectRef:
    """A reference to an object of this process, which lives as long as it. It need not be picklable."""
    ref = ObjectRef("", token=f"{os.getpid()}-{next(_tokens)}")
    _held[ref.token] = ref
    _loaded[_key(ref)] = value, False
    weakref.finalize(ref, _loaded.pop, _key(ref), None).atexit = False
    return ref


def _without_file(token: str) -> ObjectRef:
    return _held.get(token) or ObjectRef("", token=token)


def preload(ref: ObjectRef, imports: Iterable[Import] = ()) -> None:
    """Load a value in advance, for the first `get` in this process or in one that is forked from it, and do the imports
    at its beginning. Blocks.
    """
    with _loading:
        if _key(ref) not in _loaded:
            _keep(ref)
    import_ahead(imports)


def forget(ref: ObjectRef) -> None:
    """Remove a value from this process's memory, until the next `get`."""
    with _loading:
        _loaded.pop(_key(ref), None)


def _keep(ref: ObjectRef) -> tuple[Any, bool]:
    found = _load(ref)
    _loaded[_key(ref)] = found
    return found


def _key(ref: ObjectRef) -> tuple[str, int, str]:
    return ref.path, ref.offset, ref.token


def _load(ref: ObjectRef) -> tuple[Any, bool]:
    """The value, and whether it has mapped buffers. Raises an ObjectLostError."""
    try:
        return read_value(ref)
    except FileNotFoundError as error:
        if ref.number:
            raise ObjectLostError(
                f"the value of {ref!r} is gone: it lives until shutdown() or the end of the process that stored it; "
                "put() it again, and pass the space with the new reference to Tuner.restore(..., param_space=...)"
            ) from None
        raise ObjectLostError(f"a value that was stored for the trials of a run is gone: {error}") from error


def _read_stored(path: str, token: str) -> Any:
    # Files of parameters that are pickles contain this name.
    try:
        return read_value(ObjectRef(path, token=token))[0]
    except FileNotFoundError as error:
        raise ObjectLostError(
            f"a large value of a configuration is not in {path}, where it was stored: the run was moved or removed"
        ) from error


@contextlib.contextmanager
def noting() -> Iterator[list[ObjectRef]]:
    """In the `with` block, each pickled reference to a value in a file of this machine goes into a list.

    Not thread-safe.
    """
    global _noted
    before = _noted
    _noted = []
    try:
        yield _noted
    finally:
        _noted = before


def _note(ref: ObjectRef) -> None:
    if _noted is not None:
        _noted.append(ref)


# -- values in files ---------------------------------------------------------------------------------------------------
def write_value(
    descriptor: int,
    offset: int,
    value: Any,
    what: str,
    dump: Dump = dump,
    digest: Any = None,
    most_bytes: float = math.inf,
) -> tuple[str, int]:
    """Write a value to an open file, where a mapping can begin; return its token, and the offset of its end. `digest`
    is updated with everything after the header. More than `most_bytes` is an OSError, as on a full disk. Blocks while
    it writes. After an error, it is cut off.
    """
    file = io.BufferedWriter(io.FileIO(descriptor, "wb", closefd=False))
    sink = _Sink(file, digest, most_bytes - _HEADER.size)
    try:
        file.seek(offset + _HEADER.size)
        pickle_bytes, count = _emit(sink, value, what, dump)
        file.seek(offset)  # the header is written last, so an incomplete value has none
        if digest is None:
            token = os.urandom(_TOKEN_BYTES // 2).hex()
        else:
            token = digest.hexdigest()[:_TOKEN_BYTES]
        file.write(_HEADER.pack(_MAGIC, token.encode(), pickle_bytes, count))
        file.close()
    except BaseException:
        with contextlib.suppress(OSError):
            file.close()
        os.ftruncate(descriptor, offset)
        raise
    return token, offset + _HEADER.size + sink.written_bytes


def digest_value(value: Any, what: str, dump: Dump, digest: Any) -> int:
    """Update a digest as `write_value` does, without a file. Blocks."""
    sink = _Sink(None, digest)
    _emit(sink, value, what, dump)
    return _HEADER.size + sink.written_bytes


class _Sink:
    """Writes the parts of a value to a file and a digest, at most `most_bytes`."""

    def __init__(self, file: BinaryIO | None, digest: Any, most_bytes: float = math.inf):
        self.written_bytes = 0
        self._most_bytes = most_bytes
        self._file = file
        self._digest = digest

    def write(self, data: Any) -> int:
        if self.written_bytes + len(data) > self._most_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self._digest is not None:
            self._digest.update(data)
        if self._file is not None:
            self._file.write(data)
        self.written_bytes += len(data)
        return len(data)


def _emit(sink: _Sink, value: Any, what: str, dump: Dump) -> tuple[int, int]:
    """Write everything after the header to a sink. Return the size of the pickle and the number of buffers."""
    buffers: list[memoryview] = []
    dump(value, sink, what, lambda buffer: _stays_in_pickle(buffer, buffers))
    pickle_bytes = sink.written_bytes
    sink.write(struct.pack(f"<{len(buffers)}Q", *map(len, buffers)))
    for buffer in buffers:
        position = _HEADER.size + sink.written_bytes
        sink.write(bytes(_aligned(position, _ALIGNMENT_BYTES) - position))
        sink.write(buffer)
    return pickle_bytes, len(buffers)


def digest_of(path: str | os.PathLike[str], digest: Any) -> str:
    """The digest of a file with one value, as from `write_value`. Blocks."""
    with files.open_to_read(path) as file:
        if file.read(len(_MAGIC)) == _MAGIC:
            file.seek(_HEADER.size)
        else:
            file.seek(0)
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return str(digest.hexdigest())


def read_value(ref: ObjectRef, maps: bool = True) -> tuple[Any, bool]:
    """Load a value, and return whether it has mapped buffers. FileNotFoundError: it is no longer there. Without `maps`,
    buffers are read: each mapping needs a descriptor. Blocks while it reads the pickle. May run user code.
    """
    fetch = fetchers.get(ref.token)
    if fetch is not None:
        return fetch(), False
    if not ref.path:
        raise FileNotFoundError(f"the object {ref.token} is no longer in this process")
    with _open(ref.path) as file:
        file.seek(ref.offset)
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size:
            raise FileNotFoundError(f"{ref.path} no longer holds the value that was stored there")
        magic, token, pickle_bytes, count = _HEADER.unpack(head)
        if magic != _MAGIC or (ref.token and token != ref.token[:_TOKEN_BYTES].encode()):
            raise FileNotFoundError(f"{ref.path} no longer holds the value that was stored there")
        if count == 0:
            return load(file), False
        begin = file.tell()
        file.seek(begin + pickle_bytes)
        sizes = struct.unpack(f"<{count}Q", file.read(8 * count))
        spans = []
        end = file.tell()
        for size in sizes:
            start = _aligned(end, _ALIGNMENT_BYTES)
            end = start + size
            spans.append((start, end))
        content, base = _content(file, ref.offset, spans, maps)
        file.seek(begin)
        view = memoryview(content)
        value = load(file, [view[start - base : end - base] for start, end in spans])
    return value, not isinstance(content, bytearray)


def _open(path: str) -> BinaryIO:
    """Open a file of values. Never block: a path below `/proc` may be a pipe by now."""
    try:
        return files.open_to_read(path)
    except files.SpecialFileError:
        pass
    except PermissionError:
        if not path.startswith(_PROCESSES):  # otherwise the path may now belong to another user's process
            raise
    raise FileNotFoundError(f"{path} is no longer the file in which the value was stored")


def _stays_in_pickle(buffer: pickle.PickleBuffer, taken: list[memoryview]) -> bool:
    """Whether the pickler must copy a buffer; if not, it is added to `taken`."""
    try:
        view = buffer.raw()
    except BufferError:  # the buffer is not contiguous
        return True
    if len(view) < _OWN_BUFFER_BYTES:
        return True
    taken.append(view)
    return False


def _content(
    file: BinaryIO, offset: int, spans: list[tuple[int, int]], maps: bool
) -> tuple[mmap.mmap | bytearray, int]:
    """The part of a file that contains the given ranges, and its offset."""
    begin = spans[0][0]
    end = spans[-1][1]
    if maps and end - begin >= _MAP_BYTES:
        import mmap  # few values are so large

        try:
            return mmap.mmap(file.fileno(), end - offset, access=mmap.ACCESS_COPY, offset=offset), offset
        except OSError:  # the file system has no mappings, or no descriptor is left
            pass
    file.seek(begin)
    content = bytearray(end - begin)
    if file.readinto(content) != len(content):  # type: ignore[attr-defined]  # a buffered reader has it
        raise FileNotFoundError(f"{file.name} no longer holds the value that was stored there: it was cut")
    return content, begin


def _aligned(offset: int, to_bytes: int) -> int:
    return -(-offset // to_bytes) * to_bytes


class _OpenFile:
    """An open file of values."""

    def __init__(self, descriptor: int, path: str, name: str = ""):
        self.path = path
        self._name = name
        self._descriptor = descriptor
        self._end = 0

    def append(self, value: Any, what: str, most_bytes: float = math.inf) -> ObjectRef:
        """Append a value, unless the file would become larger than `most_bytes`. After an error, it is as before."""
        offset = _aligned(self._end, _MAP_STEP_BYTES)
        token, self._end = write_value(self._descriptor, offset, value, what, most_bytes=most_bytes - offset)
        return ObjectRef(self.path, offset, token)

    def close(self) -> None:
        """Close the file, and remove its name."""
        os.close(self._descriptor)
        if self._name:
            with contextlib.suppress(OSError):
                os.unlink(self._name)
                os.rmdir(os.path.dirname(self._name))


class ValueFile:
    """Any number of stored values, which exist as long as this object and this process. Thread-safe.

    On Linux, they lie in anonymous memory, as long as `memory_bytes` is enough; the others in a file on disk. The
    system frees both when this process ends. Elsewhere, `close` or the end of the interpreter removes the file.
    """

    def __init__(self, directory: str, elsewhere: str, memory_bytes: int = 0):
        self._directory = directory
        self._elsewhere = elsewhere
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()
        self._memory = _open_memory() if memory_bytes > 0 else None
        self._disk: _OpenFile | None = None
        self._opened = [self._memory] if self._memory is not None else []
        self._finalizer = weakref.finalize(self, only_here(_release), self._opened)

    def put(self, value: Any, what: str = "the value") -> ObjectRef:
        """Store any value, and return its handle. Blocks while it writes."""
        with self._lock:
            return self._add_to_memory(value, what) or self._add_to_disk(value, what)

    def close(self) -> None:
        """Free all values; may be repeated."""
        self._finalizer()

    def _add_to_memory(self, value: Any, what: str) -> ObjectRef | None:
        """Store a value in anonymous memory; None if there is none, or too little."""
        if self._memory is None:
            return None
        try:
            return self._memory.append(value, what, self._memory_bytes)
        except OSError:
            return None

    def _add_to_disk(self, value: Any, what: str) -> ObjectRef:
        if self._disk is None:
            self._disk = _open_in(self._directory)
            self._opened.append(self._disk)
        try:
            return self._disk.append(value, what)
        except OSError as error:
            text = f"{what} cannot be stored in {self._directory} ({error.strerror}); {self._elsewhere}"
            raise OSError(error.errno, text) from error


def _open_memory() -> _OpenFile | None:
    """Create a file in anonymous memory; None if that does not work here."""
    if sys.platform != "linux" or not hasattr(os, "memfd_create"):
        return None
    try:
        descriptor = os.memfd_create("minitune-values")
    except OSError:
        return None
    path = _path_without_name(descriptor)
    if path is not None:
        return _OpenFile(descriptor, path)
    os.close(descriptor)
    return None


def _open_in(directory: str, has_name: bool = False) -> _OpenFile:
    """Create a file in `directory`, with a name if it cannot be opened without."""
    files.make_directory(directory, 0o700)
    path = os.path.join(directory, f"values-{os.urandom(8).hex()}")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, files.BLOB_MODE)
    if sys.platform != "linux" or has_name:
        return _OpenFile(descriptor, path, name=path)
    os.unlink(path)
    with contextlib.suppress(OSError):
        os.rmdir(directory)
    nameless = _path_without_name(descriptor)
    if nameless is not None:
        return _OpenFile(descriptor, nameless)
    os.close(descriptor)
    return _open_in(directory, has_name=True)


def _path_without_name(descriptor: int) -> str | None:
    """The path by which other processes can open a file of this process that has no name; None if they cannot."""
    path = f"{_PROCESSES}{os.getpid()}/fd/{descriptor}"
    try:
        os.close(os.open(path, os.O_RDONLY))
        if os.stat("/proc/self/fd").st_uid == os.geteuid():  # else other processes may not open its descriptors
            return path
    except OSError:  # the file system does not keep a file without a name
        pass
    return None


def _release(opened: list[_OpenFile]) -> None:
    while opened:
        opened.pop().close()


def store(value: Any, path: str | os.PathLike[str], what: str = "the value") -> ObjectRef:
    """Pickle `value` to a file of this user alone, and return its handle. Blocks while it writes.

    Large buffers are not copied. The directory must exist.
    """
    target = os.path.abspath(path)
    with files.new_file(target, files.BLOB_MODE) as file:
        token, _ = write_value(file.fileno(), 0, value, what)
    return ObjectRef(target, token=token)


# -- values of a run ---------------------------------------------------------------------------------------------------
class ObjectStore:
    """The values of a run that are too large for its journal, in files named by the checksum of their content.

    Equal values are stored once, and a damaged file is noticed. A value is pickled directly into its file.

    The background sync of the journal first syncs the files that its records name, which may take a second. After a
    power cut before that, the journal may name a file that is not whole: a load finds that, and `journal.repair` gives
    up the records from there on.
    """

    def __init__(self, directory: str):
        self.directory = directory
        self._unsynced: list[str] = []
        self._loaded: dict[str, Any] = {}
        self._sizes: set[int] = set()  # approximate sizes of the stored values
        self._whole: set[str] = set()  # names of values whose files are whole

    @classmethod
    def to_read(cls, directory: str) -> ObjectStore:
        """The store of a directory for reading."""
        store = _stores.get(directory)
        if store is None:
            store = cls(directory)
            _stores[directory] = store
        return store

    def put(self, value: Any, text: str, about_bytes: int) -> ObjectRef:
        """Store a value for a later process, and return a reference that stands for it. Blocks."""
        # Many trials share a constant of the space. A value of the same size as a stored one is probably equal to it.
        if about_bytes in self._sizes:
            digest = _sha256()
            size_bytes = digest_value(value, text, dump_for_later, digest)
            stored = self._ref(digest, size_bytes, text)
            if self._has(stored):  # computing the checksum is cheaper than writing the value again
                return stored
        self._sizes.add(about_bytes)
        return self._write(value, text)

    def _write(self, value: Any, text: str) -> ObjectRef:
        if not os.path.isdir(self.directory):
            files.make_directory(self.directory, files.OWN_DIRECTORY_MODE)
        temporary = os.path.join(self.directory, files.temporary_name())
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, files.BLOB_MODE)
        try:
            digest = _sha256()
            _, size_bytes = write_value(descriptor, 0, value, text, dump_for_later, digest)
            stored = self._ref(digest, size_bytes, text)
            if self._has(stored):
                files.remove_file(temporary)
            else:
                os.replace(temporary, stored.path)
                self._unsynced.append(stored.path)  # only now, because another thread may sync at any time
                self._whole.add(stored.token)
        except BaseException:
            files.remove_file(temporary)
            raise
        finally:
            os.close(descriptor)
        return stored

    def _ref(self, digest: Any, size_bytes: int, text: str) -> ObjectRef:
        name = digest.hexdigest()
        return ObjectRef(self._path(name), token=name, size_bytes=size_bytes, shown=text)

    def _has(self, stored: ObjectRef) -> bool:
        """Whether the file of a value is there and whole."""
        try:
            if os.path.getsize(stored.path) != stored.size_bytes:
                return False
            if stored.token in self._whole:
                return True
            if digest_of(stored.path, _sha256()) != stored.token:
                return False
        except OSError:
            return False
        self._whole.add(stored.token)
        self._unsynced.append(stored.path)  # the earlier driver may have been killed before its sync
        return True

    def sync(self) -> None:
        """Sync the stored files to the disk. Blocks."""
        if not self._unsynced:
            return
        # The driver may add more meanwhile. They wait for the next sync.
        synced = list(self._unsynced)
        for path in synced:
            with files.open_to_read(path) as file:
                files.sync_descriptor(file.fileno())
        files.sync_directory(self.directory)
        del self._unsynced[: len(synced)]

    def load(self, name: str, keep: bool = False) -> Any:
        """Unpickle the value stored under `name`. Blocks. Check first who wrote the file (`lock.check_trusted`).

        With `keep`, the next call returns the same object.

        Raises:
            ObjectLostError: If the file is missing or does not match the checksum.
        """
        if name not in self._loaded:
            value = self._read(name)
            if not keep:
                return value
            self._loaded[name] = value
        return self._loaded[name]

    def _read(self, name: str) -> Any:
        self.check(name)
        return read_value(ObjectRef(self._path(name)), maps=False)[0]

    def check(self, name: str) -> None:
        """Check that the file of a value is whole; otherwise raise ObjectLostError. Blocks while it reads the file."""
        path = self._path(name)
        try:
            is_whole = digest_of(path, _sha256()) == name
        except OSError as error:
            raise ObjectLostError(f"{path}, which the journal names, cannot be read ({error.strerror})") from error
        if not is_whole:
            raise ObjectLostError(f"{path} is damaged: its content has another checksum than its name says")

    def holds_code(self, name: str) -> bool:
        """Whether the pickle stored under `name` contains code. Blocks while it reads the file."""
        with files.open_to_read(self._path(name)) as file:
            return holds_code(file.read())

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, f"{check_object_name(name)}.pkl")


def check_object_name(name: str) -> str:
    """Check that a name, which becomes a part of a path, is a checksum. ValueError."""
    if not isinstance(name, str) or _SHA256.fullmatch(name) is None:
        raise ValueError(f"an object's name must be a sha256 in hex, but got {name!r}")
    return name


def holds_code(pickled: bytes) -> bool:
    """Whether a pickle contains code, whose format differs between Python versions."""
    return b"cloudpickle" in pickled


def _sha256() -> Any:
    import hashlib

    return hashlib.sha256()
