"""Results as nested dicts, and as flat ones: their keys, their order, and what is left as it was."""

from collections import UserDict
from enum import IntEnum
from types import MappingProxyType, SimpleNamespace

import pytest

from minitune.result import MISSING, assign, complete, flat_row, flatten, lookup, unflatten, with_text_keys

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


def test_a_row_has_plain_metrics_first_and_no_empty_levels():
    result = {"a": {"x": 1, "none": {}}, "b": 2, "c": {}, "d": [3], "e": Named(y=4), "f": Named()}
    assert list(flat_row(result).items()) == [("b", 2), ("d", [3]), ("a/x", 1), ("e/y", 4)]


# -- keys --------------------------------------------------------------------------------------------------------------
class Level(IntEnum):
    LOW = 1


class Text(str):
    __slots__ = ()


class Mute:
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("t", "t"),
        (Text("t"), "t"),
        (3, "3"),
        (2.5, "2.5"),
        (None, "None"),
        (True, "True"),
        (Level.LOW, "1"),
        (2**70, str(2**70)),
        (("a", 1), "('a', 1)"),
        (frozenset((1,)), "frozenset({1})"),
        (SimpleNamespace, str(SimpleNamespace)),
    ],
)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_each_key_becomes_its_text_at_each_level(key, text, depth):
    metrics = {key: 1, "b": LIST}
    expected = {text: 1, "b": LIST}
    for _ in range(depth):
        metrics, expected = {"in": metrics, "c": Named(x=2)}, {"in": expected, "c": {"x": 2}}
    before = repr(metrics)
    found = with_text_keys(metrics)
    assert found == expected
    assert repr(metrics) == before, "the user's dict stays as it is"
    assert {type(part) for name in flatten(found) for part in [name]} == {str}


def endless():
    metrics = {"loss": 1.0}
    metrics["again"] = metrics["more"] = metrics
    return metrics


@pytest.mark.parametrize(
    ("metrics", "error", "text"),
    [
        (
            {Mute(): 1},
            TypeError,
            r"must have a text, but str\(\) of .*Mute.* raised RuntimeError; use a text as the key",
        ),
        ({1: 1, "1": 2}, TypeError, "must have its own text, but two have '1'"),
        ({"a": {str: 1, str(str): 2}}, TypeError, "must have its own text"),
        (endless(), ValueError, "must be nested at most 100 levels deep"),
    ],
)
def test_a_key_without_a_text_of_its_own_is_refused(metrics, error, text):
    with pytest.raises(error, match=text):
        with_text_keys(metrics)


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
