"""The standard library's JSON encoder, made once: `json.JSONEncoder.encode` makes its part in C with every call."""

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
