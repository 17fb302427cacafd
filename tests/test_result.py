"""Results as nested dicts, and as flat ones: their keys, their order, and what is left as it was."""

from collections import UserDict
from enum import IntEnum
from types import MappingProxyType, SimpleNamespace

import pytest

from minitune.result import MISSING, assign, complete, flat_row, flatten, lookup, unflatten, with_plain_keys

LIST = [1, 2]


class Named(UserDict):
    """A mapping that is no dict."""


@pytest.mark.parametrize(
    ("nested", "flat"),
    [
        ({}, {}),
        ({"a": 1, "b": None}, {"a": 1, "b": None}),
        ({"a": {"x": 1, "y": "t"}, "b": 2}, {"b": 2, "a/x": 1, "a/y": "t"}),
        ({"a": {}, "b": {"c": {}}}, {"a": {}, "b/c": {}}),
        ({"a": {"x": LIST}, "b": LIST}, {"b": LIST, "a/x": LIST}),
        ({"a": {"x": {"y": 1}, "z": 2}, "b": {"c": 3}}, {"a/z": 2, "b/c": 3, "a/x/y": 1}),  # level by level
        ({1: 2, "a": {3: 4, None: 5}}, {"1": 2, "a/3": 4, "a/None": 5}),
        ({"a": {1: {"x": 1}}}, {"a/1/x": 1}),
        ({1: {"x": 1}}, {"1/x": 1}),
        ({"a": MappingProxyType({"x": 1}), "b": Named(x=2)}, {"a/x": 1, "b/x": 2}),
        ({"a": 1, "b": Named()}, {"a": 1, "b": Named()}),
        ({"a": {"x": 1}, "a/x": 2}, {"a/x": 1}),  # the deeper one, as with Ray Tune
        ({"a/b": {"c": 1}}, {"a/b/c": 1}),
        ({"": {"x": 1}, "a": {"": 1}}, {"/x": 1, "a/": 1}),
    ],
)
@pytest.mark.parametrize("kind", [dict, Named])
def test_levels_become_parts_of_names(nested, flat, kind):
    found = flatten(kind(nested))
    assert list(found.items()) == list(flat.items())
    assert type(found) is dict


def test_levels_are_joined_by_any_delimiter():
    for nested in ({"a": {"x": 1}}, {"a": {"x": {"y": 1}}}, {"a": {"x": [1]}}):
        (name,) = flatten(nested, ".")
        assert name.startswith("a.x")
        assert "/" not in name


@pytest.mark.parametrize("result", [{"a": 1}, {"a": {"x": 1}, "b": 1}, {"a": {"x": {"y": 1}}}, {"a": {"x": [1]}}])
def test_a_flat_result_is_a_copy(result):
    before = repr(result)
    flat = flatten(result)
    flat.clear()
    assert repr(result) == before


def test_a_result_may_be_deep_but_not_endless():
    def nested(levels):
        result = {"x": 1}
        for _ in range(levels):
            result = {"a": result}
        return result

    (name,) = flatten(nested(2_000))
    assert name == "a/" * 2_000 + "x"
    with pytest.raises(ValueError, match=r"at most 2500 levels deep, but got 'a/a/.*'\.\.\."):
        flatten(nested(2_600))


def test_a_row_has_plain_metrics_first_and_no_empty_levels():
    result = {"a": {"x": 1, "none": {}}, "b": 2, "c": {}, "d": [3], "e": Named(y=4), "f": Named()}
    assert list(flat_row(result).items()) == [("b", 2), ("d", [3]), ("a/x", 1), ("e/y", 4)]
    assert flat_row({"a": {"x": 1}}, ".") == {"a.x": 1}


# -- keys --------------------------------------------------------------------------------------------------------------
class Level(IntEnum):
    LOW = 1


class Text(str):
    __slots__ = ()


class Scalar:
    """A number of another library."""

    shape = ()

    def __init__(self, value):
        self.value = value

    def item(self):
        return self.value

    def tolist(self):
        return self.value

    def __hash__(self):
        return hash(self.value)


class Mute:
    def __str__(self):
        raise RuntimeError("no text")


PLAIN = [
    {},
    {"a": 1, "b": LIST},
    {3: 1, 2.5: 1, True: 1, None: 1, b"b": 1, ("a", 1): 1, -(2**63): 1},
    {"a": {"b": {3: 1}}, "c": Named(x=1)},
]


@pytest.mark.parametrize("metrics", PLAIN)
def test_metrics_with_plain_keys_stay_the_same_object(metrics):
    assert with_plain_keys(metrics) is metrics


@pytest.mark.parametrize(
    ("key", "plain"),
    [
        (Text("t"), "t"),
        (Level.LOW, 1),
        (2**70, str(2**70)),
        (Scalar(3), 3),
        (Scalar(0.5), 0.5),
        ((Text("t"), (Level.LOW, 2)), ("t", (1, 2))),
        (frozenset((1,)), "frozenset({1})"),
        (SimpleNamespace, str(SimpleNamespace)),
    ],
)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_any_other_key_becomes_a_plain_one_at_each_level(key, plain, depth):
    metrics = {key: 1, "b": LIST}
    expected = {plain: 1, "b": LIST}
    for _ in range(depth):
        metrics, expected = {"in": metrics, "c": Named(x=2)}, {"in": expected, "c": {"x": 2}}
    before = repr(metrics)
    found = with_plain_keys(metrics)
    assert found == expected
    assert repr(metrics) == before, "the user's dict stays as it is"
    for level in range(depth + 1):
        kinds = {type(each) for each in found}
        assert kinds <= {str, int, float, tuple}, level
        found = found.get("in", {})


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        ({Mute(): 1}, r"must have a text, but str\(\) of .*Mute.* raised RuntimeError; use a text as the key"),
        ({"a": {(1, Mute()): 1}}, r"must have a text, but str\(\) of \(1, "),
        ({2**70: 1, str(2**70): 2}, "must have its own text, but two have '1180591620717411303424'"),
        ({"a": {str: 1, str(str): 2}}, "must have its own text"),
    ],
)
def test_a_key_without_a_text_of_its_own_is_refused(metrics, text):
    with pytest.raises(TypeError, match=text):
        with_plain_keys(metrics)


# -- names -------------------------------------------------------------------------------------------------------------
RESULT = {
    "loss": 1,
    "eval": {"loss": 2, "deep": {"x": 3}, "none": {}},
    "a/b": 4,
    "empty": {},
    "n": None,
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("loss", 1),
        ("eval/loss", 2),
        ("eval/deep/x", 3),
        ("a/b", 4),
        ("n", None),
        ("empty", {}),
        ("eval/none", {}),
        ("eval", MISSING),
        ("eval/deep", MISSING),
        ("eval/x", MISSING),
        ("x", MISSING),
        ("a", MISSING),
    ],
)
def test_a_metric_is_found_by_its_flat_name(name, value):
    assert lookup(RESULT, name) == value


@pytest.mark.parametrize("name", ["loss", "eval/loss", "eval/deep/x", "a/b"])
def test_a_metric_is_replaced_by_its_flat_name_in_copies(name):
    result = dict(RESULT)
    before = repr(RESULT)
    assert assign(result, name, 9)
    assert flatten(result) == {**flatten(RESULT), name: 9}
    assert repr(RESULT) == before


@pytest.mark.parametrize("name", ["x", "eval/x", "eval/deep/y", "a/c", "eval/", "loss/x"])
def test_a_metric_that_is_not_there_is_not_added(name):
    result = dict(RESULT)
    assert not assign(result, name, 9)
    assert result == RESULT


def test_of_two_levels_that_begin_alike_the_right_one_is_changed():
    result = {"a": {"x": 1}, "a/b": {"x": 2}, "ab": {"x": 3}}
    assert assign(result, "a/b/x", 9)
    assert assign(result, "ab/x", 8)
    assert result == {"a": {"x": 1}, "a/b": {"x": 9}, "ab": {"x": 8}}


def test_a_flat_result_becomes_nested_again():
    assert unflatten({"a/b/c": 1, "a/d": 2, "e": 3}) == {"a": {"b": {"c": 1}, "d": 2}, "e": 3}
    assert unflatten({"a.b": 1, "c/d": 2}, ".") == {"a": {"b": 1}, "c/d": 2}
    assert unflatten(MappingProxyType({"a/b": 1})) == {"a": {"b": 1}}
    for flat in ({"a": 1, "a/b": 2}, {"a/b": 1, "a/b/c/d": 2}):
        with pytest.raises(TypeError, match=r"must not lead through the value of another, but 'a/b.*' does at"):
            unflatten(flat)


@pytest.mark.parametrize(
    ("metrics", "order"),
    [
        ({"loss": 1, "pid": 2}, ["loss", "pid", "config"]),
        ({"loss": 1, "time_since_restore": 2}, ["loss", "config", "time_since_restore"]),
        ({"loss": 1, "time_since_restore": 3, "x": 4}, ["loss", "config", "time_since_restore", "x"]),
        ({}, ["config"]),
    ],
)
def test_a_complete_result_has_the_configuration_in_its_place(metrics, order):
    config = {"lr": 1}
    before = dict(metrics)
    result = complete(metrics, config)
    assert list(result) == order
    assert result["config"] is config
    assert metrics == before
