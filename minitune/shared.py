"""Values that are stored once, for any number of trials."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from dataclasses import dataclass
from typing import Any

from minitune.error import ObjectLostError
from minitune.pickling import PROTOCOL, load, unpicklable_error

_HASH_CHUNK_BYTES = 1 << 20
_loaded: dict[str, Any] = {}
_loading = threading.RLock()
"""One thread loads at a time: two that ask for the same file must get the same object."""


@dataclass(frozen=True)
class SharedFile:
    """A handle to a pickled value in a file; small and picklable.

    The value belongs to all who ask for it in a process (and, where it was loaded before a fork, to the forked
    processes): treat it as read-only.

    Attributes:
        path: The file, absolute.
        sha256: Hex digest of its content, checked before it is loaded; None leaves the check out.
    """

    path: str
    sha256: str | None = None

    def get(self) -> Any:
        """The value. The first call in a process blocks to load it, later ones return the same object.

        Raises:
            FileNotFoundError: If the file is gone: it is removed when its run ends.
            ValueError: If the content is not what the digest says.
        """
        try:
            return _loaded[self.path]
        except KeyError:
            pass
        with _loading:
            if self.path not in _loaded:
                _loaded[self.path] = self._load()
            return _loaded[self.path]

    def _load(self) -> Any:
        with open(self.path, "rb") as file:
            if self.sha256 is not None:
                found = _digest(file)
                if found != self.sha256:
                    raise ValueError(
                        f"the content of {self.path} must have the SHA-256 {self.sha256}, but has {found}: "
                        "it was changed after it had been stored"
                    )
                file.seek(0)
            return load(file)

    def forget(self) -> None:
        """Drop the value from this process's cache; the next `get` loads it again."""
        with _loading:
            _loaded.pop(self.path, None)


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
class ObjectRef:
    """A small picklable reference to a value that the user has stored with `put`. It may stand in a search space.

    Attributes:
        path: The file that holds the value.
    """

    path: str

    @property
    def __name__(self) -> str:
        """What the names of trials show of it."""
        return f"object_{os.path.basename(self.path).partition('-')[0]}"

    def __repr__(self) -> str:
        return f"ObjectRef({self.__name__})"

    def get(self) -> Any:
        """The value: a copy for each call, so that no trial sees what another does to its own. Blocks to read it.

        Raises:
            ObjectLostError: If the value is gone.
        """
        try:
            with open(self.path, "rb") as file:
                return load(file)
        except FileNotFoundError:
            raise ObjectLostError(
                f"the value of {self!r} is gone: it lives until shutdown() or the end of the process that stored it; "
                "put() it again, and pass the space with the new reference to Tuner.restore(..., param_space=...)"
            ) from None


def store(value: Any, path: str | os.PathLike[str], what: str = "the value", digest: bool = False) -> SharedFile:
    """Pickle `value` into a file that only this user can read. Blocks while it writes.

    The pickler writes straight to the file, so a large array is not held a second time in memory. The file appears
    whole or not at all.

    Args:
        value: Any object.
        path: Where to; the directory must exist. A file that is there is replaced.
        what: What it is, for the error.
        digest: Compute the SHA-256 as well, which reads the file once more.

    Returns:
        The handle.

    Raises:
        TypeError: If it cannot be pickled; the text names the path to the offending member.
        OSError: If the file cannot be written.
    """
    import cloudpickle

    target = os.path.abspath(os.fspath(path))
    temporary = f"{target}.tmp-{os.getpid()}-{threading.get_ident()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            try:
                cloudpickle.dump(value, file, protocol=PROTOCOL)
            except OSError:
                raise
            except Exception as error:
                raise unpicklable_error(value, what, error) from error
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    handle = SharedFile(target)
    handle.forget()
    if not digest:
        return handle
    with open(target, "rb") as written:
        return SharedFile(target, _digest(written))


def _digest(file: Any) -> str:
    import hashlib

    digest = hashlib.sha256()
    while chunk := file.read(_HASH_CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()
