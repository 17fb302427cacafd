"""Trainables and environments by name."""

from __future__ import annotations

from typing import Any

import pytest
from kit import fit

from minitune import Trainable, TuneError, grid_search, register_env, register_trainable
from minitune.registry import get_env_creator, get_trainable_cls, is_function_trainable, validate_trainable


class Steps(Trainable):
    def step(self):
        return {"x": 1}


def test_a_function_becomes_a_class_and_a_class_stays():
    register_trainable("a_function", lambda config: None)
    register_trainable("a_class", Steps, warn=False)
    assert issubclass(get_trainable_cls("a_function"), Trainable)
    assert get_trainable_cls("a_class") is Steps
    assert is_function_trainable("a_function")
    assert not is_function_trainable("a_class")
    assert not is_function_trainable(Steps)


def test_an_unknown_trainable_is_refused():
    with pytest.raises(TuneError, match="unknown"):
        get_trainable_cls("unknown")
    with pytest.raises(TuneError, match="unknown"):
        validate_trainable("unknown")


def test_a_registered_environment_is_found():
    register_env("an_env", lambda config: 7)
    assert get_env_creator("an_env")({}) == 7


def test_each_trial_has_the_environment_that_it_names() -> None:
    for name in ("first", "second"):
        register_env(name, lambda config, name=name: f"the {name} one")

    def train(config: dict[str, Any]) -> dict[str, Any]:
        return {"made": get_env_creator(config["env"])({})}

    grid = fit(train, {"env": grid_search(["first", "second"])}, executor="local")
    assert [(result.error, result.metrics.get("made")) for result in grid] == [
        (None, "the first one"),
        (None, "the second one"),
    ]
