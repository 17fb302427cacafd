"""Objects that JSON cannot hold: pickled, in the journal or beside it, and left so until somebody may load them."""

from __future__ import annotations

import os
import pickle
import re
import sys
from dataclasses import dataclass, field
from typing import Any

from minitune.error import TuneError
from minitune.execution import files

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
"""This Python's version, as it is recorded beside a pickle."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class ObjectStore:
    """The pickles that are too large for the journal: files named by the checksum of their content.

    Attributes:
        directory: Where they lie; it is made when needed.
        sync: Whether a file is on the disk before the record that names it is written.
    """

    directory: str
    sync: bool = False

    def put(self, data: bytes) -> str:
        """Store `data`; blocks while it is written.

        Returns:
            Its sha256, by which it is found again. Equal data are stored once.
        """
        name = _sha256(data)
        path = self._path(name)
        if not os.path.exists(path):
            if not os.path.isdir(self.directory):
                os.makedirs(self.directory, exist_ok=True)
                if self.sync:
                    files.sync_directory(os.path.dirname(self.directory))
            files.atomic_write(path, data, files.BLOB_MODE, self.sync)
        return name

    def get(self, name: str) -> bytes:
        """The data stored under `name`.

        Raises:
            TuneError: If the file is missing or is not what its name says.
        """
        path = self._path(name)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise TuneError(f"{path}, which the journal names, cannot be read ({error.strerror})") from error
        if _sha256(data) != name:
            raise TuneError(f"{path} is damaged: its content has another checksum than its name says")
        return data

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, f"{check_name(name)}.pkl")


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

    def load(self) -> Any:
        """Unpickle the object: only after it is known who has written the file.

        Raises:
            TuneError: If it cannot be loaded, with the reason.
        """
        data = self._bytes()
        if self.python != PYTHON and b"cloudpickle" in data:  # it holds code, which every version has its own form of
            raise TuneError(
                f"the recorded object {self.text} was pickled by Python {self.python} and holds code, which Python "
                f"{PYTHON} cannot load; resume with Python {self.python}, or put its class into an importable module"
            )
        try:
            return pickle.loads(data)
        except Exception as error:
            raise TuneError(
                f"the recorded object {self.text} cannot be loaded ({type(error).__name__}: {error}); it was pickled "
                f"by Python {self.python}, this is {PYTHON}; make what it was made of importable"
            ) from error

    def _bytes(self) -> bytes:
        if self.data is not None:
            return self.data
        if self.store is None or self.sha256 is None:
            raise TuneError(
                f"the recorded object {self.text} lies in a file of its own; pass the journal's object store to load it"
            )
        return self.store.get(self.sha256)


def check_name(name: str) -> str:
    """Refuse a name that is no checksum: it becomes a part of a path.

    Raises:
        ValueError: If it is none.
    """
    if not isinstance(name, str) or _SHA256.fullmatch(name) is None:
        raise ValueError(f"an object's name must be a sha256 in hex, but got {name!r}")
    return name


def _sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()
