"""BayesOptSearch: Gaussian processes by `bayesian-optimization`, version 1.4 or later (the extra `bayesopt`)."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from minitune.base.checks import is_whole, require
from minitune.base.numbers import finite_number
from minitune.base.text import warn_once
from minitune.contrib._library import RaySearcher
from minitune.search.foreign import check_library, evaluated_values, quantized
from minitune.search.searcher import Suggestion, require_mode
from minitune.space.domains import Float, LogUniform, Normal, sampler_and_step, uniform
from minitune.space.parameters import Parameter, draw, parameters
from minitune.space.tree import has_unresolved_values

_UTILITIES = {"kind": "ucb", "kappa": 2.576, "xi": 0.0}
_DEFAULT_SEED = 42


class BayesOptSearch(RaySearcher):
    """Models the metric by a Gaussian process and tries the most promising points.

    Logarithmic parameters are modelled on that scale, and those with a step are rounded to it.

    Args:
        space: A dict of this library's domains, or of pairs of bounds; by default the run's.
        points_to_evaluate: Configurations to try first; missing values are drawn.
        utility_kwargs: `kind` is `"ucb"` with `kappa`, or `"ei"` or `"poi"` with `xi`.
        random_state: The seed of all draws; by default the run's.
        random_search_steps: How many configurations are drawn before the model is used.
        patience: The search ends after so many repeated suggestions in a row, which are not tried.
        skip_duplicate: If False, they are tried again, and the search does not end.
        analysis: Has no effect: call `add_evaluated_point`.

    Raises:
        ImportError: If the package is not installed.
        ValueError: If an argument is invalid, or a parameter is no real number between bounds.
    """

    _STATE = ("_rng", "_points", "_seed", "_drawn_left", "_known_again", "_tried", "_live", "_known", "_later")

    def __init__(
        self,
        space: Mapping[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        utility_kwargs: Mapping[str, Any] | None = None,
        random_state: int = _DEFAULT_SEED,
        random_search_steps: int = 10,
        verbose: int = 0,
        patience: int = 5,
        skip_duplicate: bool = True,
        analysis: Any = None,
        **old: Any,
    ):
        check_library(self, "bayes_opt", "bayesian-optimization>=1.4")
        require(space is None or isinstance(space, Mapping), "space: None or a dict", space)
        require(is_whole(random_state), "random_state: an int", random_state)
        super().__init__(metric, mode, points_to_evaluate, random_state, old)
        self._is_seeded_by_user = random_state != _DEFAULT_SEED
        good = is_whole(random_search_steps) and random_search_steps >= 0
        require(good, "random_search_steps: an int >= 0", random_search_steps)
        require(is_whole(patience) and patience >= 1, "patience: an int >= 1", patience)
        good = utility_kwargs is None or (
            isinstance(utility_kwargs, Mapping) and utility_kwargs.keys() <= {*_UTILITIES}
        )
        require(good, f"utility_kwargs: a dict with some of {', '.join(_UTILITIES)}", utility_kwargs)
        self._utility: dict[str, Any] = {**_UTILITIES, **(utility_kwargs or {})}
        require(self._utility["kind"] in ("ucb", "ei", "poi"), "kind: 'ucb', 'ei' or 'poi'", self._utility["kind"])
        self._drawn_left = random_search_steps
        self._verbose = verbose
        self._patience = patience
        self._skips_duplicates = skip_duplicate
        self._known_again = 0
        self._tried: set[tuple[float, ...]] = set()
        self._live: dict[str, dict[str, float]] = {}
        self._known: list[tuple[dict[str, float], float]] = []
        self._later: list[tuple[dict[str, Any], float]] = []
        self._optimizer: Any = None
        self._has_own_space = bool(space)
        if space and has_unresolved_values(dict(space)):
            self._set_space(dict(space))
        elif space:  # pairs of bounds, as the package has them
            for name, pair in space.items():
                good = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
                require(good, f"space: for {name!r} a domain or a pair of bounds", pair)
            self._set_space({name: uniform(*pair) for name, pair in space.items()})
        if analysis is not None:
            warn_once("BayesOptSearch(analysis=...) has no effect: call add_evaluated_point() for each earlier trial")

    def _set_space(self, space: dict[str, Any]) -> None:
        for parameter in parameters(space):
            if not isinstance(parameter.domain, Float) or isinstance(sampler_and_step(parameter.domain)[0], Normal):
                raise ValueError(
                    "BayesOptSearch searches real numbers between bounds, such as uniform(0, 1), but parameter "
                    f"{parameter.name!r} is {parameter.domain.domain_str}; TPESearch takes all kinds"
                )
        super()._set_space(space)
        self._optimizer = None
        self._known += [(self._values_of(config), target) for config, target in self._later]
        self._later = []

    # -- the loop ------------------------------------------------------------------------------------------------------

    def suggest(self, trial_id: str) -> Suggestion:
        optimizer = self._ready()
        if self._points:
            point = self._points.pop(0)
            values = self._values_of(point)
            self._live[trial_id] = values
            self._tried.add(tuple(values.values()))
            given = evaluated_values(self._domains or {}, point)[0]  # the model's values are rounded
            return self._config(values, given)
        while True:
            if optimizer is None or self._drawn_left > 0:
                self._drawn_left -= 1
                values = {name: self._rng.uniform(*bounds) for name, bounds in self._bounds().items()}
            else:
                values = {name: float(value) for name, value in optimizer.suggest(*self._utility_of_1()).items()}
            config = self._config(values)
            key = tuple(self._values_of(config).values())
            if key not in self._tried or not self._skips_duplicates:
                break
            self._known_again += 1
            if self._known_again >= self._patience:
                return self.FINISHED
            if self._drawn_left <= 0:  # the model would say the same again
                self._drawn_left = 1
        self._known_again = 0
        self._tried.add(key)
        self._live[trial_id] = values
        return config

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """See `Searcher.on_trial_complete`. The model does not learn from a trial without a value."""
        values = self._live.pop(trial_id, None)
        value = self._value_of(result)
        if values is not None and not error and value is not None and math.isfinite(value):
            require_mode(self)
            self._register(values, -self._loss(value))

    def _register(self, values: dict[str, float], target: float) -> None:
        self._known.append((values, target))
        if self._optimizer is not None:
            self._optimizer.register(params=values, target=target)

    # -- warm start ----------------------------------------------------------------------------------------------------

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """See `Searcher.add_evaluated_point`. It waits for the space."""
        number = finite_number(value)
        if error or number is None:
            return
        require_mode(self)
        if self._domains is None:
            self._later.append((dict(parameters), -self._loss(number)))
        else:
            self._register(self._values_of(parameters), -self._loss(number))

    # -- state ---------------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """A new optimizer learns from the known points, and gets the old one's generator."""
        random_state = None
        if self._optimizer is not None:
            random_state = self._optimizer._random_state
        return {**super().get_state(), "random_state": random_state}

    def set_state(self, state: dict[str, Any]) -> None:
        state = dict(state)
        random_state = state.pop("random_state")
        super().set_state(state)
        self._optimizer = None
        if random_state is not None:
            self._ready()._random_state.set_state(random_state.get_state())

    # -- within --------------------------------------------------------------------------------------------------------

    def _ready(self) -> Any:
        """The package's optimizer; None for a space with only one configuration."""
        self._check_ready(self._domains is not None)
        bounds = self._bounds()
        if self._optimizer is None and bounds:
            import bayes_opt
            from numpy.random import RandomState

            random_state = RandomState((self._seed or 0) % 2**32)
            self._optimizer = bayes_opt.BayesianOptimization(
                None,
                bounds,
                random_state=random_state,
                verbose=self._verbose,
                allow_duplicate_points=True,
                **self._utility_of_2(random_state),
            )
            for values, target in self._known:
                self._optimizer.register(params=values, target=target)
        return self._optimizer

    def _utility_of_1(self) -> list[Any]:
        """The utility as version 1 takes it: with each question for a suggestion."""
        import bayes_opt

        if _is_version_1():
            return [bayes_opt.UtilityFunction(**self._utility)]
        return []

    def _utility_of_2(self, random_state: Any) -> dict[str, Any]:
        """The utility as version 2 takes it: once, with the optimizer's generator."""
        if _is_version_1():
            return {}
        from bayes_opt import acquisition

        judges = {
            "ucb": (acquisition.UpperConfidenceBound, "kappa"),
            "ei": (acquisition.ExpectedImprovement, "xi"),
            "poi": (acquisition.ProbabilityOfImprovement, "xi"),
        }
        judge, name = judges[self._utility["kind"]]
        options = {name: self._utility[name]}
        if metadata.version("bayesian-optimization").startswith("2."):
            options["random_state"] = random_state
        return {"acquisition_function": judge(**options)}

    def _bounds(self) -> dict[str, tuple[float, float]]:
        bounds = {}
        for each in parameters(self._domains or {}):
            if isinstance(each.domain, Float):  # as all are: `_set_space` has refused the others
                low = _scaled(each, each.domain.lower)
                high = _scaled(each, each.domain.upper)
                if low < high:
                    bounds[each.name] = (low, high)
        return bounds

    def _values_of(self, config: Mapping[str, Any]) -> dict[str, float]:
        """Values that are missing or outside are drawn."""
        found, _ = evaluated_values(self._domains or {}, config)
        by_name = {each.name: each for each in parameters(self._domains or {})}
        return {
            name: _scaled(by_name[name], found[name]) if name in found else self._rng.uniform(*bounds)
            for name, bounds in self._bounds().items()
        }

    def _config(self, values: Mapping[str, float], exact: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The configuration of the model's values, but with the `exact` values of parameters that have one."""

        def choose(parameter: Parameter) -> Any:
            domain: Any = parameter.domain
            if exact and parameter.name in exact:
                return exact[parameter.name]
            if parameter.name not in values:  # it has one value only
                return domain.lower
            value = values[parameter.name]
            is_log = isinstance(sampler_and_step(domain)[0], LogUniform)
            return quantized(domain, math.exp(value) if is_log else value)

        config: dict[str, Any] = draw(self._domains, choose)
        return config


def _is_version_1() -> bool:
    return importlib.util.find_spec("bayes_opt.acquisition") is None


def _scaled(parameter: Parameter, value: float) -> float:
    if isinstance(sampler_and_step(parameter.domain)[0], LogUniform):
        return math.log(value)
    return float(value)
