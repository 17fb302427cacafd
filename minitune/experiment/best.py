"""Which trial, and which report, is best: the one rule behind every `best_...`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from minitune.experiment.trial import Trial

SCOPES = ("last", "all", "avg", "last-5-avg", "last-10-avg")
"""Which value of a metric counts for a trial: its last, its best ever, or a mean."""

_T = TypeVar("_T")


def check_mode(mode: str) -> None:
    """Refuse what is no mode.

    Raises:
        ValueError: If it is none.
    """
    if mode not in ("min", "max"):
        raise ValueError(f"mode must be 'min' or 'max', but got {mode!r}")


def best_trial(
    trials: Sequence[Trial], metric: str, mode: str, scope: str = "last", filter_nan_and_inf: bool = True
) -> Trial | None:
    """The best trial.

    Args:
        trials: The trials; those that have failed count too.
        metric: The metric's flattened name.
        mode: `"min"` or `"max"`.
        scope: One of `SCOPES`.
        filter_nan_and_inf: Leave out trials whose value is not finite. Otherwise infinities are compared like other
            numbers; NaN is neither better nor worse than anything, so it wins only if it comes first.

    Returns:
        The best trial, the earlier one of equals, or None if no trial has the metric.

    Raises:
        ValueError: If mode or scope is none of the known ones.
    """
    check_mode(mode)
    if scope not in SCOPES:
        raise ValueError(f"scope must be one of {', '.join(SCOPES)}, but got {scope!r}")
    statistic = mode if scope == "all" else scope
    values = ((trial.analysis.get(metric, statistic), trial) for trial in trials)
    return best_of(
        (
            (value, trial)
            for value, trial in values
            if value is not None and (math.isfinite(value) or not filter_nan_and_inf)
        ),
        mode,
    )


def best_of(scored: Iterable[tuple[Any, _T]], mode: str) -> _T | None:
    """The item with the best value, the earlier one of equals; None if there is no item.

    Args:
        scored: (value, item) pairs.
        mode: `"min"` or `"max"`.
    """
    best: tuple[Any, _T] | None = None
    for value, item in scored:
        if best is None or (value > best[0] if mode == "max" else value < best[0]):
            best = (value, item)
    return None if best is None else best[1]


def is_number(value: Any) -> bool:
    """Whether `value` is a single number, a bool or numpy's included, and not NaN: what a best value can be."""
    if value is None or isinstance(value, (str, bytes)):
        return False
    try:
        return not math.isnan(value)
    except OverflowError:  # an int too large for a float
        return True
    except Exception:  # objects of the user's may raise anything
        return False
