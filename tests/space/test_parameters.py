"""A search space as a list of parameters, and back."""

import math

import pytest

from minitune.space import domains
from minitune.space.parameters import Axis, config_key, draw, parameters, scales, space_size, values_of

CONDITIONAL = {
    "seed": 7,
    "lr": domains.loguniform(1e-5, 1),
    "net": {"width": domains.randint(8, 64), "act": domains.choice(["relu", "tanh"])},
    "model": domains.choice(
        [
            {"kind": "tree", "depth": domains.randint(1, 9)},
            {
                "kind": "svm",
                "C": domains.loguniform(1e-3, 1e3),
                "kernel": domains.choice(["rbf", {"degree": domains.randint(2, 5)}]),
            },
            "linear",
        ]
    ),
    "layers": [domains.uniform(0, 1), domains.uniform(0, 2)],
    "dropout": domains.choice([None, domains.uniform(0, 0.5)]),
    "double": domains.sample_from(lambda config: 2 * config["net"]["width"]),
}


def test_every_parameter_has_a_name_a_path_and_a_parent():
    found = {each.name: (each.path, each.parent) for each in parameters(CONDITIONAL)}

    assert found == {
        "lr": (("lr",), None),
        "net/width": (("net", "width"), None),
        "net/act": (("net", "act"), None),
        "model": (("model",), None),
        "model/0/depth": (("model", "depth"), ("model", 0)),
        "model/1/C": (("model", "C"), ("model", 1)),
        "model/1/kernel": (("model", "kernel"), ("model", 1)),
        "model/1/kernel/1/degree": (("model", "kernel", "degree"), ("model/1/kernel", 1)),
        "layers/0": (("layers", 0), None),
        "layers/1": (("layers", 1), None),
        "dropout": (("dropout",), None),
        "dropout/1": (("dropout",), ("dropout", 1)),
    }


def test_a_configuration_is_drawn_by_asking_for_active_parameters_only():
    values = {"lr": 0.1, "net/width": 8, "net/act": 1, "model": 1, "model/1/C": 2.0, "model/1/kernel": 1}
    values |= {"model/1/kernel/1/degree": 3, "layers/0": 0.5, "layers/1": 1.5, "dropout": 0}
    asked = []

    config = draw(CONDITIONAL, lambda each: (asked.append(each.name), values[each.name])[1])

    assert config["net"] == {"width": 8, "act": "tanh"}
    assert config["model"] == {"kind": "svm", "C": 2.0, "kernel": {"degree": 3}}
    assert (config["layers"], config["dropout"], config["seed"]) == ([0.5, 1.5], None, 7)
    assert sorted(asked) == sorted(values)
    assert isinstance(config["double"], domains.Function)
    assert values_of(CONDITIONAL, config) == values
    assert isinstance(CONDITIONAL["layers"][0], domains.Float)


@pytest.mark.parametrize(
    ("config", "values"),
    [
        ({}, {}),
        ({"lr": 0.5, "unknown": 3}, {"lr": 0.5}),
        ({"net": {"act": "relu"}}, {"net/act": 0}),
        ({"model": "linear"}, {"model": 2}),
        ({"model": {"depth": 3}}, {"model": 0, "model/0/depth": 3}),
        ({"model": {"kind": "svm"}}, {"model": 1}),
        ({"dropout": 0.25}, {"dropout": 1, "dropout/1": 0.25}),
        ({"layers": [0.5]}, {"layers/0": 0.5}),
    ],
)
def test_a_part_of_a_configuration_gives_a_part_of_the_values(config, values):
    assert values_of(CONDITIONAL, config) == values


def test_a_category_is_found_by_the_closest_likeness():
    like_one = {"x": domains.choice([True, 1, 1.0, "1"])}

    assert [values_of(like_one, {"x": value})["x"] for value in (True, 1, 1.0, "1")] == [0, 1, 2, 3]


def test_of_equal_categories_the_one_of_the_same_type_is_found():
    assert values_of({"a": domains.choice([1, 1.0])}, {"a": float("1")}) == {"a": 1}


def test_a_value_that_is_not_drawn_yet_is_left_out():
    space = {"a": domains.uniform(0, 1), "b": domains.choice([1, 2]), "c": domains.randint(0, 9)}
    assert values_of(space, {**space, "c": 5}) == {"c": 5}


@pytest.mark.parametrize(
    ("domain", "places"),
    [
        (domains.uniform(2, 6), {2.0: 0.0, 3.0: 0.25}),
        (domains.loguniform(0.01, 1), {0.1: 0.5}),
        (domains.randint(0, 4), {0: 1 / 8, 3: 7 / 8}),  # a cell reaches from n to n + 1
        (domains.lograndint(1, 16), {1: math.log(2) / 2 / math.log(16), 2: math.log(6) / 2 / math.log(16)}),
        (domains.qrandint(10, 40, 10), {10: 1 / 8, 40: 7 / 8}),
        (domains.quniform(0, 1, 0.25), {0.0: 0.1, 1.0: 0.9}),  # half a cell beyond the bounds
        (domains.qloguniform(1, 4, 1), {2.0: math.log(1.5 * 2.5 / 0.5**2) / 2 / math.log(4.5 / 0.5)}),
        (domains.randn(7, 3), {7.0: 0.5, 19.0: 1.0, -5.0: 0.0}),  # four standard deviations to either side
        (domains.qrandn(0, 2, 4), {0.0: 0.5, 4.0: 0.75}),
    ],
    ids=repr,
)
def test_where_values_are_on_an_axis(domain, places):
    axis = Axis(domain)
    for value, place in places.items():
        assert axis.encode(value) == pytest.approx(place)
        assert axis.decode(place) == pytest.approx(value)
        assert type(axis.decode(place)) is type(value)


@pytest.mark.parametrize(
    ("domain", "width"),
    [
        (domains.uniform(0, 1), 0.0),
        (domains.randint(0, 4), 1 / 4),
        (domains.quniform(0, 1, 0.25), 1 / 5),
        (domains.lograndint(1, 4), (math.log(2) ** 2 + math.log(1.5) ** 2 + math.log(4 / 3) ** 2) / math.log(4) ** 2),
        (domains.lograndint(1, 10**12), 0.9771 / math.log(10**12) ** 2),  # the sum of log(1 + 1 / n) ** 2 over all n
        (domains.randn(7, 3), 0.0),
        (domains.qrandn(0, 2, 4), 1 / 4),
    ],
    ids=repr,
)
def test_the_mean_width_of_the_cells_of_an_axis(domain, width):
    assert Axis(domain).width == pytest.approx(width, rel=0.002)


@pytest.mark.parametrize(
    ("domain", "values"),
    [
        (domains.quniform(-0.5, 1, 0.5), [-0.5, 0.0, 0.5, 1.0]),
        (domains.qloguniform(0.1, 0.3, 0.1), [0.1, 0.2, 0.3]),
        (domains.randint(-1, 2), [-1, 0, 1]),
        (domains.lograndint(1, 4), [1, 2, 3]),
        (domains.qrandint(-5, 9, 5), [-5, 0, 5]),
        (domains.qrandint(1, 4, 1), [1, 2, 3]),
        (domains.uniform(3, 3), [3.0]),
        (domains.randint(3, 4), [3]),
    ],
    ids=repr,
)
def test_all_values_of_a_finite_axis_are_listed_in_order(domain, values):
    axis = Axis(domain)
    assert axis.count == len(values) == space_size({"x": domain})
    assert list(axis.values()) == values
    assert [axis.decode(axis.encode(value)) for value in values] == values
    assert [domain.is_valid(value) for value in values] == [True] * len(values)


def test_a_position_beyond_the_ends_of_an_axis_is_the_value_at_the_end():
    for domain, low, high in (
        (domains.uniform(2, 6), 2.0, 6.0),
        (domains.randint(0, 4), 0, 3),
        (domains.quniform(0, 1, 0.25), 0.0, 1.0),
        (domains.qlograndint(2, 8, 2), 2, 8),
    ):
        axis = Axis(domain)
        assert (axis.decode(-0.5), axis.decode(1.5)) == (low, high)


def test_a_value_outside_is_refused_or_reported():
    outside = []

    with pytest.raises(ValueError, match=r"'lr' must be one of the values of Float\(1e-05, 1.0\), but got 'fast'"):
        values_of(CONDITIONAL, {"lr": "fast"})
    config = {"lr": 2.0, "net": {"width": 9}, "model": {"kind": "forest"}}
    values = values_of(CONDITIONAL, config, lambda each, value: outside.append((each.name, value)))

    assert values == {"net/width": 9}
    assert outside == [("lr", 2.0), ("model", {"kind": "forest"})]


@pytest.mark.parametrize(
    "grid", [{"a": {"b": domains.grid_search([1, 2])}}, {"a": domains.choice([1, {"b": domains.grid_search([1])}])}]
)
def test_a_grid_is_refused_with_its_path(grid):
    with pytest.raises(ValueError, match="'a/b' is one; use choice"):
        parameters(grid)


class Odd(domains.Sampler):
    """A user's sampler."""

    def draw(self, domain, config, rng):
        return 1.0


def test_unsearchable_parameters_stay_unchanged():
    custom = domains.Float(0, 1)
    custom.set_sampler(Odd())
    left = {"custom": custom, "function": domains.sample_from(lambda: 1), "x": domains.randn(0, 1)}

    assert [each.name for each in parameters(left)] == ["x"]
    assert draw(left, lambda each: 0.5) == {**left, "x": 0.5}


def test_two_parameters_of_one_name_are_refused():
    tricky = {"a": {"b": domains.uniform(0, 1)}, "a/b": domains.uniform(0, 1), "c/d": domains.uniform(0, 1)}
    with pytest.raises(ValueError, match="two are called 'a/b'; rename a key"):
        parameters(tricky)
    del tricky["a"]
    assert [each.name for each in parameters(tricky)] == ["a/b", "c/d"]


@pytest.mark.parametrize(
    ("domain", "scale"),
    [
        (domains.randint(1, 5), {"kind": "integer", "low": 1, "high": 4}),
        (domains.qrandint(1, 10, 5), {"kind": "integer", "low": 5, "high": 10}),
        (domains.lograndint(1, 9), {"kind": "integer log", "low": 1, "high": 8}),
        (domains.loguniform(1, 9), {"kind": "log", "low": 1.0, "high": 9.0}),
        (domains.choice(["b", "a"]), {"kind": "category", "values": ["b", "a"]}),
    ],
)
def test_a_scale_goes_from_the_first_value_to_the_last(domain, scale):
    assert scales({"deep": {"x": domain}}) == {"deep/x": scale}


def test_equal_categories_count_once():
    assert space_size({"x": domains.choice([1, 1.0, 2]), "y": domains.choice([[1], [1], [True]])}) == 4


def test_the_order_of_a_set_does_not_change_the_key_of_a_configuration():
    first, second = {0, 8}, {8, 0}
    assert list(first) != list(second)
    assert config_key({"x": first}) == config_key({"x": second})
