"""PB2: population based training that chooses new hyperparameters with a model of the gains so far.

Source: Parker-Holder et al., "Provably Efficient Online Hyperparameter Optimization with Population-Based Bandits"
(NeurIPS 2020, arXiv 2002.02518), algorithm 2. Only the explore step differs from `PopulationBasedTraining`: a copy gets
the hyperparameters with the largest upper confidence bound of the gain per unit of time.

The model is the Gaussian process of `search.surface` over time, score and hyperparameters: the length scale of the time
says how fast it forgets. A fit costs the cube of the number of points, so the model knows a bounded number of gains.
"""

from __future__ import annotations

import importlib
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from minitune.base.calls import explains_calls
from minitune.base.checks import is_real, is_whole, require, shown
from minitune.base.numbers import mean_of
from minitune.error import InvalidArgumentError
from minitune.schedulers.pbt import PopulationBasedTraining
from minitune.schedulers.population import Changes, Member, look_up
from minitune.space.domains import Float, Integer, uniform
from minitune.space.parameters import Axis
from minitune.space.tree import copy_tree

_LOG_NOISE = math.log(0.1)
"""The noise with which a fit begins, as a share of the model's variance. Not measured: the fit changes it."""

_FITTED_TO = 100
"""The length scales are fitted to so many of the newest gains. Not measured: a fit costs the cube of their number."""

_WINDOW = 200
"""The model knows only so many of the newest gains. Not measured: more costs time, fewer forget good parameters."""

_UNIFORM_POINTS = 200
_NEAR_POINTS = 50
"""The points that are compared: anywhere, and near the best of these. Not measured: more cost time, fewer miss the
best.
"""

_NEAR = 0.1
"""Standard deviation of the points that are drawn near the best one, as a share of the bounds. Not measured."""

_LARGEST_GAIN = 2.0
"""Gains are clipped at so many standard deviations, so that one lucky step does not hide all the others: not measured.
"""


# -- the scheduler ----------------------------------------------------------------------------------------------------


class _Hyperparameter(NamedTuple):
    path: tuple[str, ...]
    domain: Float | Integer
    axis: Axis

    def coordinate(self, config: Mapping[str, Any]) -> float:
        value = look_up(config, self.path)
        if not is_real(value):
            return 0.5
        bounded = min(max(value, self.domain.lower), self.domain.upper)
        return min(max(self.axis.encode(bounded), 0.0), 1.0)

    def value(self, coordinate: float, like: Any) -> Any:
        """The value at a coordinate between the bounds; an int if `like` is one."""
        value = self.axis.decode(coordinate)
        if not is_whole(like):
            return value
        return min(max(round(value), math.ceil(self.domain.lower)), math.floor(self.domain.upper))


@dataclass(frozen=True)
class _Gain:
    """The gain of one member between two turns, under one configuration."""

    time: float
    score: float
    point: tuple[float, ...]
    rate: float


@explains_calls
class PB2(PopulationBasedTraining):
    """Population based training whose new hyperparameters are chosen by a Gaussian process.

    Args:
        time_attr, ..., custom_explore_fn: See `PopulationBasedTraining`.
        hyperparam_bounds: By name, `[low, high]`, or a domain of numbers with bounds, or a dict of these for nested
            ones. `tune.loguniform(1e-5, 0.1)` is modelled by its logarithm. Values that a configuration lacks are drawn
            at its start. An int stays one.

    Raises:
        ImportError: If numpy is not installed.
        TuneError: If there are no bounds; it is a ValueError too.
        ValueError: If bounds are no numbers or the wrong way round, or another argument is out of range.
    """

    _rule = "pb2"
    _STATE = (*PopulationBasedTraining._STATE, "_gains", "_begun", "_explored")

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        perturbation_interval: float = 60.0,
        hyperparam_bounds: Mapping[str, Any] | None = None,
        quantile_fraction: float = 0.25,
        log_config: bool = True,
        require_attrs: bool = True,
        synch: bool = False,
        custom_explore_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ):
        if not hyperparam_bounds:
            raise InvalidArgumentError(
                "hyperparam_bounds must hold at least one hyperparameter, such as {'lr': [1e-4, 1e-1]}"
            )
        domains = _domains(hyperparam_bounds, "hyperparam_bounds")
        importlib.import_module("minitune.search.surface")  # the error that names numpy comes before the run
        super().__init__(
            time_attr=time_attr,
            metric=metric,
            mode=mode,
            perturbation_interval=perturbation_interval,
            hyperparam_mutations=domains,
            quantile_fraction=quantile_fraction,
            custom_explore_fn=custom_explore_fn,
            log_config=log_config,
            require_attrs=require_attrs,
            synch=synch,
        )
        self._hyperparameters = list(_hyperparameters(domains))
        self._gains: list[_Gain] = []  # the newest ones of all members, on which the model is fitted
        # By member: time and score of its last turn, or of the copy that it became; its next gain begins there.
        self._begun: dict[str, tuple[float, float]] = {}
        # By member: the hyperparameters that it has got since its last turn, so that their gain is not known yet.
        self._explored: dict[str, tuple[float, ...]] = {}

    # -- gains ---------------------------------------------------------------------------------------------------

    def _record(self, member: Member, at: float, result: dict[str, Any]) -> None:
        """Record the score of a member, and its gain since its last turn, or since it became a copy."""
        super()._record(member, at, result)
        self._explored.pop(member.trial_id, None)
        begun = self._begun.pop(member.trial_id, None)
        if not math.isfinite(member.score):
            return
        if begun is not None and at > begun[0]:
            point = self._point_of(self._trials[member.trial_id].config)
            begun_at, begun_score = begun
            rate = (member.score - begun_score) / (at - begun_at)
            self._gains.append(_Gain(begun_at, begun_score, point, rate))
            del self._gains[:-_WINDOW]
        self._begun[member.trial_id] = (at, member.score)

    def _forget(self, trial_id: str) -> None:
        super()._forget(trial_id)
        self._begun.pop(trial_id, None)
        self._explored.pop(trial_id, None)

    def _point_of(self, config: Mapping[str, Any]) -> tuple[float, ...]:
        return tuple(each.coordinate(config) for each in self._hyperparameters)

    # -- explore -------------------------------------------------------------------------------------------------

    def _new_config(
        self, member: Member, donor: Member, donor_config: Mapping[str, Any]
    ) -> tuple[dict[str, Any], Changes]:
        point = self._best_point(donor)
        if point is None:
            point = [self._rng.random() for _ in self._hyperparameters]
        config = copy_tree(donor_config)
        changes = Changes()
        for each, share in zip(self._hyperparameters, point, strict=True):
            old = look_up(donor_config, each.path)
            new = each.value(share, old)
            *way, last = each.path
            holder = config
            for name in way:  # the donor may share a mapping that `copy_tree` has not copied
                inner = dict(holder.get(name, {}))
                holder[name] = inner
                holder = inner
            holder[last] = new
            changes[each.path] = (old, new)
        self._explored[member.trial_id] = self._point_of(config)
        if math.isfinite(donor.score):
            self._begun[member.trial_id] = (donor.last_turn, donor.score)
        return config, changes

    def _best_point(self, donor: Member) -> Sequence[float] | None:
        """The point with the largest upper confidence bound of the gain; None if nothing can be learned yet."""
        rates = [gain.rate for gain in self._gains]
        spread = 0.0
        if len(rates) > 1:
            spread = statistics.pstdev(rates)
        if not spread or not math.isfinite(donor.score):
            return None
        middle = mean_of(rates)
        values = [min(max((rate - middle) / spread, -_LARGEST_GAIN), _LARGEST_GAIN) for rate in rates]
        scale_time = _scale([g.time for g in self._gains])
        scale_score = _scale([g.score for g in self._gains])
        points = [(scale_time(gain.time), scale_score(gain.score), *gain.point) for gain in self._gains]
        here = (scale_time(donor.last_turn), scale_score(donor.score))
        from minitune.search.surface import FIRST_ROUNDS, LENGTH_BOUNDS, NOISE_BOUNDS, Surface, likely_logs

        count = len(points[0])
        first = [*[0.0] * count, _LOG_NOISE]
        bounds = [*[LENGTH_BOUNDS] * count, NOISE_BOUNDS]
        newest = points[-_FITTED_TO:], [1] * count, values[-_FITTED_TO:]
        logs = likely_logs(*newest, first, bounds, FIRST_ROUNDS)
        # Members that have explored since their last result are points without a value, so that two members do not get
        # the same one.
        model = Surface([*points, *((*here, *point) for point in self._explored.values())], values, logs)
        # The width of the confidence bound. It grows with the number of points, as the regret bound of the paper needs.
        width = math.sqrt(0.2 + max(0.0, math.log(0.4 * len(points))))

        def best_of(candidates: Sequence[Sequence[float]]) -> Sequence[float]:
            means, shares = model.predict([(*here, *point) for point in candidates])
            deviations = [math.sqrt(model.variance * max(0.0, share)) for share in shares]
            worths = [mean + width * deviation for mean, deviation in zip(means, deviations, strict=True)]
            return candidates[worths.index(max(worths))]

        # Random points within the unit cube, then some around the best of them.
        rng = self._rng
        best = best_of([[rng.random() for _ in self._hyperparameters] for _ in range(_UNIFORM_POINTS)])
        near = [[min(max(rng.gauss(share, _NEAR), 0.0), 1.0) for share in best] for _ in range(_NEAR_POINTS)]
        return best_of([best, *near])


def _scale(values: Sequence[float]) -> Callable[[float], float]:
    low = min(values)
    width = max(values) - min(values)
    return lambda value: (value - low) / width if width else 0.0


def _hyperparameters(domains: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[_Hyperparameter]:
    for name, domain in domains.items():
        if isinstance(domain, Mapping):
            yield from _hyperparameters(domain, (*path, name))
        else:
            yield _Hyperparameter((*path, name), domain, Axis(domain))


def _domains(bounds: Any, where: str) -> dict[str, Any]:
    if not isinstance(bounds, Mapping):
        raise TypeError(f"{where} must be a dict such as {{'lr': [1e-4, 1e-1]}}, but got {shown(bounds)}")
    domains: dict[str, Any] = {}
    for name, bound in bounds.items():
        which = f"{where}[{name!r}]"
        if isinstance(bound, Mapping):
            domains[name] = _domains(bound, which)
            continue
        if isinstance(bound, (Float, Integer)) and math.isfinite(bound.lower) and math.isfinite(bound.upper):
            domains[name] = bound
            continue
        good = isinstance(bound, (list, tuple)) and len(bound) == 2
        good = good and all(is_real(end) and math.isfinite(end) for end in bound) and bound[0] <= bound[1]
        require(good, f"{which}: two numbers [low, high], or a domain with bounds, such as tune.uniform(0, 1)", bound)
        domains[name] = uniform(*bound)
    return domains
