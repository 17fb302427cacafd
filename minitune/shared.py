"""Values that are stored once, for any number of trials."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from dataclasses import dataclass
from typing import Any

from minitune.error import ObjectLostError
from minitune.value_file import Spot, read_value, write_value

_loaded: dict[Spot, tuple[Any, bool]] = {}
_loading = threading.RLock()
"""One thread loads at a time: two that ask for the same value must get the same object."""


@dataclass(frozen=True)
class SharedFile(Spot):
    """A handle to a value in a file; small and picklable.

    Large buffers in the value, such as those of numpy arrays, belong to who has called `get`: to write to them changes
    no other trial's. Everything else belongs to all who ask for it in a process: treat it as read-only.
    """

    def get(self) -> Any:
        """The value. The first call in a process blocks to load it, later ones return the same object.

        A value with large buffers is loaded by each call, which maps them anew and reads only the rest; what was loaded
        by `preload` goes to the first.

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
        from minitune._first_imports import import_ahead  # here, since a driver never needs it

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


_tokens = itertools.count()
_objects: weakref.WeakValueDictionary[str, SharedObject] = weakref.WeakValueDictionary()


def _find_object(token: str) -> SharedObject:
    try:
        return _objects[token]
    except KeyError:
        raise LookupError(
            f"shared object {token} is not in this process (any more): a SharedObject is a reference, which cannot "
            "leave its process and lives as long as its first owner keeps it"
        ) from None


@dataclass(frozen=True)
class ObjectRef(Spot):
    """A small picklable reference to a value that the user has stored with `put`. It may stand in a search space.

    Attributes:
        number: How many values its process has stored with it.
    """

    number: int = 0

    @property
    def __name__(self) -> str:
        """What the names of trials show of it."""
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
    """Stands for a large value that has a file of its own within a run. Where this is unpickled, it is that value.

    So a configuration with such values is small: this is what a run writes down, and what it sends to a worker. That
    maps the large buffers in them, and may write to them: what it gets is its own.

    Attributes:
        name: The checksum after which the file is named.
        size_bytes: How large the file is.
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
        what: What it is, for the error.

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
