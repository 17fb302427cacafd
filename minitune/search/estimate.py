"""Estimates: what a trial's value would be on average, if it were run again and again.

A noisy run reports the luckiest of many draws as its best value. `estimates` draws a smooth surface through the values
of all trials, and tells how much of their spread is noise: a Gaussian process as in `gaussian_process`, but with a
noise that the data decide alone (Rasmussen and Williams, 2006, section 5.4). The value of the surface at a trial's
configuration is the value to expect there. This needs nothing but the trials, so it works for a run of any searcher.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any

from minitune.base.text import number_text
from minitune.experiment.goal import best_trial
from minitune.experiment.trial import Trial
from minitune.result import TRAINING_ITERATION, flatten
from minitune.search.gaussian_process import SQRT_5, Vector, covariance_kind, cut_off

FEWEST = 12
"""From how many trials values are estimated."""
_MOST = 60
"""At most so many trials are used, the best half and the newest: a fit takes time with the cube of their number."""
_LENGTHS = (-2.0, -0.5, 1.0, 2.5)
_STEPS = (1.5, 0.75)
"""Logarithms of inverse squared length scales: those that all parameters begin with, and the steps of each one."""
_NOISES = tuple(map(math.log, (1e-4, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)))
"""Logarithms of the noise's variance, as a share of the surface's."""
_LEAST_NOISE = math.log(0.01)
"""With less noise than this, values are not called lucky."""
_DEVIATIONS = 1.8
"""The half width of an interval of 90 %, in standard deviations: see `benchmarks/FINDINGS.md`, *expected values*."""
_MANY_TIMES = 100
"""Positive values whose largest is so many times the smallest are on a logarithmic scale."""
_CORNER = math.sqrt(0.5)
"""The coordinate of a category. So the distance of two categories is 1, that of the ends of a range."""


@dataclass(frozen=True)
class Estimate:
    """What to expect of a trial.

    Attributes:
        trial_id: The trial.
        seen: Its value of the metric.
        expected: Its mean, if it were run many times, as far as all trials of the run tell.
        low: The lower end of the interval that holds this mean in about 90 % of the cases.
        high: Its upper end.
        is_noisy: Whether the values of the run have noise at all, as far as its trials tell.
    """

    trial_id: str
    seen: float
    expected: float
    low: float
    high: float
    is_noisy: bool

    @property
    def is_lucky(self) -> bool:
        """Whether the value seen is outside of the interval."""
        return self.is_noisy and not self.low <= self.seen <= self.high

    def __str__(self) -> str:
        return f"about {short(self.expected)} ({short(self.low)} to {short(self.high)})"


def short(value: float) -> str:
    """A number with as many digits as an estimate deserves."""
    return number_text(float(f"{value:.3g}"))


def estimates(trials: Sequence[Trial], metric: str, mode: str, scope: str = "last") -> list[Estimate]:
    """Estimate the expected values of the trials that can be compared with the best one.

    Those are the trials with a finite value that have run at least as many iterations as the best one. Blocks for at
    most about a second, without numpy; the time does not grow beyond 60 trials.

    Args:
        trials: The trials of a run.
        metric: The metric's flattened name.
        mode: `"min"` or `"max"`.
        scope: The value that counts for a trial, one of `SCOPES`.

    Returns:
        The estimates. First is the trial whose value is the best one even at the worse end of its interval: a lucky
        value far from all others may have a good mean, but no narrow interval. Empty if fewer than twelve trials can be
        compared, or no parameter was searched.

    Raises:
        ValueError: If the mode or the scope is unknown.
    """
    best = best_trial(trials, metric, mode, scope)
    if best is None:
        return []
    sign = -1.0 if mode == "max" else 1.0
    statistic = mode if scope == "all" else scope
    least_iterations = _iterations(best)
    compared = []
    for trial in trials:
        value = trial.progress.analysis.get(metric, statistic)
        if value is not None and math.isfinite(value) and _iterations(trial) >= least_iterations:
            compared.append((sign * value, trial))
    if len(compared) < FEWEST:
        return []
    compared = _some(compared)
    inputs = _coordinates([trial for _, trial in compared])
    if not inputs[0]:
        return []
    values = [value for value, _ in compared]
    means, deviations, noise = _fit(inputs, values)
    found = []
    for (value, trial), mean, deviation in zip(compared, means, deviations, strict=True):
        half = _DEVIATIONS * deviation
        expected = sign * mean
        is_noisy = noise >= _LEAST_NOISE
        found.append(Estimate(trial.trial_id, sign * value, expected, expected - half, expected + half, is_noisy))
    return sorted(found, key=lambda each: max(sign * each.low, sign * each.high))


def remark_on_luck(found: Sequence[Estimate], mode: str) -> str:
    """The remark on a best value that was lucky; empty if it was not.

    Args:
        found: What `estimates` has returned.
        mode: `"min"` or `"max"`.
    """
    if not found:
        return ""
    choose = max if mode == "max" else min
    best = choose(found, key=lambda each: each.seen)
    if not best.is_lucky or short(best.seen) == short(best.expected):
        return ""
    text = f"{short(best.seen)} was lucky: about {short(best.expected)} is to be expected"
    first = found[0]
    if choose(first.expected, best.expected) != best.expected and short(first.expected) != short(best.expected):
        text += f"; trial {first.trial_id} is expected to be better ({short(first.expected)})"
    return text


def _iterations(trial: Trial) -> int:
    return int(trial.progress.metrics.get(TRAINING_ITERATION) or 0)


def _some(compared: list[tuple[float, Trial]]) -> list[tuple[float, Trial]]:
    """At most `_MOST` trials: the best half of them, and the newest others."""
    if len(compared) <= _MOST:
        return compared
    order = sorted(range(len(compared)), key=lambda number: compared[number][0])
    chosen = set(order[: _MOST // 2])
    newest = [number for number in range(len(compared)) if number not in chosen]
    chosen.update(newest[-(_MOST - len(chosen)) :])
    return [compared[number] for number in sorted(chosen)]


# -- configurations as points ------------------------------------------------------------------------------------------
def _coordinates(trials: Sequence[Trial]) -> list[Vector]:
    """The configurations as points: a number takes a place from 0 to 1, a category a corner of a simplex.

    Ranges and scales are those of the values that were tried. A parameter that a configuration does not have is in the
    middle, or in no corner.
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
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in numbers):
        low = min(numbers, default=0)
        high = max(numbers, default=0)
        if low == high or not math.isfinite(high - low):
            return []
        is_log = low > 0 and high / low >= _MANY_TIMES
        scaled = math.log if is_log else float
        first = scaled(low)
        width = scaled(high) - first
        return [[0.5 if value is None else (scaled(value) - first) / width for value in values]]
    texts = [None if value is None else repr(value) for value in values]
    kinds = sorted({text for text in texts if text is not None})
    if len(kinds) < 2:
        return []
    return [[_CORNER if text == kind else 0.0 for text in texts] for kind in kinds]


# -- the surface -------------------------------------------------------------------------------------------------------
def _fit(inputs: Sequence[Vector], values: Sequence[float]) -> tuple[list[float], list[float], float]:
    """The mean and the standard deviation of the surface at each point, and the logarithm of the noise's share.

    Smaller values are better. Length scales and noise are the most likely ones of a coarse search.
    """
    cut, mean, scale = cut_off(values)
    count = len(inputs[0])
    kind = covariance_kind()

    def surface(logs: Sequence[float], noise: float) -> tuple[Any, list[Vector], float]:
        weights = [SQRT_5 * math.exp(0.5 * each) for each in logs]
        scaled = [tuple(map(mul, each, weights)) for each in inputs]
        covariance = kind(scaled, math.exp(noise))
        return covariance, scaled, covariance.solve(cut) / len(cut) + 1e-12

    def loss(logs: Sequence[float], noise: float) -> float:
        covariance, _, variance = surface(logs, noise)
        prior = sum(0.2 * math.cosh(each) for each in logs)
        return float(0.5 * len(cut) * math.log(variance) + covariance.log_determinant + prior)

    least, length, noise = min((loss([each] * count, noise), each, noise) for each in _LENGTHS for noise in _NOISES)
    logs = [length] * count
    for step in _STEPS:
        for place in range(count):
            for change in (step, -step):
                moved = [*logs]
                moved[place] += change
                if (found := loss(moved, noise)) < least:
                    least = found
                    logs = moved
                    break
        number = _NOISES.index(noise)
        for other in _NOISES[max(0, number - 1) : number + 2]:
            if other != noise and (found := loss(logs, other)) < least:
                least = found
                noise = other
    covariance, scaled, variance = surface(logs, noise)
    means = []
    deviations = []
    for each, shares in covariance.predict(scaled):
        *_, share = shares
        means.append(mean + scale * each)
        deviations.append(scale * math.sqrt(variance * max(0.0, share)))
    return means, deviations, noise
