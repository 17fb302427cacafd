"""Groups of parameters: a group learns from an observation that has its parameters, each inside of the space."""

import math

import pytest

from minitune.search.groups import Group
from minitune.search.ranking import Observation
from minitune.space.domains import choice, randn, uniform
from minitune.space.parameters import parameters


def group_of(space):
    return Group(None, parameters(space), ())


SPACE = {"x": uniform(0, 1), "z": randn(0, 1), "k": choice(["a", "b"])}


def test_missing_values_are_drawn_and_known_ones_stay():
    group = group_of(SPACE)
    for number in range(20):
        group.add(Observation(number, {"x": 0.25, "k": 1}))
    values = [group.decode(point) for point in group.points.values()]
    assert {(each["x"], each["k"]) for each in values} == {(0.25, 1)}
    assert len({each["z"] for each in values}) == 20


@pytest.mark.parametrize("wrong", [{"z": math.inf}, {"z": -math.inf}, {"x": 1.5}, {"x": None}, {"k": 2}, {"k": -1}])
def test_an_observation_with_a_value_outside_of_the_space_is_left_out(wrong):
    group = group_of(SPACE)
    group.add(Observation(0, {"x": 0.5, "z": 0.5, "k": 0, **wrong}))
    assert not group.points


BRANCHES = {"m": choice([{"a": uniform(0, 1)}, {"b": choice([{"c": uniform(0, 1)}, "plain"])}])}


def test_a_group_below_a_category_learns_only_from_those_that_have_it():
    below = [each for each in parameters(BRANCHES) if each.parent == ("m", 1)]
    group = Group(("m", 1), below, ("m", "m/1/b"))
    for number, values in enumerate(({"m": 0, "m/0/a": 0.5}, {"m": 1, "m/1/b": 1}, {"m/1/b": 1}, {"m": 1})):
        group.add(Observation(number, values))
    assert list(group.points) == [1]
    assert group.is_branch
    assert group.is_free


def test_the_group_of_a_whole_space_knows_what_exists_below_which_category():
    group = Group(None, parameters(BRANCHES), ("m", "m/1/b"))
    assert list(group.domains) == ["m", "m/0/a", "m/1/b", "m/1/b/0/c"]
    first, second = {"m": 0, "m/0/a": 0.25}, {"m": 1, "m/1/b": 0, "m/1/b/0/c": 0.75}
    for number, values in enumerate((first, second, {"m": 1, "m/1/b": 0})):
        group.add(Observation(number, values))
    found = [group.decode(point) for point in group.points.values()]
    assert [{name: each[name] for name in given} for each, given in zip(found, (first, second), strict=False)] == [
        first,
        second,
    ]
    assert len(found) == 3, "what the third one lacks is drawn"
    assert not group.is_branch
    # a number that does not exist is in the middle, and a choice has its first category
    assert (found[0]["m/1/b"], found[0]["m/1/b/0/c"], found[1]["m/0/a"]) == (0, 0.5, 0.5)
    assert group.middle() == {"m/0/a": 0.5, "m/1/b/0/c": 0.5}
    needs = group.kernel_space.needs  # as bits: the categories of `m`, then those of `b`
    assert list(needs) == [0b01, 0b0110, 0, 0b10]


def test_equal_values_have_one_point():
    group = group_of(SPACE)
    values = [{"x": x, "z": 0.5, "k": k} for x in (0.25, 0.5) for k in (0, 1)]
    assert len({group.encode(each) for each in (*values, *values)}) == 4
    assert [group.decode(group.encode(each)) for each in values] == values


def test_the_values_of_an_observation_are_those_inside_of_the_space():
    group = group_of(SPACE)
    whole, part = Observation(0, {"x": 0.5, "z": 1.0, "k": 1}), Observation(1, {"x": 0.5})
    for each in (whole, part):
        group.add(each)
    values = group.values_of(whole)
    assert (values["x"], pytest.approx(values["z"]), values["k"]) == (0.5, 1.0, 1)
    assert group.values_of(part) is None
    assert group.values_of(Observation(2, {})) is None
