"""Checkpoint: a directory and its metadata; and how one is committed to a trial's directory.

Commit protocol. The content is copied into `.tmp-<number>-<attempt>` beside its place, listed, and renamed to
`checkpoint_<number>`. A reader therefore never sees half a checkpoint. It counts as committed once the driver's
journal names it; a directory without such a record is left over from a killed worker and is removed before the next
attempt. Numbers only grow over all attempts of a trial.
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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from minitune.base import files
from minitune.base.checks import shown
from minitune.base.files import TEMPORARY_PREFIX, absolute, local_path
from minitune.base.pickling import PROTOCOL

METADATA_FILE = ".metadata.json"
DICT_CHECKPOINT_FILE = "_dict_checkpoint.pkl"
"""Holds a checkpoint that is a dict: what a class returned from `save_checkpoint`, or `from_dict` was given."""
_IN_CHECKPOINT = re.compile(rf"(checkpoint_\d{{6,}}|{re.escape(TEMPORARY_PREFIX)}\d{{6,}}-\d+)/")
_TEMPORARY_COPY_PREFIX = "checkpoint_tmp_"
_CHUNK_BYTES = 1 << 18
"""Read at a time, into one buffer: memory that is new for each file costs more than the reading."""
_BLOCK_BYTES = 512
"""What `st_blocks` counts."""
_CRC_POLYNOMIAL = 0xEDB88320


class Gone:
    """An attribute that Ray Tune once had: reading it raises an AttributeError that tells what to write instead.

    Args:
        instead: The way out, as an imperative.
    """

    def __init__(self, instead: str):
        self._instead = instead
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__}.{self._name} is gone: {self._instead}")


class Checkpoint:
    """A directory of the user's files, by reference.

    Args:
        path: An existing or future directory. It is never moved or deleted on the user's behalf.
        filesystem: Accepted for Ray Tune's signature: None, or pyarrow's local file system.

    Raises:
        TypeError: If `path` is not a path.
        ValueError: If `filesystem` is not local, or `path` is the address of another one, such as `s3://...`.

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
        """The checkpoint that lies in directory `path`."""
        return cls(path)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Checkpoint:
        """A checkpoint that holds a dict, as in older Ray Tune; its temporary directory lives as long as the object.

        Args:
            data: What `to_dict` is to give back; anything that can be pickled.

        Raises:
            TypeError: If `data` is no mapping.
        """
        if not isinstance(data, Mapping):
            raise TypeError(f"data must be a dict, but got {type(data).__name__}")
        import tempfile

        checkpoint = cls(tempfile.mkdtemp(prefix=_TEMPORARY_COPY_PREFIX))
        weakref.finalize(checkpoint, _remove_own, os.getpid(), checkpoint.path)
        write_dict(checkpoint.path, dict(data))
        return checkpoint

    def to_dict(self) -> dict[str, Any]:
        """The dict of a checkpoint that is one: made by `from_dict`, or by a class whose `save_checkpoint` returns one.

        It is unpickled: only for checkpoints that you trust.

        Raises:
            AttributeError: If this checkpoint holds files instead, as to Ray Tune all do.
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
            path: The directory to fill; it is made if needed. By default a new temporary one, which the caller owns.

        Returns:
            The absolute path of the copy.

        Raises:
            FileNotFoundError: If the directory is gone.
            ValueError: If it holds something else than files, directories and links.
        """
        import tempfile

        with self.as_directory() as source:
            names = _walk(source)
            target = tempfile.mkdtemp(prefix=_TEMPORARY_COPY_PREFIX) if path is None else local_path(path)
            os.makedirs(target, exist_ok=True)
            _copy(source, names, target, within=target)
        return target

    @contextmanager
    def as_directory(self) -> Iterator[str]:
        """A context in which the content can be read; its value is the path itself, nothing is copied.

        Raises:
            FileNotFoundError: If the directory is gone.
        """
        require_directory(self.path)
        yield self.path

    def get_metadata(self) -> dict[str, Any]:
        """The metadata that was stored with `set_metadata`; `{}` if there is none."""
        try:
            with files.open_to_read(os.path.join(self.path, METADATA_FILE)) as file:
                metadata: dict[str, Any] = json.load(file)
        except FileNotFoundError:
            return {}
        return metadata

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Replace the metadata by `metadata`, a mapping that JSON can hold.

        Raises:
            TypeError: If it is none.
            OSError: If it cannot be written, or a link is in its place.
        """
        try:
            text = json.dumps(dict(metadata))
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"metadata must be a dict of what JSON can hold, but got {shown(metadata)}: {error}"
            ) from None
        files.atomic_write(os.path.join(self.path, METADATA_FILE), text.encode())

    def update_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Add `metadata` to what is there; equal keys take the new value."""
        if not isinstance(metadata, Mapping):
            raise TypeError(f"metadata must be a dict of what JSON can hold, but got {shown(metadata)}")
        self.set_metadata({**self.get_metadata(), **metadata})

    def __repr__(self) -> str:
        return f"Checkpoint(filesystem=local, path={self.path})"

    def __deepcopy__(self, memo: Any) -> Checkpoint:
        return self  # a reference stays one; the directory of `from_dict` goes with the object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __fspath__(self) -> str:
        return self.path  # so `os.path.join(checkpoint, "model.pt")` works

    @property
    def value(self) -> str:
        """Same as `path`: its name before Ray 2.7, as in `trial.checkpoint.value`."""
        return self.path

    def to_air_checkpoint(self) -> Checkpoint:
        """This checkpoint: Ray 2.0 to 2.6 had two classes."""
        return self


def _remove_own(owner_pid: int, path: str) -> None:
    """Remove a temporary copy; a forked child that ends leaves what its parent has."""
    import shutil

    if os.getpid() == owner_pid:
        shutil.rmtree(path, ignore_errors=True)


def require_directory(path: str) -> None:
    """Refuse the path of a checkpoint whose directory is gone.

    Raises:
        FileNotFoundError: If there is no such directory.
    """
    if not os.path.isdir(path):
        raise FileNotFoundError(f"the checkpoint's directory {path} does not exist any more")


def write_dict(directory: str, state: dict[str, Any]) -> None:
    """Make `directory` a checkpoint that holds the dict `state`."""
    import cloudpickle

    with files.new_file(os.path.join(directory, DICT_CHECKPOINT_FILE)) as file:
        cloudpickle.dump(state, file, protocol=PROTOCOL)


def read_dict(directory: str) -> dict[str, Any] | None:
    """The dict that the checkpoint in `directory` holds; None if it holds files."""
    try:
        with files.open_to_read(os.path.join(directory, DICT_CHECKPOINT_FILE)) as file:
            state: dict[str, Any] = pickle.load(file)
    except FileNotFoundError:
        return None
    return state


@dataclass(frozen=True)
class CheckpointRecord:
    """One committed checkpoint of a trial, as the journal knows it.

    Attributes:
        number: Its number within the trial, growing over all attempts.
        file_count: How many files and links it holds.
        total_bytes: The size of those files, in bytes.
        listing_crc: CRC32 over the sorted list of names, sizes and content checksums.
    """

    number: int
    file_count: int
    total_bytes: int
    listing_crc: int

    @property
    def directory(self) -> str:
        """Name of its directory below the trial's."""
        return directory_name(self.number)


def directory_name(number: int) -> str:
    """Name of the directory of checkpoint `number`, as Ray Tune writes it."""
    return f"checkpoint_{number:06d}"


def temporary_directory(trial_directory: str | os.PathLike[str], number: int, attempt: int) -> str:
    """Path of the directory in which checkpoint `number` is prepared; it is made, empty.

    Args:
        trial_directory: The trial's directory.
        number: The checkpoint's number.
        attempt: The trial's attempt, so that two attempts never meet.

    Raises:
        LinkError: If a link is in its place, or the trial's directory is one.
        OSError: If it cannot be made.
    """
    path = os.path.join(trial_directory, f"{TEMPORARY_PREFIX}{number:06d}-{attempt}")
    within = os.path.dirname(trial_directory)
    with files.entry_of(path, within) as entry:
        if files.is_link(entry):
            raise files.LinkError(path)
    files.remove_tree(path, within)
    with files.entry_of(path, within) as entry:
        # not the directories above: a trial's directory that somebody has removed is not made again
        os.mkdir(entry.name, dir_fd=entry.directory)
    return path


def commit_copy(
    source: str | os.PathLike[str], trial_directory: str | os.PathLike[str], number: int, attempt: int
) -> CheckpointRecord:
    """Copy directory `source` into the trial's directory as checkpoint `number`. Blocks while it copies.

    Args:
        source: The user's directory; it stays as it is. Links are copied as links, and holes of files as holes. If it
            is the trial's directory itself, the trial's checkpoints in it are left out: each would hold all before it.
        trial_directory: Where to.
        number: The checkpoint's number.
        attempt: The trial's attempt.

    Returns:
        The record of what was written.

    Raises:
        FileNotFoundError: If `source` is not a directory.
        ValueError: If it holds something else than files, directories and links.
        LinkError: If a link was planted in the trial's directory.
    """
    if not os.path.isdir(source):
        raise FileNotFoundError(f"the reported checkpoint's directory {os.fspath(source)!r} does not exist")
    names = _walk(source)
    if os.path.samefile(source, trial_directory):
        names = [name for name in names if not _IN_CHECKPOINT.match(name)]
    temporary = temporary_directory(trial_directory, number, attempt)
    try:
        entries = _copy(source, names, temporary, within=os.path.dirname(trial_directory))
        return _commit(temporary, trial_directory, number, entries)
    except BaseException:
        discard_temporary(temporary, trial_directory)
        raise


def commit_prepared(temporary: str, trial_directory: str | os.PathLike[str], number: int) -> CheckpointRecord:
    """Make the content of `temporary`, from `temporary_directory`, checkpoint `number`. Blocks while it reads.

    Args:
        temporary: The prepared directory; it is renamed.
        trial_directory: Where to.
        number: The checkpoint's number.

    Returns:
        The record of what was written.

    Raises:
        ValueError: If it holds something else than files, directories and links.
        LinkError: If it is a link itself: what lies behind it is not in the trial's directory.
    """
    if os.path.islink(temporary):
        raise files.LinkError(temporary)
    return _commit(temporary, trial_directory, number, _list_entries(temporary))


def discard_temporary(temporary: str, trial_directory: str | os.PathLike[str]) -> None:
    """Remove what was prepared for a checkpoint that has come to nothing; what is left is removed at the next start."""
    try:
        files.remove_tree(temporary, os.path.dirname(trial_directory))
    except OSError:
        pass


def matches(record: CheckpointRecord, trial_directory: str | os.PathLike[str]) -> bool:
    """Whether the directory on disk is what `record` says, byte by byte.

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
    """Whether the directory on disk has as many files and bytes as `record` says; reads none of them."""
    directory = os.path.join(trial_directory, record.directory)
    try:
        found = [os.path.join(directory, name) for name in _walk(directory) if not name.endswith("/")]
        total_bytes = sum(os.path.getsize(path) for path in found if not os.path.islink(path))
    except FileNotFoundError:  # what has no files needs no directory: checkpoints of a simulation have none
        return record.file_count == 0
    except (OSError, ValueError):
        return False
    return (len(found), total_bytes) == (record.file_count, record.total_bytes)


_Entry = tuple[str, int, int]
"""Name relative to the checkpoint, size in bytes, CRC32 of the content (of the target, for a link)."""


def _walk(top: str | os.PathLike[str]) -> list[str]:
    """Relative names of everything below `top`, sorted; directories end in a slash.

    Raises:
        OSError: If a directory cannot be read: what is in it would be missing.
        ValueError: If something is neither a file nor a directory nor a link: to read it might never end.
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
                    unread.append(name)
                elif not (entry.is_file(follow_symlinks=False) or entry.is_symlink()):
                    kind = files.kind_of(entry.stat(follow_symlinks=False).st_mode)
                    raise ValueError(
                        f"a checkpoint must consist of files, directories and links, but {entry.path} is {kind}; "
                        "leave it out of the directory"
                    )
                names.append(name)
    return sorted(names)


def _copy(source: str | os.PathLike[str], names: list[str], target: str, within: str) -> list[_Entry]:
    """Copy what `_walk` has found into an existing directory.

    Args:
        source: Where the names are.
        names: The entries to copy.
        target: Where to. Files that are there are replaced.
        within: See `files.entry_of`.
    """
    chunk = bytearray(_CHUNK_BYTES)
    return [_copy_entry(os.path.join(source, name), os.path.join(target, name), name, chunk, within) for name in names]


def _copy_entry(source: str, target: str, name: str, chunk: bytearray, within: str) -> _Entry:
    if name.endswith("/"):
        files.make_directory(target.rstrip("/"), within=within)
        return name, 0, 0
    if os.path.islink(source):
        to = os.readlink(source)
        with files.entry_of(target, within) as entry:
            os.symlink(to, entry.name, dir_fd=entry.directory)
        return _link_entry(name, to)
    with (
        io.FileIO(files.open_regular(source, follow=False)) as reader,
        open(files.open_own(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, within=within), "wb", buffering=0) as writer,
    ):
        copied = _read_entry(reader, name, chunk, writer)
        mode = stat.S_IMODE(os.fstat(reader.fileno()).st_mode)
        if sys.platform == "win32":
            os.chmod(target, mode)
        else:
            os.fchmod(writer.fileno(), mode)
    return copied


def _list_entries(directory: str) -> list[_Entry]:
    chunk = bytearray(_CHUNK_BYTES)
    return [_list_entry(os.path.join(directory, name), name, chunk) for name in _walk(directory)]


def _list_entry(path: str, name: str, chunk: bytearray) -> _Entry:
    if name.endswith("/"):
        return name, 0, 0
    if os.path.islink(path):
        return _link_entry(name, os.readlink(path))
    with io.FileIO(files.open_regular(path, follow=False)) as reader:
        return _read_entry(reader, name, chunk)


def _link_entry(name: str, to: str) -> _Entry:
    return name, 0, zlib.crc32(to.encode("utf-8", "surrogateescape"))


def _read_entry(reader: io.FileIO, name: str, chunk: bytearray, writer: io.FileIO | None = None) -> _Entry:
    """The entry of a file, which is read chunk by chunk, and copied if there is a `writer`. Holes are not read."""
    size = crc = 0
    with memoryview(chunk) as whole:
        for begin, end in _data(reader.fileno()):
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
    if writer is not None:
        writer.truncate(size)  # it may end in a hole
    return name, size, crc


def _data(descriptor: int) -> Iterator[tuple[int, int]]:
    """Where there is content in a file, up to its end: (begin, end) of each stretch between two holes, in bytes."""
    found = os.fstat(descriptor)
    end = 0
    if sys.platform != "win32" and found.st_blocks * _BLOCK_BYTES < found.st_size:
        while end < found.st_size:
            try:
                begin = os.lseek(descriptor, end, os.SEEK_DATA)
                end = min(os.lseek(descriptor, begin, os.SEEK_HOLE), found.st_size)
            except OSError as error:
                if error.errno != errno.ENXIO:  # a file system without holes, which has compressed it
                    break
                begin = end = found.st_size
            yield begin, end
        else:
            return
    yield end, sys.maxsize


def _crc_after_zeros(crc: int, count: int) -> int:
    """The CRC32 of something that has `crc`, followed by so many zero bytes, in the time of log(count).

    A zero byte changes the register of the CRC by a linear map over the bits; its powers of two are made by squaring.
    """
    register, power = crc ^ 0xFFFFFFFF, 0
    while count:
        if count & 1:
            register = _apply(_zeros_map(power), register)
        count, power = count >> 1, power + 1
    return register ^ 0xFFFFFFFF


@lru_cache(maxsize=64)
def _zeros_map(power: int) -> tuple[int, ...]:
    """What 2**power zero bytes do to each of the 32 bits of a CRC's register."""
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
    """Give a prepared directory its name, under which nothing may lie."""
    path = os.path.join(trial_directory, directory_name(number))
    with files.entry_of(path, os.path.dirname(trial_directory)) as entry:
        if files.is_link(entry):
            raise files.LinkError(path)
        temporary_name = os.path.basename(temporary) if entry.directory is not None else temporary
        os.rename(temporary_name, entry.name, src_dir_fd=entry.directory, dst_dir_fd=entry.directory)
    return _record(number, entries)
