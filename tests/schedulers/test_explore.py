"""Drawing and perturbing hyperparameters: every kind of mutation; no value leaves its domain."""

import random
from collections import Counter, UserDict

import pytest

from minitune import (
    choice,
    lograndint,
    loguniform,
    qloguniform,
    qrandint,
    quniform,
    randint,
    randn,
    uniform,
)
from minitune.schedulers.population import Explorer, describe, fill

DOMAINS = {
    "uniform": (uniform(0, 1), 0.9),
    "uniform negative": (uniform(-1, 1), -0.5),
    "loguniform": (loguniform(1e-4, 1e-1), 0.09),
    "quniform": (quniform(0, 1, 0.1), 0.3),
    "qloguniform": (qloguniform(0.1, 10, 0.1), 0.1),
    "randint": (randint(1, 4), 2),
    "lograndint": (lograndint(1, 100), 99),
    "qrandint": (qrandint(8, 64, 8), 16),
    "numbers": (choice([1, 4, 16, 64]), 4),
    "texts": (choice(["adam", "sgd", "lion"]), "sgd"),
    "list": ([1, 10, 100], 10),
    "tuple of texts": (("a", "b", "c"), "b"),
}


def explored(mutation, value, *, probability=0.0, seed=0, **settings):
    config, _ = Explorer({"x": mutation}, probability, **settings).explore({"x": value}, random.Random(seed))
    return config["x"]


def all_explored(mutation, value, **settings):
    return Counter(explored(mutation, value, seed=seed, **settings) for seed in range(200))


@pytest.mark.parametrize("kind", DOMAINS)
def test_a_value_that_walks_on_and_on_stays_in_its_domain(kind):
    mutation, value = DOMAINS[kind]
    rng = random.Random(0)
    config = {"x": value}
    seen = set()
    for _ in range(500):
        config, _ = Explorer({"x": mutation}).explore(config, rng)
        seen.add(config["x"])
        allowed = config["x"] in mutation if isinstance(mutation, (list, tuple)) else mutation.is_valid(config["x"])
        assert allowed, config
        assert type(config["x"]) is type(value)
    assert len(seen) > 2


@pytest.mark.parametrize(
    ("mutation", "value", "expected"),
    [
        pytest.param(uniform(0, 10), 5.0, {6.0, 4.0}, id="times a factor"),
        pytest.param(uniform(0, 1), 1.0, {1.0, 0.8}, id="clipped"),
        pytest.param(uniform(0, 1), 0.0, {0.1, 0.0}, id="zero moves by a share of the range"),
        pytest.param(uniform(-1, 1), 0.0, {0.2, -0.2}, id="zero in the middle moves both ways"),
        pytest.param(randn(0, 2), 0.0, {0.2, -0.2}, id="zero without bounds"),
        pytest.param(randint(0, 10), 2, {3, 1}, id="an int moves by at least one"),
        pytest.param(randint(0, 10), 0, {1, 0}, id="also zero"),
        pytest.param(randint(0, 10), 9, {9, 7}, id="upper is excluded"),
        pytest.param(randint(-10, 10), -2, {-3, -1}, id="away from zero with a factor above one"),
        pytest.param(quniform(0, 1, 0.1), 0.3, {0.4, 0.2}, id="a grid moves by at least one step"),
        pytest.param(qrandint(0, 64, 8), 40, {48, 32}, id="on the grid"),
        pytest.param(choice([16, 1, 4]), 4, {1, 16}, id="numbers are in order"),
        pytest.param(choice([16, 1, 4]), 1, {1, 4}, id="the ends are ends"),
        pytest.param(choice(["a", "b", "c"]), "a", {"b", "c"}, id="any other text"),
        pytest.param(choice(["a"]), "a", {"a"}, id="the only category"),
        pytest.param(choice([1, "auto", 3]), 1, {"auto", 3}, id="numbers and a text have no order"),
        pytest.param([3, 1, 2], 3, {3, 1}, id="a list keeps its order"),
        pytest.param((True, False), True, {True, False}, id="bools of a list move as others do"),
        pytest.param(choice([True, False]), True, {True}, id="a bool waits to be drawn anew"),
        pytest.param(lambda: 7.0, 5.0, {6.0, 4.0}, id="a function's number"),
        pytest.param(lambda: 7, 10, {12, 8}, id="a function's int stays one"),
        pytest.param(lambda: 7, 1, {1}, id="and may stay as it is, since its domain is not known"),
        pytest.param(lambda: "new", "old", {"new"}, id="a function's text is drawn anew"),
        pytest.param(lambda: 7.0, 0.0, {7.0}, id="a zero without a range is drawn anew"),
    ],
)
def test_a_value_moves_to_its_neighbours(mutation, value, expected):
    found = all_explored(mutation, value)
    assert {round(new, 9) if isinstance(new, float) else new for new in found} == expected
    assert {type(new) for new in found} == {type(new) for new in expected}


@pytest.mark.parametrize(("value", "factor", "expected"), [(2, 1.2, 3), (2, 0.8, 1), (-2, 1.2, -3), (-2, 0.8, -1)])
def test_an_int_moves_by_one_in_the_direction_of_its_factor(value, factor, expected):
    assert set(all_explored(randint(-10, 10), value, factors=(factor,))) == {expected}


@pytest.mark.parametrize(("domain", "value"), [(randint(-10, 10), 3), (quniform(0, 1, 0.1), 0.3), (uniform(0, 1), 0.0)])
def test_a_factor_of_one_changes_nothing(domain, value):
    assert set(all_explored(domain, value, factors=(1,))) == {value}


@pytest.mark.parametrize(("factor", "expected"), [(2, {6}), (0.5, {2}), (1.4, {4}), (0.6, {2})])
def test_an_int_is_rounded_to_the_nearest_one(factor, expected):
    assert set(all_explored(randint(-10, 10), 3, factors=(factor,))) == expected


def test_factors_may_be_any_number_of_factors():
    assert set(all_explored(uniform(0, 100), 1.0, factors=(2, 5, 10))) == {2.0, 5.0, 10.0}


@pytest.mark.parametrize(("mutation", "value"), [([1, 2], 5), (choice(["a", "b"]), "c"), (uniform(0, 1), "text")])
def test_a_value_that_a_mutation_does_not_know_is_drawn_anew(mutation, value):
    assert value not in all_explored(mutation, value)


def test_a_value_is_drawn_anew_with_the_given_probability():
    never = all_explored(uniform(0, 10), 5.0, probability=0.0)
    always = all_explored(uniform(0, 10), 5.0, probability=1.0)
    assert set(never) == {4.0, 6.0}
    assert len(always) == 200
    some = all_explored(uniform(0, 10), 5.0, probability=0.25)
    assert 20 < 200 - some[4.0] - some[6.0] < 80


def test_nested_parameters_are_explored_and_the_rest_is_left_alone():
    mutations = {"model": {"width": [16, 32, 64], "deep": {"rate": uniform(0, 1)}}}
    shared = object()
    config = {"model": {"width": 32, "deep": {"rate": 0.5, "kept": [1, 2]}, "name": "x"}, "data": shared}
    new, changes = Explorer(mutations, 0.0).explore(config, random.Random(0))
    assert new["model"]["width"] in (16, 64)
    assert new["model"]["deep"]["rate"] in (0.4, 0.6)
    assert new["model"]["name"] == "x"
    assert new["data"] is shared
    assert config == {"model": {"width": 32, "deep": {"rate": 0.5, "kept": [1, 2]}, "name": "x"}, "data": shared}
    new["model"]["deep"]["kept"].append(3)
    assert config["model"]["deep"]["kept"] == [1, 2]
    assert set(changes) == {("model", "width"), ("model", "deep", "rate")}
    assert "model/deep/rate 0.5 -> " in describe(changes)


def test_a_value_that_is_a_dict_is_replaced_as_a_whole():
    mutations = {"optimizer": [{"name": "sgd"}, {"name": "adam"}], "other": lambda: {"made": 1}}
    config = {"optimizer": {"name": "sgd"}, "other": {"old": 1}}
    new, changes = Explorer(mutations, 0.0).explore(config, random.Random(0))
    assert new == {"optimizer": {"name": "adam"}, "other": {"made": 1}}
    assert set(changes) == {("optimizer",), ("other",)}


def test_a_mapping_of_the_user_is_not_changed_for_other_trials():
    shared = UserDict(rate=0.5, name="x")
    config = {"model": shared}
    new, _ = Explorer({"model": {"rate": uniform(0, 1)}}, 0.0).explore(config, random.Random(0))
    assert new["model"]["rate"] != 0.5
    assert new["model"]["name"] == "x"
    assert config["model"] is shared
    assert shared == {"rate": 0.5, "name": "x"}


def test_missing_values_are_drawn_and_others_stay():
    mutations = {
        "a": uniform(0, 1),
        "b": [1, 2],
        "c": {"d": lambda: 5, "e": choice(["x"])},
        "f": choice([uniform(2, 3)]),
    }
    config, drawn = fill({"a": 7, "c": {"e": "mine"}}, mutations, random.Random(0))
    assert config["a"] == 7
    assert config["b"] in (1, 2)
    assert config["c"] == {"e": "mine", "d": 5}
    assert 2 <= config["f"] < 3
    assert set(drawn) == {("b",), ("c", "d"), ("f",)}


def test_a_value_in_place_of_a_dict_of_hyperparameters_stays():
    config, drawn = fill({"m": 5}, {"m": {"a": [1]}, "n": {"b": [2]}}, random.Random(0))
    assert config == {"m": 5, "n": {"b": 2}}
    assert set(drawn) == {("n", "b")}
