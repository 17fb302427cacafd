"""Points to evaluate: all searchers try the same configuration for the same guess, and refuse the same ones."""

from fractions import Fraction

import pytest

from minitune import BasicVariantGenerator, Study, choice, loguniform, quniform, randint, sample_from, uniform
from minitune.search import AutoSearch, TPESearch, TuneBOHB
from minitune.space.guesses import agrees, guess_of

TREE = {"kind": "tree", "depth": randint(1, 9), "leaf": {"size": randint(1, 99)}}
SPACE = {
    "layers": randint(2, 9),
    "rate": loguniform(1e-4, 1e-1),
    "drop": quniform(0, 1, 0.25),
    "model": choice(["linear", TREE, {"kind": "svm", "c": 1.0}]),
    "size": choice([16, 32]),
    "inner": {"width": randint(1, 99), "fixed": 3},
    "stack": [randint(1, 9), {"n": randint(1, 9)}],
    "fixed": 3,
    "twice": sample_from(lambda config: 2 * config["layers"]),
}
SEARCHERS = {
    "random": BasicVariantGenerator,
    "tpe": TPESearch,
    "auto": AutoSearch,
    "bohb": TuneBOHB,
}


def first(name, *points):
    """The first configurations of a study with these guesses."""
    searcher = SEARCHERS[name](points_to_evaluate=points)
    study = Study(SPACE, searcher, metric="loss", mode="min", num_samples=9, seed=1)
    configs = []
    for _ in points:
        config = study.ask()
        assert config is not None
        configs.append(config)
    return configs


@pytest.mark.parametrize("name", SEARCHERS)
def test_values_get_the_types_of_the_space(name):
    guess = {
        "layers": 5.0,
        "rate": Fraction(1, 100),
        "drop": 1,
        "model": {"kind": "tree", "depth": 4.0, "leaf": {"size": 7.0}},
        "size": 32.0,
        "inner/width": 8.0,
        "stack": [2.0, {"n": 3.0}],
        "fixed": 3.0,
    }
    [config] = first(name, guess)

    assert repr(config) == repr(
        {
            "layers": 5,
            "rate": 0.01,
            "drop": 1.0,
            "model": {"kind": "tree", "depth": 4, "leaf": {"size": 7}},
            "size": 32,
            "inner": {"width": 8, "fixed": 3},
            "stack": [2, {"n": 3}],
            "fixed": 3,
            "twice": 10,
        }
    )


@pytest.mark.parametrize("name", SEARCHERS)
def test_a_value_that_a_guess_leaves_out_is_drawn_also_below_a_choice(name):
    by_name, by_index = first(name, {"model": {"kind": "tree", "leaf": {"size": 7}}}, {"stack": {1: {"n": 3.0}}})

    assert by_name["model"]["leaf"] == {"size": 7}
    assert by_name["model"]["depth"] in range(1, 9)
    assert by_index["stack"][1] == {"n": 3}
    assert by_index["stack"][0] in range(1, 9)


@pytest.mark.parametrize("name", SEARCHERS)
@pytest.mark.parametrize(
    ("guess", "text"),
    [
        (
            {"layers": 5.5},
            r"^layers of a point to evaluate must be randint\(2, 9\), .* but got 5.5; correct it",
        ),
        ({"layers": True}, r"layers of .* randint\(2, 9\), .* but got True"),
        ({"rate": 7}, "rate of .* loguniform"),
        ({"size": 64}, "size of .* choice"),
        ({"fixed": 4}, "fixed of .* must be 3, .* but got 4"),
        ({"inner/fixed": "4"}, "inner/fixed of .* must be 3, .* but got '4'"),
        ({"stack": [1]}, r"stack of .* but got \[1\]"),
        ({"layer": 4}, r"but got 'layer' \(did you mean 'layers'\?\)"),
        ({"inner/widht": 4}, r"but got 'inner/widht' \(did you mean 'inner/width'\?\)"),
        ({"inner": {"widht": 4}}, r"but got 'inner/widht' \(did you mean 'inner/width'\?\)"),
    ],
)
def test_what_is_not_in_the_space_is_an_error(name, guess, text):
    with pytest.raises(ValueError, match=text):
        first(name, guess)


@pytest.mark.parametrize("name", ["random", "tpe", "auto", None])
def test_a_study_takes_guesses(name):
    guesses = [{"x": 0.25}, {"x": 0.5, "n": 3.0}]
    study = Study(
        {"x": uniform(0, 1), "n": randint(0, 9)}, name, mode="min", num_samples=4, seed=2, points_to_evaluate=guesses
    )
    configs = []
    while (config := study.ask()) is not None:
        configs.append(config)
        study.tell(config, config["x"])

    assert len(configs) == 4
    assert [config["x"] for config in configs[:2]] == [0.25, 0.5]
    assert repr(configs[1]["n"]) == "3"


def test_a_study_with_a_searcher_that_is_an_object_leaves_the_guesses_to_it():
    with pytest.raises(ValueError, match=r"points_to_evaluate must be given to the searcher itself, such as TPESearch"):
        Study({"x": uniform(0, 1)}, TPESearch(), mode="min", points_to_evaluate=[{"x": 0.5}])


@pytest.mark.parametrize(
    ("guess", "config", "is_alike"),
    [
        ({"inner": {"width": 5.0}, "stack": {1: {"n": 2}}}, {"inner": {"width": 5}, "stack": [7, {"n": 2}]}, True),
        ({"inner": {"width": 5}}, {"inner": {"width": 6}}, False),
        ({"stack": {2: 5}}, {"stack": [7, {"n": 2}]}, False),
        ({"model": {"kind": "tree"}}, {"model": "linear"}, False),
    ],
)
def test_a_configuration_agrees_with_the_guess_that_it_was_made_from(guess, config, is_alike):
    assert agrees(guess, config) is is_alike


def test_a_guess_does_not_change_the_space():
    space = {"model": choice([{"kind": "tree", "depth": randint(1, 9)}]), "deep": {"a": [randint(1, 9), 2]}}
    before = repr(space)
    guess_of(space, {"model": {"depth": 3.0}, "deep": {"a": {0: 4.0}}}, whole=True)
    assert repr(space) == before


def test_a_configuration_of_a_guess_can_be_changed_without_the_space_or_the_guess():
    space = {"model": choice([{"sizes": [1]}, {"sizes": [2]}])}
    guess = guess_of(space, {"model": {"sizes": [1]}})
    for given in (guess.space, guess.values()):
        given["model"]["sizes"].append("changed")
    assert space["model"].categories == [{"sizes": [1]}, {"sizes": [2]}]
    assert guess.space == {"model": {"sizes": [1, "changed"]}}


def test_a_guess_may_narrow_a_domain():
    guess = guess_of({"x": uniform(0, 1)}, {"x": uniform(0, 0.5)})
    assert repr(guess.space["x"]) == "uniform(0.0, 0.5)"
