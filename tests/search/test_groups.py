"""Groups of parameters: a group learns from an observation that has its parameters, each inside of the space."""

from __future__ import annotations

import math
from typing import Any

import pytest

from minitune.search.groups import Group
from minitune.search.ranking import Observation
from minitune.space.domains import choice, randn, uniform
from minitune.space.parameters import parameters


def group_of(space: dict[str, Any]) -> Group:
    return Group(None, parameters(space), ())


SPACE = {"x": uniform(0, 1), "z": randn(0, 1), "k": choice(["a", "b"])}


def test_missing_values_are_drawn_and_known_ones_stay() -> None:
    group = group_of(SPACE)
    for number in range(20):
        group.add(Observation(number, {"x": 0.25, "k": 1}))
    values = [group.decode(point) for point in group.kernels.points.values()]
    assert {(each["x"], each["k"]) for each in values} == {(0.25, 1)}
    assert len({each["z"] for each in values}) == 20


@pytest.mark.parametrize("wrong", [{"z": math.inf}, {"z": -math.inf}, {"x": 1.5}, {"x": None}, {"k": 2}, {"k": -1}])
def test_an_observation_with_a_value_outside_of_the_space_is_left_out(wrong: dict[str, Any]) -> None:
    group = group_of(SPACE)
    group.add(Observation(0, {"x": 0.5, "z": 0.5, "k": 0, **wrong}))
    assert not group.kernels.points
