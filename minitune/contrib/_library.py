"""What the searchers here share: arguments of earlier versions of Ray Tune, and values in a library's terms.

For a library, a quantised int is a number of steps, and the categories of a long list are indices.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from minitune.base.checks import is_whole, require
from minitune.base.numbers import known_number
from minitune.base.text import warn_once
from minitune.result import DEFAULT_METRIC
from minitune.search.foreign import LibrarySearcher, evaluated_values, quantized, unquantized
from minitune.search.searcher import Metric, no_space, require_mode
from minitune.space.domains import Categorical, Float, sampler_and_step
from minitune.space.parameters import Parameter, draw, parameters


class RaySearcher(LibrarySearcher):
    """The base of the searchers here. A subclass overrides `_learn` or `add_evaluated_point`.

    `old` are arguments that these searchers had in earlier versions of Ray Tune.
    """

    OLD_KEYWORDS = frozenset({"max_concurrent", "reward_attr", "use_early_stopped_trials"})

    def __init__(
        self,
        metric: Metric,
        mode: str | list[str] | None,
        points_to_evaluate: Any,
        seed: int | None,
        old: Mapping[str, Any],
    ) -> None:
        for name in old:
            if name not in self.OLD_KEYWORDS:
                raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {name!r}")
        if old.get("max_concurrent") is not None:
            limit = old["max_concurrent"]
            require(is_whole(limit) and limit >= 0, "max_concurrent: an int >= 0", limit)
            warn_once("max_concurrent is deprecated: pass max_concurrent_trials to the run")
            self.max_concurrent = limit
        if old.get("reward_attr") is not None:
            warn_once("reward_attr is deprecated: pass metric, and mode='max'")
            metric = metric or old["reward_attr"]
            mode = mode or "max"
        if "use_early_stopped_trials" in old:
            warn_once("use_early_stopped_trials has no effect: searchers hear of all trials")
        super().__init__(metric, mode, points_to_evaluate, seed)
        self._rng = random.Random(self._seed)

    def set_seed(self, seed: int) -> None:
        super().set_seed(seed)
        self._rng = random.Random(self._seed)

    def _draw(self, parameter: Parameter) -> Any:
        domain = parameter.domain
        if isinstance(domain, Categorical):
            return self._rng.randrange(len(domain))
        return domain.sample(random_state=self._rng)

    def _filled(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters' values in a configuration, for a choice the index of the category; missing ones are drawn."""
        space = self._domains or {}
        found, _ = evaluated_values(space, point)
        return {each.name: found[each.name] if each.name in found else self._draw(each) for each in parameters(space)}

    def _configured(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The configuration with these values, for a choice the index of the category; missing ones are drawn."""
        config: dict[str, Any] = draw(
            self._domains, lambda each: values[each.name] if each.name in values else self._draw(each)
        )
        return config

    def _value_of(self, result: Mapping[str, Any] | None) -> float | None:
        return known_number((result or {}).get(str(self._metric or DEFAULT_METRIC)))

    def _loss(self, value: float) -> float:
        if self._mode == "min":
            return float(value)
        return -float(value)

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """See `Searcher.add_evaluated_point`. The last two arguments have no effect.

        Raises:
            ValueError: If there is no space of domains yet, or no mode.
        """
        self._check_ready(self._domains is not None or self._has_own_space)
        if self._domains is None:
            raise ValueError(
                f"{type(self).__name__} can learn from points only in a space of domains, not in the library's own"
            )
        self._learn(parameters, None if error else known_number(value))

    def _learn(self, config: Mapping[str, Any], value: float | None) -> None:
        """Learn from a configuration; the value is None if it has failed or has no known value."""
        raise NotImplementedError  # abstract; a searcher without it has its own `add_evaluated_point`

    def _check_ready(self, has_space: bool) -> None:
        if not has_space:
            raise no_space(self)
        require_mode(self)


def bounds_of(parameter: Parameter) -> tuple[float, float] | None:
    """The bounds of a parameter that is a number for a library; None for a choice."""
    domain = parameter.domain
    if isinstance(domain, Float):
        return (domain.lower, domain.upper)
    return indices_of(parameter)


def varying(space: Any) -> list[Parameter]:
    """The parameters with more than one value: libraries do not know the others."""

    def varies(parameter: Parameter) -> bool:
        bounds = bounds_of(parameter)
        domain = parameter.domain
        if bounds is not None:
            return bounds[0] < bounds[1]
        return isinstance(domain, Categorical) and len(domain) > 1

    return [each for each in parameters(space) if varies(each)]


def to_library(space: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a library gets for a configuration; for a choice the index of the category."""
    return {each.name: unquantized(each, values[each.name]) for each in varying(space)}


def from_library(space: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters' values of a library's values; for a choice the index of the category."""
    return {each.name: value_of(each, values[each.name]) for each in parameters(space) if each.name in values}


def value_of(parameter: Parameter, value: Any) -> Any:
    """The parameter's value of a library's value; for a choice the index of the category."""
    domain = parameter.domain
    indices = indices_of(parameter)
    if indices is None:
        number = value
    else:
        number = min(max(round(value), indices[0]), indices[1])
    if isinstance(domain, Categorical):
        return int(number)
    return quantized(domain, number)


def indices_of(parameter: Parameter) -> tuple[int, int] | None:
    """The first and the last number of a parameter that is an int for a library."""
    domain = parameter.domain
    if isinstance(domain, (Categorical, Float)):
        return None
    first, stop = domain.index_range(int(sampler_and_step(domain)[1] or 1))
    return first, stop - 1
