"""Paths as users give them, and as they are told."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from minitune._checks import shown

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def local_path(path: str | os.PathLike[str]) -> str:
    """The absolute form of a path that a user gave; `~` and `file://` are understood.

    Raises:
        TypeError: If it is no path.
        ValueError: If it is the address of something that is not on this machine, such as `s3://bucket`.
        FileNotFoundError: See `absolute`.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"a path must be text or a pathlib.Path, but got {shown(path)}")
    text = os.fspath(path)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return absolute(os.path.expanduser(text))
    if not text.startswith("file:///"):
        raise ValueError(f"a path must be local, but got {text!r}; mount the storage and pass the path of the mount")
    from urllib.parse import unquote

    return os.path.abspath(unquote(text.removeprefix("file://")))


def absolute(path: str) -> str:
    """The absolute form of a path.

    Raises:
        FileNotFoundError: If the path is relative and the working directory has been removed.
    """
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"a relative path such as {path!r} needs a working directory, but that of this process does not exist any "
            "more; pass an absolute path, or go to another directory first: os.chdir(...)"
        ) from None


@dataclass(frozen=True)
class StorageContext:
    """Where a run, and a trial of it, lie on disk.

    Attributes:
        storage_fs_path: The directory that holds runs.
        experiment_dir_name: Name of the run's directory.
        trial_dir_name: Name of the trial's directory; empty if no trial is meant.
    """

    storage_fs_path: str
    experiment_dir_name: str
    trial_dir_name: str = ""

    @classmethod
    def of_run(cls, directory: str, trial_dir_name: str = "") -> StorageContext:
        """Where the run in `directory`, and a trial of it, lie."""
        return cls(os.path.dirname(directory), os.path.basename(directory), trial_dir_name)

    @property
    def experiment_fs_path(self) -> str:
        """The run's directory."""
        return os.path.join(self.storage_fs_path, self.experiment_dir_name)

    @property
    def trial_fs_path(self) -> str:
        """The trial's directory."""
        return os.path.join(self.experiment_fs_path, self.trial_dir_name)
