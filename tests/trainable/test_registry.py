"""Trainables and environments by name."""

import pytest
from kit import fit

from minitune import Trainable, grid_search, register_env, register_trainable
from minitune.error import InvalidArgumentError
from minitune.trainable.registry import (
    get_env_creator,
    get_trainable,
    get_trainable_cls,
    has_env_creator,
    is_function_trainable,
    validate_trainable,
)


class Steps(Trainable):
    def step(self):
        return {"x": 1}


def test_a_function_and_a_class_are_found_by_name():
    register_trainable("a_function", Steps.step)
    register_trainable("a_class", Steps, warn=False)
    assert get_trainable_cls("a_function") is Steps.step
    assert get_trainable_cls("a_class") is Steps
    assert is_function_trainable("a_function")
    assert not is_function_trainable("a_class")
    assert not is_function_trainable(Steps)


def test_each_trial_has_the_environment_that_it_names():
    for name in ("first", "second"):
        register_env(name, lambda config, name=name: f"the {name} one")

    def train(config):
        return {"made": get_env_creator(config["env"])({})}

    grid = fit(train, {"env": grid_search(["first", "second"])}, executor="local")
    assert [(result.error, result.metrics.get("made")) for result in grid] == [
        (None, "the first one"),
        (None, "the second one"),
    ]


@pytest.fixture
def no_names(monkeypatch):
    """A process in which nothing is registered."""
    for names in ("_trainables", "_env_creators"):
        monkeypatch.setattr(f"minitune.trainable.registry.{names}", {})


@pytest.mark.usefixtures("no_names")
def test_an_unknown_name_is_told_with_the_known_ones():
    with pytest.raises(KeyError, match=r"no trainable is registered as 'x' \(known: none so far\); see register_"):
        get_trainable("x")
    register_trainable("b", Steps)
    register_trainable("a", Steps)
    with pytest.raises(KeyError, match=r"no trainable is registered as 'x' \(known: a, b\)"):
        get_trainable("x")
    with pytest.raises(InvalidArgumentError, match=r"^no trainable is registered as 'x' \(known: a, b\)"):
        validate_trainable("x")
    with pytest.raises(InvalidArgumentError, match="'x'"):
        is_function_trainable("x")
    with pytest.raises(KeyError, match="no environment is registered as 'x'; see register_env"):
        get_env_creator("x")
    validate_trainable("a")


@pytest.mark.usefixtures("no_names")
def test_a_later_registration_replaces_an_earlier_one():
    for value in (1, 2):
        register_env("an_env", lambda config, value=value: value)
        register_trainable("it", lambda config, value=value: value)
    assert has_env_creator("an_env")
    assert not has_env_creator("another")
    assert get_env_creator("an_env")({}) == 2
    assert get_trainable("it")({}) == 2
    assert is_function_trainable(get_trainable("it"))
