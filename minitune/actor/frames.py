"""Frames: how messages become bytes.

A frame is magic, version, kind, call number, length (64 bit), CRC32 of all that and of the body, then the body. The
envelope is plain data and no object format, so that a bad payload hurts only the one who loads it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

from minitune.actor.fields import ProtocolError, as_text, join_fields, split_fields
from minitune.actor.limits import MESSAGE_BYTES
from minitune.actor.messages import Boot, Call, Hello, Message, Move, Place, Quit, Raised, Returned, Show
from minitune.error import RemoteError

_MAGIC = b"mT"
_VERSION = 1
_HEAD = struct.Struct("!2sBBIQ")
_CRC = struct.Struct("!I")
HEADER_BYTES = _HEAD.size + _CRC.size

_BOOT, _CALL, _QUIT, _MOVE, _HELLO, _RETURNED, _RAISED, _SHOW = range(1, 9)


# -- bodies ----------------------------------------------------------------------------------------------------


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
    if isinstance(message, Show):
        return _SHOW, 0, []
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
    if kind == _SHOW:
        return Show()
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
    return fields, body[len(join_fields(fields)) :]


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
