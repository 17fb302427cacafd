"""The common part of searchers that know their space, and of those that use other libraries.

For a library, a quantised int is a number of steps. Users' points are checked here, so that all searchers refuse the
same ones with the same message.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from minitune.base.checks import is_whole, require, shown
from minitune.base.text import warn_once
from minitune.search.searcher import Metric, Searcher, TriedConfig, checked_points
from minitune.space.domains import Float, Integer, Normal, sampler_and_step
from minitune.space.guesses import agrees, guess_of, nested
from minitune.space.parameters import Parameter, parameters, values_of
from minitune.space.tree import copy_tree, overlay


class SpaceSearcher(Searcher):
    """The base of searchers that know their search space. A subclass extends `_set_space`."""

    _TAKES_SEVERAL = False
    """Whether the searcher can have several objectives."""

    def __init__(
        self,
        metric: Metric,
        mode: str | list[str] | None,
        points_to_evaluate: Any,
        seed: int | None = None,
    ) -> None:
        super().__init__(metric, mode)
        self._check_goal()
        self._points: list[Mapping[str, Any]] = checked_points(points_to_evaluate)
        require(seed is None or is_whole(seed), "seed: None or an int", seed)
        self._is_seeded_by_user = seed is not None
        self._seed = seed if seed is None else int(seed)  # of a type of numpy, it could not seed a generator
        self._has_own_space = False
        self._domains: dict[str, Any] | None = None

    @property
    def own_space(self) -> dict[str, Any] | None:
        if self._has_own_space:
            return self._domains
        return None

    def first_points(self) -> Sequence[Mapping[str, Any]]:
        return self._points

    def set_search_properties(self, metric: Metric, mode: str | list[str] | None, config: Any, **spec: Any) -> bool:
        """See `Searcher.set_search_properties`.

        Raises:
            ValueError: If the searcher cannot search the space, or cannot have several objectives.
        """
        super().set_search_properties(metric, mode, config, **spec)
        self._check_goal()
        if not self._has_own_space:
            self._set_space(config or {})
        return not self._has_own_space

    def _check_goal(self) -> None:
        if self._TAKES_SEVERAL:
            return
        if isinstance(self._metric, (list, tuple)):
            raise ValueError(
                f"metric must be the name of one metric for {type(self).__name__}, but got {shown(self._metric)}; "
                "AutoSearch, TPESearch, OptunaSearch and random search take several"
            )
        require(self._mode in (None, "min", "max"), "mode: None, 'min' or 'max'", self._mode)

    def set_seed(self, seed: int) -> None:
        if not self._is_seeded_by_user:
            self._seed = seed

    def _set_space(self, space: dict[str, Any]) -> None:
        """Search `space` from now on. It must have all points to evaluate."""
        if space is not self._domains:
            self._points = [guess_of(space, point).values() for point in self._points]
        self._domains = space


class LibrarySearcher(SpaceSearcher):
    """The base of searchers that ask another library."""

    def adopt(self, trial_id: str, config: Mapping[str, Any]) -> None:
        """See `Searcher.adopt`. If the library suggests another configuration, it gets this one as a point to evaluate;
        in a space of its own it is only asked.
        """
        adopted = TriedConfig(copy_tree(dict(config)))
        known = self._known_values(adopted)
        if known is None:
            super().adopt(trial_id, config)
            return
        points = [nested(point, self._domains or {}) for point in self._points]
        index = next((n for n, point in enumerate(points) if agrees(point, config)), None)
        if index is not None:
            del self._points[:index]  # those before it were refused
        if index is not None or not self._points:
            # Asked in any case: its draws must go on where they were, or it would suggest the same values again.
            suggestion = self.suggest(trial_id)
            if isinstance(suggestion, dict):
                if self._known_values(TriedConfig(suggestion)) == known:
                    return
                self.on_suggestion_refused(trial_id)
        self._points.insert(0, adopted)
        self.suggest(trial_id)

    def _known_values(self, config: TriedConfig) -> dict[str, Any] | None:
        """The parameters' values; None if unknown, as in a space of the library's own."""
        if self._domains is None:
            return None
        return evaluated_values(self._domains, config)[0]


def check_library(searcher: Searcher, module: str, requirement: str) -> None:
    """Refuse to make a searcher without its library.

    Raises:
        ImportError: If the library is not installed. The message names the requirement, as pip takes it.
    """
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{type(searcher).__name__} needs {requirement} ({error}); install it with: pip install "
            f"'{requirement}', or use TPESearch, which needs no package"
        ) from error


# -- values in a library's terms ---------------------------------------------------------------------------------------


def refuse_normal(space: Mapping[str, Any], library: str) -> None:
    """Refuse a space with a grid, or with a normal distribution, which the library lacks."""
    for parameter in parameters(space):
        if isinstance(sampler_and_step(parameter.domain)[0], Normal):
            raise ValueError(
                f"{library} has no normal distribution, but parameter {parameter.name!r} has one; use uniform(), or "
                "TPESearch, which has"
            )


def quantized(domain: Float | Integer, value: float) -> Any:
    """The value of a domain nearest to `value`. For quantised ints, `value` is a number of steps."""
    q = sampler_and_step(domain)[1]
    if isinstance(domain, Integer):
        return int(value) * int(q or 1)
    if q:
        return domain.snap(value, q)
    return min(max(float(value), domain.lower), domain.upper)


def unquantized(parameter: Parameter, value: Any) -> Any:
    """The inverse of `quantized`: the number of steps of a quantised int. Other values stay."""
    q = sampler_and_step(parameter.domain)[1]
    if isinstance(parameter.domain, Integer) and q:
        return round(value / q)
    return value


# -- points of users --------------------------------------------------------------------------------------------------


def evaluated_values(space: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The parameters' values by name (for a choice, the index), and the names of those outside of the space, with a
    warning.

    Raises:
        ValueError: If it has parameters that the space lacks, and is no `TriedConfig`.
    """
    given = nested(config, space)
    if not isinstance(config, TriedConfig):
        overlay(space, given, unknown_keys=False)  # refuses unknown parameters
    outside: list[str] = []

    def note(parameter: Parameter, value: Any) -> None:
        outside.append(parameter.name)
        warn_once(
            f"point: {parameter.name}={shown(value)} lies outside of {parameter.domain.domain_str}; the searcher skips "
            "such values of it (logged once)",
            about=f"point {parameter.name} {parameter.domain.domain_str}",
        )

    return values_of(space, given, note), outside
