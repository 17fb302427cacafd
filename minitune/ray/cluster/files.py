"""Files between the driver's machine and a node of a cluster: how they travel, and where they lie on the node.

A file in the run's directory, the *landmark*, shows whether a node sees that. If it does, a trial writes there, and the
driver only gives its checkpoints their names. If not, checkpoints and output travel in pieces, so that neither machine
needs the disk or the memory for a second copy:

    on the node: `Scratch`                                   on the driver's machine: `FileTransfer`
      | <-- piece(number, is_first)                            until there is no more
      | piece of the checkpoint -->                            write it; at the end, give the checkpoint its name
      | <-- output()                                           while there is more than came with the answer
      | <-- receive(name, piece, is_first) ... restore()       a checkpoint goes back

A piece has a few megabytes: many small files, or a part of a large one.
"""

from __future__ import annotations

import fcntl
import glob
import os
import pickle
import stat
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from minitune.actor.messages import Workplace
from minitune.base import files
from minitune.checkpoint import (
    ManifestEntry,
    directory_name,
    prepared,
    rename_prepared,
    require_directory,
    temporary_path,
    walk,
    written_by_us,
)
from minitune.error import RemoteError

PIECE_BYTES = 4 * 1024 * 1024
"""The size of a piece: larger takes more memory, smaller more messages."""
_ENTRY_BYTES = 256
"""What an entry without content counts, so that a piece has a limited number of them."""
_PREFIX = "minitune-ray-"
_LANDMARK = ".node-"
_LOCK = "lock"
_MAKING_S = 60.0
"""A directory that is younger may be one that its process has not locked yet."""
_OUTPUTS = ("stdout", "stderr")


# -- what travels ------------------------------------------------------------------------------------------------------
class Home(NamedTuple):
    """Where a trial works."""

    directory: str
    outputs: tuple[str, str]
    changes_directory: bool


class Delivery(NamedTuple):
    """What an actor's process sends back for a request: its answer, and the files that have come with it."""

    payload: bytes = b""
    error: RemoteError | None = None
    checkpoints: tuple[int, ...] = ()
    output: tuple[bytes, bytes] = (b"", b"")

    def opened(self) -> ValueOrError:
        """The value and the error."""
        if self.error is not None or not self.payload:
            return None, self.error
        try:
            return pickle.loads(self.payload), None
        except (Exception, SystemExit) as error:
            broken = TypeError(f"the value that an actor returned cannot be loaded here: {error!r}")
            broken.__cause__ = error
            return None, RemoteError.of(broken)


ValueOrError = tuple[Any, RemoteError | None]
"""A value, or the error that there is instead."""
Exchange = Generator[tuple[Any, ...], Any, ValueOrError]
"""Yields requests to an actor (a verb, its arguments), gets the deliveries, and returns the outcome."""


class FilePart(NamedTuple):
    """A directory, a link, or a part of a file, on its way.

    Attributes:
        name: Its path below the top. That of a directory ends in a slash.
        mode: The permissions of a file, in its last part.
    """

    name: str
    mode: int = 0
    link: str | None = None
    offset: int = 0
    content: bytes = b""


def read_pieces(top: str) -> Iterator[list[FilePart]]:
    """Read a directory in pieces, at least an empty one. Each step blocks."""
    piece: list[FilePart] = []
    left_bytes = PIECE_BYTES
    # `walk` sorts the names, so a directory comes before what is in it.
    for entry in walk(top):
        for part in _parts(top, entry):
            piece.append(part)
            left_bytes -= len(part.content) + _ENTRY_BYTES
            if left_bytes <= 0:
                yield piece
                piece = []
                left_bytes = PIECE_BYTES
    yield piece


def _parts(top: str, entry: ManifestEntry) -> Iterator[FilePart]:
    name = entry.name
    path = os.path.join(top, name)
    if name.endswith("/"):
        yield FilePart(name)
        return
    if entry.is_link:
        yield FilePart(name, link=os.readlink(path))
        return
    with open(path, "rb", buffering=0) as file:
        offset = 0
        while content := file.read(PIECE_BYTES):
            yield FilePart(name, offset=offset, content=content)
            offset += len(content)
        yield FilePart(name, stat.S_IMODE(os.fstat(file.fileno()).st_mode))


def write_piece(piece: list[FilePart], top: str) -> None:
    """Write a piece into a directory. Blocks.

    Raises:
        ValueError: If the piece would write outside of the directory.
        OSError: If it cannot be written.
    """
    for part in piece:
        path = os.path.join(top, part.name)
        # A node is less trusted than the driver's machine: user code runs there. A link in the way may lead elsewhere.
        parent = os.path.realpath(os.path.dirname(path.rstrip("/")))
        if not f"{parent}/".startswith(f"{os.path.realpath(top)}/"):
            raise ValueError(f"{part.name!r} is not the name of an entry of a directory")
        if part.name.endswith("/"):
            files.make_directory(path.rstrip("/"))
        elif part.link is not None:
            os.symlink(part.link, path)
        else:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666), "wb") as file:
                file.seek(part.offset)
                file.write(part.content)
                if not part.content:
                    # The mode comes last: it may not allow us to open the file once more.
                    os.fchmod(file.fileno(), part.mode)


# -- the landmark ------------------------------------------------------------------------------------------------------
def new_landmark(directory: str) -> str:
    """Create the file with a random name in the run's directory, and return its path."""
    # Those of drivers that were killed: a run has one driver at a time.
    for path in glob.glob(os.path.join(glob.escape(directory), f"{_LANDMARK}*")):
        with suppress(OSError):
            os.unlink(path)
    landmark = os.path.join(directory, f"{_LANDMARK}{os.urandom(16).hex()}")
    with open(landmark, "x", encoding="utf-8"):
        return landmark


# -- the driver's side -------------------------------------------------------------------------------------------------
class FileTransfer:
    """Brings the checkpoints and the output of one attempt into the trial's directory.

    If the attempt is stopped, its `Exchange` is dropped, and the part that has come is removed.
    """

    def __init__(self, home: Home, is_seen: bool, actor_id: str):
        self.home = home
        self._is_seen = is_seen
        self._actor_id = actor_id

    def ask(self, *request: Any) -> Exchange:
        """Send a request, and take what comes with its answer before its value is seen.

        Raises:
            OSError: If it cannot be written.
            DiskError: If the reason is the disk of the run.
        """
        delivery: Delivery = yield request
        yield from self._take_output(delivery)
        # Before the value is opened: once a report is known, the driver may record its checkpoint.
        for number in delivery.checkpoints:
            yield from self._commit(number)
        return delivery.opened()

    def drain(self) -> Exchange:
        """Get the output that no answer has brought, without checkpoints."""
        if not self._is_seen:
            yield from self._take_output((yield ("output",)))
        return None, None

    def _take_output(self, delivery: Delivery) -> Generator[tuple[Any, ...], Any, None]:
        self.write_output(delivery.output)
        while any(len(new) == PIECE_BYTES for new in delivery.output):  # there may be more
            delivery = yield ("output",)
            self.write_output(delivery.output)

    def write_output(self, output: tuple[bytes, bytes]) -> None:
        """Append new output to the trial's files."""
        for number, new in enumerate(output):
            if not new:
                continue
            with (
                written_by_us(self.home.directory),
                open(self.home.outputs[number], "ab") as file,
            ):
                file.write(new)

    def _commit(self, number: int) -> Generator[tuple[Any, ...], Any, None]:
        """Give a checkpoint its final name; before that, no other attempt can take it."""
        directory = self.home.directory
        attempt = int(self._actor_id.rpartition("#")[2])
        if self._is_seen:
            # The name of the attempt is in the path, so an attempt that Ray has given up cannot take this one's place.
            try:
                with written_by_us(directory):
                    rename_prepared(temporary_path(directory, number, attempt), directory, number)
            except FileNotFoundError as missing:
                raise FileNotFoundError(
                    f"a node has written checkpoint {number}, but it is not in {directory}: that is removed, or the "
                    "node has a copy of the run's directory instead of the directory itself"
                ) from missing
            return
        with prepared(directory, number, attempt) as temporary:
            is_first = True
            while True:
                piece, error = (yield ("piece", number, is_first)).opened()
                if error is not None:
                    raise OSError(f"checkpoint {number} could not be read on its node: {error.last_line()}")
                with written_by_us(directory):
                    if piece is None:
                        rename_prepared(temporary, directory, number)
                        return
                    write_piece(piece, temporary)
                is_first = False

    def restore(self, path: str, args: bytes) -> Exchange:
        """Send a directory to the node, and let the actor restore it."""
        # Before anything is sent, so that the error names the driver's directory and not one of the node.
        require_directory(path)
        name = os.path.basename(path)
        is_first = True
        for piece in read_pieces(path):
            error = (yield ("receive", name, piece, is_first)).error
            if error is not None:
                return None, error
            is_first = False
        return (yield from self.ask("restore", args))


# -- the node's side ---------------------------------------------------------------------------------------------------
class Scratch:
    """The directory of a process with trials, on a machine that does not see that of the run.

    A killed process leaves it behind, with a lock file that the system unlocks; see `remove_leftovers`.

    Directories that the driver sends lie beside the trial's, whose checkpoints may have the same names.

    Attributes:
        received: The directory that the driver has sent last, or empty.
    """

    def __init__(self, name: str) -> None:
        self._path = os.path.join(tempfile.gettempdir(), f"{_PREFIX}{name}")
        os.mkdir(self._path, mode=0o700)
        # The system releases the lock with the process, however that ends.
        self._lock = open(os.path.join(self._path, _LOCK), "wb")  # noqa: SIM115 - stays open
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.trial = ""
        self.received = ""
        self._outputs: list[str] = []
        self._read_bytes = [0, 0]
        self._pieces: Iterator[list[FilePart]] = iter(())
        self._fetched = ""  # the checkpoint that the driver has got last

    def settle(self, home: Home) -> Workplace:
        """Make an empty directory for the next trial, and return it."""
        self._drop_received()
        parent = os.path.join(self._path, "trial")
        files.discard_tree(parent)
        self.trial = os.path.join(parent, os.path.basename(home.directory))
        os.makedirs(self.trial)
        # One file on the driver's machine is one file here, so that the order of the lines stays.
        names = dict.fromkeys(home.outputs)
        self._outputs = [os.path.join(self._path, output) for output, _ in zip(_OUTPUTS, names, strict=False)]
        self._read_bytes = [0, 0]
        self._pieces = iter(())  # if the attempt before was stopped, a file of it may still be open
        self._fetched = ""
        for path in self._outputs:
            files.atomic_write(path, b"")  # empty, also after a trial before
        directory = self.trial if home.changes_directory else None
        return Workplace(directory, self._outputs[0], self._outputs[-1])

    def new_output(self) -> tuple[bytes, bytes]:
        """What was printed since the last call, at most `PIECE_BYTES` of each file."""
        found = [b"", b""]
        for number, path in enumerate(self._outputs):
            # Most answers bring none, and a look at the size is cheaper than opening the file.
            if os.stat(path).st_size > self._read_bytes[number]:
                with open(path, "rb") as file:
                    file.seek(self._read_bytes[number])
                    found[number] = file.read(PIECE_BYTES)
                self._read_bytes[number] += len(found[number])
        return found[0], found[1]

    def receive(self, name: str, piece: list[FilePart], is_first: bool) -> None:
        """Write a piece of a directory of the driver."""
        if is_first:
            self._drop_received()
            self.received = os.path.join(self._path, "received", name)
            os.makedirs(self.received)
        write_piece(piece, self.received)

    def _drop_received(self) -> None:
        files.discard_tree(os.path.join(self._path, "received"))
        self.received = ""

    def piece(self, number: int, is_first: bool) -> list[FilePart] | None:
        """Return the next piece of checkpoint `number`, after which the one before is not needed; None after the
        last.
        """
        path = os.path.join(self.trial, directory_name(number))
        if is_first:
            self._pieces = read_pieces(path)
        piece = next(self._pieces, None)
        if piece is None:
            # The latest one stays, because the trial may ask for it. That is this one now.
            files.discard_tree(self._fetched)
            self._fetched = path
            self._drop_received()
        return piece

    def remove(self) -> None:
        """Remove the directory with all that is in it."""
        self._lock.close()
        files.discard_tree(self._path)


def remove_leftovers() -> None:
    """Remove the directories that killed processes have left behind. Blocks."""
    for path in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), f"{_PREFIX}*")):
        with suppress(OSError):
            if time.time() - os.stat(path).st_mtime < _MAKING_S:
                continue
            with open(os.path.join(path, _LOCK), "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if the process lives
                files.discard_tree(path)
