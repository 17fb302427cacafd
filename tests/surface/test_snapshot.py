"""Every public name of minitune with its signature, against what is on record."""

import inspect
import json
import os
from pathlib import Path

import pytest
from signatures import members, table, write

import minitune

RECORD = Path(__file__).parent / "snapshot.json"
MODULES = ["logger", "registry", "schedulers", "search", "search.sample", "stopper", "trainable", "utils"]
UPDATE = "MINITUNE_UPDATE_SNAPSHOT"
HOW = f"if that is meant, run this test once with {UPDATE}=1 and commit {RECORD.name}"


def public_names():
    """The public names, by module."""
    names = {"": [name for name in minitune.__all__ if callable(getattr(minitune, name))]}
    for path in MODULES:
        module = __import__(f"minitune.{path}", fromlist=["_"])
        exported = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
        names[path] = [name for name in exported if name not in names[""] and _is_ours(getattr(module, name))]
    return {path: " ".join(sorted(found)) for path, found in names.items()}


def _is_ours(value):
    is_api = inspect.isclass(value) or inspect.isfunction(value)
    return is_api and str(getattr(value, "__module__", "")).startswith("minitune")


@pytest.fixture(scope="module")
def now():
    found = table("minitune", public_names())
    if os.environ.get(UPDATE) == "1":
        write(found, str(RECORD))
    return found


@pytest.fixture(scope="module")
def recorded(now):
    return json.loads(RECORD.read_text(encoding="utf-8"))


def test_no_public_name_has_gone(now, recorded):
    assert sorted(set(recorded) - set(now)) == [], HOW


def test_every_public_name_is_on_record(now, recorded):
    assert sorted(set(now) - set(recorded)) == [], HOW


def test_signatures_are_those_on_record(now, recorded):
    changed = {path: (recorded[path], now[path]) for path in recorded if path in now and recorded[path] != now[path]}
    assert changed == {}, HOW


def test_members_are_those_of_the_package_only():
    assert "fit" in members(minitune.Tuner)
    assert "with_traceback" not in members(minitune.TuneError)
