"""Every public name of minitune with its signature, against what is on record."""

import inspect
import json
import os
from pathlib import Path

from signatures import table, write

import minitune

RECORD = Path(__file__).parent / "snapshot.json"
MODULES = ["logger", "registry", "schedulers", "search", "search.sample", "stopper", "trainable", "utils"]
UPDATE = "MINITUNE_UPDATE_SNAPSHOT"
UPDATES = UPDATE in os.environ  # the environment of a test lacks it
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


def test_public_names_and_signatures_are_those_on_record():
    now = table("minitune", public_names())
    if UPDATES:
        write(now, str(RECORD))
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))
    paths = {*recorded, *now}
    changed = {path: (recorded.get(path), now.get(path)) for path in paths if recorded.get(path) != now.get(path)}
    assert changed == {}, HOW
