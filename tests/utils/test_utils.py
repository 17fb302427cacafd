"""The small helpers of `minitune.utils`."""

import re
import threading
import warnings
from collections import OrderedDict

import pytest

from minitune import Trainable, TuneError
from minitune.tune.utils import (
    date_str,
    deep_update,
    diagnose_serialization,
    flatten_dict,
    merge_dicts,
    unflatten_dict,
    validate_save_restore,
)
from minitune.util.annotations import Deprecated, DeveloperAPI, PublicAPI, RayDeprecationWarning
from minitune.util.debug import log_once


def test_a_dict_is_flattened_and_unflattened():
    nested = {"a": {"b": 1, "c": {"d": [1, {"e": 2}]}}, "f": 3}
    assert flatten_dict(nested) == {"a/b": 1, "a/c/d": [1, {"e": 2}], "f": 3}
    assert flatten_dict(nested, delimiter=".", flatten_list=True) == {"a.b": 1, "a.c.d.0": 1, "a.c.d.1.e": 2, "f": 3}
    assert unflatten_dict(flatten_dict(nested)) == nested
    assert flatten_dict({"a": {}}) == {}


def test_unflattened_dict_keeps_its_class():
    nested = unflatten_dict(OrderedDict({"a/b": 1, "c": 2}))
    assert (type(nested), type(nested["a"])) == (OrderedDict, OrderedDict)
    assert nested == {"a": {"b": 1}, "c": 2}


def test_a_message_is_logged_once_for_each_key():
    assert [log_once(key) for key in ("of this test", "of this test", ("of this test", 2))] == [True, False, True]


def test_decorators_of_interfaces_return_what_they_decorate():
    class Kind:
        def __init__(self, value):
            self.value = value

    for decorate in (
        PublicAPI,
        PublicAPI(stability="beta"),
        DeveloperAPI,
        DeveloperAPI(),
        Deprecated,
        Deprecated(message="x"),
    ):
        assert decorate(Kind) is Kind
        assert decorate(len) is len
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Kind(3).value == 3
    for old in (Deprecated(message="Use new().", warning=True)(lambda value: value), Deprecated(warning=True)(Kind)):
        with pytest.warns(RayDeprecationWarning, match="is deprecated"):
            old(3)


def test_a_key_with_the_delimiter_is_refused_if_asked_to():
    assert flatten_dict({"a/b": {"c": 1}}) == {"a/b/c": 1}
    with pytest.raises(ValueError, match="'a/b'"):
        flatten_dict({"x": {"a/b": 1}}, prevent_delimiter=True)
    assert flatten_dict({"x": {1: 2}}, prevent_delimiter=True) == {"x/1": 2}


def test_merging_leaves_both_sides_alone():
    first, second = {"a": {"b": 1}}, {"a": {"c": 2}, "d": 3}
    assert merge_dicts(first, second) == {"a": {"b": 1, "c": 2}, "d": 3}
    assert (first, second) == ({"a": {"b": 1}}, {"a": {"c": 2}, "d": 3})


def test_deep_update_says_which_keys_are_new():
    with pytest.raises(Exception, match="'c'"):
        deep_update({"a": {"b": 1}}, {"a": {"c": 1}})
    assert deep_update({"a": {"b": 1}}, {"a": {"c": 1}}, new_keys_allowed=True) == {"a": {"b": 1, "c": 1}}


def test_the_date_has_the_form_of_ray_tunes():
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", date_str())


class Counting(Trainable):
    def setup(self, config):
        self.x = 0

    def step(self):
        self.x += 1
        return {"x": self.x}

    def save_checkpoint(self, checkpoint_dir):
        return {"x": self.x}

    def load_checkpoint(self, checkpoint):
        self.x = checkpoint["x"]


class Forgetful(Counting):
    def step(self):
        return {**super().step(), "training_iteration": self.x}

    def load_checkpoint(self, checkpoint):
        pass


def test_save_and_restore_are_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(tmp_path))
    assert validate_save_restore(Counting) is True
    with pytest.raises(TuneError, match="must be 4"):
        validate_save_restore(Forgetful)
    with pytest.raises(ValueError, match="Trainable subclass"):
        validate_save_restore(int)


class StatelessOnceRestored(Counting):
    def load_checkpoint(self, checkpoint):
        pass


def test_a_class_that_loads_nothing_is_found_out(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(tmp_path))
    with pytest.raises(TuneError, match="as a fresh one does: check that load_checkpoint"):
        validate_save_restore(StatelessOnceRestored)


def test_unpicklable_part_is_named(capsys):
    event, fine = threading.Event(), 3
    assert diagnose_serialization(lambda config: fine) is True
    assert diagnose_serialization(lambda config: (event, fine)) == {"event"}
    assert "'event'" in capsys.readouterr().out
