"""Trials and their life: see `lifecycle` and `trial`; and what a run consists of: see `experiment`."""

import importlib
from typing import Any

_HOME = {"Experiment": "minitune.experiment.experiment", "Trial": "minitune.experiment.trial"}
"""Loaded when they are asked for: the two are far apart, and this package's parts stand below most others."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
