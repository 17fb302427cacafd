"""One record of the journal as one line of text, and back, exactly.

A line is `crc32 in 8 hex digits, space, compact JSON, newline`, so a text editor reads it. What JSON cannot hold is
written as a tag (`tagged_json`). `{"$":` stands in a line exactly where a tag is: a user's dict with such a key is
always escaped, and in texts the quotes are. So a line without it needs nothing but the JSON parser, and most are such.
Reading a line never unpickles, unless asked to.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any

from minitune._json import json_decoder, json_encoder
from minitune.execution import records, tagged_json
from minitune.execution.pickled import LARGE_BYTES, ObjectStore

_MARK = '{"$":'
_PLAIN_DEPTH = 20
_PLAIN_CONTAINERS = 10_000
_PLAIN_ITEMS = 50_000
"""Records beyond these take the longer way, which ends also for structures that refer to themselves."""
_CONTAINERS = frozenset({dict, list})
_TEXT = frozenset({str})
_SCALARS = tagged_json.SCALARS
_WITH_CONFIG = frozenset({records.TRIAL, records.CHANGE, records.EXPLOIT})

BODY = 9
"""Where the JSON begins in a line: behind eight digits and a space."""

_plain_json = json_encoder(separators=(",", ":"))
_read_json = json_decoder()


def encode(record: dict[str, Any], objects: ObjectStore | None = None) -> bytes:
    """One line for `record`.

    Args:
        record: Any dict. It comes back from `decode` as it is, with its types; what can be held by neither JSON nor
            pickle comes back as `Unrecorded`.
        objects: Where large objects go; without it they stand in the line.

    Returns:
        The line, with its newline.

    Raises:
        OSError: If a large object cannot be stored.
    """
    text = _plain(record) if _is_plain(record) else None
    if text is None or (len(text) > LARGE_BYTES and objects is not None):
        lighter = record if objects is None else objects.by_reference(record)
        text = json.dumps(tagged_json.to_tree(lighter, objects), separators=(",", ":"), allow_nan=False)
    body = text.encode("ascii")
    return b"%08x %b\n" % (zlib.crc32(body), body)


def _is_plain(record: dict[str, Any]) -> bool:
    """Whether JSON holds `record` as it is, except for what `_plain` finds out.

    Exact types are compared: an instance of a subclass (an enum, a numpy float) would come back as something else.
    """
    level: list[Any] = [record]
    for _ in range(_PLAIN_DEPTH):
        deeper: list[Any] = []
        for container in level:
            values: Iterable[Any] = container
            if type(container) is dict:
                if tagged_json.TAG in container or not _TEXT.issuperset(map(type, container)):
                    return False
                values = container.values()
            if len(container) > _PLAIN_ITEMS:
                return False
            if _SCALARS.issuperset(map(type, values)):
                continue
            others = [value for value in values if type(value) not in _SCALARS]
            if not _CONTAINERS.issuperset(map(type, others)):
                return False
            deeper += others
        if not deeper:
            return True
        if len(deeper) > _PLAIN_CONTAINERS:
            return False
        level = deeper
    return False


def _plain(record: dict[str, Any]) -> str | None:
    """The JSON of a plain record; None if it holds NaN, an infinity, an int of thousands of digits or a surrogate."""
    try:
        text = _plain_json(record)
    except ValueError:
        return None
    # A surrogate is escaped like this, but two in a row would come back as one character. Other text that looks like
    # it, an emoji included, only takes the longer way.
    return None if "\\ud" in text else text


def check(line: bytes) -> bytes:
    """The JSON of a line, after its checksum was compared.

    Args:
        line: One line with its newline.

    Raises:
        ValueError: If the line is torn or damaged.
    """
    if line[-1:] != b"\n" or line[8:9] != b" ":
        raise ValueError("a line must consist of a checksum, a space, JSON and a newline")
    body = line[BODY:-1]
    # as text: parsed as a number, a flipped case bit would pass
    if line[:8] != b"%08x" % zlib.crc32(body):
        raise ValueError("the checksum of a line does not fit its content")
    return body


def decode(line: bytes, unpickle: bool = False, objects: ObjectStore | None = None) -> dict[str, Any]:
    """The record of one line.

    Args:
        line: The line, with its newline.
        unpickle: False leaves pickled objects as `Pickled` and gives numpy's numbers as plain ones: safe with any
            file. True gives all values back as they were: only for a file that `trust.check_trusted` has passed.
        objects: Where large objects lie.

    Returns:
        The record.

    Raises:
        ValueError: If the line is torn or damaged.
        TuneError: If an object cannot be unpickled.
    """
    text = check(line).decode("ascii")
    try:
        record = _parse(text)
        if _MARK in text:
            # configurations are often the same, and stay; what is in results does not
            keep = type(record) is dict and record.get(records.KIND) in _WITH_CONFIG
            record = tagged_json.from_tree(record, unpickle, objects, keep)
    except (RecursionError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise ValueError(f"a line has a good checksum, but no record in it: {error!r}") from error
    if type(record) is not dict:
        raise ValueError(f"a record must be a JSON object, but got {type(record).__name__}")
    return record


def _parse(text: str) -> Any:
    try:
        return _read_json(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # more digits than Python's limit, which may have been higher when the line was written
        return json.loads(text, parse_int=_long_int)


def _long_int(digits: str) -> int:
    sign, digits = (-1, digits[1:]) if digits.startswith("-") else (1, digits)
    value = 0
    for begin in range(0, len(digits), 500):
        chunk = digits[begin : begin + 500]
        value = value * 10 ** len(chunk) + int(chunk)
    return sign * value
