"""Stoppers: when a trial, or the whole run, has gone on for long enough."""

from __future__ import annotations

from minitune.stopper.dict_stopper import DictStopper
from minitune.stopper.experiment_plateau import ExperimentPlateauStopper
from minitune.stopper.function_stopper import FunctionStopper
from minitune.stopper.make import make_stopper
from minitune.stopper.maximum_iteration import MaximumIterationStopper
from minitune.stopper.noop import NoopStopper
from minitune.stopper.stopper import CombinedStopper, Stopper
from minitune.stopper.timeout import TimeoutStopper
from minitune.stopper.trial_plateau import TrialPlateauStopper

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
