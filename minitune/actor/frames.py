"""Frames: how messages become bytes.

A frame is magic, version, kind, call number, length (64 bit), CRC32 of all that and of the body, then the body. The
envelope is plain data and no object format, so that a bad payload hurts only the one who loads it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from minitune.actor.fields import ProtocolError, as_text, join_fields, split_fields
from minitune.actor.limits import MESSAGE_BYTES
from minitune.actor.messages import Boot, Call, Hello, Message, Move, Place, Quit, Raised, Returned, Show
from minitune.error import RemoteError

_MAGIC = b"mT"
_VERSION = 1
_HEAD = struct.Struct("!2sBBIQ")
_CRC = struct.Struct("!I")
_HEADER = struct.Struct(_HEAD.format + _CRC.format[1:])
_SIZE = struct.Struct("!I")
HEADER_BYTES = _HEADER.size
ATOMIC_BYTES = 64 * 1024
"""What is up to this long is sent in one piece."""

# -- bodies ----------------------------------------------------------------------------------------------------


def _optional(value: bytes | None) -> str | None:
    return None if value is None else as_text(value)


def _place_fields(place: Place) -> list[str | bytes | None]:
    umask = None if place.umask is None else str(place.umask)
    fields: list[str | bytes | None] = [place.directory, place.stdout, place.stderr, umask, place.own]
    for name, value in place.env.items():
        fields += [name, value]
    return fields


def _place(fields: Sequence[bytes | None]) -> Place:
    names, values = fields[5::2], fields[6::2]
    return Place(
        directory=_optional(fields[0]),
        stdout=_optional(fields[1]),
        stderr=_optional(fields[2]),
        umask=None if fields[3] is None else int(fields[3]),
        own=_optional(fields[4]),
        env={as_text(name): _optional(value) for name, value in zip(names, values, strict=True)},
    )


_Body = tuple[bytes, bytes]
"""The small beginning of a body, and the payload behind it, which may be large."""


def _with_size(head: bytes, payload: bytes) -> _Body:
    return _SIZE.pack(len(head)) + head, payload


def _split_size(body: bytes) -> tuple[bytes, bytes]:
    """What `_with_size` has put together."""
    if len(body) < _SIZE.size:
        raise ProtocolError(f"a body of {len(body)} bytes is too short to say where its payload begins")
    start = _SIZE.size + _SIZE.unpack_from(body)[0]
    if start > len(body):
        raise ProtocolError(f"a payload that begins at {start} does not fit into a body of {len(body)} bytes")
    return body[_SIZE.size : start], body[start:]


def _from_call(call: Call) -> _Body:
    return _with_size(call.method.encode("utf-8", "surrogatepass"), call.payload)


def _to_call(number: int, body: bytes) -> Call:
    method, payload = _split_size(body)
    return Call(number, as_text(method), payload)


def _from_boot(boot: Boot) -> _Body:
    fields = [_place_fields(boot.place), boot.sys_path, boot.argv, [str(boot.limit_bytes)]]
    return _with_size(join_fields([join_fields(each) for each in fields]), boot.factory)


def _to_boot(number: int, body: bytes) -> Boot:
    head, factory = _split_size(body)
    place, paths, argv, (limit,) = (split_fields(field or b"") for field in split_fields(head))
    return Boot(_place(place), factory, tuple(map(as_text, paths)), tuple(map(as_text, argv)), int(limit or b""))


def _from_error(message: Raised) -> _Body:
    error = message.error
    return join_fields([error.type_name, error.message, error.traceback, error.pickled]), b""


def _to_error(number: int, body: bytes) -> Raised:
    type_name, text, traceback, pickled = split_fields(body)
    return Raised(number, RemoteError(as_text(type_name), as_text(text), as_text(traceback), pickled))


_KINDS: list[tuple[type[Message], Callable[[Any], _Body], Callable[[int, bytes], Message]]] = [
    (Boot, _from_boot, _to_boot),
    (Call, _from_call, _to_call),
    (Quit, lambda quit: (b"keep" if quit.keep else b"", b""), lambda number, body: Quit(number, body == b"keep")),
    (
        Move,
        lambda move: (join_fields(_place_fields(move.place)), b""),
        lambda number, body: Move(number, _place(split_fields(body))),
    ),
    (Hello, lambda hello: (str(hello.pid).encode(), b""), lambda number, body: Hello(int(body))),
    (Returned, lambda returned: (b"", returned.payload), Returned),
    (Raised, _from_error, _to_error),
    (Show, lambda show: (b"", b""), lambda number, body: Show()),
]
"""The kinds of messages, numbered from 1: how each becomes a body, and a message again."""
_ENCODERS = {cls: (kind, from_message) for kind, (cls, from_message, _) in enumerate(_KINDS, 1)}
_DECODERS = {kind: to_message for kind, (_, _, to_message) in enumerate(_KINDS, 1)}


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
        The frame; in two parts if it is long, so that a large payload is not copied.

    Raises:
        ValueError: If the body is longer than `limit_bytes`.
    """
    kind, from_message = _ENCODERS[type(message)]
    body, payload = from_message(message)
    length = len(body) + len(payload)
    if length > limit_bytes:
        check_size(length, limit_bytes)
    head = _HEAD.pack(_MAGIC, _VERSION, kind, getattr(message, "number", 0), length)
    if HEADER_BYTES + length <= ATOMIC_BYTES or not payload:
        body += payload
        return [head + _CRC.pack(zlib.crc32(body, zlib.crc32(head))) + body]
    crc = zlib.crc32(payload, zlib.crc32(body, zlib.crc32(head)))
    return [head + _CRC.pack(crc) + body, payload]


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
        whole: bytes | bytearray = data
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed:
                return
            whole, self._buffer = self._buffer, bytearray()
        view, start, needed = memoryview(whole), 0, HEADER_BYTES
        while start + needed <= len(whole):
            magic, version, kind, number, length, crc = _HEADER.unpack_from(whole, start)
            if magic != _MAGIC or version != _VERSION:
                begins = bytes(whole[start : start + 3])
                raise ProtocolError(f"a frame begins with {begins!r} instead of {_MAGIC + b'%c' % _VERSION!r}")
            if length > self.limit_bytes:
                raise ProtocolError(f"a body of {length} bytes is announced; the limit is {self.limit_bytes}")
            needed = HEADER_BYTES + length
            if start + needed > len(whole):
                break
            body = bytes(view[start + HEADER_BYTES : start + needed])
            if zlib.crc32(body, zlib.crc32(whole[start : start + _HEAD.size])) != crc:
                raise ProtocolError(f"a frame of {length} bytes has a wrong checksum")
            start, needed = start + needed, HEADER_BYTES
            if kind not in _DECODERS:
                raise ProtocolError(f"no message has the kind {kind}")
            try:
                message = _DECODERS[kind](number, body)
            except (ValueError, IndexError) as error:  # a body whose checksum is right and whose contents are not
                raise ProtocolError(f"a message of kind {kind} cannot be read: {error}") from error
            yield message
        self._buffer += view[start:]
        self._needed = needed

    @property
    def is_between_frames(self) -> bool:
        """Whether there is no part of a frame here whose rest is still to come."""
        return not self._buffer
