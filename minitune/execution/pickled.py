"""Objects that JSON cannot hold, or not well: pickled, in the journal or beside it, until somebody may load them."""

from __future__ import annotations

import os
import pickle
import re
import sys
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from minitune.base import files
from minitune.base.text import ShortRepr
from minitune.error import TuneError
from minitune.pickling import dump_for_later
from minitune.shared import StoredValue
from minitune.value_file import digest_of, digest_value, read_any, write_value

LARGE_BYTES = 1_000_000
"""What takes more than about this in a record goes into a file of its own."""
INLINE_LIMIT_BYTES = 64 * 1024
"""Pickles up to this size stand in the record itself."""
TEXT_LIMIT = 200
"""Characters of an object's text that are recorded beside its pickle."""

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
"""This Python's version, as it is recorded beside a pickle."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MARK = ".unsynced"
"""Behind the name of a file that is not known to be on the disk."""
_KNOWN = 16
_UNCHANGEABLE = frozenset({bytes, str})
_ITEM_BYTES = 16
"""What a small value takes in a record, about."""
_SMALL = frozenset({int, float, bool, type(None)})
_WALKED = frozenset({dict, list, tuple})
_SIZED: dict[Any, int] = {str: 1, bytes: 1, bytearray: 1, set: _ITEM_BYTES, frozenset: _ITEM_BYTES}
"""How many bytes one unit of the length takes, by type."""
_DEPTH_LIMIT = 40
_NODE_LIMIT = 200_000
_REPR = ShortRepr(TEXT_LIMIT)


class ObjectStore:
    """The values that are too large for the journal: files named by the checksum of their content.

    A value is written straight into its file, so it is not in memory a second time, and equal values are written once.

    A record that names a file must never be on the disk without it. To bring 200 MB there may take a second, which the
    driver cannot wait. So a file that was not synced has a mark beside it, an empty file, until the sync of the journal
    has seen to it (`sync`). If there is a power cut before that, the mark stays, and who opens the journal next looks
    whether the file is whole (`find_torn`).

    Args:
        directory: Where they lie; it is made when needed.
        durability: See `journal`.
    """

    def __init__(self, directory: str, durability: str = "process"):
        self.directory = directory
        self._durability = durability
        self._unsynced: list[str] = []
        self._loaded: dict[str, Any] = {}
        # By id, the newest values that nobody can change: with it they are known again without a look at their content.
        self._known: OrderedDict[int, tuple[Any, StoredValue]] = OrderedDict()
        self._sizes: set[int] = set()  # of the others

    @classmethod
    def to_read(cls, directory: str) -> ObjectStore:
        """The store of a directory for reading: the same one while somebody holds it, and with it what it keeps."""
        store = _stores.get(directory)
        if store is None:
            store = _stores[directory] = cls(directory)
        return store

    def put(self, value: Any, text: str) -> StoredValue:
        """Store a value. Blocks while it is written.

        Args:
            value: Any object.
            text: A short text of it.

        Raises:
            TypeError: If it cannot be pickled.
            OSError: If it cannot be written.
        """
        known = self._known.get(id(value))
        if known is not None and known[0] is value:
            return known[1]
        if type(value) not in _UNCHANGEABLE and _weight(value) in self._sizes:
            digest = _sha256()
            token, size_bytes = digest_value(value, text, dump_for_later, digest)
            stored = StoredValue(self._path(digest.hexdigest()), 0, token, digest.hexdigest(), size_bytes, text)
            if _is_there(stored):  # to find that out takes less than to write it once more
                return stored
        stored = self._write(value, text)
        if type(value) in _UNCHANGEABLE:
            self._known[id(value)] = value, stored
            if len(self._known) > _KNOWN:
                self._known.popitem(last=False)
        else:
            self._sizes.add(_weight(value))
        return stored

    def _write(self, value: Any, text: str) -> StoredValue:
        run_path = os.path.dirname(self.directory)
        if not os.path.isdir(self.directory):
            files.make_directory(self.directory, within=run_path)
            if self._durability == "strict":
                files.sync_directory(run_path)
        temporary = os.path.join(self.directory, files.temporary_name())
        descriptor = files.open_own(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, files.BLOB_MODE, within=run_path)
        try:
            digest = _sha256()
            token, size_bytes = write_value(descriptor, 0, value, text, dump_for_later, digest)
            stored = StoredValue(self._path(digest.hexdigest()), 0, token, digest.hexdigest(), size_bytes, text)
            if _is_there(stored):
                files.remove_file(temporary)
            else:
                self._put_in_place(descriptor, temporary, stored)
        except BaseException:
            files.remove_file(temporary)
            raise
        finally:
            os.close(descriptor)
        return stored

    def _put_in_place(self, descriptor: int, temporary: str, stored: StoredValue) -> None:
        within = os.path.dirname(self.directory)
        if self._durability == "strict":
            files.sync_descriptor(descriptor)
        elif self._durability == "batched":
            mark = files.open_own(stored.path + _MARK, os.O_WRONLY | os.O_CREAT, files.BLOB_MODE, within=within)
            os.close(mark)
            self._unsynced.append(stored.path)
        files.put_in_place(temporary, stored.path, within)
        if self._durability == "strict":
            files.sync_directory(self.directory)

    def sync(self) -> None:
        """Bring what was stored to the disk. Blocks. For the thread that syncs the journal, just before it does.

        Raises:
            OSError: If that fails.
        """
        if not self._unsynced:
            return
        synced = list(self._unsynced)
        for path in synced:
            with files.open_to_read(path, follow=False) as file:
                files.sync_descriptor(file.fileno())
        files.sync_directory(self.directory)
        for path in synced:
            files.remove_file(path + _MARK)
        del self._unsynced[: len(synced)]

    def find_torn(self) -> list[str]:
        """The names of values that a power cut has kept from the disk. Blocks; only what has a mark is looked at.

        The marks of those that are whole go.

        Raises:
            OSError: If one cannot be brought to the disk now.
        """
        torn = []
        for found in files.names(self.directory):
            name = found.removesuffix(f".pkl{_MARK}")
            if name == found or _SHA256.fullmatch(name) is None:
                continue
            try:
                is_whole = digest_of(self._path(name), _sha256()) == name
            except OSError:
                is_whole = False
            if is_whole:
                self._unsynced.append(self._path(name))
            else:
                torn.append(name)
        self.sync()
        return torn

    def forget_torn(self, name: str) -> None:
        """Remove what there is of a value that `find_torn` has found: nothing names it any more."""
        within = os.path.dirname(self.directory)
        files.remove_file(self._path(name), within)
        files.remove_file(self._path(name) + _MARK, within)

    def by_reference(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """A record with what is large in it put into files. Blocks while they are written.

        Dicts, lists and tuples are walked. What is large there is replaced where it is: texts, bytes and arrays, and
        containers of much that is small.

        Args:
            record: A record, or some fields of one, which are never replaced themselves; it stays as it is.

        Returns:
            A copy, with the same objects where nothing is large, and else with copies of what leads to large values.

        Raises:
            OSError: If one cannot be written.
        """
        walk = _Lightening(self)
        return {field: walk.of(value) for field, value in record.items()}

    def load(self, name: str, keep: bool = False) -> Any:
        """Unpickle the value stored under `name`: only after it is known who has written the file. Blocks.

        Args:
            name: Its name.
            keep: Whether whoever asks for it again gets the same object.

        Raises:
            TuneError: If the file is missing or is not what its name says.
            Exception: Whatever unpickling raises.
        """
        if name not in self._loaded:
            value = self._read(name)
            if not keep:
                return value
            self._loaded[name] = value
        return self._loaded[name]

    def _read(self, name: str) -> Any:
        path = self._path(name)
        try:
            is_whole = digest_of(path, _sha256()) == name
        except OSError as error:
            raise TuneError(f"{path}, which the journal names, cannot be read ({error.strerror})") from error
        if not is_whole:
            raise TuneError(f"{path} is damaged: its content has another checksum than its name says")
        return read_any(path, maps=False)

    def forget(self) -> None:
        """Let go of the values that are kept in memory, so that they are known again."""
        self._known.clear()

    def holds_code(self, name: str) -> bool:
        """Whether code was pickled with the value stored under `name`. Blocks to read it."""
        with files.open_to_read(self._path(name)) as file:
            return b"cloudpickle" in file.read()

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, f"{check_name(name)}.pkl")


_stores: weakref.WeakValueDictionary[str, ObjectStore] = weakref.WeakValueDictionary()


def _is_there(stored: StoredValue) -> bool:
    try:
        return os.path.getsize(stored.path) == stored.size_bytes
    except OSError:
        return False


class _Lightening:
    """One walk of `by_reference`.

    Args:
        store: Where large values go.
    """

    def __init__(self, store: ObjectStore):
        self._store = store
        self._nodes = 0
        self._stored: dict[int, StoredValue] = {}  # by id: nothing changes while it lasts

    def of(self, tree: Any) -> Any:
        """A field of a record: the same object if nothing in it is large."""
        self._nodes = 0
        try:
            return self._lighten(tree, 0)[0]
        except _EndlessError:
            return tree  # it refers to itself: the codec knows what to do then

    def _lighten(self, value: Any, depth: int) -> tuple[Any, int]:
        """The value, or what stands for it or for parts of it, and about how many bytes that takes in a record."""
        kind = type(value)
        if kind in _WALKED:
            value, weight = self._lighten_members(value, depth)
        else:
            weight = _weight(value)
        if weight <= LARGE_BYTES or depth == 0:
            return value, weight
        found = self._stored.get(id(value))
        try:
            stored = self._stored[id(value)] = found or self._store.put(value, short_text(value))
        except TypeError:  # it cannot be pickled; the codec says so
            return value, weight
        return stored, _ITEM_BYTES

    def _lighten_members(self, container: Any, depth: int) -> tuple[Any, int]:
        weight = len(container) * _ITEM_BYTES
        self._nodes += len(container)
        if (weight > LARGE_BYTES and depth) or _SMALL.issuperset(map(type, _members(container))):
            return container, weight
        if depth > _DEPTH_LIMIT or self._nodes > _NODE_LIMIT:
            raise _EndlessError
        lighter: dict[Any, Any] = {}
        for key, member in container.items() if type(container) is dict else enumerate(container):
            light, more = self._lighten(member, depth + 1)
            weight += more + (len(key) if type(key) is str else 0)
            if light is not member:
                lighter[key] = light
        if not lighter:
            return container, weight
        if type(container) is dict:
            return {**container, **lighter}, weight
        return type(container)(lighter.get(index, member) for index, member in enumerate(container)), weight


def is_large(value: Any) -> bool:
    """Whether a value that has no parts, or nothing but numbers as such, is large: a text, bytes, an array, a list."""
    if type(value) in (list, tuple):
        return len(value) * _ITEM_BYTES > LARGE_BYTES and _SMALL.issuperset(map(type, value))
    return _weight(value) > LARGE_BYTES


def _weight(value: Any) -> int:
    """About how many bytes a value without parts takes in a record."""
    kind = type(value)
    if kind in _SIZED:
        return len(value) * _SIZED[kind]
    if kind.__name__ == "ndarray" and kind.__module__ == "numpy" and not value.dtype.hasobject:
        return int(value.nbytes)
    return _ITEM_BYTES


class _EndlessError(Exception):
    """A value is nested too deeply, or unfolds to too many nodes."""


def _members(container: Any) -> Iterable[Any]:
    return container.values() if type(container) is dict else container


def short_text(value: Any) -> str:
    """What to show instead of an object, in `TEXT_LIMIT` characters."""
    text = _REPR.repr(value).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 3] + "..."


@dataclass(frozen=True)
class Unrecorded:
    """Stands for an object that could not be pickled when it was to be recorded. It cannot be pickled either.

    Attributes:
        text: A short text of the object; `repr()` shows it.
        reason: Why it could not be.
    """

    text: str
    reason: str

    def __repr__(self) -> str:
        return self.text

    def __deepcopy__(self, memo: Any) -> Unrecorded:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(f"{self.text} is lost: {self.reason}")


@dataclass(frozen=True)
class Pickled:
    """An object in a record, still pickled: reading a journal does not run what its author wrote.

    Attributes:
        text: A short text of the object; `repr()` shows it.
        python: The Python version that pickled it, such as `3.11`.
        data: The pickle, if it stands in the record.
        sha256: Its name in the object store otherwise.
        size_bytes: The size of the pickle.
    """

    text: str
    python: str
    data: bytes | None
    sha256: str | None
    size_bytes: int
    store: ObjectStore | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        return self.text

    def load(self, keep: bool = False) -> Any:
        """Unpickle the object: only after it is known who has written the file.

        Args:
            keep: See `ObjectStore.load`.

        Raises:
            TuneError: If it cannot be loaded, with the reason.
        """
        if self.python != PYTHON and self._holds_code():  # which every version has its own form of
            raise TuneError(
                f"the recorded object {self.text} was pickled by Python {self.python} and holds code, which Python "
                f"{PYTHON} cannot load; resume with Python {self.python}, or put its class into an importable module"
            )
        try:
            if self.data is not None:
                return pickle.loads(self.data)
            store, name = self._place()
            return store.load(name, keep)
        except TuneError:
            raise
        except Exception as error:
            raise TuneError(
                f"the recorded object {self.text} cannot be loaded ({type(error).__name__}: {error}); it was pickled "
                f"by Python {self.python}, this is {PYTHON}; make what it was made of importable"
            ) from error

    def _holds_code(self) -> bool:
        if self.data is not None:
            return b"cloudpickle" in self.data
        store, name = self._place()
        return store.holds_code(name)

    def _place(self) -> tuple[ObjectStore, str]:
        if self.store is None or self.sha256 is None:
            raise TuneError(
                f"the recorded object {self.text} lies in a file of its own; pass the journal's object store to load it"
            )
        return self.store, self.sha256


def check_name(name: str) -> str:
    """Refuse a name that is no checksum: it becomes a part of a path.

    Raises:
        ValueError: If it is none.
    """
    if not isinstance(name, str) or _SHA256.fullmatch(name) is None:
        raise ValueError(f"an object's name must be a sha256 in hex, but got {name!r}")
    return name


def _sha256() -> Any:
    import hashlib

    return hashlib.sha256()
