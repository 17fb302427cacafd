"""Values that JSON cannot hold, as trees that it can: exactly, and without running anything when they are read.

Such a value is written as a *tag*, an object whose first key is `$`::

    {"$":"float","v":"nan"}   {"$":"bytes","v":"<base64>"}   {"$":"tuple","v":[1,2]}
    {"$":"dict","v":[[key,value],...]}      a dict with keys that are no text, or with the key "$"
    {"$":"deep","v":[node,...]}             a value nested deeper than parsers like
    {"$":"pickle","text":...,"python":"3.11","v":"<base64>"}           any other object
    {"$":"pickle","text":...,"python":"3.11","sha256":...,"size":n}    the same, in a file of its own
    {"$":"unrecorded","text":...,"v":"..."}                            one that pickle cannot hold either, and why
"""

from __future__ import annotations

import base64
import datetime
import importlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from minitune.execution.pickled import (
    INLINE_LIMIT_BYTES,
    PYTHON,
    ObjectStore,
    Pickled,
    Unrecorded,
    check_name,
    short_text,
)
from minitune.pickling import dumps_for_later, dumps_small_for_later
from minitune.shared import StoredValue

logger = logging.getLogger("minitune")

TAG = "$"
SCALARS = frozenset({str, int, float, bool, type(None)})
"""What JSON holds, by exact type; some values of these types it does not."""

_DEPTH_LIMIT = 40
"""Deeper values are written as a table: JSON parsers, and Python's own stack, have limits."""
_NODE_LIMIT = 200_000
"""Larger structures are pickled whole: a small object that refers to itself often may unfold without end."""
_NUMPY = frozenset({"bool", "bool_"} | {f"float{n}" for n in (16, 32, 64)}) | frozenset(
    f"{kind}{n}" for kind in ("int", "uint") for n in (8, 16, 32, 64)
)


def to_tree(record: dict[str, Any], objects: ObjectStore | None) -> Any:
    """What JSON is to hold in place of `record`.

    Args:
        record: Any dict.
        objects: Where large pickles go, or None.

    An object that cannot be pickled comes back as `Unrecorded`; it is logged.
    """
    tagger = _Tagger(objects)
    try:
        return tagger.value(record, 0)
    except _TooComplex:
        # A cycle, or a structure that unfolds without end: its field is pickled, the others stay legible.
        return tagger.pairs([(key, tagger.field(value)) for key, value in record.items()])


def from_tree(tree: Any, unpickle: bool, objects: ObjectStore | None, keep: bool = False) -> Any:
    """The value of a tree.

    Args:
        tree: What the JSON parser has returned.
        unpickle: Whether pickles are loaded.
        objects: Where large ones lie, or None.
        keep: Whether equal large ones, also of other trees, are one object.

    Raises:
        ValueError: If a tag is malformed (or another of the usual exceptions: it is somebody's forgery).
        TuneError: If a pickle cannot be loaded.
    """
    return _Reader(unpickle, objects, keep).value(tree)


class _TooComplex(Exception):
    """The value refers to itself, or unfolds to too many nodes."""


class _Tagger:
    """Turns values into trees that JSON holds.

    Args:
        objects: Where large pickles go, or None.
    """

    def __init__(self, objects: ObjectStore | None):
        self._objects = objects
        self._nodes = 0

    def value(self, value: Any, depth: int) -> Any:
        """The tree for any value."""
        kind = type(value)
        if kind in SCALARS:
            return _scalar(value)
        if kind not in _SHAPES:
            return self._leaf(value)
        if depth >= _DEPTH_LIMIT:
            return _tag("deep", self._deep(value))
        self._count(len(value))
        depth += 1
        if kind is dict:
            return self.pairs([(key, self.value(item, depth)) for key, item in value.items()])
        items = [self.value(item, depth) for item in value]
        return items if kind is list else _tag(kind.__name__, items)

    def pairs(self, pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
        """The tree for a dict, from its keys and the trees of its values."""
        if all(type(key) is str and key != TAG and not _has_surrogate(key) for key, _ in pairs):
            return dict(pairs)
        return _tag("dict", [[self.value(key, 0), tree] for key, tree in pairs])

    def field(self, value: Any) -> Any:
        """The tree for one field, pickled if it is too complex."""
        self._nodes = 0
        try:
            return self.value(value, 1)
        except _TooComplex:
            return self._pickle(value)

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > _NODE_LIMIT:
            raise _TooComplex

    def _leaf(self, value: Any) -> Any:
        """A value that is neither a JSON scalar nor a builtin container."""
        kind = type(value)
        writer = _LEAVES.get(kind)
        if writer is not None:
            written = writer(value)
            if written is not None:
                return written
        elif kind is Pickled:
            return _pickle_tag(value)
        elif kind is StoredValue:
            return _stored_tag(value)
        elif kind.__module__ == "numpy" and kind.__name__ in _NUMPY:
            return _tag("numpy", _scalar(value.item()), kind=kind.__name__)
        return self._pickle(value)

    def _deep(self, value: Any) -> list[list[Any]]:
        """A table of nodes for a deeply nested value, without recursion: children first, the value itself last.

        A node is `[0, leaf]`, or the number of its kind followed by the numbers of its children (for a dict, keys and
        values in turn).
        """
        nodes: list[list[Any]] = []
        active = {id(value)}
        frames: list[tuple[Any, Iterator[Any], list[Any]]] = [_frame(value)]
        while frames:
            container, children, node = frames[-1]
            for child in children:
                if type(child) in _SHAPES:
                    if id(child) in active:
                        raise _TooComplex
                    active.add(id(child))
                    frames.append(_frame(child))
                    break
                self._count(1)
                nodes.append([0, self.value(child, 0)])
                node.append(len(nodes) - 1)
            else:
                self._count(1)
                nodes.append(node)
                frames.pop()
                active.discard(id(container))
                if frames:
                    frames[-1][2].append(len(nodes) - 1)
        return nodes

    def _pickle(self, value: Any) -> dict[str, Any]:
        text = short_text(value)
        if type(value) is Unrecorded:
            return _tag("unrecorded", value.reason, text=text)
        what = f"the value {text} of a record"
        try:
            if self._objects is None:
                data = dumps_for_later(value, what)
            else:
                small = dumps_small_for_later(value, what, INLINE_LIMIT_BYTES)
                if small is None:
                    return _stored_tag(self._objects.put(value, text))
                data = small
        except TypeError as error:
            _warn_once(type(value).__qualname__, text, str(error))
            return _tag("unrecorded", str(error), text=text)
        return _pickle_tag(Pickled(text, PYTHON, data, None, len(data)))


_warned: set[str] = set()


def _warn_once(kind: str, text: str, reason: str) -> None:
    """Say it once for each class, also if every report has such an object."""
    if kind not in _warned:
        _warned.add(kind)
        logger.warning("%s is on record as text only, and a resume does not bring it back: %s", text, reason)


_SHAPES: dict[type, int] = {list: 1, tuple: 2, dict: 3, set: 4, frozenset: 5}
"""The containers, and their numbers in the table of a deep value."""


def _frame(container: Any) -> tuple[Any, Iterator[Any], list[Any]]:
    """A container, its children, and its unfinished node."""
    if type(container) is dict:
        children = (part for pair in container.items() for part in pair)
    else:
        children = (part for part in container)
    return container, children, [_SHAPES[type(container)]]


def _tag(name: str, value: Any, **more: Any) -> dict[str, Any]:
    return {TAG: name, **more, "v": value}


def _scalar(value: Any) -> Any:
    """A str, int, float, bool or None, tagged if JSON cannot hold it."""
    kind = type(value)
    if kind is float and not math.isfinite(value):
        return _tag("float", repr(value))
    if kind is int and value.bit_length() > 64:
        return _tag("int", hex(value))  # decimal digits have a limit in Python, hexadecimal ones have not
    if kind is str and _has_surrogate(value):
        return _tag("str", _base64(value.encode("utf-8", "surrogatepass")))
    return value


def _has_surrogate(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _base64(data: bytes | bytearray) -> str:
    return base64.b64encode(data).decode("ascii")


def _clock_tag(value: datetime.datetime | datetime.time) -> dict[str, Any] | None:
    """A naive or UTC date or time; None for other time zones, and for the second pass of a repeated hour."""
    is_clear = value.tzinfo is None or value.tzinfo is datetime.timezone.utc
    return _tag(type(value).__name__, value.isoformat()) if is_clear and not value.fold else None


_LEAVES: dict[type, Callable[[Any], dict[str, Any] | None]] = {
    bytes: lambda value: _tag("bytes", _base64(value)),
    bytearray: lambda value: _tag("bytearray", _base64(value)),
    complex: lambda value: _tag("complex", [_scalar(value.real), _scalar(value.imag)]),
    type(...): lambda value: _tag("ellipsis", None),
    datetime.datetime: _clock_tag,
    datetime.time: _clock_tag,
    datetime.date: lambda value: _tag("date", value.isoformat()),
    datetime.timedelta: lambda value: _tag("timedelta", [value.days, value.seconds, value.microseconds]),
}
"""Values with a tag of their own, by exact type; a writer that returns None leaves the value to pickle."""


def _pickle_tag(value: Pickled) -> dict[str, Any]:
    head = {TAG: "pickle", "text": value.text, "python": value.python}
    if value.data is not None:
        return {**head, "v": _base64(value.data)}
    return {**head, "sha256": value.sha256, "size": value.size_bytes}


def _stored_tag(value: StoredValue) -> dict[str, Any]:
    return {TAG: "pickle", "text": value.text, "python": PYTHON, "sha256": value.name, "size": value.size_bytes}


class _Reader:
    """Turns trees with tags back into values.

    Args:
        unpickle: Whether pickles are loaded.
        objects: Where large ones lie.
        keep: See `from_tree`.
    """

    def __init__(self, unpickle: bool, objects: ObjectStore | None, keep: bool):
        self._unpickle = unpickle
        self._objects = objects
        self._keep = keep

    def value(self, tree: Any) -> Any:
        """The value of a tree."""
        if type(tree) is list:
            return [self.value(item) for item in tree]
        if type(tree) is not dict:
            return tree
        if TAG not in tree:
            return {key: self.value(item) for key, item in tree.items()}
        name = tree[TAG]
        if name == "pickle":
            return self._object(tree)
        if name == "unrecorded":
            return Unrecorded(str(tree["text"]), str(tree["v"]))
        if name == "numpy":
            return self._numpy(tree["kind"], self.value(tree["v"]))
        content = tree["v"]
        if name == "dict":
            return {self.value(key): self.value(item) for key, item in content}
        if name == "deep":
            return self._deep(content)
        if name in ("tuple", "set", "frozenset", "complex"):
            content = [self.value(item) for item in content]
        return _READERS[name](content)

    def _object(self, tree: dict[str, Any]) -> Any:
        text, python, sha256 = str(tree["text"]), str(tree["python"]), tree.get("sha256")
        if sha256 is None:
            data = base64.b64decode(tree["v"], validate=True)
            pickled = Pickled(text, python, data, None, len(data))
        else:
            pickled = Pickled(text, python, None, check_name(sha256), int(tree["size"]), self._objects)
        return pickled.load(self._keep) if self._unpickle else pickled

    def _numpy(self, kind: str, number: Any) -> Any:
        if kind not in _NUMPY:
            raise ValueError(f"{kind!r} is no kind of number that is recorded")
        if not self._unpickle:
            return number
        try:
            numpy = importlib.import_module("numpy")
        except ImportError:
            return number
        return getattr(numpy, "bool_" if kind == "bool" else kind)(number)

    def _deep(self, nodes: list[list[Any]]) -> Any:
        values: list[Any] = []
        for kind, *content in nodes:
            if kind == 0:
                values.append(self.value(content[0]))
                continue
            children = [values[number] for number in content]
            if kind == _SHAPES[dict]:
                values.append(dict(zip(children[::2], children[1::2], strict=True)))
            else:
                values.append(_BUILDERS[kind](children))
        return values[-1]


_BUILDERS: Mapping[int, Callable[[list[Any]], Any]] = {1: list, 2: tuple, 4: set, 5: frozenset}

_READERS: Mapping[str, Callable[[Any], Any]] = {
    "float": float,
    "int": lambda text: int(text, 16),
    "str": lambda text: base64.b64decode(text).decode("utf-8", "surrogatepass"),
    "bytes": base64.b64decode,
    "bytearray": lambda text: bytearray(base64.b64decode(text)),
    "complex": lambda parts: complex(*parts),
    "ellipsis": lambda _: ...,
    "datetime": datetime.datetime.fromisoformat,
    "time": datetime.time.fromisoformat,
    "date": datetime.date.fromisoformat,
    "timedelta": lambda parts: datetime.timedelta(*parts),
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}
"""How the value of a tag is made, by the tag's name."""
