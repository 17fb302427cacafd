"""Schedulers: which trial runs next, and which goes on."""

from __future__ import annotations

import inspect
import logging
from typing import Any

from minitune._checks import shown
from minitune.schedulers.async_hyperband import ASHAScheduler, AsyncHyperBandScheduler
from minitune.schedulers.trial_scheduler import FIFOScheduler, SchedulerContext, TrialScheduler

__all__ = [
    "ASHAScheduler",
    "AsyncHyperBandScheduler",
    "FIFOScheduler",
    "SchedulerContext",
    "TrialScheduler",
    "create_scheduler",
]

_BY_NAME: dict[str, type[TrialScheduler]] = {
    "fifo": FIFOScheduler,
    "async_hyperband": AsyncHyperBandScheduler,
    "asynchyperband": AsyncHyperBandScheduler,
    "asha": AsyncHyperBandScheduler,
}


def create_scheduler(scheduler: str, **kwargs: Any) -> TrialScheduler:
    """Make a scheduler by its name.

    Args:
        scheduler: Such as `fifo` or `asha`; case does not matter.
        **kwargs: Its arguments. Those that it does not know are left out, with a warning.

    Returns:
        The scheduler.

    Raises:
        ValueError: If there is no scheduler of that name.
    """
    kind = _BY_NAME.get(scheduler.lower()) if isinstance(scheduler, str) else None
    if kind is None:
        raise ValueError(
            f"scheduler must be one of {', '.join(_BY_NAME)}, but got {shown(scheduler)}; others are passed as "
            "an object"
        )
    known = inspect.signature(kind).parameters
    dropped = sorted(set(kwargs) - set(known))
    if dropped:
        logging.getLogger("minitune").warning("%s does not take %s; left out", kind.__name__, ", ".join(dropped))
    return kind(**{name: value for name, value in kwargs.items() if name in known})
