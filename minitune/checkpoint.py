"""Checkpoint: a directory and its metadata; and how a checkpoint is committed to a trial's directory.

Commit protocol: The worker copies the content to `.tmp-<number>-<attempt>` in the trial's directory, lists it, and
renames the directory to `checkpoint_<number>`. So a reader never sees a partial checkpoint. On a Ray cluster the driver
renames it, so that an attempt that Ray has given up can commit nothing. The checkpoint is committed
when the driver's journal names it. A directory that the journal does not name is a leftover of a killed worker; it is
removed before the next attempt. Numbers increase over all attempts of a trial.
"""

from __future__ import annotations

import errno
import io
import json
import os
import pickle
import re
import stat
import sys
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from minitune.base import files
from minitune.base.checks import shown
from minitune.base.disk import look
from minitune.base.files import TEMPORARY_PREFIX, absolute, local_path
from minitune.base.pickling import PROTOCOL

METADATA_FILE = ".metadata.json"
DICT_CHECKPOINT_FILE = "_dict_checkpoint.pkl"
"""The file of a checkpoint that is a dict: returned by a class's `save_checkpoint`, or passed to `from_dict`."""
_OF_CHECKPOINT = re.compile(rf"(checkpoint_\d{{6,}}|{re.escape(TEMPORARY_PREFIX)}\d{{6,}}-\d+)/")
"""The directories of checkpoints in a trial's directory: committed, or in preparation, or about to be removed."""
_TEMPORARY_COPY_PREFIX = "checkpoint_tmp_"
_CHUNK_BYTES = 1 << 18
"""The size of the read buffer, which is reused: to allocate memory for each file costs more than to read it."""
_BLOCK_BYTES = 512
"""The unit of `st_blocks`."""
_CRC_POLYNOMIAL = 0xEDB88320


class Gone:
    """An attribute that Ray Tune dropped. Reading it raises an AttributeError that says what to write instead.

    Args:
        instead: What to do, in the imperative.
    """

    def __init__(self, instead: str):
        self._instead = instead
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__}.{self._name} is gone: {self._instead}")


class Checkpoint:
    """A reference to a directory with the user's files.

    Args:
        path: The directory. It need not exist yet. A Checkpoint never moves or deletes it.
        filesystem: Accepted for Ray Tune's signature: None, or pyarrow's local file system.

    Raises:
        TypeError: If `path` is not a path.
        ValueError: If `filesystem` is not local, or `path` is an address on another file system, such as `s3://...`.

    Example:
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
        text = os.fspath(path)
        scheme, separator, rest = text.partition("://")
        if separator and scheme != "file":
            raise ValueError(
                f"path must be a directory on the local file system, but got {text!r}; "
                "mount the storage and pass a path"
            )
        self.path = absolute(rest if separator else text)
        self.filesystem = filesystem

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """The checkpoint in directory `path`."""
        return cls(path)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Checkpoint:
        """A checkpoint that contains a dict, as in older Ray Tune. Its temporary directory lives as long as the object.

        Args:
            data: The dict that `to_dict` will return. It must be picklable.

        Raises:
            TypeError: If `data` is not a mapping.
        """
        if not isinstance(data, Mapping):
            raise TypeError(f"data must be a dict, but got {type(data).__name__}")
        import tempfile

        checkpoint = cls(tempfile.mkdtemp(prefix=_TEMPORARY_COPY_PREFIX))
        weakref.finalize(checkpoint, _remove_own, os.getpid(), checkpoint.path)
        write_dict(checkpoint.path, dict(data))
        return checkpoint

    def to_dict(self) -> dict[str, Any]:
        """The dict in this checkpoint, from `from_dict` or from a class whose `save_checkpoint` returned a dict.

        Unpickles the dict, so use it only for checkpoints that you trust.

        Raises:
            AttributeError: If this checkpoint contains files. In Ray Tune, all checkpoints do.
        """
        with self.as_directory() as directory:
            state = read_dict(directory)
        if state is None:
            raise AttributeError(f"the checkpoint in {self.path} is not a dict: read the files in as_directory()")
        return state

    from_bytes = Gone("write files to a directory, and pass that to Checkpoint.from_directory()")
    to_bytes = Gone("read the files of its directory under as_directory()")
    from_uri = Gone("mount the storage, and pass a directory to Checkpoint.from_directory()")
    to_uri = Gone("copy it with to_directory() to a directory on mounted storage")
    uri = Gone("a checkpoint is a directory: see Checkpoint.path")
    get_internal_representation = Gone("a checkpoint is a directory: see Checkpoint.path")
    get_preprocessor = Gone("read it from a file of the directory, or with get_metadata()")
    set_preprocessor = Gone("write it to a file of the directory, or with set_metadata()")

    def to_directory(self, path: str | os.PathLike[str] | None = None) -> str:
        """Copy the content.

        Args:
            path: The target directory. It is created if necessary. By default a new temporary directory, which the
                caller must delete.

        Returns:
            The absolute path of the copy.

        Raises:
            FileNotFoundError: If the checkpoint's directory does not exist.
            ValueError: If it contains anything but files, directories and links.
        """
        import tempfile

        with self.as_directory() as source:
            names = walk(source)
            target = tempfile.mkdtemp(prefix=_TEMPORARY_COPY_PREFIX) if path is None else local_path(path)
            os.makedirs(target, exist_ok=True)
            _copy(source, names, target)
        return target

    @contextmanager
    def as_directory(self) -> Iterator[str]:
        """A context manager for reading the content. Its value is the checkpoint's own path; nothing is copied.

        Raises:
            FileNotFoundError: If the directory does not exist.
        """
        require_directory(self.path)
        yield self.path

    def get_metadata(self) -> dict[str, Any]:
        """The metadata from `set_metadata`; `{}` if there is none."""
        try:
            with files.open_to_read(os.path.join(self.path, METADATA_FILE)) as file:
                metadata: dict[str, Any] = json.load(file)
        except FileNotFoundError:
            return {}
        return metadata

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Replace the metadata by `metadata`, a mapping that can be written as JSON.

        Raises:
            TypeError: If `metadata` is not such a mapping.
            OSError: If the file cannot be written.
        """
        try:
            text = json.dumps(dict(metadata))
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"metadata must be a dict of what JSON can hold, but got {shown(metadata)}: {error}"
            ) from None
        files.atomic_write(os.path.join(self.path, METADATA_FILE), text.encode())

    def update_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Merge `metadata` into the existing metadata. For equal keys, the new value replaces the old one."""
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
        """The same as `path`. Before Ray 2.7, its name was `value`, as in `trial.checkpoint.value`."""
        return self.path

    def to_air_checkpoint(self) -> Checkpoint:
        """This checkpoint itself. Ray 2.0 to 2.6 had two classes for checkpoints."""
        return self


def _remove_own(owner_pid: int, path: str) -> None:
    """Remove a temporary directory, but not in a forked child: the directory belongs to its parent."""
    import shutil

    if os.getpid() == owner_pid:
        shutil.rmtree(path, ignore_errors=True)


def require_directory(path: str) -> None:
    """Check that a checkpoint's directory exists.

    Raises:
        FileNotFoundError: If it does not exist.
    """
    if not os.path.isdir(path):
        raise FileNotFoundError(f"the checkpoint's directory {path} does not exist any more")


def write_dict(directory: str, state: dict[str, Any]) -> None:
    """Write the dict `state` to `directory`, which then is a checkpoint."""
    import cloudpickle

    with files.new_file(os.path.join(directory, DICT_CHECKPOINT_FILE)) as file:
        cloudpickle.dump(state, file, protocol=PROTOCOL)


def read_dict(directory: str) -> dict[str, Any] | None:
    """The dict in the checkpoint in `directory`; None if the checkpoint contains files."""
    try:
        with files.open_to_read(os.path.join(directory, DICT_CHECKPOINT_FILE)) as file:
            state: dict[str, Any] = pickle.load(file)
    except FileNotFoundError:
        return None
    return state


@dataclass(frozen=True)  # no named tuple: users have it in pickles of a `ResultGrid`
class CheckpointRecord:
    """One committed checkpoint of a trial, as the journal records it.

    Attributes:
        number: Its number within the trial. Numbers increase over all attempts.
        file_count: The number of files and links.
        total_bytes: The total size of the files, in bytes.
        listing_crc: The CRC32 of the sorted list of names, sizes and content checksums.
    """

    number: int
    file_count: int
    total_bytes: int
    listing_crc: int

    @property
    def directory(self) -> str:
        """The name of its directory in the trial's directory."""
        return directory_name(self.number)


def directory_name(number: int) -> str:
    """The name of the directory of checkpoint `number`. It is the same as Ray Tune's."""
    return f"checkpoint_{number:06d}"


def temporary_directory(trial_directory: str | os.PathLike[str], number: int, attempt: int) -> str:
    """Create the empty directory in which checkpoint `number` is prepared, and return its path.

    Args:
        trial_directory: The trial's directory.
        number: The checkpoint's number.
        attempt: The trial's attempt, so that two attempts never use the same directory.

    Raises:
        OSError: If the directory cannot be created.
    """
    path = os.path.join(trial_directory, f"{TEMPORARY_PREFIX}{number:06d}-{attempt}")
    try:
        os.mkdir(path)  # without its parents: if someone has removed the trial's directory, do not create it again
    except FileExistsError:
        files.remove_tree(path)
        os.mkdir(path)
    return path


def commit_copy(
    source: str | os.PathLike[str], trial_directory: str | os.PathLike[str], number: int, attempt: int
) -> CheckpointRecord:
    """Copy directory `source` into the trial's directory as checkpoint `number`. Blocks while it copies.

    Args:
        source: The user's directory. It is not changed. Links are copied as links, and holes in files as holes. If
            `source` is the trial's directory itself, the trial's checkpoints are left out. Otherwise each checkpoint
            would contain all earlier ones.
        trial_directory: The trial's directory.
        number: The checkpoint's number.
        attempt: The trial's attempt.

    Returns:
        The record of the checkpoint.

    Raises:
        FileNotFoundError: If `source` is not a directory.
        ValueError: If `source` contains anything but files, directories and links.
        DiskError: If the disk of the run refuses the copy.
    """
    if not os.path.isdir(source):
        raise FileNotFoundError(f"the reported checkpoint's directory {os.fspath(source)!r} does not exist")
    names = walk(source, leave_out=_OF_CHECKPOINT if os.path.samefile(source, trial_directory) else None)
    with prepared(trial_directory, number, attempt) as temporary:
        entries = _copy(source, names, temporary)
        return _commit(temporary, trial_directory, number, entries)


@contextmanager
def prepared(trial_directory: str | os.PathLike[str], number: int, attempt: int) -> Iterator[str]:
    """Yield the directory in which checkpoint `number` is prepared; see `temporary_directory`.

    After an error of the `with` block the directory is removed.

    Raises:
        DiskError: If the disk of the run has refused what was written.
    """
    temporary = temporary_directory(trial_directory, number, attempt)
    try:
        yield temporary
    except BaseException as error:
        refused = look(os.fspath(trial_directory), error)  # before the removal, which frees space
        discard_temporary(temporary)
        if refused is not None:
            raise refused from error
        raise


def commit_prepared(temporary: str, trial_directory: str | os.PathLike[str], number: int) -> CheckpointRecord:
    """Commit a directory from `temporary_directory` as checkpoint `number`. Blocks while it reads the files.

    Args:
        temporary: The prepared directory. It is renamed.
        trial_directory: The trial's directory.
        number: The checkpoint's number.

    Returns:
        The record of the checkpoint.

    Raises:
        ValueError: If the directory contains anything but files, directories and links.
    """
    return _commit(temporary, trial_directory, number, _list_entries(temporary))


def discard_temporary(temporary: str) -> None:
    """Remove the prepared directory of a failed checkpoint. If that fails, the next start of the trial removes it."""
    with suppress(OSError):
        files.remove_tree(temporary)


def matches(record: CheckpointRecord, trial_directory: str | os.PathLike[str]) -> bool:
    """Whether the directory on disk agrees with `record`, byte for byte.

    Args:
        record: The checkpoint's record.
        trial_directory: The trial's directory.
    """
    directory = os.path.join(trial_directory, record.directory)
    if not os.path.isdir(directory):
        return False
    try:
        return _record(record.number, _list_entries(directory)) == record
    except (OSError, ValueError):
        return False


def has_its_size(record: CheckpointRecord, trial_directory: str | os.PathLike[str]) -> bool:
    """Whether the directory on disk has as many files and bytes as `record` says. Does not read the files."""
    directory = os.path.join(trial_directory, record.directory)
    try:
        found = [os.path.join(directory, name) for name in walk(directory) if not name.endswith("/")]
        total_bytes = sum(os.path.getsize(path) for path in found if not os.path.islink(path))
    except FileNotFoundError:  # a checkpoint without files needs no directory; those of a simulation have none
        return record.file_count == 0
    except (OSError, ValueError):
        return False
    return (len(found), total_bytes) == (record.file_count, record.total_bytes)


_Entry = tuple[str, int, int]
"""The name relative to the checkpoint, the size in bytes, and the CRC32 of the content (for a link, of its target)."""


def walk(top: str | os.PathLike[str], leave_out: re.Pattern[str] | None = None) -> list[str]:
    """The sorted relative names of everything below `top`. Names of directories end in a slash.

    Args:
        top: The directory.
        leave_out: The names of directories to leave out. They are not read, since the driver may be removing them.

    Raises:
        OSError: If a directory cannot be read, since its files would be missing.
        ValueError: If an entry is not a file, directory or link, since reading it might never end.
    """
    names: list[str] = []
    unread = [""]
    while unread:
        prefix = unread.pop()
        with os.scandir(os.path.join(top, prefix)) as entries:
            for entry in entries:
                name = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    name += "/"
                    if leave_out is not None and leave_out.fullmatch(name):
                        continue
                    unread.append(name)
                elif not (entry.is_file(follow_symlinks=False) or entry.is_symlink()):
                    kind = files.kind_of(entry.stat(follow_symlinks=False).st_mode)
                    raise ValueError(
                        f"a checkpoint must consist of files, directories and links, but {entry.path} is {kind}; "
                        "leave it out of the directory"
                    )
                names.append(name)
    return sorted(names)


def _copy(source: str | os.PathLike[str], names: list[str], target: str) -> list[_Entry]:
    """Copy the entries that `walk` has found to an existing directory.

    Args:
        source: The directory of the entries.
        names: The entries to copy.
        target: The target directory. Existing files are replaced.
    """
    chunk = bytearray(_CHUNK_BYTES)
    return [_copy_entry(os.path.join(source, name), os.path.join(target, name), name, chunk) for name in names]


def _copy_entry(source: str, target: str, name: str, chunk: bytearray) -> _Entry:
    if name.endswith("/"):
        files.make_directory(target.rstrip("/"))
        return name, 0, 0
    if os.path.islink(source):
        to = os.readlink(source)
        os.symlink(to, target)
        return _link_entry(name, to)
    with (
        io.FileIO(files.open_regular(source)) as reader,
        open(target, "wb", buffering=0) as writer,
    ):
        copied = _read_entry(reader, name, chunk, writer)
        os.fchmod(writer.fileno(), stat.S_IMODE(os.fstat(reader.fileno()).st_mode))
    return copied


def _list_entries(directory: str) -> list[_Entry]:
    chunk = bytearray(_CHUNK_BYTES)
    return [_list_entry(os.path.join(directory, name), name, chunk) for name in walk(directory)]


def _list_entry(path: str, name: str, chunk: bytearray) -> _Entry:
    if name.endswith("/"):
        return name, 0, 0
    if os.path.islink(path):
        return _link_entry(name, os.readlink(path))
    with io.FileIO(files.open_regular(path)) as reader:
        return _read_entry(reader, name, chunk)


def _link_entry(name: str, to: str) -> _Entry:
    return name, 0, zlib.crc32(to.encode("utf-8", "surrogateescape"))


def _read_entry(reader: io.FileIO, name: str, chunk: bytearray, writer: io.FileIO | None = None) -> _Entry:
    """Read a file in chunks and return its entry. Copy it if there is a `writer`. Holes are skipped."""
    size = crc = filled = 0
    with memoryview(chunk) as whole:
        for begin, end in data_ranges(reader.fileno()):
            crc, size = _crc_after_zeros(crc, begin - size), begin
            reader.seek(begin)
            if writer is not None:
                writer.seek(begin)
            while count := reader.readinto(whole[: end - size]):
                crc = zlib.crc32(whole[:count], crc)
                size += count
                written = 0
                while writer is not None and written < count:
                    written += writer.write(whole[written:count])
                filled = size
    if writer is not None and filled < size:
        writer.truncate(size)  # it ends in a hole
    return name, size, crc


def data_ranges(descriptor: int) -> Iterator[tuple[int, int]]:
    """The (begin, end) positions of each data range between two holes of a file, in bytes."""
    found = os.fstat(descriptor)
    end = 0
    if found.st_blocks * _BLOCK_BYTES < found.st_size:
        while end < found.st_size:
            try:
                begin = os.lseek(descriptor, end, os.SEEK_DATA)
                end = min(os.lseek(descriptor, begin, os.SEEK_HOLE), found.st_size)
            except OSError as error:
                if error.errno != errno.ENXIO:  # no holes here: the file system compresses files
                    break
                begin = end = found.st_size
            yield begin, end
        else:
            return
    yield end, sys.maxsize


def _crc_after_zeros(crc: int, count: int) -> int:
    """Continue a CRC32 over `count` zero bytes, in O(log count).

    A zero byte changes the register of the CRC by a linear map over its bits. Squaring gives the map's powers of two.
    """
    register, power = crc ^ 0xFFFFFFFF, 0
    while count:
        if count & 1:
            register = _apply(_zeros_map(power), register)
        count, power = count >> 1, power + 1
    return register ^ 0xFFFFFFFF


@lru_cache(maxsize=64)
def _zeros_map(power: int) -> tuple[int, ...]:
    """The linear map of 2**power zero bytes: one column for each of the 32 bits of the CRC's register."""
    if power:
        half = _zeros_map(power - 1)
        return tuple(_apply(half, column) for column in half)
    columns = [1 << bit for bit in range(32)]
    for _ in range(8):
        columns = [column >> 1 ^ (_CRC_POLYNOMIAL if column & 1 else 0) for column in columns]
    return tuple(columns)


def _apply(columns: tuple[int, ...], register: int) -> int:
    result = 0
    for bit, column in enumerate(columns):
        if register >> bit & 1:
            result ^= column
    return result


def _record(number: int, entries: list[_Entry]) -> CheckpointRecord:
    text = "".join(f"{name}\0{size}\0{crc}\n" for name, size, crc in entries)
    return CheckpointRecord(
        number=number,
        file_count=sum(not name.endswith("/") for name, _, _ in entries),
        total_bytes=sum(size for _, size, _ in entries),
        listing_crc=zlib.crc32(text.encode("utf-8", "surrogateescape")),
    )


def _commit(
    temporary: str, trial_directory: str | os.PathLike[str], number: int, entries: list[_Entry]
) -> CheckpointRecord:
    rename(temporary, os.fspath(trial_directory), number)
    return _record(number, entries)


def rename_prepared(temporary: str, trial_directory: str, number: int) -> None:
    """Give a prepared directory its final name, which must not exist yet.

    Raises:
        OSError: If it cannot be renamed.
    """
    path = os.path.join(trial_directory, directory_name(number))
    os.rename(temporary, path)


rename: Callable[[str, str, int], object] = rename_prepared
"""How this process gives a prepared directory its final name. A Ray actor leaves that to the driver."""
