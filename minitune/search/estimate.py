"""Estimates: what a trial's value would be on average, if it were run again and again.

A noisy run reports the luckiest of many draws as its best value. `estimates` draws a smooth surface through the values
of all trials: the Gaussian process of `surface`, but with a prior that allows any noise (Rasmussen and
Williams, 2006, section 5.4). The value of the surface at a trial's configuration is the value to expect there.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from minitune.base.checks import is_real
from minitune.base.numbers import finite_number
from minitune.base.text import number_text
from minitune.experiment.goal import best_trial, compared_values, statistic_of
from minitune.experiment.trial import Trial
from minitune.result import TRAINING_ITERATION, flatten

if TYPE_CHECKING:
    from minitune.search.surface import Surface

Vector = tuple[float, ...]

FEWEST = 12
"""From how many trials values are estimated. Not measured: a surface through fewer is a guess."""
_MOST = 100
_MOST_FITTED = 50
"""How many trials are used, and by how many of them length scales are learned: a fit costs the cube of their number.
`_MOST_FITTED` is not measured. For `_MOST`, and for the offsets below, see `benchmarks/FINDINGS.md`, *long runs*.
"""
_FIRST_NOISE = -3.0
_NOISE_BOUNDS = (math.log(1e-6), math.log(30))
"""The logarithm of the noise's variance, as a share of the surface's: the first one, and the bounds."""
_USUAL_NOISE = -4.0
_NOISE_SD = 2.0
"""The mean and the standard deviation of its prior."""
_OFFSETS = (-3.0, -2.0, -1.2, -0.6, 0.0, 0.6, 1.2, 2.0, 3.0)
"""An estimate is a mean over these noises, relative to the most likely one."""
_LEAST_SHARE = 1e-3
"""A noise with less weight than this does not count. Not measured: each costs a fit, and it would change little."""
_LEAST_NOISE = math.log(0.01)
"""With less noise than this, values count as exact. Not measured."""
_DEVIATIONS = 2.2
"""The half width of an interval of 90 %, in standard deviations: see `benchmarks/FINDINGS.md`, *intervals*."""
_MANY_TIMES = 20
_FIRST = 15
"""Positive values may be on a logarithmic scale if the largest is so many times the smallest. The first ones decide.
For `_FIRST` see *long runs*. `_MANY_TIMES` is not measured: with fewer, a uniform range is taken for a logarithmic one.
"""
_CORNER = math.sqrt(0.5)
"""The coordinate of a category. So the distance of two categories is 1, that of the ends of a range."""


@dataclass(frozen=True)
class Estimate:
    """What to expect of a trial.

    Attributes:
        seen: The trial's value of the metric.
        expected: The mean, if the trial were run many times.
        low: The lower end of the interval that holds this mean in about 90 % of the cases; `high` is its upper end.
        is_noisy: Whether the values of the run have noise at all.
    """

    trial_id: str
    seen: float
    expected: float
    low: float
    high: float
    is_noisy: bool

    def __str__(self) -> str:
        return f"about {_short(self.expected)} ({_short(self.low)} to {_short(self.high)})"


def _short(value: float) -> str:
    """A number with as many digits as an estimate deserves."""
    return number_text(float(f"{value:.3g}"))


def estimates(trials: Sequence[Trial], metric: str, mode: str, scope: str | None = None) -> list[Estimate]:
    """Estimate the expected values of the trials that can be compared with the best one.

    These trials have a finite value, and have run at least as many iterations as the best one. Of more than 100, the
    estimates are for the 50 most similar to the best one, and for 50 others. If a repeat had the value of its trial,
    each is the value. Blocks for up to 0.2 s of CPU.

    Args:
        trials: The trials of a run.
        metric: The metric's flattened name.
        mode: `"min"` or `"max"`.
        scope: The value that counts for a trial, one of `SCOPES`.

    Returns:
        The estimates. First is the trial whose value is the best one even at the worse end of its interval. Empty if
        fewer than twelve trials can be compared, no parameter was searched, or numpy is not installed.

    Raises:
        ValueError: If the mode or the scope is unknown.
    """
    best = best_trial(trials, metric, mode, scope)
    if best is None or importlib.util.find_spec("numpy") is None:
        return []
    sign = -1.0 if mode == "max" else 1.0
    least_iterations = _iterations(best)
    compared = []
    for value, trial in compared_values(trials, metric, mode, scope):
        if _iterations(trial) >= least_iterations:
            compared.append((sign * value, trial))
    if len(compared) < FEWEST:
        return []
    if is_exact(trials, metric, mode, scope):
        compared.sort(key=itemgetter(0))
        found = [(trial.trial_id, sign * value) for value, trial in compared[:_MOST]]
        return [Estimate(trial_id, value, value, value, value, False) for trial_id, value in found]
    again = [(sign * value, trial) for value, _, trial in _repeats(trials, metric, mode, scope)]
    inputs = _coordinates([trial for _, trial in [*compared, *again]])
    if not inputs[0]:
        return []
    count = len(compared)
    chosen = _chosen(inputs[:count], next(number for number, (_, trial) in enumerate(compared) if trial is best))
    inputs = [*[inputs[number] for number in chosen], *inputs[count:]]
    compared = [compared[number] for number in chosen]
    values = [value for value, _ in [*compared, *again]]
    means, deviations, noise = _fit(tuple(inputs), tuple(values))
    made = []
    for (value, trial), mean, deviation in zip(compared, means, deviations, strict=False):
        half = _DEVIATIONS * deviation
        expected = sign * mean
        is_noisy = noise >= _LEAST_NOISE
        made.append(Estimate(trial.trial_id, sign * value, expected, expected - half, expected + half, is_noisy))
    return sorted(made, key=lambda each: max(sign * each.low, sign * each.high))


def is_exact(trials: Sequence[Trial], metric: str, mode: str, scope: str | None = None) -> bool | None:
    """Whether the trials that the search has repeated had the same values again; None if that is not known.

    Threads that add in another order change a value less than a millionth.
    """
    pairs = _repeats(trials, metric, mode, scope)
    return all(math.isclose(value, seen, rel_tol=1e-6) for value, seen, _ in pairs) if pairs else None


def _repeats(trials: Sequence[Trial], metric: str, mode: str, scope: str | None) -> list[tuple[float, float, Trial]]:
    """The repeats that the search has suggested: each with its value, and that of its trial."""
    statistic = statistic_of(scope, mode)
    whole = {trial.trial_id: trial for trial in trials if trial.ending is not None and trial.ending.kind.is_complete}
    found = []
    for trial in whole.values():
        if trial.repeats is None or not trial.repeats.is_suggested or trial.repeats.trial_id not in whole:
            continue
        value = trial.progress.analysis.get(metric, statistic)
        seen = whole[trial.repeats.trial_id].progress.analysis.get(metric, statistic)
        if value is not None and seen is not None and math.isfinite(value - seen):
            found.append((value, seen, trial))
    return found


def _iterations(trial: Trial) -> int:
    return int(finite_number(trial.progress.metrics.get(TRAINING_ITERATION)) or 0)  # a user may report any value


def _chosen(inputs: Sequence[Vector], best: int) -> Sequence[int]:
    """The numbers of at most `_MOST` trials: the most similar ones to the best one, and some of the others. A choice by
    values would take the lucky ones.
    """
    if len(inputs) <= _MOST:
        return range(len(inputs))
    nearest = sorted(range(len(inputs)), key=lambda number: math.dist(inputs[number], inputs[best]))
    half = _MOST // 2
    return sorted([*nearest[:half], *_evenly(sorted(nearest[half:]), half)])


def _evenly(numbers: Sequence[int], count: int) -> list[int]:
    step = max(1.0, len(numbers) / count)
    return [numbers[int(step * rank)] for rank in range(min(count, len(numbers)))]


# -- configurations as points ------------------------------------------------------------------------------------------
def _coordinates(trials: Sequence[Trial]) -> list[Vector]:
    """The configurations as points: a number has a coordinate from 0 to 1, a category a corner of a simplex.

    A parameter that a configuration does not have is in the middle, or in no corner.
    """
    configs = [flatten(trial.reported_config) for trial in trials]
    names = dict.fromkeys(name for trial in trials for name in trial.evaluated_params)
    columns: list[list[float]] = []
    for name in names:
        values = [config.get(name) for config in configs]
        columns += _columns_of(values)
    return list(zip(*columns, strict=True)) if columns else [()] * len(trials)


def _columns_of(values: Sequence[Any]) -> list[list[float]]:
    """The coordinates of one parameter's values, one column after the other; none if all values are equal."""
    numbers = [value for value in values if value is not None]
    if all(map(is_real, numbers)):
        low = min(numbers, default=0)
        high = max(numbers, default=0)
        if low == high or not math.isfinite(high - low):
            return []
        scaled = math.log if _is_logarithmic(numbers, low, high) else float
        first = scaled(low)
        width = scaled(high) - first
        return [[0.5 if value is None else (scaled(value) - first) / width for value in values]]
    texts = [None if value is None else repr(value) for value in values]
    kinds = sorted({text for text in texts if text is not None})
    if len(kinds) < 2:
        return []
    return [[_CORNER if text == kind else 0.0 for text in texts] for kind in kinds]


def _is_logarithmic(numbers: Sequence[float], low: float, high: float) -> bool:
    """Whether the first values are spread more evenly on a logarithmic scale.

    A searcher draws these from the whole range, and later ones where it is promising.
    """
    if low <= 0 or high / low < _MANY_TIMES:
        return False
    first = sorted(numbers[:_FIRST])
    median = first[len(first) // 2]
    linear = (median - low) / (high - low)
    logarithmic = math.log(median / low) / math.log(high / low)
    return abs(logarithmic - 0.5) < abs(linear - 0.5)


# -- the surface -------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=4)  # views ask again and again
def _fit(inputs: tuple[Vector, ...], values: tuple[float, ...]) -> tuple[list[float], list[float], float]:
    """The mean and the standard deviation of the surface at each point, and the logarithm of the noise's share.

    Length scales are the most likely ones; means and deviations are those of several noises, weighted by their
    likelihood.
    """
    from minitune.search.surface import FIRST_ROUNDS, LENGTH_BOUNDS, cut_off, likely_logs

    cut, middle, scale = cut_off(values)
    chosen = _evenly(range(len(inputs)), _MOST_FITTED)
    few = [inputs[number] for number in chosen]
    count = len(inputs[0])
    first = [*[0.0] * count, _FIRST_NOISE]
    bounds = [*[LENGTH_BOUNDS] * count, _NOISE_BOUNDS]
    *logs, noise = likely_logs(few, [1] * count, [cut[number] for number in chosen], first, bounds, FIRST_ROUNDS)
    low, high = _NOISE_BOUNDS
    fits = [
        _fitted([*logs, each], inputs, cut) for each in sorted({min(high, max(low, noise + more)) for more in _OFFSETS})
    ]
    least = min(fit.loss for fit in fits)
    weights = [math.exp(least - fit.loss) for fit in fits]
    total = math.fsum(weights)
    means = [0.0] * len(inputs)
    squares = [0.0] * len(inputs)
    for weight, fit in zip(weights, fits, strict=True):
        share = weight / total
        if share < _LEAST_SHARE:
            continue
        for number, (mean, rest) in enumerate(zip(*fit.surface.predict(inputs), strict=True)):
            means[number] += share * mean
            squares[number] += share * (mean * mean + fit.surface.variance * max(0.0, rest))
    deviations = [math.sqrt(max(0.0, square - mean * mean)) for mean, square in zip(means, squares, strict=True)]
    return [middle + scale * mean for mean in means], [scale * each for each in deviations], noise


class _Fit(NamedTuple):
    """The surface for some length scales and a noise.

    Attributes:
        loss: The negative logarithm of their posterior density, for the most likely variance.
    """

    loss: float
    surface: Surface


def _fitted(logs: Sequence[float], points: Sequence[Vector], values: Sequence[float]) -> _Fit:
    from minitune.search.surface import Surface

    surface = Surface(points, values, logs)
    prior = sum(0.2 * math.cosh(each) for each in logs[:-1])  # that of `surface.loss_and_slopes`
    prior += 0.5 * ((logs[-1] - _USUAL_NOISE) / _NOISE_SD) ** 2
    return _Fit(0.5 * len(values) * math.log(surface.variance) + surface.log_determinant + prior, surface)
