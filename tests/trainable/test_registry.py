"""Trainables by name."""

import pytest

from minitune import Trainable, register_trainable
from minitune.error import InvalidArgumentError
from minitune.trainable.registry import (
    get_trainable,
    get_trainable_cls,
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


@pytest.fixture
def no_names(monkeypatch):
    """A process in which nothing is registered."""
    monkeypatch.setattr("minitune.trainable.registry._trainables", {})


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
    validate_trainable("a")


@pytest.mark.usefixtures("no_names")
def test_a_later_registration_replaces_an_earlier_one():
    for value in (1, 2):
        register_trainable("it", lambda config, value=value: value)
    assert get_trainable("it")({}) == 2
