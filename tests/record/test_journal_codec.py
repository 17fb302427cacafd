import copy
import datetime
import enum
import fractions
import math
import os
import pickle
import zlib
from collections import OrderedDict
from decimal import Decimal
from pathlib import Path

import pytest

from minitune.base.shared_values import ObjectRef, ObjectStore, store
from minitune.error import TuneError
from minitune.record import codec
from minitune.record.codec import TEXT_LIMIT, Pickled, load_object


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Point:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return isinstance(other, Point) and other.x == self.x

    __hash__ = None


class Breaks:
    """Pickles, but does not load."""

    def __reduce__(self):
        return _raise, ()


def _raise():
    raise RuntimeError("no such thing here")


def same(one, other):
    """Equal in value and type, all the way down, with NaN equal to itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        both_nan = one != one and other != other
        return both_nan or (one == other and math.copysign(1, one) == math.copysign(1, other))
    if isinstance(one, complex):
        return same(one.real, other.real) and same(one.imag, other.imag)
    if isinstance(one, dict):
        return len(one) == len(other) and all(
            same(k1, k2) and same(v1, v2) for (k1, v1), (k2, v2) in zip(one.items(), other.items(), strict=True)
        )
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


NOWHERE = ObjectStore(f"{os.devnull}/objects")
"""Records without a large object need no store."""


def encode(record, objects=NOWHERE):
    """The line of a record."""
    return _line(codec.encode(record, objects))


def decode(line, unpickle=False, objects=NOWHERE):
    return codec.decode(line[9:-1].decode(), unpickle, objects)


def _line(json_text):
    """A line with a good checksum around any text."""
    body = json_text.encode()
    return b"%08x %b\n" % (zlib.crc32(body), body)


AWKWARD = {
    "nan": math.nan,
    "infinities": [math.inf, -math.inf],
    "signed zero": [0.0, -0.0],
    "tiny": [5e-324, 1e308, 0.1],
    "bytes": b"\x00\xff\n",
    "bytearray": bytearray(b"abc"),
    "int of 65 bits": [2**64, -(2**64), 2**63, -(2**63), 2**64 - 1],
    "10**400": 10**400,
    "10**5000": -(10**5000),
    "bool": [True, False, 1, 0, 1.0],
    "none": None,
    "ellipsis": ...,
    "complex": complex(math.nan, -0.0),
    "tuple": (1, (2, [3, ()])),
    "sets": [{1, 2}, frozenset({"a", (1, 2)}), set()],
    "dates": [datetime.date(2024, 2, 29), datetime.timedelta(days=-1, microseconds=1)],
    "enums": [Color.RED, Level.LOW],
    "other numbers": [Decimal("1.10"), fractions.Fraction(1, 3)],
    "object": Point(1.5),
    "ordered": OrderedDict(a=1, b=2),
    "path": Path("a/b"),
    "lone surrogates": ["\ud800", "\ude00\ud83d", "\ud83d\ude00", "\U0001f600", "ü", "\\ud800", "\x00\n\u2028"],
    "keys": {1: "int", 1.5: "float", None: 0, (1, "a"): 2, True and "x": 3, b"k": 4, "": 5, "a/b.c\nd": 6},
    "surrogate key": {"\udcff": 1},
    "dollar": {"$": "float", "v": "nan"},
    "dollar deep": [{"a": {"$": {"$": 1}}}, '{"$":'],
    "dict with order": {"b": 1, "a": 2},
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_values_come_back_exactly(name):
    record = {"type": "result", "metrics": {"value": AWKWARD[name], "loss": 0.5}}

    line = encode(record)

    assert same(decode(line, unpickle=True), record)
    assert line.count(b"\n") == 1
    assert line.isascii()


@pytest.mark.parametrize("name", ["enums", "dates", "ellipsis", "sets", "bytes", "ordered", "object"])
def test_untrusting_reader_gets_texts_of_pickled_values(name):
    value = AWKWARD[name]
    looked = decode(encode({"value": value}))["value"]

    parts = zip(value, looked, strict=True) if type(value) is list else [(value, looked)]
    for part, found in parts:
        assert isinstance(found, Pickled)
        assert repr(found)[:10] == repr(part)[:10]


def test_a_plain_record_is_plain_json():
    line = encode({"type": "result", "number": 3, "metrics": {"loss": 0.25, "done": False, "note": None, "l": [1, {}]}})

    assert line[9:] == (b'{"type":"result","number":3,"metrics":{"loss":0.25,"done":false,"note":null,"l":[1,{}]}}\n')


def test_a_value_that_contains_itself_comes_back():
    value = [1]
    value.append(value)

    back = decode(encode({"plain": 1.5, "v": value}), unpickle=True)

    assert back["plain"] == 1.5
    assert back["v"][1] is back["v"]


def test_a_value_that_unfolds_without_end_ends():
    value = []
    for _ in range(60):
        value = [value, value]

    found = decode(encode({"metrics": {"v": value, "n": 1}}))["metrics"]
    assert isinstance(found["v"], Pickled)
    assert found["n"] == 1


def test_looking_does_not_unpickle(tmp_path):
    canary = tmp_path / "canary"

    class Bomb:
        def __reduce__(self):
            return Path.touch, (canary,)

    line = encode({"metrics": {"x": Bomb(), "loss": 1.0}})

    shown = decode(line)["metrics"]
    assert "Bomb" in repr(shown["x"])
    assert shown["loss"] == 1.0
    assert not canary.exists()
    assert encode({"metrics": shown}) == line  # it can be copied without loading it
    decode(line, unpickle=True)
    assert canary.exists()


def test_an_object_that_does_not_load_has_a_clear_error():
    line = encode({"x": Breaks()})

    assert isinstance(decode(line)["x"], Pickled)
    with pytest.raises(TuneError, match=r"Breaks.*cannot be loaded \(RuntimeError: no such thing here\)"):
        decode(line, unpickle=True)


def test_code_of_another_python_is_refused():
    code = decode(encode({"f": lambda: 1}))["f"]
    assert isinstance(code, Pickled)
    old = Pickled(code.text, code.data, "3.1")

    with pytest.raises(TuneError, match=r"pickled by Python 3\.1 and contains code"):
        load_object(old, NOWHERE)


def test_unpicklable_object_is_kept_as_text_with_the_reason(caplog):
    line = encode({"x": {"y": (i for i in range(3)), "z": 1}})
    encode({"x": (i for i in range(3))})

    [warning] = caplog.messages
    assert "generator" in warning
    for unpickle in (False, True):
        found = decode(line, unpickle)["x"]
        assert found["z"] == 1
        assert "generator" in repr(found["y"])
        assert copy.deepcopy(found["y"]) == found["y"]
        with pytest.raises(TypeError, match=r"is lost: .* cannot be pickled"):
            pickle.dumps(found["y"])
        assert decode(encode({"x": found})) == {"x": found}, "a later run knows it, too"


def test_a_value_whose_file_an_earlier_driver_left_damaged_is_stored_again(tmp_path):
    record = {"config": {"large": b"x" * 2_000_000}}
    encode(record, ObjectStore(str(tmp_path)))
    (file,) = files_in(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[:-10] + b"?" * 10)

    store = ObjectStore(str(tmp_path))
    line = encode(record, store)

    assert file.read_bytes() == whole
    assert decode(line, True, store) == record


MB = 1_000_000


LARGE = {
    "bytes": b"x" * (2 * MB),
    "bytearray": bytearray(2 * MB),
    "text": "ä" * (2 * MB),
    "a list": [n / 7 for n in range(100_000)],
    "a tuple": tuple(range(100_000)),
    "a dict": {str(n): n for n in range(100_000)},
    "a set": set(range(100_000)),
    "much that is small": [[float(n)] * 100 for n in range(2_000)],
}


def files_in(directory):
    """The stored values."""
    return sorted(directory.glob("*.pkl"))


@pytest.mark.parametrize("value", LARGE.values(), ids=LARGE)
@pytest.mark.parametrize("depth", [0, 2])
def test_a_large_value_is_stored_once_and_stands_by_reference(tmp_path, value, depth):
    store = ObjectStore(str(tmp_path / "objects"))
    nested = value
    for _ in range(depth):
        nested = {"small": 1, "inner": [(nested, "text")]}
    record = {"type": "trial", "config": {"value": nested, "lr": 0.1}, "metrics": {"value": value}}

    lines = [encode(record, store) for _ in range(2)]

    assert len(lines[0]) < 3_000
    assert lines[0] == lines[1]
    sizes = [file.stat().st_size for file in files_in(tmp_path / "objects")]
    assert len(sizes) <= (2 if depth else 1), "what has too many parts is a pickle with all that is around it"
    assert same(decode(lines[0], True, ObjectStore(store.directory)), record)
    looked = decode(lines[0], False, store)
    assert looked["config"]["lr"] == 0.1, "what is beside it can be read"
    assert looked["metrics"]["value"].size_bytes in sizes
    assert len(repr(looked["metrics"]["value"])) <= TEXT_LIMIT


def test_a_reference_of_put_stands_for_the_copy_of_the_run(tmp_path):
    (tmp_path / "run").mkdir()
    path = str(tmp_path / "value")
    store([1, 2], path, "the value")
    objects = ObjectStore(str(tmp_path / "run" / "objects"))
    line = encode({"config": {"data": ObjectRef(path, 3)}}, objects)
    os.unlink(path)
    ref = decode(line, False, objects)["config"]["data"]
    assert (ref.number, ref.get()) == (3, [1, 2])
    assert len(os.listdir(objects.directory)) == 1
    assert encode({"config": {"data": ref}}, objects) == line


def test_a_stored_value_without_a_text_still_stands_for_the_value(tmp_path):
    store = ObjectStore(str(tmp_path / "objects"))

    stored = store.put(pickle.dumps(Point(1.5)), "")

    assert repr(stored) == ""
    assert decode(encode({"x": stored}, store), True, store) == {"x": Point(1.5)}


def test_self_referring_and_unpicklable_values_are_recorded(tmp_path, caplog):
    store = ObjectStore(str(tmp_path / "objects"))
    endless = [b"x" * 100]
    endless.append(endless)
    record = {"config": {"endless": endless}, "evaluated_params": {"odd": [(n for n in ())] + [0] * 100_000}}

    found = decode(encode(record, store), True, store)

    assert found["config"]["endless"][1] is found["config"]["endless"]
    assert "generator" in repr(found["evaluated_params"]["odd"])


def test_equal_configurations_share_one_value(tmp_path):
    store = ObjectStore(str(tmp_path / "objects"))
    for kind, stays in (("trial", True), ("exploit", True), ("result", False)):
        value = kind.encode() * MB
        line = encode({"type": kind, "config": {"value": value}}, store)
        one, two = (decode(line, True, store)["config"]["value"] for _ in range(2))
        assert one == two == value
        assert (one is two) == stays, "what is in results does not stay in memory"


def test_a_metric_that_may_have_changed_is_looked_at_again(tmp_path):
    store = ObjectStore(str(tmp_path / "objects"))
    value = bytearray(2 * MB)
    lines = []
    for value[5] in (0, 1):
        lines.append(encode({"config": {"value": value}}, store))

    assert [decode(line, True, store)["config"]["value"][5] for line in lines] == [0, 1]


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        "{",
        '{"a":{"$":"nonsense","v":1}}',
        '{"a":{"$":"float"}}',
        '{"a":{"$":"float","v":"x"}}',
        '{"a":{"$":"pickle","text":"x","python":"3","sha256":"../../x","size":1}}',
        '{"a":{"$":"str","v":1}}',
        '{"a":{"$":["x"],"v":1}}',
        '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
)
def test_forged_lines_are_refused_as_bad_lines(text):
    with pytest.raises(ValueError):
        decode(_line(text), unpickle=True)


def test_the_text_of_an_object_is_short_and_survives_a_bad_repr():
    class Bad:
        def __repr__(self):
            raise ValueError("no")

    class Long:
        def __repr__(self):
            return "x" * 100_000

    shown = decode(encode({"bad": Bad(), "long": Long()}))

    assert "Bad" in repr(shown["bad"])
    assert len(repr(shown["long"])) <= TEXT_LIMIT
