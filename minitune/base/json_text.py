"""JSON: fast functions to encode and decode it, and strict JSON from any value that a trial reports.

`dumps` never fails: it turns each value that JSON cannot hold into the nearest one that it can. NaN becomes `null`, an
infinity `"Infinity"` or `"-Infinity"`, a scalar of numpy's a number, an array a list unless it is large, a key text,
and everything else a short text. It catches what an object's own methods raise.
"""

from __future__ import annotations

import contextlib
import json
import json.encoder
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from minitune.base.text import ShortRepr, is_long

MAX_DEPTH = 100
"""Deeper nesting becomes text: readers of JSON recurse, too, and each has its own limit."""
MAX_TEXT = 200
"""Characters of the text that replaces an object."""
MAX_ITEMS = 10_000
"""An array of more items becomes text: a line is written with every report."""
_LONG = ShortRepr(MAX_TEXT)
_SCALARS = (str, int, float, bool, type(None))
_PLAIN, _TEXT = frozenset(_SCALARS), frozenset((str,))


# -- without the set-up of each call -----------------------------------------------------------------------------------
def json_chunks(
    default: Callable[[Any], Any] | None = None, separators: tuple[str, str] = (", ", ": ")
) -> Callable[[Any, int], Iterable[str]]:
    """Make a function from a value, and a 0, to the pieces of its JSON, ASCII only.

    It is the standard library's encoder in C, without the set-up that `json.dumps` repeats with each call.

    Args:
        default: Replaces a value that JSON cannot hold; without it such a value raises a TypeError.
        separators: The texts between items and behind keys.

    Returns:
        The function. It raises ValueError for NaN and infinities, and RecursionError for a value that contains itself.
        Its second argument, 0, is the depth of the value.
    """
    plain = json.JSONEncoder(default=default, separators=separators, allow_nan=False, check_circular=False)
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # this Python has none in C
        return lambda value, depth: (plain.encode(value),)
    between, behind_key = separators
    chunks: Callable[[Any, int], Iterable[str]] = make(
        None, plain.default, json.encoder.encode_basestring_ascii, None, behind_key, between, False, False, False
    )
    return chunks


def json_decoder() -> Callable[[str], Any]:
    """Make a function from JSON, without blanks around it, to its value.

    `json.loads` takes longer, since it allows more.

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


_indented_items = json_chunks(separators=(",\n  ", ": "))
"""The standard library indents in Python, which takes ten times as long."""


# -- any value as strict JSON ------------------------------------------------------------------------------------------
def dumps(value: Any) -> str:
    """`value` as one line of strict JSON, ASCII only.

    Plain values take the standard library's encoder in C; only where it refuses, or where nesting may be deep, are
    they cleaned first.

    Args:
        value: Anything; usually a nested dict.

    Returns:
        JSON that every parser reads.
    """
    try:
        line = "".join(try_chunks(value, 0))
        if line.count("[") + line.count("{") <= MAX_DEPTH:
            return line
    except Exception:  # also whatever an object's methods raise, and RecursionError
        pass
    return "".join(try_chunks(clean(value), 0))


def dumps_pretty(value: Any) -> str:
    """`value` as strict JSON for people: indented by 2, keys sorted."""
    if type(value) is dict and _TEXT.issuperset(map(type, value)) and _PLAIN.issuperset(map(type, value.values())):
        with contextlib.suppress(ValueError):  # NaN, an infinity, or an int that Python does not print
            line = "".join(_indented_items(dict(sorted(value.items())), 0))
            return f"{{\n  {line[1:-1]}\n}}" if value else line
    return json.dumps(clean(value), indent=2, sort_keys=True, allow_nan=False)


def clean(value: Any) -> Any:
    """`value` as new plain data that any JSON encoder accepts: dicts with text keys, lists, text, numbers, None."""
    return _clean(value, 0, set())


def short_text(value: Any) -> str:
    """Return `str(value)`, cut at `MAX_TEXT` characters, or the name of its type if `str` fails."""
    try:
        # `str()` of bytes is a warning, or an error, under `python -b`.
        if isinstance(value, (bytes, bytearray)):
            text = repr(value[:MAX_TEXT])
        else:
            text = _LONG.repr(value) if is_long(value) and not isinstance(value, str) else str(value)
    except Exception:
        return f"<{type(value).__name__}>"
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 3]}..."


def scalar_of(value: Any) -> Any:
    """The Python number in a numpy (or similar) scalar; None if `value` is no scalar."""
    try:
        number = value.item() if value.shape == () else None
    except Exception:
        return None
    return number if isinstance(number, (int, float)) else None


def _list_of(value: Any) -> list[Any] | None:
    """Return the items of a numpy (or similar) array as nested lists; None if `value` is not an array, or too large."""
    try:
        items = value.tolist() if hasattr(value, "__array_interface__") and value.size <= MAX_ITEMS else None
    except Exception:
        return None
    return items if isinstance(items, list) else None


def _simple(value: Any) -> Any:
    """A plain value in place of `value`, for the encoder in C. If it is a number that JSON lacks, `dumps` cleans it."""
    number = scalar_of(value)
    if number is not None:
        return number
    items = _list_of(value)
    if items is not None:
        return items
    return dict(value) if isinstance(value, Mapping) else short_text(value)


try_chunks = json_chunks(_simple)
"""Most of `dumps`: it raises where that cleans the value, which also may be nested more than `MAX_DEPTH` deep here."""


def _clean(value: Any, depth: int, parents: set[int]) -> Any:
    try:
        if isinstance(value, _SCALARS):
            return _clean_scalar(value)
        number = scalar_of(value)
        if number is not None:
            return _clean_scalar(number)
        items = _list_of(value)
        if items is not None or isinstance(value, (Mapping, list, tuple)):
            return _clean_container(value if items is None else items, depth, parents)
    except Exception:  # whatever an object's methods raise, its claims about its class included
        pass
    return short_text(value)


def _clean_container(value: Any, depth: int, parents: set[int]) -> Any:
    if depth >= MAX_DEPTH or id(value) in parents:
        return f"<{type(value).__name__}, nested in itself or more than {MAX_DEPTH} deep>"
    parents.add(id(value))
    try:
        if isinstance(value, Mapping):
            return {_clean_key(key): _clean(inner, depth + 1, parents) for key, inner in value.items()}
        return [_clean(inner, depth + 1, parents) for inner in value]
    finally:
        parents.discard(id(value))


def _clean_scalar(value: Any) -> Any:
    """A number, text, bool or None without what JSON does not know."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return None if value != value else "Infinity" if value > 0 else "-Infinity"
    # Python refuses to print, and to read, integers of more than 4300 digits.
    return value if value.bit_length() < 14_000 else f"<int of {value.bit_length()} bits>"


def _clean_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool) or key is None:
        return {True: "true", False: "false", None: "null"}[key]
    return short_text(key)
