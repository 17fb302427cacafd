"""make_stopper: what users pass as `stop=`, as one Stopper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minitune._checks import shown
from minitune.stopper.dict_stopper import DictStopper
from minitune.stopper.function_stopper import FunctionStopper
from minitune.stopper.noop import NoopStopper
from minitune.stopper.stopper import CombinedStopper, Stopper


def make_stopper(stop: Any) -> Stopper:
    """Understand a stop criterion.

    Args:
        stop: None, a dict of limits, a function of (trial_id, result), a Stopper, or a list of these.

    Returns:
        One stopper: the same object if it is one.

    Raises:
        ValueError: If it is none of them, or a bad one.
    """
    if stop is None:
        return NoopStopper()
    if isinstance(stop, Stopper):
        return stop
    if isinstance(stop, Mapping):
        return DictStopper(stop) if stop else NoopStopper()
    if isinstance(stop, (list, tuple)):
        return CombinedStopper(*[make_stopper(one) for one in stop]) if stop else NoopStopper()
    if isinstance(stop, type) and issubclass(stop, Stopper):
        raise ValueError(f"stop must be a stopper, but got the class {stop.__name__}; pass an instance of it")
    if hasattr(stop, "stop_all"):
        raise ValueError(f"an object with stop_all() must be a minitune.Stopper, but got {stop!r}; derive its class")
    if callable(stop):
        return FunctionStopper(stop)
    raise ValueError(
        f"stop must be a dict, a function of (trial_id, result), a Stopper or a list, but got {shown(stop)}"
    )
