"""`tune.utils.log` and `tune.experimental.output`: names for the numbers 0 to 3 of a run's `verbose`."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from minitune.base.text import warn_once


class Verbosity(IntEnum):
    """Names for `verbose=` of `run`."""

    V0_MINIMAL = 0
    V1_EXPERIMENT = 1
    V2_TRIAL_NORM = 2
    V3_TRIAL_DETAILS = 3


class AirVerbosity(IntEnum):
    """Names for `verbose=` of `RunConfig`."""

    SILENT = 0
    DEFAULT = 1
    VERBOSE = 2


def get_air_verbosity(verbose: Any) -> AirVerbosity | None:
    """The name for a number; None if it has no name."""
    if verbose in (0, 1, 2):
        return AirVerbosity(verbose)
    return None


def set_verbosity(level: int) -> None:
    """Log a warning, once: only `verbose=` of a run has an effect."""
    warn_once("set_verbosity() has no effect: pass RunConfig(verbose=...)")


def has_verbosity(level: int) -> bool:
    """True: each run has its own verbosity."""
    return True
