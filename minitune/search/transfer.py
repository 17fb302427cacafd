"""Transfer: `TPESearch` learns from earlier runs over a space with some of the same parameters.

Raw values of two tasks do not compare, ranks do. So an earlier run becomes a surrogate that predicts, for any
configuration, the share of the earlier trials that are better. How like the new task is to the earlier one is seen in
the order of the new trials: the share of pairs that the surrogate puts in the other order is the distance of the two
rankings, 0 for the same task and about a half for one that has nothing to do with it. An earlier run counts by
Epanechnikov's kernel of that distance, and not at all beyond `_FARTHEST`.

A suggestion follows an earlier run with a probability that is this weight. Then the Parzen estimators are put over the
trials of both runs together. For that the new values become shares, too: the best new value gets the best share that
the surrogate predicts for the new configurations, and so on, so that the order of the new trials is theirs alone. All
other suggestions are those of the searcher itself, which therefore never has less than its own trials to go by.

Sources: Wistuba, Schilling and Schmidt-Thieme, "Two-stage transfer surrogate model for automatic hyperparameter
optimization" (ECML PKDD 2016), for surrogates of single tasks that are weighted by a kernel of the distance of
rankings; Bardenet, Brendel, Kegl and Sebag, "Collaborative hyperparameter tuning" (ICML 2013), for ranks in the place
of values.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from minitune.base.checks import is_real
from minitune.experiment.trial import EarlierRun
from minitune.result import AUTO_RESULT_KEYS, DEFAULT_METRIC
from minitune.search.foreign import nested
from minitune.search.parzen import Model, Observation, Ranking, numbers_of
from minitune.space.domains import Categorical
from minitune.space.parameters import Axis, parameters, values_of

_FARTHEST = 0.5
"""Rankings at this distance have nothing to do with each other."""
_LEAST_TO_COMPARE = 5
"""So many new values are needed before the distance is measured; until then every third suggestion follows."""
_FEWER_FROM = 15
"""From so many new trials on, earlier runs are followed less, in proportion: the own trials tell more."""
_MOST_COMPARED = 100
"""The distance is measured on so many of the newest new trials."""
_MOST_EARLIER, _MOST_BEST = 200, 50
"""So many trials of an earlier run are used; of them so many are its best, and the others spread over its ranking."""
_NEIGHBOURS = 5

Values = Mapping[str, Any]
Proposal = tuple[dict[str, Any], dict[str, Any]]


class Transfer:
    """Proposes configurations of a run by what earlier runs have found.

    Args:
        space: The search space of the new run.
        metric: What is optimised.
        mode: `"min"` or `"max"`.
        runs: The earlier runs.
        options: The arguments of `Model`.

    Raises:
        ValueError: If a run has no parameter of the space, no configuration in it, or no value of the metric.
    """

    def __init__(
        self, space: dict[str, Any], metric: str, mode: str, runs: Sequence[EarlierRun], options: Mapping[str, Any]
    ):
        self._space, self._options = space, dict(options)
        self._sign = 1.0 if mode == "min" else -1.0
        self._sources = [_Source(space, metric, self._sign, run) for run in runs]

    def propose(
        self, number: int, rng: random.Random, ended: Sequence[Observation], live: Sequence[Observation]
    ) -> Proposal | None:
        """A configuration that follows an earlier run; None if the searcher shall go by its own trials.

        Args:
            number: How many proposals were asked for before; the first ones are the best configurations of the earlier
                runs.
            rng: For the draws.
            ended: The trials that have ended.
            live: Those that have not.
        """
        model = Model(self._space, **self._options)
        if number < len(self._sources):
            return model.draw_prior(rng, dict(self._sources[number].observations[0].values))
        own = [(each, self._sign * float(each.value)) for each in ended if _has_value(each)]
        if len(own) < _LEAST_TO_COMPARE:
            weights = [1 / 3] * len(self._sources)
        else:
            newest = own[-_MOST_COMPARED:]
            weights = [source.weight([(each.values, value) for each, value in newest]) for source in self._sources]
        if rng.random() >= max(weights) * min(1.0, _FEWER_FROM / max(1, len(ended))):
            return None
        source = rng.choices(self._sources, weights)[0]
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
    """An earlier run in terms of the new space.

    Args:
        space: The search space of the new run.
        metric: What is optimised.
        sign: 1 if less is better, else -1.
        run: The run.

    Attributes:
        observations: Its trials, the best first. The value of each is the share of the others that are better.
    """

    def __init__(self, space: dict[str, Any], metric: str, sign: float, run: EarlierRun):
        self._axes: dict[str, Axis | None] = {}
        for parameter in parameters(space):
            domain = parameter.domain
            is_category = isinstance(domain, Categorical) and not isinstance(domain.categories, range)
            self._axes[parameter.name] = None if is_category else Axis(numbers_of(domain))
        scored: list[tuple[float, int, dict[str, Any]]] = []
        is_known, all_outside = False, Counter[str]()
        for number, (config, metrics) in enumerate(run.tried):
            values, outside = _fitting(space, config)
            all_outside.update(outside)
            is_known = is_known or bool(values or outside)
            value = sign * (metrics or {}).get(metric, math.nan)
            if values and not outside:
                scored.append((value if math.isfinite(value) else math.inf, number, values))
        if not is_known:
            keys = ", ".join(sorted({str(key) for config, _ in run.tried for key in config})) or "none"
            raise ValueError(
                f"warm_start: the run in {run.path} has no parameter of this space, {', '.join(self._axes) or 'none'}; "
                f"its configurations have {keys}"
            )
        if not any(metric in (metrics or {}) for _, metrics in run.tried):
            names = sorted({name for _, metrics in run.tried for name in metrics or {}} - set(AUTO_RESULT_KEYS))
            hint = "; name the metric that both runs report" if metric == DEFAULT_METRIC else ""
            raise ValueError(
                f"warm_start: no trial of the run in {run.path} has reported {metric!r} as a number; reported were: "
                f"{', '.join(names) or 'none'}{hint}"
            )
        scored.sort(key=lambda row: row[:2])
        if not scored:
            counts = ", ".join(f"{name} in {count} of {len(run.tried)}" for name, count in all_outside.items())
            raise ValueError(
                f"warm_start: no configuration of the run in {run.path} lies in this space (outside: {counts}); "
                "widen the space, or leave the run out"
            )
        if scored[0][0] == math.inf:
            raise ValueError(
                f"warm_start: no configuration of the run in {run.path} that lies in this space has a finite "
                f"{metric!r}; leave the run out"
            )
        self.observations: list[Observation] = []
        better = 0
        for rank, (value, _, values) in enumerate(scored):
            better = better if rank and value == scored[rank - 1][0] else rank
            share, has_failed = better / len(scored), value == math.inf
            # negative numbers: these trials are older than all of the new run
            one = Observation(rank - len(scored), values, value=1.0 if has_failed else share)
            one.arrival, one.has_failed = rank, has_failed
            self.observations.append(one)
        rest = self.observations[_MOST_BEST:]
        if len(self.observations) > _MOST_EARLIER:
            step = len(rest) / (_MOST_EARLIER - _MOST_BEST)
            rest = [rest[int(step * index)] for index in range(_MOST_EARLIER - _MOST_BEST)]
        self.observations = [*self.observations[:_MOST_BEST], *rest]
        self._encoded = [(self._encode(each.values), float(each.value)) for each in self.observations]

    def weight(self, own: Sequence[tuple[Values, float]]) -> float:
        """How much this run counts, from 0 to 1, by the order of the new trials.

        Args:
            own: The new trials: values of the parameters, and of the objective; less is better.
        """
        predicted = [self._predict(values) for values, _ in own]
        pairs = discordant = 0.0
        for one, other in combinations(range(len(own)), 2):
            order = (own[one][1] - own[other][1]) * (predicted[one] - predicted[other])
            if own[one][1] != own[other][1]:
                pairs += 1
                discordant += 1.0 if order < 0 else 0.5 if order == 0 else 0.0
        if not pairs:
            return 0.0
        # With few trials a small distance may be luck: so one standard deviation is added, that of Kendall's tau
        # where the rankings have nothing to do with each other.
        count = len(own)
        distance = discordant / pairs + math.sqrt((2 * count + 5) / (18 * count * (count - 1)))
        return max(0.0, 1 - (distance / _FARTHEST) ** 2)

    def as_shares(self, own: Sequence[tuple[Observation, float]]) -> list[float]:
        """The new values in terms of this run: the best gets the best share that is predicted for any, and so on."""
        predicted = sorted(self._predict(each.values) for each, _ in own)
        shares = [0.0] * len(own)
        for share, index in zip(predicted, sorted(range(len(own)), key=lambda each: own[each][1]), strict=True):
            shares[index] = share
        return shares

    def _encode(self, values: Values) -> dict[str, Any]:
        """Places of the numbers, and indices of the categories as text, which no place is equal to."""
        return {
            name: str(values[name]) if axis is None else axis.encode(values[name])
            for name, axis in self._axes.items()
            if values.get(name) is not None
        }

    def _predict(self, values: Values) -> float:
        """The share of this run's trials that are better: a mean over the nearest ones."""
        own = self._encode(values)
        nearest = sorted((_distance(own, encoded), share) for encoded, share in self._encoded)[:_NEIGHBOURS]
        weights = [1 / (distance + 1e-6) for distance, _ in nearest]
        return sum(weight * share for weight, (_, share) in zip(weights, nearest, strict=True)) / sum(weights)


def _fitting(space: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The values in a configuration of the space's parameters, and the parameters whose values lie outside."""
    outside: list[str] = []
    found = values_of(space, nested(config, space), lambda parameter, value: outside.append(parameter.name))
    return found, outside


def _distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """The square of the distance in the parameters of the earlier trial; a category that differs counts as far away."""
    total = 0.0
    for name, place in other.items():
        own = one.get(name)
        if isinstance(place, str) or own is None:
            total += own != place
        else:
            total += (own - place) ** 2
    return total


def _has_value(observation: Observation) -> bool:
    return not observation.has_failed and is_real(observation.value) and math.isfinite(observation.value)
