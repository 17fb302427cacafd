"""Importances: how much each parameter alone explains of an objective.

The trials are cut into groups of equal size by the parameter, or by category. The importance is the correlation ratio
(Pearson 1905) of the objective's ranks, without what chance explains. By ranks, one diverged trial does not decide
everything, and the scale of a parameter does not matter. What only two parameters together explain is not seen.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from minitune.base.checks import is_real
from minitune.base.text import plain_or_short
from minitune.experiment.lifecycle import ERROR
from minitune.experiment.trial import Trial
from minitune.view.rows import shown_params

_FEWEST = 3
_GROUPS = 6
"""The most groups of similar numbers of a parameter. Not measured: more groups are noisier, fewer hide an optimum."""


def importances_of(trials: Sequence[Trial], metric: str, names: Sequence[str]) -> dict[str, float]:
    """The importances of the parameters with these paths for the last values of a metric, the most important one first.
    Their sum is 1, or 0 if no parameter explains anything.

    Raises:
        ValueError: If fewer than 3 trials have a finite value, or no parameter has varied.
    """
    scored = []
    for trial in trials:
        value = trial.progress.analysis.get(metric, "last")
        if trial.status != ERROR and value is not None and math.isfinite(value):
            params = {name: plain_or_short(known) for name, known in shown_params(trial, names).items()}
            scored.append((float(value), params))
    if len(scored) < _FEWEST:
        raise ValueError(
            f"importances need at least {_FEWEST} trials with a finite objective; this run has {len(scored)}"
        )
    ordered = sorted(value for value, _ in scored)
    ranks = [bisect_left(ordered, value) for value, _ in scored]
    columns = {name: [params.get(name) for _, params in scored] for name in names}
    explained = {name: _explained(column, ranks) for name, column in columns.items() if len(set(map(str, column))) > 1}
    if not explained:
        raise ValueError("importances need a parameter with more than one value; no parameter of this run has more")
    total = sum(explained.values())
    by_share = sorted(explained, key=lambda name: -explained[name])
    return {name: explained[name] / (total or 1) for name in by_share}


def _explained(values: Sequence[Any], ranks: Sequence[int]) -> float:
    """The part of the variance of the ranks that groups of similar values explain, from 0 to 1, without chance."""
    count = len(values)
    column = _column(values)
    num_values = len(set(column))
    groups: dict[Any, list[int]] = {}
    if isinstance(column[0], str) or num_values <= min(_GROUPS, count // 2):
        for value, rank in zip(column, ranks, strict=True):
            groups.setdefault(value, []).append(rank)
    else:
        wanted = max(2, min(_GROUPS, count // 4))
        for place, i in enumerate(sorted(range(count), key=lambda i: column[i])):
            groups.setdefault(place * wanted // count, []).append(ranks[i])
    middle = sum(ranks) / count
    whole = sum((rank - middle) ** 2 for rank in ranks)
    between = sum(len(group) * (sum(group) / len(group) - middle) ** 2 for group in groups.values())
    free = count - len(groups)
    if free <= 0 or not whole:
        return 0.0
    return max(0.0, 1 - (1 - between / whole) * (count - 1) / free)


def _column(values: Sequence[Any]) -> list[float] | list[str]:
    """The values of a parameter: numbers if all of them are numbers, a missing one the least; otherwise texts."""
    there = [value for value in values if value is not None]
    if not all(map(is_real, there)):
        return [str(value) for value in values]
    return [-math.inf if value is None else value for value in values]
