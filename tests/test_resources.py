"""The forms of a resource request, and the errors for other values."""

import copy
import pickle
from fractions import Fraction

import pytest

from minitune.resources import PlacementGroupFactory, Resources


def test_default_is_one_cpu():
    assert Resources.of(None).required_resources == {"CPU": 1}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"cpu": 2, "gpu": 0.5}, {"CPU": 2, "GPU": 0.5}),
        ({"CPU": 2, "GPU": 0}, {"CPU": 2}),
        ({"cpu": 1, "memory": 10**9, "custom_resources": {"tokens": 2}}, {"CPU": 1, "memory": 10**9, "tokens": 2}),
        ({"cpu": 1, "custom_resources": None, "tokens": 3}, {"CPU": 1, "tokens": 3}),
        ({"gpu": 2.0}, {"GPU": 2}),
        ({"cpu": Fraction(1, 2)}, {"CPU": 0.5}),
        ({}, {}),
    ],
)
def test_a_dict_is_one_bundle(written, meant):
    request = Resources.of(written)
    assert request.required_resources == meant
    assert len(request.bundles) == 1


def test_a_gang_is_the_sum_of_its_bundles():
    gang = PlacementGroupFactory([{"CPU": 1}, {"CPU": 2, "GPU": 1}, {"CPU": 2, "GPU": 0.5}], strategy="SPREAD")
    assert gang.required_resources == {"CPU": 5, "GPU": 1.5}
    assert gang.head_cpus == 1
    assert not gang.head_bundle_is_empty
    assert gang.strategy == "SPREAD"
    assert PlacementGroupFactory([{}, {"CPU": 1}]).head_bundle_is_empty


def test_requests_compare_by_value_and_survive_pickling():
    one, other = Resources([{"CPU": 1, "GPU": 0.5}]), Resources([{"gpu": 0.5, "cpu": 1.0}])
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != Resources([{"CPU": 1}, {"GPU": 0.5}])


def test_equal_requests_of_many_trials_are_one_object():
    request = Resources.of({"cpu": 2})
    assert Resources.of({"CPU": 2.0}) is request
    assert Resources.of({"cpu": 3}) is not request
    assert pickle.loads(pickle.dumps(request)) is request
    assert copy.deepcopy(request) is request
