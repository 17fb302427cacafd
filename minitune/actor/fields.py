"""Plain fields: texts and bytes as one piece of bytes, without any object format."""

from __future__ import annotations

import struct
from collections.abc import Sequence

_COUNT = struct.Struct("!I")
_NONE = 0xFFFFFFFF


class ProtocolError(Exception):
    """What arrived is not a frame of ours: bad magic, version, checksum, length, kind or order."""


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
