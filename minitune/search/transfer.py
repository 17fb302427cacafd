"""Transfer: `TPESearch` learns from earlier runs over a space with some of the same parameters.

An earlier run becomes a surrogate: for any configuration it predicts the share of the earlier trials that are better,
since ranks can be compared and raw values cannot. The distance of two tasks is the share of pairs of new trials that
the surrogate puts in the other order. The weight of a run is Epanechnikov's kernel of that distance, and 0 beyond
`_FARTHEST`.

A suggestion follows an earlier run with this probability. Then the Parzen estimators model the trials of both runs
together: the new values become shares, too, in their order.

Sources: Wistuba, Schilling and Schmidt-Thieme, "Two-stage transfer surrogate model for automatic hyperparameter
optimization" (ECML PKDD 2016); Bardenet, Brendel, Kegl and Sebag, "Collaborative hyperparameter tuning" (ICML 2013).
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from minitune.experiment.trial import EarlierRun
from minitune.result import own_metrics
from minitune.search.groups import numbers_of
from minitune.search.model import Model
from minitune.search.ranking import Observation, Ranking
from minitune.space.domains import Categorical
from minitune.space.guesses import nested
from minitune.space.parameters import Axis, parameters, values_of

_FARTHEST = 0.5
"""Rankings at this distance are unrelated: two random orders disagree about half of the pairs."""
_LEAST_TO_COMPARE = 5
"""The distance needs so many new values. Before that, a third of the suggestions follow an earlier run. Not measured,
like the numbers below: for the whole, see `benchmarks/FINDINGS.md`, *earlier run*. With fewer, chance decides how near
a run is; with more, a run that misleads is followed longer.
"""
_FEWER_FROM = 15
"""With more new trials than this, fewer suggestions follow, in inverse proportion: the run's own trials tell more."""
_MOST_COMPARED = 100
"""The maximum number of new trials from which the distance is computed: the newest ones."""
_MOST_EARLIER = 200
_MOST_BEST = 50
"""The maximum number of trials of an earlier run, and how many are its best ones; the others span its whole ranking."""
_NEIGHBOURS = 5
"""The number of earlier trials from which a share is predicted."""

Values = Mapping[str, Any]
Proposal = tuple[dict[str, Any], dict[str, Any]]


class Transfer:
    """Proposes configurations for a run that follow earlier runs.

    Raises:
        ValueError: If no trial of a run has a configuration in the space and a finite value.
    """

    def __init__(
        self, space: dict[str, Any], metric: str, mode: str, runs: Sequence[EarlierRun], options: Mapping[str, Any]
    ):
        self._space = space
        self._options = dict(options)
        self._sign = -1.0
        if mode == "min":
            self._sign = 1.0
        self._sources = [_Source(space, metric, self._sign, run) for run in runs]

    def propose(
        self, number: int, rng: random.Random, ended: Sequence[Observation], live: Sequence[Observation]
    ) -> Proposal | None:
        """A configuration that follows an earlier run; None if only the own trials should be used. The first ones are
        the best of the earlier runs.
        """
        model = Model(self._space, **self._options)
        if number < len(self._sources):
            return model.draw_prior(rng, dict(self._sources[number].observations[0].values))
        own = []
        for each in ended:
            if each.value is not None and not each.has_failed and math.isfinite(each.value):
                own.append((each, self._sign * float(each.value)))
        if len(own) < _LEAST_TO_COMPARE:
            weights = [1 / 3] * len(self._sources)
        else:
            newest = own[-_MOST_COMPARED:]
            weights = [source.weight([(each.values, value) for each, value in newest]) for source in self._sources]
        # With more trials of its own, the search needs the earlier runs less, however alike they are.
        chance = max(weights) * min(1.0, _FEWER_FROM / max(1, len(ended)))
        if rng.random() >= chance:
            return None
        source = rng.choices(self._sources, weights)[0]
        # Values of two runs cannot be compared, only their ranks can. So all values are shares of the earlier run.
        shares = dict(zip([each.number for each, _ in own], source.as_shares(own), strict=True))
        both = list(source.observations)
        for each in sorted([*ended, *live], key=lambda one: one.number):
            merged = Observation(each.number, each.values, value=shares.get(each.number))
            if each.arrival is not None:
                merged.arrival = len(both)  # without a value it counts as failed
            both.append(merged)
        for one in both:
            model.add(one, is_own=one.number >= 0)
        return model.propose(rng, Ranking(["min"], "last", both), [each.number for each in live])


class _Source:
    """An earlier run, as observations in the new space."""

    def __init__(self, space: dict[str, Any], metric: str, sign: float, run: EarlierRun):
        self._axes: dict[str, Axis | None] = {}
        for parameter in parameters(space):
            domain = parameter.domain
            is_category = isinstance(domain, Categorical) and not isinstance(domain.categories, range)
            if is_category:
                self._axes[parameter.name] = None
            else:
                self._axes[parameter.name] = Axis(numbers_of(domain))
        scored: list[tuple[float, int, dict[str, Any]]] = []
        for number, (config, metrics) in enumerate(run.tried):
            value = sign * (metrics or {}).get(metric, math.nan)
            values, outside = _fitting(space, config)
            if values and not outside:
                scored.append((value if math.isfinite(value) else math.inf, number, values))
        scored.sort(key=lambda row: row[:2])
        if not scored or scored[0][0] == math.inf:
            keys = sorted({str(key) for config, _ in run.tried for key in config})
            names = sorted({name for _, metrics in run.tried for name in own_metrics(metrics or {})})
            raise ValueError(
                f"warm_start: no trial of the run in {run.path} has a configuration in this space and a finite "
                f"{metric!r}; its configurations have {', '.join(keys) or 'no parameters'}, and it has reported "
                f"{', '.join(names) or 'nothing'}; leave the run out, or search a wider space"
            )
        self.observations: list[Observation] = []
        better = 0
        for rank, (value, _, values) in enumerate(scored):
            is_tied = rank > 0 and value == scored[rank - 1][0]
            if not is_tied:
                better = rank
            share = better / len(scored)
            has_failed = value == math.inf
            # negative numbers: these trials are older than all trials of the new run
            one = Observation(rank - len(scored), values, value=1.0 if has_failed else share)
            one.arrival = rank
            one.has_failed = has_failed
            self.observations.append(one)
        # Of many trials the best, and an even choice of the others: they show where the space is bad.
        rest = self.observations[_MOST_BEST:]
        if len(self.observations) > _MOST_EARLIER:
            step = len(rest) / (_MOST_EARLIER - _MOST_BEST)
            rest = [rest[int(step * index)] for index in range(_MOST_EARLIER - _MOST_BEST)]
        self.observations = [*self.observations[:_MOST_BEST], *rest]
        self._encoded = [(self._encode(each.values), float(each.value)) for each in self.observations]

    def weight(self, own: Sequence[tuple[Values, float]]) -> float:
        """The weight of this run, from 0 to 1: the larger, the better it predicts the order of the new trials."""
        predicted = [self._predict(values) for values, _ in own]
        pairs = 0.0
        discordant = 0.0
        for one, other in combinations(range(len(own)), 2):
            difference = own[one][1] - own[other][1]
            if own[one][1] == own[other][1]:  # a pair without an order says nothing
                continue
            pairs += 1
            order = difference * (predicted[one] - predicted[other])
            if order < 0:
                discordant += 1.0
            elif order == 0:
                discordant += 0.5
        if not pairs:
            return 0.0
        # With few trials a small distance may be luck. So the standard deviation of Kendall's tau between unrelated
        # rankings, halved to be one of a share of pairs, is added.
        count = len(own)
        distance = discordant / pairs + math.sqrt((2 * count + 5) / (18 * count * (count - 1)))
        return max(0.0, 1 - (distance / _FARTHEST) ** 2)

    def as_shares(self, own: Sequence[tuple[Observation, float]]) -> list[float]:
        predicted = sorted(self._predict(each.values) for each, _ in own)
        shares = [0.0] * len(own)
        for share, index in zip(predicted, sorted(range(len(own)), key=lambda each: own[each][1]), strict=True):
            shares[index] = share
        return shares

    def _encode(self, values: Values) -> dict[str, Any]:
        encoded: dict[str, Any] = {}
        for name, axis in self._axes.items():
            value = values.get(name)
            if value is None:
                continue
            if axis is None:
                encoded[name] = str(value)
            else:
                encoded[name] = axis.encode(value)
        return encoded

    def _predict(self, values: Values) -> float:
        """The share of this run's trials that are better: a weighted mean over the nearest ones."""
        own = self._encode(values)
        nearest = sorted((_distance(own, encoded), share) for encoded, share in self._encoded)[:_NEIGHBOURS]
        weights = [1 / (distance + 1e-6) for distance, _ in nearest]  # not infinite for an equal configuration
        total = sum(weight * share for weight, (_, share) in zip(weights, nearest, strict=True))
        return total / sum(weights)


def _fitting(space: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The values of a configuration for the space's parameters, and the parameters whose values lie outside."""
    outside: list[str] = []
    found = values_of(space, nested(config, space), lambda parameter, value: outside.append(parameter.name))
    return found, outside


def _distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """The squared distance in the parameters of the earlier trial. A category that differs, or is missing, adds 1."""
    total = 0.0
    for name, value in other.items():
        own = one.get(name)
        if isinstance(value, str) or own is None:
            total += own != value
        else:
            total += (own - value) ** 2
    return total
