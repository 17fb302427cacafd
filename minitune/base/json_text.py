"""JSON: fast functions to encode and decode it, and strict JSON from any value that a trial reports.

`dumps` never fails. It replaces what JSON cannot represent: NaN becomes `null`, an infinity `"Infinity"` or
`"-Infinity"`, a numpy scalar a number, a small array a list.
"""

from __future__ import annotations

import _json
import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Any

from minitune.base.numbers import item_of
from minitune.base.text import PRINTED_BITS, ShortRepr, is_long, name_of_int, plain_numbers

MAX_DEPTH = 100
"""Deeper values become text, because each reader of JSON has a recursion limit."""
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}
MAX_TEXT = 200
"""The maximum number of characters of the text that replaces an object."""
MAX_ITEMS = 10_000
"""A larger array becomes text, because each report writes a line."""
_LONGEST_TEXT = 1_000_000
_LONG = ShortRepr(MAX_TEXT)
_SCALARS = (str, int, float, bool, type(None))
JSON_TYPES = frozenset(_SCALARS)
"""The exact types of JSON values, of which some, such as NaN, are none."""
_TEXT = frozenset((str,))
_CONTAINERS = frozenset((dict, list))
_TREES = frozenset((dict, list, tuple))


# -- without the set-up of each call -----------------------------------------------------------------------------------
def json_chunks(
    default: Callable[[Any], Any] | None = None, separators: tuple[str, str] = (", ", ": ")
) -> Callable[[Any, int], Iterable[str]]:
    """Make a function that returns the pieces of a value's JSON, in ASCII.

    It is the standard library's encoder in C, without the set-up of `json.dumps` in each call. User code may replace
    parts of `json`, which are not used.

    Args:
        default: Replaces a value that JSON cannot represent. Without it, a TypeError is raised.
        separators: The texts between items and after keys.
    """
    between, behind_key = separators
    chunks: Callable[[Any, int], Iterable[str]] = _json.make_encoder(
        None, default or _refuse, _json.encode_basestring_ascii, None, behind_key, between, False, False, False
    )
    return chunks


def _refuse(value: Any) -> Any:
    raise TypeError(f"JSON cannot represent a {type(value).__name__}")


def json_decoder() -> Callable[[str], Any]:
    """Make a function that decodes JSON without surrounding spaces. It raises json.JSONDecodeError."""
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


# -- any value as strict JSON ------------------------------------------------------------------------------------------
def dumps(value: Any) -> str:
    """Any `value` as one line of strict ASCII JSON, which every parser reads."""
    try:
        line = "".join(try_chunks(value, 0))
        if line.count("[") + line.count("{") <= MAX_DEPTH or _depth(line) <= MAX_DEPTH:
            return line
    except Exception:  # an object's methods may raise anything; also RecursionError
        pass
    return "".join(try_chunks(clean(value), 0))


def _depth(line: str) -> int:
    """How many levels a line of JSON has. Brackets within texts count, too: a few more or less do no harm."""
    return max(accumulate(map(_STEPS.__getitem__, re.findall(r"[\[\]{}]", line))))


def dumps_pretty(value: Any) -> str:
    """`value` as strict JSON for people, with indentation and sorted keys."""
    return json.dumps(clean(value), indent=2, sort_keys=True, allow_nan=False)


# A value beyond these three limits counts as not plain, so that the check ends even if the value contains itself.
_PLAIN_DEPTH = 20
_PLAIN_CONTAINERS = 10_000
_PLAIN_ITEMS = 50_000


def keeps_types(tree: dict[Any, Any]) -> bool:
    """Whether JSON keeps the types of everything in a value.

    Exact types count: an enum or a numpy float would lose its type.
    """
    level: list[Any] = [tree]
    for _ in range(_PLAIN_DEPTH):
        deeper: list[Any] = []
        for container in level:
            values: Iterable[Any] = container
            if type(container) is dict:
                if not _TEXT.issuperset(map(type, container)):
                    return False
                values = container.values()
            if len(container) > _PLAIN_ITEMS:
                return False
            if JSON_TYPES.issuperset(map(type, values)):
                continue
            for value in values:
                if type(value) in _CONTAINERS:
                    deeper.append(value)
                elif type(value) not in JSON_TYPES:
                    return False
        if not deeper:
            return True
        if len(deeper) > _PLAIN_CONTAINERS:
            return False
        level = deeper
    return False


def clean(value: Any) -> Any:
    """A copy of `value` that any JSON encoder accepts: dicts with text keys, lists, text, numbers, None."""
    return _clean(value, 0, set())


def shortened(tree: Any, depth: int = 0) -> Any:
    """A tree with short texts in place of long texts and long lists; the tree itself if it has none."""
    kind = type(tree)
    if kind is str:
        return short_text(tree) if len(tree) > _LONGEST_TEXT else tree
    if kind not in _TREES or depth > MAX_DEPTH:
        return tree
    if len(tree) > _PLAIN_ITEMS:
        return short_text(tree)
    members = tree.values() if kind is dict else tree
    if JSON_TYPES.issuperset(map(type, members)) and str not in map(type, members):
        return tree
    short = [shortened(member, depth + 1) for member in members]
    if all(map(operator.is_, short, members)):
        return tree
    return dict(zip(tree, short, strict=True)) if kind is dict else kind(short)


def short_text(value: Any) -> str:
    """Return `str(value)`, cut at `MAX_TEXT` characters, or the name of its type if `str` fails."""
    try:
        # `str()` of bytes is a warning, or an error, under `python -b`.
        if isinstance(value, (bytes, bytearray)):
            text = repr(value[:MAX_TEXT])
        else:
            is_shortened = is_long(value) and not isinstance(value, str)
            if is_shortened:
                text = _LONG.repr(value)
            else:
                text = str(plain_numbers(value))
    except Exception:
        return f"<{type(value).__name__}>"
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[: MAX_TEXT - 3]}..."


def scalar_of(value: Any) -> Any:
    """The Python number or bool in a numpy (or similar) scalar; None if `value` is no scalar."""
    number = item_of(value)
    return number if number is not value and isinstance(number, (int, float)) else None


def _list_of(value: Any) -> list[Any] | None:
    """Return the items of a numpy (or similar) array as nested lists; None if `value` is not an array, or too large."""
    try:
        items = None
        if hasattr(value, "__array_interface__") and value.size <= MAX_ITEMS:
            items = value.tolist()
    except Exception:
        return None
    return items if isinstance(items, list) else None


def _simple(value: Any) -> Any:
    number = scalar_of(value)
    if number is not None:
        return number
    items = _list_of(value)
    if items is not None:
        return items
    if isinstance(value, Mapping):
        return dict(value)
    return short_text(value)


try_chunks = json_chunks(_simple)
"""The fast part of `dumps`, which raises an error if the value must be cleaned."""


def _clean(value: Any, depth: int, parents: set[int]) -> Any:
    try:
        if not isinstance(value, (*_SCALARS, Mapping, list, tuple)):
            value = _simple(value)
        if isinstance(value, _SCALARS):
            return _clean_scalar(value)
        return _clean_container(value, depth, parents)
    except Exception:  # an object's methods may raise anything, also `__class__`
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
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        if value != value:
            return None
        return "Infinity" if value > 0 else "-Infinity"
    return value if value.bit_length() < PRINTED_BITS else name_of_int(value)


def _clean_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool) or key is None:
        return {True: "true", False: "false", None: "null"}[key]
    return short_text(key)
