"""Values that are stored once in a file, for any number of trials, and the handles by which trials get them.

A file holds a value's pickle, and behind it the value's large buffers. From an offset at which a mapping may begin::

    header | the pickle | sizes of the buffers | buffer | buffer | ...        (each buffer at a multiple of 64 bytes)

Protocol 5 of pickle hands out the buffers of numpy arrays, of pandas' columns and of every object that supports it. So
they are not copied where a value is stored, and not read where it is loaded: the reader maps them. The mapping is
private (copy-on-write): its pages are the file's, which all processes share, until one process writes to a page; then
that process gets a copy of this page.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import mmap
import os
import pickle
import stat
import struct
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

from minitune.base import files
from minitune.base.pickling import dump, load
from minitune.error import ObjectLostError

_HEADER = struct.Struct("<8s16sQQ")
"""Magic, token, size of the pickle in bytes, number of buffers."""
_MAGIC = b"mtvalue1"
_TOKEN_BYTES = 16
_CHUNK_BYTES = 1 << 20
_ALIGNMENT_BYTES = 64
"""Of buffers: what vector instructions like."""
_OWN_BUFFER_BYTES = 64 * 1024
"""A buffer smaller than this stays in the pickle."""
_PROCESSES = "/proc/"
_MAP_BYTES = 1 << 20
"""Buffers of less than this together are read: a mapping costs a descriptor."""
Dump = Callable[[Any, Any, str, Callable[[pickle.PickleBuffer], Any]], None]
"""Pickles a value into a file; see `pickling.dump`."""
_loaded: dict[Spot, tuple[Any, bool]] = {}
_loading = threading.RLock()
"""One thread loads at a time: two that ask for the same value must get the same object."""
_tokens = itertools.count()
_objects: weakref.WeakValueDictionary[str, SharedObject] = weakref.WeakValueDictionary()


# -- values in files ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Spot:
    """The place of a stored value.

    Attributes:
        path: The file.
        offset: Its offset in the file, in bytes.
        token: The token in the value's header, because the path may belong to another file now. Empty accepts any
            token.
    """

    path: str
    offset: int = 0
    token: str = ""


def write_value(
    descriptor: int, offset: int, value: Any, what: str, dump: Dump = dump, digest: Any = None
) -> tuple[str, int]:
    """Write a value to an open file. Blocks while it writes; large buffers are not copied on the way.

    Args:
        descriptor: The file, open for writing.
        offset: Where to, a multiple of what a mapping can begin at.
        value: Any object.
        what: Name of the value, for the error text.
        dump: How it is pickled.
        digest: An object of `hashlib`, which is told all that is written behind the header; the token is taken from it
            then.

    Returns:
        Its token, and where it ends.

    Raises:
        TypeError: If it cannot be pickled.
        OSError: If it cannot be written; what was written so far is cut off again.
    """
    file = io.BufferedWriter(io.FileIO(descriptor, "wb", closefd=False))
    sink = _Sink(file, digest)
    try:
        file.seek(offset + _HEADER.size)
        pickle_bytes, count = _emit(sink, value, what, dump)
        file.seek(offset)  # the header comes last: without it there is no value
        token = os.urandom(_TOKEN_BYTES // 2).hex() if digest is None else digest.hexdigest()[:_TOKEN_BYTES]
        file.write(_HEADER.pack(_MAGIC, token.encode(), pickle_bytes, count))
        file.close()
    except BaseException:
        with contextlib.suppress(OSError):
            file.close()
        os.ftruncate(descriptor, offset)
        raise
    return token, offset + _HEADER.size + sink.written_bytes


def digest_value(value: Any, what: str, dump: Dump, digest: Any) -> tuple[str, int]:
    """Give a digest all that `write_value` would, and return the same, without a file. Blocks to read the value."""
    sink = _Sink(None, digest)
    _emit(sink, value, what, dump)
    return digest.hexdigest()[:_TOKEN_BYTES], _HEADER.size + sink.written_bytes


class _Sink:
    """Where the parts of a value go: to a file, if there is one, and to a digest, if there is one.

    Attributes:
        written_bytes: How much it was.
    """

    def __init__(self, file: BinaryIO | None, digest: Any):
        self.written_bytes = 0
        self._file = file
        self._digest = digest

    def write(self, data: Any) -> int:
        """See `io.BufferedWriter.write`."""
        if self._digest is not None:
            self._digest.update(data)
        if self._file is not None:
            self._file.write(data)
        self.written_bytes += len(data)
        return len(data)


def _emit(sink: _Sink, value: Any, what: str, dump: Dump) -> tuple[int, int]:
    """Give a sink all that follows the header; returns the size of the pickle, and the number of buffers."""
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
    """The digest of a file: of a file with one value it is the one that `write_value` has made. Blocks to read it.

    Raises:
        OSError: If it cannot be read.
    """
    with files.open_to_read(path) as file:
        if file.read(len(_MAGIC)) == _MAGIC:
            file.seek(_HEADER.size)
        else:
            file.seek(0)
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return str(digest.hexdigest())


def read_value(spot: Spot, maps: bool = True) -> tuple[Any, bool]:
    """Load a value. Blocks while its pickle is read; large buffers are only mapped. May run user code.

    Args:
        spot: Where it is.
        maps: False to read large buffers, too: who loads many values runs out of descriptors, of which each mapping
            takes one.

    Returns:
        The value, and whether it has mapped buffers: those are its own, as if they had been copied.

    Raises:
        FileNotFoundError: If the value is not there (any more).
    """
    with _open(spot.path) as file:
        file.seek(spot.offset)
        head = file.read(_HEADER.size)
        magic, token, pickle_bytes, count = _HEADER.unpack(head) if len(head) == _HEADER.size else (b"", b"", 0, 0)
        if magic != _MAGIC or (spot.token and token != spot.token.encode()):
            raise FileNotFoundError(f"{spot.path} no longer holds the value that was stored there")
        if count == 0:
            return load(file), False
        begin = file.tell()
        file.seek(begin + pickle_bytes)
        sizes = struct.unpack(f"<{count}Q", file.read(8 * count))
        places = _places(file.tell(), sizes)
        content, base = _content(file, spot.offset, places, maps)
        file.seek(begin)
        view = memoryview(content)
        value = load(file, [view[start - base : end - base] for start, end in places])
    return value, not isinstance(content, bytearray)


def read_any(path: str, maps: bool = True) -> Any:
    """Load what is in a file: one value, or a plain pickle, as older versions wrote it. May run user code.

    Args:
        path: The file.
        maps: See `read_value`.

    Raises:
        FileNotFoundError: If it is not there.
    """
    with _open(path) as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            file.seek(0)
            return load(file)
    return read_value(Spot(path), maps)[0]


def _open(path: str) -> BinaryIO:
    """Open a file of values; the path of a descriptor may have come to mean anything, such as a pipe to wait at."""
    try:
        if stat.S_ISREG(os.stat(path).st_mode):
            return open(path, "rb")
    except PermissionError:
        if not path.startswith(_PROCESSES):  # otherwise the path may belong to another user's process now
            raise
    raise FileNotFoundError(f"{path} is no longer the file in which the value was stored")


def _stays_in_pickle(buffer: pickle.PickleBuffer, taken: list[memoryview]) -> bool:
    """Whether the pickler is to copy a buffer; else it is added to `taken`."""
    try:
        view = buffer.raw()
    except BufferError:  # it has gaps
        return True
    if len(view) < _OWN_BUFFER_BYTES:
        return True
    taken.append(view)
    return False


def _places(begin: int, sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    """Where buffers of these sizes begin and end if the first may begin at `begin`."""
    places = []
    for size in sizes:
        begin = _aligned(begin, _ALIGNMENT_BYTES)
        places.append((begin, begin + size))
        begin += size
    return places


def _content(
    file: BinaryIO, offset: int, places: list[tuple[int, int]], maps: bool
) -> tuple[mmap.mmap | bytearray, int]:
    """The part of a file that holds the places, writable without effect on the file, and where it begins."""
    begin, end = places[0][0], places[-1][1]
    if maps and end - begin >= _MAP_BYTES:
        try:
            return mmap.mmap(file.fileno(), end - offset, access=mmap.ACCESS_COPY, offset=offset), offset
        except OSError:  # a file system without mappings, or no descriptor is left
            pass
    file.seek(begin)
    content = bytearray(end - begin)
    if file.readinto(content) != len(content):  # type: ignore[attr-defined]  # a buffered reader has it
        raise FileNotFoundError(f"{file.name} no longer holds the value that was stored there: it was cut")
    return content, begin


def _aligned(offset: int, to_bytes: int) -> int:
    return -(-offset // to_bytes) * to_bytes


class ValueFile:
    """A file for any number of values, which lives as long as this object and this process. For any thread.

    Where there is `/proc`, the file has no name: other processes reach it through this one, and however this process
    ends, the system frees it. Elsewhere it is removed by `close`, or when the interpreter ends.

    Args:
        directory: Where it lies on disk; it is made if needed, those above it are not.
        elsewhere: How the user can have another directory, for the error when the disk is full.
        has_name: Whether it is to have a name in any case: other machines, which share the directory, are to reach it.

    Raises:
        OSError: If it cannot be made.
    """

    def __init__(self, directory: str, elsewhere: str, has_name: bool = False):
        self._directory = directory
        self._elsewhere = elsewhere
        self._end = 0
        self._lock = threading.Lock()
        self._descriptor, self._path = _open_in(directory, has_name)
        self._finalizer = weakref.finalize(self, _release, os.getpid(), self._descriptor, self._path, directory)

    def add(self, value: Any, what: str = "the value") -> Spot:
        """Append a value. Blocks while it is written.

        Args:
            value: Any object.
            what: Name of the value, for the error text.

        Raises:
            TypeError: If it cannot be pickled.
            OSError: If it cannot be written.
        """
        with self._lock:
            offset = _aligned(self._end, mmap.ALLOCATIONGRANULARITY)
            try:
                token, self._end = write_value(self._descriptor, offset, value, what)
            except OSError as error:
                text = f"{what} cannot be stored in {self._directory} ({error.strerror}); {self._elsewhere}"
                raise OSError(error.errno, text) from error
        return Spot(self._path, offset, token)

    def close(self) -> None:
        """Give up the file with all its values. Any number of times."""
        self._finalizer()


def _open_in(directory: str, has_name: bool) -> tuple[int, str]:
    """A new file in `directory`, and a path by which other processes of this user can open it."""
    files.make_directory(directory, 0o700, within=os.path.dirname(directory))
    path = os.path.join(directory, f"values-{os.urandom(8).hex()}")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, 0o600)
    if sys.platform != "linux" or has_name:
        return descriptor, path
    link = f"{_PROCESSES}{os.getpid()}/fd/{descriptor}"
    os.unlink(path)
    with contextlib.suppress(OSError):
        os.rmdir(directory)
    try:
        os.close(os.open(link, os.O_RDONLY))
        if os.stat("/proc/self/fd").st_uid == os.geteuid():  # else no process may look into this one
            return descriptor, link
    except OSError:  # a file system that does not keep files without names
        pass
    os.close(descriptor)
    files.make_directory(directory, 0o700, within=os.path.dirname(directory))
    return os.open(path, flags, 0o600), path


def _release(owner_pid: int, descriptor: int, path: str, directory: str) -> None:
    if os.getpid() != owner_pid:  # a forked child keeps its parent's file
        return
    os.close(descriptor)
    if os.path.dirname(path) == directory:
        with contextlib.suppress(OSError):
            os.unlink(path)
            os.rmdir(directory)


# -- handles -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class SharedFile(Spot):
    """A handle to a value in a file; small and picklable.

    Large buffers in the value, such as those of numpy arrays, belong to who has called `get`: to write to them changes
    no other trial's. Everything else belongs to all who ask for it in a process: treat it as read-only.
    """

    def get(self) -> Any:
        """The value. The first call in a process blocks to load it, later calls return the same object.

        Each call loads a value with large buffers again: it maps them, and reads the rest. The first call takes what
        `preload` has loaded.

        Raises:
            FileNotFoundError: If the value is gone: it is removed when its run ends.
        """
        with _loading:
            value, is_mapped = _loaded.get(self) or self._load()
            if is_mapped:
                self.forget()
            return value

    def preload(self) -> None:
        """Load the value for the first `get`, here or in a process that is forked from this one. Blocks.

        If it is a function that begins with imports of installed packages, they are imported, too.
        """
        with _loading:
            value, _ = _loaded.get(self) or self._load()
        from minitune.base.preload import import_ahead  # here, since a driver never needs it

        import_ahead(value)

    def _load(self) -> tuple[Any, bool]:
        _loaded[self] = found = read_value(self)
        return found

    def forget(self) -> None:
        """Drop the value from this process's cache; the next `get` loads it again."""
        with _loading:
            _loaded.pop(self, None)


class SharedObject:
    """A handle to a value of this very process, by reference; pickled and loaded here it is still the same.

    Args:
        value: Any object.

    Attributes:
        value: That object.
    """

    def __init__(self, value: Any):
        self.value = value
        self._token = f"{os.getpid()}-{next(_tokens)}"
        _objects[self._token] = self

    def get(self) -> Any:
        """The value itself."""
        return self.value

    def __reduce__(self) -> tuple[Any, ...]:
        return _find_object, (self._token,)


def _find_object(token: str) -> SharedObject:
    try:
        return _objects[token]
    except KeyError:
        raise LookupError(
            f"shared object {token} is not in this process any more: a SharedObject is a reference, which cannot "
            "leave its process and lives as long as its first owner keeps it"
        ) from None


@dataclass(frozen=True)
class ObjectRef(Spot):
    """A small picklable reference to a value that the user has stored with `put`. It may be part of a search space.

    Attributes:
        number: Counts the values that its process has stored.
    """

    number: int = 0

    @property
    def __name__(self) -> str:
        """The text that the names of trials show for it."""
        return f"object_{self.number}"

    def __repr__(self) -> str:
        return f"ObjectRef({self.__name__})"

    def get(self) -> Any:
        """The value: a copy for each call, so that no trial sees what another does to its own. Blocks to read it.

        Large buffers in it, such as those of numpy arrays, are mapped, and copied page by page where they are written.

        Raises:
            ObjectLostError: If the value is gone.
        """
        try:
            return read_value(self)[0]
        except FileNotFoundError:
            raise ObjectLostError(
                f"the value of {self!r} is gone: it lives until shutdown() or the end of the process that stored it; "
                "put() it again, and pass the space with the new reference to Tuner.restore(..., param_space=...)"
            ) from None


@dataclass(frozen=True)
class StoredValue(Spot):
    """Replaces a large value that a run has stored in a separate file. Unpickling it returns that value.

    So a configuration with such values is small in the journal and in messages to a worker. The worker maps the large
    buffers in them, and may write to its private copy.

    Attributes:
        name: The checksum after which the file is named.
        size_bytes: Size of the file.
        text: A short text of the value; `repr()` shows it.
    """

    name: str = ""
    size_bytes: int = 0
    text: str = ""

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        return _read_stored, (self.path, self.token)


def _read_stored(path: str, token: str) -> Any:
    try:
        return read_value(Spot(path, token=token))[0]
    except FileNotFoundError as error:
        raise ObjectLostError(
            f"a large value of a configuration is not in {path}, where it was stored: the run was moved or removed"
        ) from error


def store(value: Any, path: str | os.PathLike[str], what: str = "the value") -> SharedFile:
    """Pickle `value` into a file that only this user can read. Blocks while it writes.

    Large buffers are written from where they are, not held a second time in memory. The file appears whole or not at
    all.

    Args:
        value: Any object.
        path: Where to; the directory must exist. A file that is there is replaced.
        what: Name of the value, for the error text.

    Returns:
        The handle.

    Raises:
        TypeError: If it cannot be pickled; the text names the path to the offending member.
        OSError: If the file cannot be written.
    """
    target = os.path.abspath(os.fspath(path))
    temporary = f"{target}.tmp-{os.getpid()}-{threading.get_ident()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, 0o600)
    try:
        try:
            token, _ = write_value(descriptor, 0, value, what)
        finally:
            os.close(descriptor)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    return SharedFile(target, token=token)
