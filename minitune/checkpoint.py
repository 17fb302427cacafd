"""Checkpoint: a directory and its metadata; and how a checkpoint is committed to a trial's directory.

Commit protocol: The worker copies the content to `.tmp-<number>-<attempt>` in the trial's directory, lists it, and
renames the directory to `checkpoint_<number>`. So a reader never sees a partial checkpoint. A user who writes to the
directory of `checkpoint_dir` has nothing copied. On a Ray cluster the driver renames it, so that an attempt that Ray
has given up can commit nothing. The checkpoint is committed when the driver's journal names it. A directory that it
does not name is a leftover, removed before the next attempt. Numbers increase over all attempts.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import stat
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from minitune.base import files
from minitune.base.checks import shown
from minitune.base.disk import disk_error, refuses_writes
from minitune.base.files import TEMPORARY_PREFIX, local_path
from minitune.base.forks import only_here
from minitune.base.pickling import PROTOCOL, by_value_pickler

METADATA_FILE = ".metadata.json"
DICT_CHECKPOINT_FILE = "_dict_checkpoint.pkl"
"""The file of a checkpoint that is a dict: returned by a class's `save_checkpoint`, or passed to `from_dict`."""
_DIRECTORY = re.compile(r"checkpoint_(\d{6,})")
# The directories of checkpoints in a trial's directory: committed, or in preparation, or about to be removed.
_OF_CHECKPOINT = re.compile(rf"(checkpoint_\d{{6,}}|{re.escape(TEMPORARY_PREFIX)}\d{{6,}}-\d+)/")
_TEMPORARY_COPY_PREFIX = "checkpoint_tmp_"


class Checkpoint:
    """A reference to a directory with the user's files.

    Args:
        path: The directory, which need not exist yet, and is never moved or deleted.
        filesystem: For Ray Tune's signature: None, or pyarrow's local one.

    Raises:
        TypeError: If `path` is not a path.
        ValueError: If one of them is not local, such as `s3://...`.

    Examples:
        >>> import tempfile
        >>> checkpoint = Checkpoint.from_directory(tempfile.mkdtemp())
        >>> with checkpoint.as_directory() as directory:
        ...     checkpoint.path == directory
        True
    """

    def __init__(self, path: str | os.PathLike[str], filesystem: Any = None):
        if filesystem is not None and getattr(filesystem, "type_name", None) != "local":
            raise ValueError(
                f"filesystem must be None or local: checkpoints live on the local file system, but got {filesystem!r}; "
                "mount the storage and pass a path"
            )
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(
                f"path must be a directory's path, but got {type(path).__name__}; write your state to a directory "
                "and pass that"
            )
        self.path = local_path(path)
        self.filesystem = filesystem

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """The checkpoint in directory `path`."""
        return cls(path)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Checkpoint:
        """A checkpoint that contains a dict, as in older Ray Tune. Its temporary directory lives as long as it.

        Raises:
            TypeError: If `data` is not a mapping.
        """
        if not isinstance(data, Mapping):
            raise TypeError(f"data must be a dict, but got {type(data).__name__}")
        import tempfile

        checkpoint = cls(tempfile.mkdtemp(prefix=_TEMPORARY_COPY_PREFIX))
        weakref.finalize(checkpoint, only_here(files.discard_tree), checkpoint.path)
        write_dict(checkpoint.path, dict(data))
        return checkpoint

    def to_dict(self) -> dict[str, Any]:
        """The dict in this checkpoint, from `from_dict` or from a class whose `save_checkpoint` returned a dict.

        Unpickles it: use it only for checkpoints that you trust.

        Raises:
            AttributeError: If this checkpoint has files, as all do in Ray Tune.
        """
        with self.as_directory() as directory:
            state = read_dict(directory)
        if state is None:
            raise AttributeError(f"the checkpoint in {self.path} is not a dict: read the files in as_directory()")
        return state

    def to_directory(self, path: str | os.PathLike[str] | None = None) -> str:
        """Copy the content. Blocks.

        Args:
            path: The target, made if necessary; by default a new temporary directory, which the caller must delete.
                What has the name of a file of the checkpoint is replaced, never through a link; other files stay.

        Returns:
            The path of the copy.

        Raises:
            FileNotFoundError: If there is no such directory.
            OSError: If a directory has the name of a file of the checkpoint, such as IsADirectoryError.
            ValueError: If it has anything but files, directories and links.
        """
        import tempfile

        with self.as_directory() as source:
            entries = walk(source)
            if path is None:
                target = tempfile.mkdtemp(prefix=_TEMPORARY_COPY_PREFIX)
            else:
                target = local_path(path)
            os.makedirs(target, exist_ok=True)
            if os.path.samefile(source, target):  # each file would replace itself
                return target
            try:
                _copy(source, entries, target)
            except BaseException:
                if path is None:  # the caller does not know what to delete
                    with suppress(OSError):
                        files.remove_tree(target)
                raise
        return target

    @contextmanager
    def as_directory(self) -> Iterator[str]:
        """A context manager for reading the content. It is the checkpoint's own path; nothing is copied.

        Raises:
            FileNotFoundError: If the directory does not exist.
        """
        require_directory(self.path)
        yield self.path

    def get_metadata(self) -> dict[str, Any]:
        """The metadata from `set_metadata`; `{}` if there is none."""
        try:
            with open(os.path.join(self.path, METADATA_FILE), "rb") as file:
                metadata: dict[str, Any] = json.load(file)
        except FileNotFoundError:
            return {}
        return metadata

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Replace the metadata by `metadata`, a mapping that can be written as JSON.

        Raises:
            TypeError: If `metadata` is not such a mapping.
        """
        try:
            text = json.dumps(dict(metadata))
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"metadata must be a dict of what JSON can hold, but got {shown(metadata)}: {error}"
            ) from None
        files.atomic_write(os.path.join(self.path, METADATA_FILE), text.encode())

    def update_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Merge `metadata` into the existing metadata. New values replace old ones."""
        if not isinstance(metadata, Mapping):
            raise TypeError(f"metadata must be a dict of what JSON can hold, but got {shown(metadata)}")
        self.set_metadata({**self.get_metadata(), **metadata})

    def __repr__(self) -> str:
        return f"Checkpoint(filesystem=local, path={self.path})"

    def __deepcopy__(self, memo: Any) -> Checkpoint:
        return self  # a copy would refer to the same directory; the temporary one of `from_dict` belongs to this object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __fspath__(self) -> str:
        return self.path  # so `os.path.join(checkpoint, "model.pt")` works

    @property
    def value(self) -> str:
        """The same as `path`: its name before Ray 2.7."""
        return self.path

    def to_air_checkpoint(self) -> Checkpoint:
        """This checkpoint itself: Ray 2.0 to 2.6 had two classes."""
        return self


def require_directory(path: str) -> None:
    """Check that a checkpoint's directory exists."""
    if not os.path.isdir(path):
        raise FileNotFoundError(f"the checkpoint's directory {path} does not exist any more")


def write_dict(directory: str, state: dict[str, Any]) -> None:
    """Write the dict `state` to `directory`, which then is a checkpoint."""
    with files.new_file(os.path.join(directory, DICT_CHECKPOINT_FILE)) as file:
        by_value_pickler()(file, protocol=PROTOCOL).dump(state)


def read_dict(directory: str) -> dict[str, Any] | None:
    """The dict in the checkpoint in `directory`; None if the checkpoint contains files."""
    try:
        with open(os.path.join(directory, DICT_CHECKPOINT_FILE), "rb") as file:
            state: dict[str, Any] = pickle.load(file)
    except FileNotFoundError:
        return None
    return state


@dataclass(frozen=True)
class CheckpointRecord:
    """One committed checkpoint of a trial, as the journal records it."""

    number: int
    file_count: int
    total_bytes: int
    names_crc: int

    @property
    def directory(self) -> str:
        """The name of its directory in the trial's directory."""
        return directory_name(self.number)


def directory_name(number: int) -> str:
    """The name of the directory of checkpoint `number`. It is the same as Ray Tune's."""
    return f"checkpoint_{number:06d}"


def number_of_directory(name: str) -> int | None:
    """The inverse of `directory_name`; None if the name is none of a checkpoint."""
    match = _DIRECTORY.fullmatch(name)
    return None if match is None else int(match[1])


def temporary_path(trial_directory: str | os.PathLike[str], number: int, attempt: int) -> str:
    """The path of the directory in which an attempt prepares checkpoint `number`."""
    return os.path.join(trial_directory, f"{TEMPORARY_PREFIX}{number:06d}-{attempt}")


def temporary_directory(trial_directory: str | os.PathLike[str], number: int, attempt: int) -> str:
    """Create the empty directory in which checkpoint `number` of this attempt is prepared, and return its path."""
    path = temporary_path(trial_directory, number, attempt)
    try:
        os.mkdir(path)  # without its parents: if someone has removed the trial's directory, do not create it again
    except FileExistsError:
        files.remove_tree(path)
        os.mkdir(path)
    return path


def commit_copy(
    source: str | os.PathLike[str], trial_directory: str | os.PathLike[str], number: int, attempt: int
) -> CheckpointRecord:
    """Copy directory `source` into the trial's directory as checkpoint `number`. Blocks while it copies. Links stay
    links. If `source` is the trial's directory itself, its checkpoints are left out.

    Raises:
        FileNotFoundError: If `source` is not a directory.
        ValueError: If it has anything but files, directories and links.
        DiskError: If the disk of the run refuses the copy.
    """
    if not os.path.isdir(source):
        text = f"the reported checkpoint's directory {os.fspath(source)!r} does not exist"
        if os.path.exists(source):
            text = f"a checkpoint is a directory, but {os.fspath(source)!r} is a file: write the file into a directory"
        if os.path.basename(source).startswith(TEMPORARY_PREFIX):
            text += "; a directory of checkpoint_dir() is renamed when it is reported, so it can be reported once"
        raise FileNotFoundError(text)
    leave_out = None
    if os.path.samefile(source, trial_directory):
        leave_out = _OF_CHECKPOINT
    entries = walk(source, leave_out)
    # A checkpoint gets its final name last, so a directory with that name has all files.
    with prepared(trial_directory, number, attempt) as temporary:
        with written_by_us(os.fspath(trial_directory)):
            _copy(source, entries, temporary)
        return commit_prepared(temporary, trial_directory, number)


@contextmanager
def written_by_us(trial_directory: str) -> Iterator[None]:
    """In the `with` block, only we write, and only to this directory.

    Raises:
        DiskError: If the disk of the run refuses what is written.
    """
    try:
        yield
    except OSError as error:
        if not refuses_writes(error):
            raise
        # No look at the disk. It may come too late: a trial beside this one may have removed its own half copy.
        raise disk_error(os.path.dirname(trial_directory), trial_directory, "written", error) from error


@contextmanager
def prepared(trial_directory: str | os.PathLike[str], number: int, attempt: int) -> Iterator[str]:
    """Yield the directory in which checkpoint `number` is prepared; see `temporary_directory`.

    After an error the directory is removed.

    Raises:
        DiskError: If the disk of the run has refused what was written.
    """
    temporary = temporary_directory(trial_directory, number, attempt)
    try:
        yield temporary
    except BaseException as error:
        discard_prepared(temporary, trial_directory, error)
        raise


def discard_prepared(temporary: str, trial_directory: str | os.PathLike[str], error: BaseException) -> None:
    """Remove a directory in which a checkpoint was prepared, because of an error."""
    refused = files.look_at_disk(os.fspath(trial_directory), error)  # before the removal, which frees space
    with suppress(OSError):  # the next start of the trial removes it, too
        files.remove_tree(temporary)
    if refused is not None:
        raise refused from error


def commit_prepared(temporary: str, trial_directory: str | os.PathLike[str], number: int) -> CheckpointRecord:
    """Commit a directory from `temporary_directory` as checkpoint `number`.

    Raises:
        ValueError: If it has anything but files, directories and links.
    """
    record = _record(number, walk(temporary))
    rename(temporary, os.fspath(trial_directory), number)
    return record


def matches(record: CheckpointRecord, trial_directory: str | os.PathLike[str]) -> bool:
    """Whether the directory on disk has the files that `record` says, in name and size. Does not read them."""
    try:
        return _record(record.number, walk(os.path.join(trial_directory, record.directory))) == record
    except (OSError, ValueError):
        return False


class ManifestEntry(NamedTuple):
    """A file, a directory or a link of a checkpoint."""

    name: str
    size_bytes: int = 0
    is_link: bool = False


def walk(top: str | os.PathLike[str], leave_out: re.Pattern[str] | None = None) -> list[ManifestEntry]:
    """Everything below `top`, sorted by name, but for the directories `leave_out`.

    Raises:
        OSError: If a directory cannot be read.
        ValueError: If an entry is no file, directory or link, and might never end.
    """
    entries: list[ManifestEntry] = []
    unread = [""]
    while unread:
        prefix = unread.pop()
        with os.scandir(os.path.join(top, prefix)) as found:
            for one in found:
                name = prefix + one.name
                if one.is_symlink():
                    entries.append(ManifestEntry(name, is_link=True))
                elif one.is_dir():
                    name += "/"
                    if leave_out is None or not leave_out.fullmatch(name):
                        unread.append(name)
                        entries.append(ManifestEntry(name))
                elif one.is_file():
                    entries.append(ManifestEntry(name, one.stat().st_size))
                else:
                    raise ValueError(
                        "a checkpoint must consist of files, directories and links, but "
                        f"{one.path} is none of them; leave it out of the directory"
                    )
    return sorted(entries)


def _copy(source: str | os.PathLike[str], entries: list[ManifestEntry], target: str) -> None:
    """Copy the entries that `walk` has found to an existing directory. What has their names there is replaced.

    An existing file or link is removed before a new file takes its place, so nothing is written through a link, or into
    a file that has other names.

    Raises:
        OSError: If a directory would have to be replaced, such as IsADirectoryError.
    """
    for entry in entries:
        origin = os.path.join(source, entry.name)
        copy = os.path.join(target, entry.name).rstrip("/")  # with the slash, a link would be followed
        is_directory = entry.name.endswith("/")
        if is_directory and os.path.isdir(copy) and not os.path.islink(copy):
            continue
        files.remove_file(copy)
        if is_directory:
            os.mkdir(copy)
        elif entry.is_link:
            os.symlink(os.readlink(origin), copy)
        else:
            _copy_file(origin, copy)


def _copy_file(source: str, target: str) -> None:
    """Copy a file's content and mode."""
    import shutil

    shutil.copyfile(source, target)
    os.chmod(target, stat.S_IMODE(os.stat(source).st_mode))


def _record(number: int, entries: list[ManifestEntry]) -> CheckpointRecord:
    # Names and sizes, not contents: to read a large checkpoint again would take as long as to write it. A torn copy or
    # a removed file shows nevertheless.
    listing = "".join(f"{entry.name}\0{entry.size_bytes}\n" for entry in entries)
    return CheckpointRecord(
        number=number,
        file_count=sum(not entry.name.endswith("/") for entry in entries),
        total_bytes=sum(entry.size_bytes for entry in entries),
        names_crc=zlib.crc32(listing.encode("utf-8", "surrogateescape")),
    )


def rename_prepared(temporary: str, trial_directory: str, number: int) -> None:
    """Give a prepared directory its final name, which must not exist yet."""
    path = os.path.join(trial_directory, directory_name(number))
    os.rename(temporary, path)


rename: Callable[[str, str, int], object] = rename_prepared
"""How a prepared directory gets its final name, which a Ray actor leaves to the driver."""
