"""The variants of a space: which, how many, in which order; tags and evaluated parameters."""

import math
from collections import OrderedDict, namedtuple
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path

import pytest
from kit import all_trials, basic, configs

from minitune.space.domains import choice, fits, grid_search, loguniform, randint, randn, sample_from, uniform
from minitune.space.tree import topmost, value_at_text
from minitune.space.variants import (
    RecursiveDependencyError,
    VariantTable,
    format_vars,
    generate_variants,
    has_unresolved_values,
    parse_spec_vars,
)

GRID = grid_search([1, 2])


def variants(space, **kwargs):
    return [variant.config for variant in VariantTable(space, **kwargs)]


# -- order and counts -------------------------------------------------------------------------------------------


def test_the_first_grid_variable_by_path_varies_fastest():
    space = {"b": grid_search(["x", "y"]), "a": grid_search([1, 2])}
    assert [(v["a"], v["b"]) for v in variants(space)] == [(1, "x"), (2, "x"), (1, "y"), (2, "y")]


def test_samples_are_the_outer_loop():
    space = {"a": grid_search([1, 2]), "r": uniform(0, 1)}
    table = variants(space, num_samples=3)
    assert [v["a"] for v in table] == [1, 2, 1, 2, 1, 2]
    assert len({v["r"] for v in table}) == 6  # drawn anew for each


def test_grids_are_found_in_every_position():
    Pair = namedtuple("Pair", "first second")
    space = {
        "deep": {"er": {"a": grid_search([1, 2])}},
        "listed": [0, grid_search([3, 4]), {"b": grid_search([5, 6])}],
        "tupled": (grid_search([7, 8]), "kept"),
        "named": Pair(grid_search([9, 10]), 0),
    }
    table = variants(space)
    assert len(table) == 32
    assert len({str(v) for v in table}) == 32
    assert table[0] == {
        "deep": {"er": {"a": 1}},
        "listed": [0, 3, {"b": 5}],
        "tupled": (7, "kept"),
        "named": Pair(9, 0),
    }
    assert type(table[0]["named"]) is Pair


@pytest.mark.parametrize(
    "value",
    [
        choice([{"b": GRID}, 1]),
        grid_search([{"b": GRID}, 1]),
        choice([1, choice([{"b": GRID}])]),
        {"b": sample_from(lambda: GRID)},
    ],
)
def test_a_grid_within_a_value_is_refused(value):
    with pytest.raises(ValueError, match=r"no grid may lie within a value .* but 'a/b' does; list the combinations"):
        variants({"a": value})


def test_another_seed_changes_what_is_drawn_from_there_on():
    space = {"a": grid_search([1, 2]), "x": uniform(0, 1)}
    plain, table = VariantTable(space, 2, seed=1), VariantTable(space, 2, seed=1)
    first = [variant.config["x"] for variant in plain]
    drawn = [table.next()]
    table.reseed(2)
    drawn += table
    other = [variant.config["x"] for variant in VariantTable(space, 2, seed=2)]
    assert [variant.config["x"] for variant in drawn if variant] == [first[0], *other[1:]]


def test_constants_are_kept_and_containers_are_not_shared():
    thing = object()
    space = {"thing": thing, "deep": OrderedDict(a=[1]), "flat": (1, [2])}
    first, second = variants(space, num_samples=2)
    assert first["thing"] is thing
    assert type(first["deep"]) is OrderedDict
    first["deep"]["a"].append(2)
    first["flat"][1].append(3)
    assert second == {"thing": thing, "deep": {"a": [1]}, "flat": (1, [2])}
    assert space["deep"] == {"a": [1]}


def test_the_space_is_left_as_it_is():
    space = {"a": grid_search([[1], [2]]), "b": choice([{"c": uniform(0, 1)}])}
    variants(space, num_samples=5)[0]["a"].append(0)
    assert space["a"] == {"grid_search": [[1], [2]]}
    assert has_unresolved_values(space["b"].categories[0])


@pytest.mark.parametrize("space", [{"a": {"eval": "spec.config.b"}}, {"deep": [{"eval": "1"}]}])
def test_text_is_never_run_as_code(space):
    with pytest.raises(ValueError, match="sample_from"):
        variants(space)
    assert variants({"eval": {"every": 3}}) == [{"eval": {"every": 3}}]


def test_a_table_counts_without_being_made():
    space = {"a": grid_search([1, 2]), "b": uniform(0, 1)}
    assert VariantTable(space, 5).total == 10
    assert VariantTable(space, 5, [{"a": 1}, {"b": 0.5}]).total == 1 + 2 + 3 * 2
    assert VariantTable(space, -1).total == math.inf
    with pytest.raises(ValueError, match="num_samples must be -1"):
        VariantTable(space, -2)


def test_endless_tables_go_on():
    table = VariantTable({"a": grid_search([1, 2]), "r": uniform(0, 1)}, -1)
    found = [table.next() for _ in range(1000)]
    assert len({v.config["r"] for v in found if v}) == 1000
    assert not table.is_exhausted()


def test_huge_grids_cost_nothing():
    space = {f"p{i:02}": grid_search(list(range(10))) for i in range(12)}
    space["r"] = uniform(0, 1)
    table = VariantTable(space, num_samples=2, seed=3)
    assert table.total == 2 * 10**12
    first = table.next()
    assert first.config["p11"] == 0
    position = table.position
    position.point = 987_654_321_012
    table.seek(position)
    found = table.next()
    assert "".join(str(found.config[f"p{i:02}"]) for i in reversed(range(12))) == "987654321012"
    position.point = 10**12 - 1
    position.round = 1
    table.seek(position)
    assert not table.is_exhausted()
    last = table.next()
    assert last is not None
    assert table.is_exhausted()
    assert table.next() is None


# -- dependent parameters -----------------------------------------------------------------------------------------


def test_functions_run_after_everything_else():
    space = {
        "a_sum": sample_from(lambda config: config["deep"]["x"] + config["g"]),
        "deep": {"x": randint(5, 6)},
        "g": grid_search([1, 2]),
        "old": sample_from(lambda spec: spec.config.deep.x * 2),
        "from_option": sample_from(lambda config: config["m"]["width"] * 2),
        "m": choice([{"width": randint(3, 4)}]),
    }
    table = variants(space)
    assert [v["a_sum"] for v in table] == [6, 7]
    assert [v["old"] for v in table] == [10, 10]
    assert [v["from_option"] for v in table] == [6, 6]


def test_functions_may_depend_on_functions_in_any_order():
    space = {f"p{i:02}": sample_from(lambda c, i=i: c[f"p{i + 1:02}"] + 1) for i in range(15)}
    space["p15"] = randint(0, 1)
    (config,) = variants(space)
    assert config["p00"] == 15


@pytest.mark.parametrize(
    "read",
    [
        lambda config: config["b"],
        lambda config: config.get("b"),
        lambda config: config.b,
        lambda config: dict(config),
        lambda config: {**config},
        lambda config: dict(**config),
        lambda config: list(config.values()),
        lambda config: sorted(config.items(), key=str),
        lambda spec: spec.config.b,
    ],
)
def test_circular_reference_in_a_space_is_an_error(read):
    with pytest.raises(RecursiveDependencyError, match="'a', 'b'"):
        variants({"a": sample_from(read), "b": sample_from(lambda config: config["a"])})


def test_a_function_that_fails_is_named():
    with pytest.raises(ValueError, match=r"parameter 'deep/a' failed: ZeroDivisionError") as caught:
        variants({"deep": {"a": sample_from(lambda config: 1 / 0)}})
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(ValueError, match="'mising'"):
        variants({"a": sample_from(lambda config: config["mising"])})


def test_result_of_a_function_is_resolved_too():
    space = {
        "kind": grid_search(["a", "b"]),
        "p": sample_from(lambda config: uniform(1, 2) if config["kind"] == "a" else choice([5])),
        "q": sample_from(lambda config: config["p"] * 2),
    }
    table = variants(space)
    assert 1 <= table[0]["p"] < 2
    assert table[1]["p"] == 5
    assert all(v["q"] == v["p"] * 2 for v in table)


def test_functions_return_plain_values():
    space = {"deep": {"x": {"y": 1}}, "copy": sample_from(lambda config: [config["deep"], config.deep.x])}
    (config,) = variants(space)
    assert config["copy"] == [{"x": {"y": 1}}, {"y": 1}]
    assert type(config["copy"][0]) is type(config["copy"][1]) is dict
    config["copy"][0]["x"]["y"] = 2
    assert config["deep"] == {"x": {"y": 1}}


# -- points --------------------------------------------------------------------------------------------------------


def test_points_come_first_and_each_uses_one_sample():
    space = {"a": grid_search([1, 2]), "b": randint(0, 3)}
    generator = basic(space, num_samples=4, points_to_evaluate=[{"a": 2, "b": 2}, {"a": 1}, {"b": 2}])
    assert generator.total_samples == 1 + 1 + 2 + 2
    table = configs(generator)
    assert [v["a"] for v in table] == [2, 1, 1, 2, 1, 2]
    assert table[0]["b"] == table[2]["b"] == table[3]["b"] == 2


def test_points_show_in_tag_and_evaluated_parameters():
    space = {"lr": loguniform(1e-5, 1), "deep": {"w": choice([1, 2]), "const": 3, "other": 4}}
    point = {"lr": 0.5, "deep": {"w": 2, "const": 3, "other": 4}}
    (trial,) = all_trials(basic(space, points_to_evaluate=[point]))
    assert trial.config == point
    assert trial.evaluated_params == {"lr": 0.5, "deep/w": 2}
    assert trial.experiment_tag == "0_w=2,lr=0.5"


def test_a_point_may_hold_a_domain_of_its_own():
    table = configs(basic({"a": randint(0, 1000)}, points_to_evaluate=[{"a": grid_search([1, 2])}]))
    assert [v["a"] for v in table] == [1, 2]


def test_more_points_than_samples_are_all_tried():
    generator = basic({"a": randint(0, 9)}, num_samples=1, points_to_evaluate=[{"a": i} for i in range(3)])
    assert generator.total_samples == 3
    assert [v["a"] for v in configs(generator)] == [0, 1, 2]


# -- tags --------------------------------------------------------------------------------------------------------


def test_tags_count_from_zero_and_hold_searched_parameters_only():
    space = {"z": grid_search([1]), "deep": {"lr": grid_search([1e-5])}, "const": 3, "name": grid_search(["a b/c!"])}
    trials = all_trials(basic(space, num_samples=2))
    assert [trial.experiment_tag for trial in trials] == [f"{n}_lr=1e-05,name=a_b_c,z=1" for n in (0, 1)]
    assert trials[0].evaluated_params == {"deep/lr": 1e-5, "name": "a b/c!", "z": 1}
    assert [trial.experiment_tag for trial in all_trials(basic({"const": 1}, num_samples=2))] == ["0", "1"]
    assert [trial.trial_id for trial in trials] == ["abcde_00000", "abcde_00001"]


def test_tags_show_values_as_people_write_them():
    class Thing:
        pass

    class Colour(Enum):
        RED = 1

    def shown(value):
        return format_vars({("k",): value}).removeprefix("k=")

    assert shown(0.123456) == "0.1235"
    assert shown(1e-5) == "1e-05"
    assert shown(64.0) == "64"
    assert shown(Fraction(-1, 8)) == "-0.125"
    assert shown(Decimal("2.50")) == "2_50"
    assert shown(b"a b") == "b_a_b"
    assert shown(Path("a/b")) == "a_b"
    assert shown(1e10) == "1e+10"
    assert shown(-3) == "-3"
    assert shown(True) == "True"
    assert shown(None) == "None"
    assert shown("a/b c") == "a_b_c"
    assert shown([64, 0.125]) == "64_0_125"
    assert shown(Thing()).endswith("Thing_object")
    assert shown(Thing) == "Thing"
    assert shown(shown) == "shown"
    assert shown(Colour.RED) == "Colour_RED"
    assert shown({"a": object()}) == "a_object_object"


def test_tags_sort_by_path_even_where_indices_and_names_meet():
    assert format_vars({("b",): 1, ("a", 10): 2, ("a", 9): 3, ("a", "x"): 4}) == "9=3,10=2,x=4,b=1"


def test_an_option_with_domains_inside_is_evaluated_leaf_by_leaf():
    space = {"opt": choice([{"kind": "sgd", "lr": randint(3, 4), "betas": [1, 2]}]), "l": [randn(0, 1), 5]}
    (trial,) = all_trials(basic(space))
    assert trial.evaluated_params == {
        "l/0": trial.config["l"][0],
        "opt/betas": [1, 2],
        "opt/kind": "sgd",
        "opt/lr": 3,
    }


def test_generate_variants_gives_pairs():
    space = {"a": grid_search([1, 2]), "b": {"c": uniform(0, 1)}}
    pairs = list(generate_variants(space, random_state=4))
    for resolved, config in pairs:
        assert resolved == {("a",): config["a"], ("b", "c"): config["b"]["c"]}
    assert pairs == list(generate_variants(space, random_state=4))


def test_a_function_may_read_parameters_as_attributes_and_below_config():
    space = {
        "deep": {"a": choice([1])},
        "plain": sample_from(lambda config: config.deep.a + 1),
        "old": sample_from(lambda spec: spec.config.deep.a + spec["config"]["deep"]["a"]),
    }
    (variant,) = generate_variants(space)
    assert (variant.config["plain"], variant.config["old"]) == (2, 2)
    for function, text in (
        (lambda config: config.missing, "no 'missing'; it has deep"),
        (lambda c: c["config"]["no"], "no"),
    ):
        with pytest.raises(ValueError, match=f"sample_from of parameter 'plain' failed: .*{text}"):
            next(generate_variants({"deep": {"a": 1}, "plain": sample_from(function)}))


def test_a_function_may_read_all_other_parameters_at_once():
    space = {
        "a": choice([3]),
        "m": {"x": choice([1]), "sum": sample_from(lambda c: sum(c["m"].values()))},
        "name": sample_from(lambda c: ",".join(f"{key}={c[key]}" for key in {**c} if key != "m")),
        "later": sample_from(lambda config: dict(**config)["name"]),
        "pairs": sample_from(lambda config: [key for key, _ in config.items()]),
    }
    with pytest.raises(RecursiveDependencyError, match="'later', 'name', 'pairs'"):
        next(generate_variants(space))
    del space["later"], space["pairs"]
    (variant,) = generate_variants(space)
    assert variant.config == {"a": 3, "m": {"x": 1, "sum": 1}, "name": "a=3"}


def test_the_members_of_a_space_are_sorted_into_constants_domains_and_grids():
    space = {
        "b": grid_search([1, 2]),
        "a": {"x": grid_search([3]), "y": 5},
        "l": [choice([4]), 6, []],
        "f": sample_from(lambda: 1),
    }
    constants, domains, grids = parse_spec_vars(space)
    assert constants == [(("a", "y"), 5), (("l", 1), 6)]
    assert [path for path, _ in domains] == [("l", 0), ("f",)]
    assert [(path, grid.categories) for path, grid in grids] == [(("a", "x"), [3]), (("b",), [1, 2])]


def test_a_configuration_fits_a_space_if_all_its_values_are_possible():
    searched = {"a": uniform(0, 1), "b": {"c": choice([1, 2]), "kept": "x"}, "d": [uniform(0, 1), 7]}
    fitting = {"a": 0.5, "b": {"c": 2, "kept": "x"}, "d": [0.5, 7]}
    assert fits(searched, fitting)
    for bad in (
        {**fitting, "a": 1.5},
        {**fitting, "more": 1},
        {"a": 0.5, "b": {"c": 2, "kept": "x"}},
        {**fitting, "b": {"c": 3, "kept": "x"}},
        {**fitting, "b": {"c": 2, "kept": "y"}},
        {**fitting, "d": [0.5]},
        {**fitting, "d": [0.5, 8]},
    ):
        assert not fits(searched, bad)


def test_paths_below_another_one_and_repeated_ones_are_left_out():
    assert topmost([("b", 1), ("a", "b", "c"), ("a",), ("b", 10), ("b", 2), ("a",)]) == [
        *(("a",), ("b", 1), ("b", 2), ("b", 10))
    ]


def test_a_value_is_found_by_the_text_of_its_path_also_where_keys_hold_slashes():
    tree = {"a": {"x": 1}, "a/b": {"c": [2, {3: "d"}]}, 4: 5}
    found = {text: value_at_text(tree, text, "none") for text in ("a/x", "a/b/c/0", "a/b/c/1/3", "4", "a/b/c/2", "a/y")}
    assert found == {"a/x": 1, "a/b/c/0": 2, "a/b/c/1/3": "d", "4": 5, "a/b/c/2": "none", "a/y": "none"}


def test_a_point_that_is_drawn_again_keeps_its_place_in_the_grid():
    table = VariantTable({"g": grid_search([1, 2, 3]), "x": uniform(0, 1)}, points=[{"x": 0.5}])
    for place in (1, 2, 3):
        assert table.next() == ({("g",): place, ("x",): 0.5}, {"g": place, "x": 0.5})
        again = table.redraw(1)
        assert again.config["g"] == place
        assert again.config["x"] != 0.5


def test_a_point_at_hand_is_one_configuration_and_no_grid():
    space = {"g": grid_search([1, 2]), "x": uniform(0, 1)}
    points = [{"g": 1, "x": 0.5}, {"x": 0.25}]
    table = VariantTable(space, points=points)
    found = []
    while table.next() is not None:
        found.append(table.point_at_hand)
    assert found == [{"g": 1, "x": 0.5}, None, None]


def test_an_empty_category_is_an_evaluated_parameter():
    space = {"options": grid_search([{}, {"a": 1}])}
    assert [variant.evaluated_params for variant in VariantTable(space)] == [{"options": {}}, {"options/a": 1}]
