"""The channel between driver and worker: frames over one pair of connected sockets.

A frame is magic, version, kind, call number, length (64 bit), CRC32 of all that and of the body, then the body. The
driver's end never blocks, in either direction: a worker that is stopped in the middle of a message holds up nobody.
The worker's end blocks: its control thread always reads, so two ends that write at once cannot lock each other out.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from minitune.actor.limits import MESSAGE_BYTES
from minitune.actor.loop import READ, WRITE, Loop
from minitune.actor.messages import Boot, Call, Hello, Message, Move, Place, Quit, Raised, Returned
from minitune.error import RemoteError

_MAGIC = b"mT"
_VERSION = 1
_HEAD = struct.Struct("!2sBBIQ")
_CRC = struct.Struct("!I")
_COUNT = struct.Struct("!I")
HEADER_BYTES = _HEAD.size + _CRC.size
_NONE = 0xFFFFFFFF
_CHUNK_BYTES = 64 * 1024  # larger buffers are mapped and unmapped by each read: ten times the cost (measured)
_ATOMIC_BYTES = 64 * 1024
_NO_SIGNAL: int = getattr(socket, "MSG_NOSIGNAL", 0)
"""A user who has put SIGPIPE back to its default must not be killed by a write to a dead worker."""

_BOOT, _CALL, _QUIT, _MOVE, _HELLO, _RETURNED, _RAISED = range(1, 8)


class ProtocolError(Exception):
    """What arrived is not a frame of ours: bad magic, version, checksum, length, kind or order."""


class ChannelClosedError(Exception):
    """The other end is closed, or ours was closed by somebody else.

    Attributes:
        is_ours: Whether it is our own descriptor that does not work any more.
    """

    def __init__(self, text: str, is_ours: bool = False):
        super().__init__(text)
        self.is_ours = is_ours

    @classmethod
    def of(cls, error: OSError) -> ChannelClosedError:
        """Tell by the error number whose fault it was."""
        return cls(str(error), is_ours=error.errno in (errno.EBADF, errno.ENOTSOCK))


# -- plain fields ----------------------------------------------------------------------------------------------


def join_fields(fields: Sequence[str | bytes | None]) -> bytes:
    """Pack texts and bytes into one piece of bytes, without any object format.

    Args:
        fields: At most 2**32 - 2 bytes each. Lone surrogates in texts survive.

    Returns:
        What `split_fields` takes apart.
    """
    parts = [_COUNT.pack(len(fields))]
    for value in fields:
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        parts.append(_COUNT.pack(_NONE if data is None else len(data)))
        if data is not None:
            parts.append(data)
    return b"".join(parts)


def split_fields(data: bytes) -> list[bytes | None]:
    """Take apart what `join_fields` has packed.

    Raises:
        ProtocolError: If `data` is not such a piece.
    """
    try:
        (count,) = _COUNT.unpack_from(data)
        position = _COUNT.size
        fields: list[bytes | None] = []
        for _ in range(count):
            (length,) = _COUNT.unpack_from(data, position)
            position += _COUNT.size
            if length == _NONE:
                fields.append(None)
                continue
            if position + length > len(data):
                raise ProtocolError(f"a field of {length} bytes does not fit into a body of {len(data)}")
            fields.append(data[position : position + length])
            position += length
    except struct.error:
        raise ProtocolError(f"a body of {len(data)} bytes breaks off in a field") from None
    return fields


def as_text(value: bytes | None) -> str:
    """A field as text; an absent one is empty."""
    return (value or b"").decode("utf-8", "surrogatepass")


def _optional(value: bytes | None) -> str | None:
    return None if value is None else as_text(value)


def _place_fields(place: Place) -> list[str | bytes | None]:
    umask = None if place.umask is None else str(place.umask)
    fields: list[str | bytes | None] = [place.directory, place.stdout, place.stderr, umask]
    for name, value in place.env.items():
        fields += [name, value]
    return fields


def _place(fields: Sequence[bytes | None]) -> Place:
    names, values = fields[4::2], fields[5::2]
    return Place(
        directory=_optional(fields[0]),
        stdout=_optional(fields[1]),
        stderr=_optional(fields[2]),
        umask=None if fields[3] is None else int(fields[3]),
        env={as_text(name): _optional(value) for name, value in zip(names, values, strict=True)},
    )


# -- frames ----------------------------------------------------------------------------------------------------


def check_size(size_bytes: int, limit_bytes: int) -> None:
    """Refuse a message that the other end would refuse.

    Raises:
        ValueError: If `size_bytes` is above `limit_bytes`.
    """
    if size_bytes > limit_bytes:
        raise ValueError(
            f"a message must not be longer than {limit_bytes} bytes, but this one has {size_bytes}: "
            "write large data to a file, such as a checkpoint, and send its path"
        )


def encode(message: Message, limit_bytes: int = MESSAGE_BYTES) -> list[bytes]:
    """Make the frame of a message.

    Args:
        message: Any message.
        limit_bytes: The longest body allowed.

    Returns:
        The frame in parts, so that a large payload is not copied.

    Raises:
        ValueError: If the body is longer than `limit_bytes`.
    """
    kind, number, body = _body(message)
    length = sum(map(len, body))
    check_size(length, limit_bytes)
    head = _HEAD.pack(_MAGIC, _VERSION, kind, number, length)
    crc = zlib.crc32(head)
    for part in body:
        crc = zlib.crc32(part, crc)
    return [head + _CRC.pack(crc), *body]


def _body(message: Message) -> tuple[int, int, list[bytes]]:
    """The kind, the number and the body of a message."""
    if isinstance(message, Returned):
        return _RETURNED, message.number, [message.payload]
    if isinstance(message, Call):
        return _CALL, message.number, [join_fields([message.method]), message.payload]
    if isinstance(message, Boot):
        settings = join_fields(_place_fields(message.place))
        lists = join_fields([join_fields(message.sys_path), join_fields(message.argv), str(message.limit_bytes)])
        return _BOOT, 0, [join_fields([settings, lists]), message.factory]
    if isinstance(message, Quit):
        return _QUIT, message.number, [b"keep" if message.keep else b""]
    if isinstance(message, Move):
        return _MOVE, message.number, [join_fields(_place_fields(message.place))]
    if isinstance(message, Hello):
        return _HELLO, 0, [str(message.pid).encode()]
    error = message.error
    fields = [error.type_name, error.message, error.traceback, error.pickled]
    return _RAISED, message.number, [join_fields(fields)]


def _decode(kind: int, number: int, body: bytes) -> Message:
    """The message of a frame whose checksum was right."""
    if kind == _RETURNED:
        return Returned(number, body)
    if kind == _CALL:
        method, payload = _head_field(body)
        return Call(number, as_text(method), payload)
    if kind == _BOOT:
        head, factory = _head_fields(body, 2)
        paths, argv, limit = split_fields(head[1] or b"")
        return Boot(
            place=_place(split_fields(head[0] or b"")),
            factory=factory,
            sys_path=tuple(map(as_text, split_fields(paths or b""))),
            argv=tuple(map(as_text, split_fields(argv or b""))),
            limit_bytes=int(limit or b"0"),
        )
    if kind == _QUIT:
        return Quit(number, keep=body == b"keep")
    if kind == _MOVE:
        return Move(number, _place(split_fields(body)))
    if kind == _HELLO:
        return Hello(int(body))
    if kind == _RAISED:
        type_name, text, traceback, pickled = split_fields(body)
        return Raised(number, RemoteError(as_text(type_name), as_text(text), as_text(traceback), pickled))
    raise ProtocolError(f"no message has the kind {kind}")


def _head_fields(body: bytes, count: int) -> tuple[list[bytes | None], bytes]:
    """The fields at the beginning of a body, and the rest of it."""
    fields = split_fields(body)
    if len(fields) != count:
        raise ProtocolError(f"{count} fields were expected, but got {len(fields)}")
    size = _COUNT.size * (count + 1) + sum(len(field or b"") for field in fields)
    return fields, body[size:]


def _head_field(body: bytes) -> tuple[bytes | None, bytes]:
    fields, rest = _head_fields(body, 1)
    return fields[0], rest


class FrameReader:
    """Puts frames together from pieces of any size.

    Args:
        limit_bytes: A longer body is refused as soon as its header is there, before anything is allocated for it.
    """

    def __init__(self, limit_bytes: int = MESSAGE_BYTES):
        self.limit_bytes = limit_bytes
        self._buffer = bytearray()
        self._needed = HEADER_BYTES

    def feed(self, data: bytes) -> Iterator[Message]:
        """Take in `data` and yield the messages that it completes.

        Args:
            data: The next bytes of the stream. They are taken in only as the iterator is used up.

        Raises:
            ProtocolError: At the first bad frame, after the good ones before it were yielded.
        """
        buffer = self._buffer
        buffer += data
        while len(buffer) >= self._needed:
            magic, version, kind, number, length = _HEAD.unpack_from(buffer)
            if magic != _MAGIC or version != _VERSION:
                raise ProtocolError(
                    f"a frame begins with {bytes(buffer[:3])!r} instead of {_MAGIC + b'%c' % _VERSION!r}"
                )
            if length > self.limit_bytes:
                raise ProtocolError(f"a body of {length} bytes is announced; the limit is {self.limit_bytes}")
            end = HEADER_BYTES + length
            if len(buffer) < end:
                self._needed = end
                return
            body = bytes(memoryview(buffer)[HEADER_BYTES:end])
            (crc,) = _CRC.unpack_from(buffer, _HEAD.size)
            if zlib.crc32(body, zlib.crc32(buffer[: _HEAD.size])) != crc:
                raise ProtocolError(f"a frame of {length} bytes has a wrong checksum")
            del buffer[:end]
            self._needed = HEADER_BYTES
            yield _decode_safely(kind, number, body)

    @property
    def torn_bytes(self) -> int:
        """How much of an unfinished frame is here."""
        return len(self._buffer)


def _decode_safely(kind: int, number: int, body: bytes) -> Message:
    try:
        return _decode(kind, number, body)
    except (ValueError, IndexError) as error:  # a body whose checksum is right and whose contents are not
        raise ProtocolError(f"a message of kind {kind} cannot be read: {error}") from error


# -- the ends --------------------------------------------------------------------------------------------------


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """The two ends of a new `multiprocessing.Pipe`, as sockets. Neither is inherited by programs that are started.

    Raises:
        OSError: If there are no descriptors left.
    """
    from multiprocessing import Pipe  # here, since a worker never needs it

    first, second = Pipe()
    try:
        ours = socket.socket(fileno=os.dup(first.fileno()))
        try:
            return ours, socket.socket(fileno=os.dup(second.fileno()))
        except OSError:
            ours.close()
            raise
    finally:
        first.close()
        second.close()


class DriverEnd(Protocol):
    """The driver's end of a channel. No method blocks."""

    limit_bytes: int

    def watch(self, loop: Loop, on_readable: Callable[[], object]) -> None:
        """Call `on_readable` on the loop whenever `receive` has something to say. Sends what is left, too."""
        ...

    def unwatch(self) -> None:
        """Do not call any more. Any number of times."""
        ...

    def send(self, message: Message) -> None:
        """Send a message, now or when it can be sent.

        Raises:
            ValueError: If the message is too long; nothing was sent.
        """
        ...

    def send_frame(self, parts: list[bytes]) -> None:
        """Send what `encode` has made, in the same way."""
        ...

    def receive(self) -> Iterator[Message]:
        """Yield some of the messages that have arrived.

        Raises:
            ChannelClosedError: At end-of-file.
            ProtocolError: See `FrameReader.feed`.
            BlockingIOError: If there is nothing to read now.
        """
        ...

    def close(self) -> None:
        """Free everything. Any number of times."""
        ...


class Channel:
    """The driver's end as a non-blocking socket.

    Args:
        end: A connected socket; this object closes it.
        limit_bytes: The longest body in either direction.
    """

    def __init__(self, end: socket.socket, limit_bytes: int = MESSAGE_BYTES):
        self.limit_bytes = limit_bytes
        self._socket = end
        self._reader = FrameReader(limit_bytes)
        self._unsent: deque[memoryview] = deque()
        self._loop: Loop | None = None
        self._on_readable: Callable[[], object] = lambda: None
        end.setblocking(False)

    def watch(self, loop: Loop, on_readable: Callable[[], object]) -> None:
        """Call `on_readable` on the loop whenever `receive` has something to say. Sends what is left, too."""
        self._loop, self._on_readable = loop, on_readable
        self._watch()

    def unwatch(self) -> None:
        """Do not call any more. Any number of times."""
        if self._loop is not None and self._socket.fileno() >= 0:
            self._loop.unwatch(self._socket.fileno())
        self._loop = None

    def _watch(self) -> None:
        if self._loop is not None:
            self._loop.watch(self._socket.fileno(), self._on_ready, READ | WRITE if self._unsent else READ)

    def _on_ready(self, mask: int) -> None:
        if mask & WRITE:
            self._flush()
            if not self._unsent:
                self._watch()
        if mask & READ:
            self._on_readable()

    def send(self, message: Message) -> None:
        """Send what can be sent now, and the rest when the loop finds that it can be.

        Raises:
            ValueError: If the message is too long; nothing was sent.
        """
        self.send_frame(encode(message, self.limit_bytes))

    def send_frame(self, parts: list[bytes]) -> None:
        """Send what `encode` has made, in the same way."""
        if len(parts) > 1 and sum(map(len, parts)) <= _ATOMIC_BYTES:
            parts = [b"".join(parts)]
        self._unsent.extend(memoryview(part) for part in parts if part)
        self._flush()
        if self._unsent:
            self._watch()

    def _flush(self) -> None:
        """Send what can be sent now. A dead other end is no error: its process end will say so."""
        unsent = self._unsent
        try:
            while unsent:
                part = unsent[0]
                sent = self._socket.send(part, _NO_SIGNAL)
                if sent == len(part):
                    unsent.popleft()
                else:
                    unsent[0] = part[sent:]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            unsent.clear()

    def receive(self) -> Iterator[Message]:
        """Yield the messages that one read completes; none if there is nothing to read.

        Raises:
            ChannelClosedError: At end-of-file.
            ProtocolError: See `FrameReader.feed`.
            BlockingIOError: If there is nothing to read now.
        """
        try:
            data = self._socket.recv(_CHUNK_BYTES)
        except BlockingIOError:
            raise
        except OSError as error:
            raise ChannelClosedError.of(error) from error
        if not data:
            raise ChannelClosedError("end of file")
        yield from self._reader.feed(data)

    def close(self) -> None:
        """Close the descriptor. Any number of times."""
        self.unwatch()
        self._unsent.clear()
        self._socket.close()


class End(Protocol):
    """One end of a connection of bytes, as a worker uses it: every method blocks."""

    def receive(self) -> bytes:
        """The next bytes, empty at the end of file.

        Raises:
            OSError: If the connection is broken.
        """
        ...

    def send_all(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            OSError: If the connection is broken.
        """
        ...

    def identity(self) -> int:
        """What tells this connection from any other file that may come to have its descriptor.

        Raises:
            OSError: If the descriptor was closed.
        """
        ...


class SocketEnd:
    """A socket as an `End`."""

    def __init__(self, end: socket.socket):
        end.setblocking(True)
        self._socket = end

    def receive(self) -> bytes:
        """See `End.receive`."""
        return self._socket.recv(_CHUNK_BYTES)

    def send_all(self, data: bytes) -> None:
        """See `End.send_all`."""
        self._socket.sendall(data, _NO_SIGNAL)

    def identity(self) -> int:
        """See `End.identity`."""
        return os.fstat(self._socket.fileno()).st_ino


class WorkerChannel:
    """The worker's end: one thread reads, any thread sends. Both block.

    Args:
        end: The connection, used in blocking mode.
        limit_bytes: The longest body that is accepted; what may be sent is said by `Boot`.
    """

    def __init__(self, end: End, limit_bytes: int = MESSAGE_BYTES):
        self.send_limit_bytes = limit_bytes
        self._end = end
        self._reader = FrameReader(limit_bytes)
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._identity = end.identity()

    def receive(self) -> list[Message]:
        """Wait for the next messages. Blocks.

        Returns:
            At least one message.

        Raises:
            ChannelClosedError: If the driver is gone or the descriptor was closed.
            ProtocolError: See `FrameReader.feed`.
        """
        while True:
            try:
                data = self._end.receive()
            except OSError as error:
                raise ChannelClosedError.of(error) from error
            if not data:
                raise ChannelClosedError("end of file")
            messages = list(self._reader.feed(data))
            if messages:
                return messages

    def send(self, message: Message) -> None:
        """Send a message. Blocks until it is on its way.

        Raises:
            ValueError: If it is too long; nothing was sent.
            RuntimeError: In a process that was forked from the worker: two writers would tear each other's frames.
            ChannelClosedError: If the driver is gone or the descriptor was closed.
        """
        if os.getpid() != self._pid:
            raise RuntimeError(
                f"only process {self._pid} may talk to the driver, but this is process {os.getpid()}, forked from it"
            )
        parts = encode(message, self.send_limit_bytes)
        if sum(map(len, parts)) <= _ATOMIC_BYTES:
            self._write([b"".join(parts)])
        elif threading.get_ident() != threading.main_thread().ident:
            self._write(parts)
        else:
            self._write_elsewhere(parts)

    def _write_elsewhere(self, parts: list[bytes]) -> None:
        """Write from another thread: a signal handler of the user's that raises runs in the main one only.

        A small frame goes out in one system call, which such an exception cannot tear; a large one takes many.
        """
        failures: list[ChannelClosedError] = []

        def write() -> None:
            try:
                self._write(parts)
            except ChannelClosedError as error:
                failures.append(error)

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        thread.join()
        if failures:
            raise failures[0]

    def _write(self, parts: list[bytes]) -> None:
        try:
            if self._end.identity() != self._identity:  # closed by user code, and the number used again
                raise ChannelClosedError("the number of its descriptor is another file now", is_ours=True)
            with self._lock:
                for part in parts:
                    self._end.send_all(part)
        except OSError as error:
            raise ChannelClosedError.of(error) from error
