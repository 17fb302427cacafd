"""Values that are stored once, for any number of trials, and what stands for them.

* `Ref` stands for a value in a file: of `with_parameters`, or of `put` (`ObjectRef`);
* `Held` for an object of this process or of Ray's object store;
* `Stored` for a pickle that is too large for a journal, in a file of the run's `objects/`, named by its sha256.

A file of a `Ref` has this form. Each buffer begins at a multiple of 64 bytes::

    the pickle | buffer | buffer | ... | sizes of the buffers | size of the pickle, number of buffers, magic

Protocol 5 keeps large buffers, such as those of numpy, out of the pickle: storing does not copy them, and a reader maps
them, copy-on-write.

TypeError: a value cannot be pickled; `what` is its name. OSError: a file cannot be used.
"""

from __future__ import annotations

import contextlib
import itertools
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
from minitune.base.pickling import dump, load
from minitune.base.preload import Import, import_ahead
from minitune.error import ObjectLostError

if TYPE_CHECKING:
    import mmap

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
"""The version of this Python, recorded with each pickle that a later process may load."""
# The size of the pickle in bytes, the number of buffers, and a magic.
_FOOTER = struct.Struct("<QQ8s")
_MAGIC = b"mtvalue2"
# The alignment of buffers, in bytes, for vector instructions.
_ALIGNMENT_BYTES = 64
# Smaller buffers stay in the pickle. Not measured: a buffer of its own costs an entry, and one in the pickle a copy.
_OWN_BUFFER_BYTES = 64 * 1024
_CHUNK_BYTES = 1 << 20
# If all buffers together are smaller than this, they are read, because a mapping needs a descriptor.
_MAP_BYTES = 1 << 20
# By path: the values that callers in this process share, and whether each has mapped buffers.
_loaded: dict[str, tuple[Any, bool]] = {}
# Lets one thread load at a time, so that two threads get the same object for the same value.
_loading = threading.RLock()
fetchers: dict[str, Callable[[], Any]] = {}
"""By the token of a `Held` or the path of a file: functions that get a value from memory, or from another machine."""
# The paths of values that were pickled inside `noting`.
_noted: list[str] | None = None
_tokens = itertools.count()
# The stores of `ObjectStore.of`, by directory.
_stores: weakref.WeakValueDictionary[str, ObjectStore] = weakref.WeakValueDictionary()
_SHA256 = re.compile(r"[0-9a-f]{64}")


# -- handles -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Ref:
    """A small picklable reference to a value in a file."""

    path: str

    def __reduce__(self) -> tuple[Any, ...]:
        _note(self.path)
        return type(self), tuple(vars(self).values())

    def get(self) -> Any:
        """The value. Blocks while it is loaded.

        Large buffers are mapped. A value with such belongs to the caller: each call loads it again. All callers in a
        process share any other value; treat it as read-only.

        Raises:
            ObjectLostError: If the value no longer exists.
        """
        with _loading:
            found = _loaded.pop(self.path, None)
            if found is None:
                found = self._load()
            value, is_mapped = found
            if not is_mapped:
                _loaded[self.path] = found
            return value

    def preload(self, imports: Iterable[Import] = ()) -> None:
        """Load the value in advance, for the first `get` in this process or in one that is forked from it, and do the
        imports at its beginning. Blocks.
        """
        with _loading:
            if self.path not in _loaded:
                _loaded[self.path] = self._load()
        import_ahead(imports)

    def _load(self) -> tuple[Any, bool]:
        try:
            return read_value(self.path)
        except FileNotFoundError as error:
            raise ObjectLostError(f"a value that was stored for the trials of a run is gone: {error}") from error


@dataclass(frozen=True)
class ObjectRef(Ref):
    """The reference that `put` returns. A search space may contain it.

    Attributes:
        number: The number of the value in the process that has called `put`.
    """

    number: int

    @property
    def __name__(self) -> str:
        """The text that represents the value in names of trials."""
        return f"object_{self.number}"

    def __repr__(self) -> str:
        return f"ObjectRef({self.__name__})"

    def get(self) -> Any:
        """The value, which belongs to the caller: each call loads it again, and maps large buffers. Blocks.

        Raises:
            ObjectLostError: If the value no longer exists.
        """
        try:
            return read_value(self.path)[0]
        except FileNotFoundError:
            raise ObjectLostError(
                f"the value of {self!r} is gone: it lives until shutdown() or the end of the process that stored it; "
                "put() it again, and pass the space with the new reference to Tuner.restore(..., param_space=...)"
            ) from None


@dataclass(frozen=True)
class Held:
    """A reference to an object that `fetchers` know by its token. It need not be picklable."""

    token: str

    def get(self) -> Any:
        """The object. Blocks if it comes from elsewhere. ObjectLostError: this process has not got it."""
        fetch = fetchers.get(self.token)
        if fetch is None:
            raise ObjectLostError(
                f"a value that was stored for the trials of a run is gone: the object {self.token} is no longer in "
                "this process"
            )
        return fetch()


Handle = Ref | Held


def hold(value: Any) -> Held:
    """A reference to an object of this process, until `let_go`."""
    held = Held(f"{os.getpid()}-{next(_tokens)}")
    fetchers[held.token] = lambda: value
    return held


def let_go(held: Held) -> None:
    """Forget the object of a reference."""
    fetchers.pop(held.token, None)


@dataclass(frozen=True)
class Stored:
    """A value of a run that is in a file of its own. It is data: only `ObjectStore.load` runs code of its author.

    Attributes:
        text: What is shown in its place.
        python: The version of Python that pickled it, such as `3.11`.
    """

    name: str
    text: str
    size_bytes: int
    python: str = PYTHON

    def __repr__(self) -> str:
        return self.text


@contextlib.contextmanager
def noting() -> Iterator[list[str]]:
    """In the `with` block, the path of each value whose reference is pickled goes into a list. Not thread-safe."""
    global _noted
    before = _noted
    _noted = []
    try:
        yield _noted
    finally:
        _noted = before


def _note(path: str) -> None:
    if _noted is not None:
        _noted.append(path)


# -- values in files ---------------------------------------------------------------------------------------------------
def _write_value(file: BinaryIO, value: Any, what: str) -> None:
    """Write the content of a value's file. Blocks."""
    buffers: list[memoryview] = []
    dump(value, file, what, lambda buffer: _stays_in_pickle(buffer, buffers))
    pickle_bytes = file.tell()
    for buffer in buffers:
        file.write(bytes(-file.tell() % _ALIGNMENT_BYTES))
        file.write(buffer)
    file.write(struct.pack(f"<{len(buffers)}Q", *map(len, buffers)))
    file.write(_FOOTER.pack(pickle_bytes, len(buffers), _MAGIC))


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


def read_value(path: str) -> tuple[Any, bool]:
    """Load a value, and return whether it has mapped buffers. FileNotFoundError: it is no longer there. Blocks while it
    reads the pickle. May run user code.
    """
    fetch = fetchers.get(path)
    if fetch is not None:
        return fetch(), False
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END) - _FOOTER.size
        file.seek(max(0, end))
        footer = file.read(_FOOTER.size)
        if len(footer) < _FOOTER.size or not footer.endswith(_MAGIC):
            raise FileNotFoundError(f"{path} no longer holds the value that was stored there")
        pickle_bytes, count, _ = _FOOTER.unpack(footer)
        file.seek(end - 8 * count)
        sizes = struct.unpack(f"<{count}Q", file.read(8 * count))
        spans = []
        position = pickle_bytes
        for size in sizes:
            begin = position + -position % _ALIGNMENT_BYTES
            position = begin + size
            spans.append((begin, position))
        content: mmap.mmap | bytearray = bytearray()
        if spans:
            content = _content(file, spans[0][0], position)
        view = memoryview(content)
        file.seek(0)
        value = load(file, [view[begin:end] for begin, end in spans])
    return value, not isinstance(content, bytearray)


def _content(file: BinaryIO, begin: int, end: int) -> mmap.mmap | bytearray:
    """The first bytes of a file, up to `end`; the buffers begin at `begin`."""
    if end - begin >= _MAP_BYTES:
        import mmap  # few values are so large

        return mmap.mmap(file.fileno(), end, access=mmap.ACCESS_COPY)
    content = bytearray(end)
    file.seek(0)
    file.readinto(content)  # type: ignore[attr-defined]  # a buffered reader has it
    return content


def store(value: Any, path: str, what: str) -> None:
    """Store a value in a file of this user alone. The directory must exist. Blocks while it writes."""
    with files.new_file(path, files.BLOB_MODE) as file:
        _write_value(file, value, what)


class ValueDirectory:
    """Any number of stored values in a directory of their own, which goes with `close`, with this object, or with the
    interpreter. Thread-safe. `elsewhere` says what to do if it is full.
    """

    def __init__(self, path: str, elsewhere: str):
        self._path = path
        self._elsewhere = elsewhere
        self.close = weakref.finalize(self, only_here(files.discard_tree), path)

    def put(self, value: Any, what: str = "the value") -> Ref:
        """Store any value. Blocks while it writes."""
        path = os.path.join(self._path, f"{os.urandom(8).hex()}.pkl")
        try:
            files.make_directory(self._path, 0o700)
            store(value, path, what)
        except OSError as error:
            text = f"{what} cannot be stored in {self._path} ({error.strerror}); {self._elsewhere}"
            raise OSError(error.errno, text) from error
        return Ref(path)


# -- values of a run ---------------------------------------------------------------------------------------------------
class ObjectStore:
    """The values of a run that are too large for its journal, in files named by the checksum of their content.

    Equal values are stored once, and a damaged file is noticed.

    The background sync of the journal first syncs the files that its records name, which may take a second. After a
    power cut before that, the journal may name a file that is not whole: a load finds that, and its error
    says how to keep the records before.
    """

    def __init__(self, directory: str):
        self.directory = directory
        self._unsynced: list[str] = []
        self._loaded: dict[str, Any] = {}  # by name, the values that trials share
        self._whole: set[str] = set()  # names of values whose files are whole
        self._taken_in: dict[str, Stored] = {}  # by the path of a value of `put`

    @classmethod
    def of(cls, directory: str) -> ObjectStore:
        """The store of a directory: one for all readers and writers of a process."""
        found = _stores.get(directory)
        if found is None:
            found = cls(directory)
            _stores[directory] = found
        return found

    def put(self, data: bytes, text: str) -> Stored:
        """Store a pickle for a later process, and return what stands for it. Blocks. `text` is shown in its place."""
        stored = Stored(_sha256(data).hexdigest(), text, len(data))
        if not self._has(stored):
            files.make_directory(self.directory, files.OWN_DIRECTORY_MODE)
            path = self.path_of(stored.name)
            files.atomic_write(path, data, files.BLOB_MODE)
            self._written(stored.name, path)
        return stored

    def take_in(self, path: str) -> Stored | None:
        """Copy the file of a value of `put` into the store: the run outlives the process that has put it. None if it
        is gone. Blocks.
        """
        directory, name = os.path.split(path)
        if directory == self.directory:
            return Stored(name.removesuffix(".pkl"), "", os.path.getsize(path))
        if path not in self._taken_in:
            files.make_directory(self.directory, files.OWN_DIRECTORY_MODE)
            temporary = os.path.join(self.directory, files.temporary_name())
            try:
                files.link_or_copy(path, temporary)
                stored = Stored(_digest_of(temporary), "", os.path.getsize(temporary))
                if not self._has(stored):
                    target = self.path_of(stored.name)
                    os.replace(temporary, target)
                    self._written(stored.name, target)
            except FileNotFoundError:
                return None
            finally:
                files.remove_file(temporary)
            self._taken_in[path] = stored
        return self._taken_in[path]

    def _written(self, name: str, path: str) -> None:
        self._unsynced.append(path)  # only now, because another thread may sync at any time
        self._whole.add(name)

    def _has(self, stored: Stored) -> bool:
        """Whether the file of a value is there and whole."""
        path = self.path_of(stored.name)
        try:
            if os.path.getsize(path) != stored.size_bytes:
                return False
            if stored.name in self._whole:
                return True
            if _digest_of(path) != stored.name:
                return False
        except OSError:
            return False
        self._written(stored.name, path)  # the earlier driver may have been killed before its sync
        return True

    def sync(self) -> None:
        """Sync the stored files to the disk. Blocks."""
        if not self._unsynced:
            return
        # The driver may add more meanwhile. They wait for the next sync.
        synced = list(self._unsynced)
        for path in synced:
            with open(path, "rb") as file:
                files.sync_descriptor(file.fileno())
        files.sync_directory(self.directory)
        del self._unsynced[: len(synced)]

    def load(self, stored: Stored, is_shared: bool = False) -> Any:
        """Unpickle a stored value. Blocks. Check first who wrote the file (`lock.check_trusted`). If it `is_shared`,
        the next call returns the same object.

        Raises:
            ObjectLostError: If the file is missing or does not match the checksum.
        """
        if stored.name in self._loaded:
            return self._loaded[stored.name]
        value = pickle.loads(self.content(stored))
        if is_shared:
            self._loaded[stored.name] = value
        return value

    def check(self, name: str) -> None:
        """Check that the file of a value is whole; otherwise raise ObjectLostError. Blocks while it reads the file."""
        path = self.path_of(name)
        try:
            is_whole = _digest_of(path) == name
        except OSError as error:
            raise ObjectLostError(f"{path}, which the journal names, cannot be read ({error.strerror})") from error
        if not is_whole:
            raise ObjectLostError(f"{path} is damaged: its content has another checksum than its name says")

    def content(self, stored: Stored) -> bytes:
        """The pickle of a stored value. Blocks while it reads. ObjectLostError: see `load`."""
        self.check(stored.name)
        return files.read_bytes(self.path_of(stored.name))

    def path_of(self, name: str) -> str:
        """The path of a stored value. ValueError: the name is no checksum."""
        return os.path.join(self.directory, f"{check_object_name(name)}.pkl")


def check_object_name(name: str) -> str:
    """Check that a name, which becomes a part of a path, is a checksum. ValueError."""
    if not isinstance(name, str) or _SHA256.fullmatch(name) is None:
        raise ValueError(f"an object's name must be a sha256 in hex, but got {name!r}")
    return name


def holds_code(pickled: bytes) -> bool:
    """Whether a pickle contains code, whose format differs between Python versions."""
    return b"cloudpickle" in pickled


def _digest_of(path: str) -> str:
    """The sha256 of a file. Blocks."""
    digest = _sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return str(digest.hexdigest())


def _sha256(data: bytes = b"") -> Any:
    import hashlib

    return hashlib.sha256(data)
