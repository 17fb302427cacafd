"""with_parameters, with_resources, names and checks of trainables."""

import functools
import pickle
from pathlib import Path

import pytest
from kit import pull

from minitune.base.pickling import dumps
from minitune.base.shared_values import ObjectRef, hold, store
from minitune.resources import Resources
from minitune.trainable import Trainable, with_parameters, with_resources
from minitune.trainable.util import (
    bind_parameters,
    trainable_name,
    trainable_resources,
    validate_trainable,
)

SCRIPTS = Path(__file__).with_name("scripts")


def fn(config, data=None, scale=1):
    return {"sum": sum(data) * scale + config.get("a", 0)}


class Summing(Trainable):
    def setup(self, config, data=None, scale=1):
        self.sum = sum(data) * scale + config.get("a", 0)

    def step(self):
        return {"sum": self.sum}


BOTH = pytest.mark.parametrize("trainable", [fn, Summing])


@BOTH
def test_parameters_and_resources_stack_either_way(driver, trainable):
    name = trainable_name(trainable)
    one = with_resources(with_parameters(with_parameters(trainable, data=[1, 2]), scale=2), {"cpu": 3})
    two = with_parameters(with_resources(trainable, {"cpu": 3}), data=[1, 2], scale=2)
    for number, wrapped in enumerate((one, two)):
        validate_trainable(wrapped)
        assert trainable_resources(wrapped, {}) == Resources([{"CPU": 3}])
        assert trainable_name(wrapped) == name
        assert pull(driver.start(wrapped, {"a": 1}, name=f"t_{number}")).metrics["sum"] == 7
    assert trainable_resources(trainable, {}) is None  # the original stays as it was


@BOTH
def test_values_are_stored_once_and_only_handles_travel(driver, trainable):
    stored = []

    def share(value):
        stored.append(value)
        return hold(value)

    data = list(range(100_000))
    bound = bind_parameters(with_resources(with_parameters(trainable, data=data, scale=1), {"cpu": 2}), share)
    assert len(stored) == 2
    assert any(value is data for value in stored)
    payload = dumps(bound, "the trainable")
    assert len(payload) < 10_000
    loaded = pickle.loads(payload)
    assert trainable_resources(loaded, {}) == Resources([{"CPU": 2}])
    assert pull(driver.start(loaded)).metrics["sum"] == sum(data)
    assert bind_parameters(trainable, share) is trainable


def test_resources_may_depend_on_the_config():
    for trainable in (fn, Summing):
        wrapped = with_resources(trainable, lambda config: {"cpu": config["n"]})
        assert trainable_resources(wrapped, {"n": 4}) == Resources([{"CPU": 4}])
    wrapped = with_resources(fn, Resources([{"CPU": 1}, {"GPU": 1}]))
    assert trainable_resources(wrapped, {}) == Resources([{"CPU": 1}, {"GPU": 1}])


def test_a_class_may_declare_its_resources():
    class Hungry(Summing):
        @classmethod
        def default_resource_request(cls, config):
            return {"cpu": config["n"]}

    assert trainable_resources(Hungry, {"n": 2}) == Resources([{"CPU": 2}])
    assert trainable_resources(with_parameters(Hungry, data=[]), {"n": 2}) == Resources([{"CPU": 2}])
    assert trainable_resources(with_resources(Hungry, {"cpu": 5}), {"n": 2}) == Resources([{"CPU": 5}])


def test_a_bound_class_is_still_the_users():
    bound = with_parameters(Summing, data=[4])
    assert issubclass(bound, Summing)
    assert bound.__name__ == "Summing"
    assert bound(config={}).train()["sum"] == 4


def test_a_subclass_of_a_bound_class_keeps_its_values():
    class Sub(with_parameters(Summing, data=[4])):
        def setup(self, config, extra=0):
            super().setup(config)
            self.sum += extra

    assert with_parameters(Sub, extra=5)(config={}).train()["sum"] == 9


def test_a_trainable_has_a_name_for_its_trials():
    class Named:
        _name = "mine"

        def __call__(self, config): ...

    class Nameless:
        def __call__(self, config): ...

    assert trainable_name(fn) == "fn"
    assert trainable_name(lambda config: None) == "lambda"
    assert trainable_name(functools.partial(functools.partial(fn), data=1)) == "fn"
    assert trainable_name(Summing) == "Summing"
    assert trainable_name(Named()) == "mine"
    assert trainable_name(Nameless()) == "DEFAULT"
    assert trainable_name("registered") == "registered"


def test_functions_must_take_the_config_alone():
    for good in (fn, Summing, functools.partial(fn, data=[]), lambda *args: 1, lambda config, **more: 1, print):
        validate_trainable(good)
    for bad in (lambda: 1, lambda config, data: 1, lambda *, config: 1):
        with pytest.raises(ValueError, match=r"must be callable as lambda\(config\)"):
            validate_trainable(bad)
    with pytest.raises(ValueError, match="bind the other arguments with with_parameters"):
        validate_trainable(lambda config, data: 1)
    with pytest.raises(ValueError, match="make the function take these parameters"):
        validate_trainable(lambda: 1)
    with pytest.raises(ValueError, match=r"fn\(config, datum=\.\.\.\)"):
        with_parameters(fn, datum=1)


def wrapped(inner):
    @functools.wraps(inner)
    def outer(*args, **kwargs):
        return inner(*args, **kwargs)

    return outer


def test_a_decorator_keeps_what_is_bound_to_a_function(driver):
    def both(config, data, *rest, scale):
        return fn(config, data, scale)

    outer = wrapped(with_resources(with_parameters(both, data=[1, 2], scale=3), {"cpu": 2}))
    for decorated in (outer, functools.partial(outer), with_parameters(outer)):
        validate_trainable(decorated)
        assert pull(driver.start(decorated, {"a": 1})).metrics["sum"] == 10
    assert trainable_resources(wrapped(with_parameters(outer)), {}) == Resources([{"CPU": 2}])
    assert trainable_name(outer) == "both"
    with pytest.raises(ValueError, match=r"\*, scale\).*: missing a required (keyword-only )?argument: 'scale'"):
        validate_trainable(wrapped(with_parameters(both, data=[1, 2])))
    with pytest.raises(ValueError, match="data"):
        with_parameters(outer, data=[5])


def test_bound_trainables_of_a_script_travel_by_value(script, tmp_path):
    script.run(SCRIPTS / "binds_parameters.py", str(tmp_path / "both"))
    kind, function = pickle.loads((tmp_path / "both").read_bytes())
    assert kind(config={}).train()["k"] == 3
    assert function({}) == {"k": 3}


def test_an_object_of_a_class_is_refused_with_the_class():
    class Silent(Trainable):
        pass

    for refuses in (with_parameters, lambda value: with_resources(value, {"cpu": 1}), validate_trainable):
        with pytest.raises((TypeError, ValueError), match="pass the class itself: Silent"):
            refuses(Silent())


@BOTH
def test_references_and_values_are_bound_together_and_replace_each_other(driver, trainable, tmp_path):
    def bound(*steps):
        found = trainable
        for step in steps:
            found = with_parameters(found, **step)
        return bind_parameters(with_resources(found, {"cpu": 1}), hold)

    store([1, 2], str(tmp_path / "value"), "the value")
    ref = ObjectRef(str(tmp_path / "value"), 1)
    for number, (steps, total) in enumerate(
        (
            ([{"data": ref}, {"scale": 2}], 6),
            ([{"data": [1], "scale": 2}, {"data": [10]}], 20),
            ([{"data": ref, "scale": 1}, {"data": [10]}], 10),
            ([{"data": [10], "scale": 1}, {"data": ref}], 3),
        )
    ):
        assert pull(driver.start(bound(*steps), name=f"t_{number}")).metrics["sum"] == total
