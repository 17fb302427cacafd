"""Points to evaluate: all searchers try the same configuration for the same guess, and say the same of its values."""

import logging
from fractions import Fraction

import pytest

from minitune import BasicVariantGenerator, Study, choice, loguniform, quniform, randint, sample_from, uniform
from minitune.search import AutoSearch, TPESearch, TuneBOHB
from minitune.space.guesses import agrees, guess_of, noted_guesses

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


def first(name, *points, space=None):
    """The first configurations of a study with these guesses."""
    searcher = SEARCHERS[name](points_to_evaluate=points)
    study = Study(space or SPACE, searcher, metric="loss", mode="min", num_samples=9, seed=1)
    configs = []
    for _ in points:
        config = study.ask()
        assert config is not None
        configs.append(config)
    return configs


@pytest.fixture(autouse=True)
def hears_warnings(caplog):
    caplog.set_level(logging.WARNING, logger="minitune")


@pytest.mark.parametrize("name", SEARCHERS)
def test_values_get_the_types_of_the_space(name, caplog):
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
    assert not caplog.records


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
        ({"layers": 5.5}, "layers=5.5 lies outside of (2, 9); it is tried anyway"),
        ({"layers": True}, "layers=True lies outside of (2, 9); it is tried anyway"),
        ({"rate": 7}, "rate=7 lies outside of (0.0001, 0.1); it is tried anyway"),
        ({"size": 64}, "size=64 lies outside of [16, 32]; it is tried anyway"),
        ({"fixed": 4}, "fixed=4 is tried in place of the constant 3"),
        ({"inner/fixed": "4"}, "inner/fixed='4' is tried in place of the constant 3"),
        ({"stack": [1]}, "stack=[1] is tried in place of the constant"),
    ],
)
def test_other_values_are_tried_and_noted_once(name, guess, text, caplog):
    [config] = first(name, guess)

    ((key, value),) = guess.items()
    found = config["inner"]["fixed"] if key == "inner/fixed" else config[key]
    assert repr(found) == repr(value)
    [said] = [message for message in caplog.messages if message.startswith("point to evaluate")]
    assert text in said


@pytest.mark.parametrize("name", SEARCHERS)
@pytest.mark.parametrize(
    ("guess", "text"),
    [
        ({"layer": 4}, r"but got 'layer' \(did you mean 'layers'\?\)"),
        ({"inner/widht": 4}, r"but got 'inner/widht' \(did you mean 'inner/width'\?\)"),
        ({"inner": {"widht": 4}}, r"but got 'inner/widht' \(did you mean 'inner/width'\?\)"),
    ],
)
def test_an_unknown_name_is_an_error_with_a_hint(name, guess, text):
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
    for given in (guess.space, guess.values(with_outside=True)):
        given["model"]["sizes"].append("changed")
    assert space["model"].categories == [{"sizes": [1]}, {"sizes": [2]}]
    assert guess.space == {"model": {"sizes": [1, "changed"]}}


def test_a_guess_may_narrow_a_domain(caplog):
    (guess,) = noted_guesses({"x": uniform(0, 1)}, [{"x": uniform(0, 0.5)}])
    assert repr(guess.space["x"]) == "uniform(0.0, 0.5)"
    assert caplog.messages == []


def test_the_values_of_a_guess_leave_out_those_outside_if_asked_to():
    guess = guess_of({"x": uniform(0, 1), "y": uniform(0, 1)}, {"x": 5, "y": 0.5})
    assert guess.values(with_outside=True) == {"x": 5, "y": 0.5}
    assert guess.values(with_outside=False) == {"y": 0.5}
