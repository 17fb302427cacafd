"""Stoppers: they decide when a trial, or the whole run, ends.

`RunConfig(stop=...)` may be a dict, a function, a stopper or a list of these; `make_stopper` makes one stopper of
it. The driver asks it after each result whether the trial ends (`stopper(trial_id, result)`), and in its loop whether
the run does (`stop_all()`).
"""

from __future__ import annotations

from minitune.base.lazy import listing, submodules
from minitune.stopper.stopper import (
    CombinedStopper,
    DictStopper,
    ExperimentPlateauStopper,
    FunctionStopper,
    MaximumIterationStopper,
    NoopStopper,
    Stopper,
    TimeoutStopper,
    TrialPlateauStopper,
    make_stopper,
)

__all__ = [
    "CombinedStopper",
    "DictStopper",
    "ExperimentPlateauStopper",
    "FunctionStopper",
    "MaximumIterationStopper",
    "NoopStopper",
    "Stopper",
    "TimeoutStopper",
    "TrialPlateauStopper",
    "make_stopper",
]

__dir__ = listing(__all__)
__getattr__ = submodules(__name__)
