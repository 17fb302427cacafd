"""Encode a record of the journal as JSON, and decode it without loss. Decoding runs no code of an author.

The JSON is compact, on one line and in ASCII. A value that JSON cannot represent is a *tag*, an object whose first key
is `$`::

    {"$":"float","v":"nan"}   {"$":"tuple","v":[1,2]}
    {"$":"str","v":"<hex>"}   a text that UTF-8 cannot represent      {"$":"numpy","kind":"float32","v":0.5}
    {"$":"dict","v":[[key,value],...]}      a dict with keys that are not str, or with the key "$"
    {"$":"pickle","text":...,"python":"3.11","v":"<base64>"}           any other object
    {"$":"pickle","text":...,"python":"3.11","sha256":...,"size":n}    the same, stored in a separate file
    {"$":"put","number":1,"sha256":...,"size":n}                       an `ObjectRef`; the run has a copy of its file
    {"$":"unrecorded","text":...,"v":"..."}                            an object that cannot be pickled, and why

A long text or int is a pickle, and so is a value that is nested too deeply or has too many parts. Only a tag has the
characters `{"$":`.
"""

from __future__ import annotations

import importlib
import json
import math
import pickle
from dataclasses import dataclass
from typing import Any

from minitune.base.json_text import JSON_TYPES, json_chunks, json_decoder, keeps_types
from minitune.base.pickling import dumps_for_later
from minitune.base.shared_values import PYTHON, ObjectRef, ObjectStore, Stored, check_object_name, holds_code
from minitune.base.text import PRINTED_BITS, ShortRepr, warn_once
from minitune.error import TuneError
from minitune.record import records

LARGE_BYTES = 1_000_000
"""A longer text is pickled, and so stored in a separate file. Not measured: with more, each reader of the journal
parses it; with less, a run has many files.
"""

INLINE_LIMIT_BYTES = 64 * 1024
"""Pickles up to this size, also of bytes, are written into the record itself. Not measured: the same as above."""

TEXT_LIMIT = 200
"""The largest number of characters of an object's text that is recorded with its pickle."""

# Values that are nested more deeply are pickled, because JSON parsers and Python's stack have limits.
_DEPTH_LIMIT = 40

PARTS_LIMIT = 50_000
"""Values with more parts are pickled whole: a small object with many references to itself may expand without end."""

# The containers whose members are looked at.
_WALKED = frozenset({dict, list, tuple})

_NUMPY = frozenset({"bool", "bool_"} | {f"float{n}" for n in (16, 32, 64)}) | frozenset(
    f"{kind}{n}" for kind in ("int", "uint") for n in (8, 16, 32, 64)
)

_REPR = ShortRepr(TEXT_LIMIT)

# How tags look in the text of a record.
TAG = "$"
_TAG_KEY = '"$":'
_MARK = '{"$":'

# The records whose objects many trials share.
_WITH_CONFIG = frozenset({records.TRIAL, records.CHANGE, records.EXPLOIT})

_plain_chunks = json_chunks(separators=(",", ":"))

_read_json = json_decoder()


# -- objects that stay pickled -----------------------------------------------------------------------------------------


def object_text(value: Any) -> str:
    """A text to show instead of an object, of at most `TEXT_LIMIT` characters."""
    text = _REPR.repr(value).encode("utf-8", "backslashreplace").decode()
    if len(text) <= TEXT_LIMIT:
        return text
    return text[: TEXT_LIMIT - 3] + "..."


@dataclass(frozen=True)
class Unrecorded:
    """Replaces an object that cannot be pickled."""

    text: str
    reason: str

    def __repr__(self) -> str:
        return self.text

    def __deepcopy__(self, memo: Any) -> Unrecorded:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(f"{self.text} is lost: {self.reason}")


@dataclass(frozen=True)
class Pickled:
    """An object of a record that is still pickled: reading a journal runs no code. A large one is `Stored`.

    Attributes:
        python: The Python version that pickled it, such as `3.11`.
    """

    text: str
    data: bytes
    python: str = PYTHON

    def __repr__(self) -> str:
        return self.text


def load_object(pickled: Pickled | Stored, objects: ObjectStore, is_shared: bool = False) -> Any:
    """Unpickle an object of a record. Check first who wrote it (`lock.check_trusted`). For `is_shared` see
    `ObjectStore.load`.

    Raises:
        TuneError: If the object cannot be loaded; the text says why.
    """
    python = pickled.python
    if python != PYTHON:  # the format of code differs between Python versions
        data = pickled.data if isinstance(pickled, Pickled) else objects.content(pickled)
        if holds_code(data):
            raise TuneError(
                f"the recorded object {pickled} was pickled by Python {python} and contains code, which Python "
                f"{PYTHON} cannot load; resume with Python {python}, or put its class into an importable module"
            )
    try:
        if isinstance(pickled, Pickled):
            return pickle.loads(pickled.data)
        return objects.load(pickled, is_shared)
    except TuneError:
        raise
    except Exception as error:
        raise TuneError(
            f"the recorded object {pickled} cannot be loaded ({type(error).__name__}: {error}); it was pickled "
            f"by Python {python}, this is {PYTHON}; make its class importable"
        ) from error


# -- values as JSON trees ----------------------------------------------------------------------------------------------


class _TooComplex(Exception):
    """A value is nested too deeply, or has too many parts."""


class _Tagger:
    """Converts values to trees that JSON can represent.

    An object that cannot be pickled is logged, written as text, and read back as `Unrecorded`.
    """

    def __init__(self, objects: ObjectStore):
        self._objects = objects
        self._nodes = 0

    def record(self, record: dict[str, Any]) -> Any:
        return self.pairs([(key, self._field(value)) for key, value in record.items()])

    def _field(self, field: Any) -> Any:
        # Each metric, and each value of a configuration, is on its own: one that is pickled hides no other one.
        if type(field) is dict:
            return self.pairs([(key, self._member(value)) for key, value in field.items()])
        return self._member(field)

    def _member(self, value: Any) -> Any:
        self._nodes = 0
        try:
            return self.value(value, 2)
        except _TooComplex:
            return self._pickle(value)

    def value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in JSON_TYPES:
            if kind is float and not math.isfinite(value):
                return _tag("float", repr(value))
            if kind is str and _has_surrogate(value):
                return _tag("str", value.encode("utf-8", "surrogatepass").hex())
            is_long = (kind is str and len(value) > LARGE_BYTES) or (kind is int and value.bit_length() >= PRINTED_BITS)
            return self._pickle(value) if is_long else value
        if kind not in _WALKED:
            return self._leaf(value, depth)
        if len(value) > PARTS_LIMIT:
            return self._pickle(value)
        self._nodes += len(value)
        depth += 1
        if depth > _DEPTH_LIMIT or self._nodes > PARTS_LIMIT:
            raise _TooComplex
        if kind is dict:
            return self.pairs([(key, self.value(item, depth)) for key, item in value.items()])
        items = [self.value(item, depth) for item in value]
        return items if kind is list else _tag("tuple", items)

    def pairs(self, pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
        if all(type(key) is str and key != TAG and not _has_surrogate(key) for key, _ in pairs):
            return dict(pairs)
        return _tag("dict", [[self.value(key, 0), tree] for key, tree in pairs])

    def _leaf(self, value: Any, depth: int) -> Any:
        """A value that is neither a JSON scalar nor a builtin container."""
        kind = type(value)
        # A record that was read without unpickling can be written again as it was.
        if kind is Pickled or kind is Stored:
            return _pickle_tag(value)
        if kind is ObjectRef:
            stored = self._objects.take_in(value.path)
            if stored is not None:
                return {TAG: "put", "number": value.number, "sha256": stored.name, "size": stored.size_bytes}
        if kind.__module__ == "numpy" and kind.__name__ in _NUMPY:
            return _tag("numpy", self.value(value.item(), depth), kind=kind.__name__)
        return self._pickle(value)

    def _pickle(self, value: Any) -> dict[str, Any]:
        text = object_text(value)
        if type(value) is Unrecorded:
            return _tag("unrecorded", value.reason, text=text)
        what = f"the value {text} of a record"
        try:
            data = dumps_for_later(value, what)
        except TypeError as error:
            warn_once(
                f"{text} is recorded as text only, so a resume cannot restore it: {error}",
                about=f"an unrecorded {type(value).__qualname__}",  # every report may have such an object
            )
            return _tag("unrecorded", str(error), text=text)
        if len(data) <= INLINE_LIMIT_BYTES:
            return _pickle_tag(Pickled(text, data))
        return _pickle_tag(self._objects.put(data, text))


def _tag(name: str, value: Any, **more: Any) -> dict[str, Any]:
    return {TAG: name, **more, "v": value}


def _has_surrogate(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _pickle_tag(value: Pickled | Stored) -> dict[str, Any]:
    head = {TAG: "pickle", "text": value.text, "python": value.python}
    if isinstance(value, Pickled):
        import base64

        return {**head, "v": base64.b64encode(value.data).decode("ascii")}
    return {**head, "sha256": value.name, "size": value.size_bytes}


class _Reader:
    """Converts trees with tags back to values. A malformed tag raises a ValueError or the like."""

    def __init__(self, unpickle: bool, objects: ObjectStore, is_shared: bool):
        self._unpickle = unpickle
        self._objects = objects
        self._is_shared = is_shared

    def value(self, tree: Any) -> Any:
        if type(tree) is list:
            return [self.value(item) for item in tree]
        if type(tree) is not dict:
            return tree
        if TAG not in tree:
            return {key: self.value(item) for key, item in tree.items()}
        name = tree[TAG]
        if name == "pickle":
            return self._object(tree)
        if name == "put":
            return ObjectRef(self._objects.path_of(tree["sha256"]), int(tree["number"]))
        if name == "unrecorded":
            return Unrecorded(str(tree["text"]), str(tree["v"]))
        if name == "numpy":
            return self._numpy(tree["kind"], self.value(tree["v"]))
        content = tree["v"]
        if name == "dict":
            return {self.value(key): self.value(item) for key, item in content}
        if name == "tuple":
            return tuple(self.value(item) for item in content)
        if name == "float":
            return float(content)
        if name == "str":
            return bytes.fromhex(content).decode("utf-8", "surrogatepass")
        raise ValueError(f"a tag of an unknown kind: {name!r}")

    def _object(self, tree: dict[str, Any]) -> Any:
        text = str(tree["text"])
        python = str(tree["python"])
        pickled: Pickled | Stored
        if "sha256" in tree:
            # The name becomes a part of a path, and anybody may have written the line.
            pickled = Stored(check_object_name(tree["sha256"]), text, int(tree["size"]), python)
        else:
            import base64

            pickled = Pickled(text, base64.b64decode(tree["v"], validate=True), python)
        return load_object(pickled, self._objects, self._is_shared) if self._unpickle else pickled

    def _numpy(self, kind: str, number: Any) -> Any:
        if not self._unpickle:
            return number
        try:
            numpy = importlib.import_module("numpy")
        except ImportError:
            return number
        return numpy.dtype(kind).type(number)


# -- records -----------------------------------------------------------------------------------------------------------


def encode(record: dict[str, Any], objects: ObjectStore) -> str:
    """Encode `record` as JSON. Blocks if large objects are stored. `decode` returns an equal dict with the same types,
    but for `Unrecorded`.

    Raises:
        OSError: If a large object cannot be stored.
    """
    text = None
    if keeps_types(record):
        # NaN, infinities and ints of thousands of digits raise a ValueError. JSON escapes a surrogate as \ud..., but
        # two in a row would be read as one character. Other texts with \ud, such as emojis, only take the slow path.
        # The key $ would be taken for a tag.
        try:
            text = "".join(_plain_chunks(record, 0))
            if "\\ud" in text or _TAG_KEY in text:
                text = None
        except ValueError:
            pass
    if text is None or len(text) > LARGE_BYTES:
        text = json.dumps(_Tagger(objects).record(record), separators=(",", ":"), allow_nan=False)
    return text


def decode(text: str, unpickle: bool, objects: ObjectStore) -> dict[str, Any]:
    """Decode one record. Blocks if it loads large objects.

    Args:
        text: Its JSON.
        unpickle: False is safe with any file: objects stay `Pickled` or `Stored`; use True only after
            `lock.check_trusted`.
        objects: The store of large objects.

    Raises:
        ValueError: If the text is no record.
        TuneError: If an object cannot be unpickled.
    """
    try:
        record = _read_json(text)
        if _MARK in text:
            is_shared = type(record) is dict and record.get(records.KIND) in _WITH_CONFIG
            record = _Reader(unpickle, objects, is_shared).value(record)
    # A checksum shows that a line is whole, not that we have written it. So any content may come here.
    except (RecursionError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise ValueError(f"a line has a good checksum, but no record in it: {error!r}") from error
    if type(record) is not dict:
        raise ValueError(f"a record must be a JSON object, but got {type(record).__name__}")
    return record
