"""The standard library's JSON in C, without what `json.dumps` and `json.loads` do with every call."""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable
from typing import Any


def json_encoder(
    default: Callable[[Any], Any] | None = None, separators: tuple[str, str] = (", ", ": ")
) -> Callable[[Any], str]:
    """A function from a value to its JSON, ASCII only.

    Args:
        default: Gives what stands for a value that JSON cannot hold; without it that is a TypeError.
        separators: What stands between items, and behind keys.

    Returns:
        The function. It raises ValueError for NaN and infinities, RecursionError for what is nested in itself.
    """
    plain = json.JSONEncoder(default=default, separators=separators, allow_nan=False, check_circular=False)
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # this Python has none in C
        return plain.encode
    between, behind_key = separators
    chunks = make(
        None, plain.default, json.encoder.encode_basestring_ascii, None, behind_key, between, False, False, False
    )
    join = "".join
    return lambda value: join(chunks(value, 0))


def json_decoder() -> Callable[[str], Any]:
    """A function from JSON without blanks around it to its value. `json.loads` takes longer for what it allows besides.

    Returns:
        The function. It raises json.JSONDecodeError for anything else.
    """
    decoder: Any = json.JSONDecoder()
    scan = decoder.scan_once  # not in the stubs

    def decode(text: str) -> Any:
        try:
            value, end = scan(text, 0)
        except StopIteration as stop:
            raise json.JSONDecodeError("no JSON", text, stop.value) from None
        if end != len(text):
            raise json.JSONDecodeError("more than one value", text, end)
        return value

    return decode
