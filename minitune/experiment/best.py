"""Which trial, and which report, is best: the one rule behind every `best_...`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from minitune.experiment.lifecycle import ERROR
from minitune.experiment.trial import Trial
from minitune.result import AUTO_RESULT_KEYS, DEFAULT_METRIC, flatten

SCOPES = ("last", "all", "avg", "last-5-avg", "last-10-avg")
"""Which value of a metric counts for a trial: its last, its best ever, or a mean."""

_NAMES_SHOWN, _NAME_LENGTH = 10, 40

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


def why_no_best(trials: Sequence[Trial], metric: str) -> str:
    """Why `best_trial` has found none, and what to do about that.

    Args:
        trials: The trials.
        metric: The metric's flattened name.

    Returns:
        One or two sentences without the last full stop, beginning with `no trial of 2 has reported`.
    """
    beginning = f"no trial of {len(trials)} has reported"
    values = [flat[metric] for flat in (flatten(trial.last_result) for trial in trials) if metric in flat]
    if values:
        return f"{beginning} a finite number as {metric!r}: {_what_it_was(values)}{_earlier(trials, metric)}"
    known = list(dict.fromkeys(name for trial in trials for name in _users_metrics(trial)))
    if not known and trials and all(trial.status == ERROR for trial in trials):
        return f"{beginning} anything: all of them have failed"
    if not known:
        name = "loss" if metric == DEFAULT_METRIC else metric
        return f"{beginning} anything. Call report({{{name!r}: ...}}) in the trainable, or return such a dict"
    if known == [DEFAULT_METRIC]:
        return f"{beginning} {metric!r}: the trainable returns a bare number. Return {{{metric!r}: number}}"
    more = f" and {len(known) - _NAMES_SHOWN} more" if len(known) > _NAMES_SHOWN else ""
    names = ", ".join(name[:_NAME_LENGTH] for name in known[:_NAMES_SHOWN]) + more
    if metric == DEFAULT_METRIC:
        return (
            f"{beginning} a bare number, which counts where no metric is named; reported were: {names}. "
            f"Name the metric, such as metric={known[0]!r}"
        )
    from difflib import get_close_matches

    close = get_close_matches(metric, known, 1)
    return f"{beginning} {metric!r}; reported were: {names}" + (f". Did you mean {close[0]!r}?" if close else "")


def _users_metrics(trial: Trial) -> dict[str, Any]:
    return flatten({key: value for key, value in trial.last_result.items() if key not in AUTO_RESULT_KEYS})


def _what_it_was(values: Sequence[Any]) -> str:
    """What trials have reported instead of a finite number, and what to do about it."""
    kinds = Counter(map(_kind_of_value, values))
    shown = ", ".join(f"{kind} in {count} trial{'s' if count > 1 else ''}" for kind, count in kinds.most_common(3))
    return f"it was {shown}. " + (
        "Check how it is computed" if kinds.keys() <= {"NaN", "infinite"} else "Report it as a number, such as float(x)"
    )


def _kind_of_value(value: Any) -> str:
    if isinstance(value, str):
        return f"text such as {value[:_NAME_LENGTH]!r}"
    try:
        if math.isnan(value):
            return "NaN"
        return "infinite" if math.isinf(value) else f"of type {type(value).__name__}"
    except Exception:  # whatever an object of the user's may raise
        return "None" if value is None else f"of type {type(value).__name__}"


def _earlier(trials: Sequence[Trial], metric: str) -> str:
    best = best_trial(trials, metric, "max", "all")
    return "" if best is None else "; there were finite ones before the last, which scope='all' takes"


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
