"""Search spaces in Optuna's terms: each kind of space asks a trial of Optuna's for values, and names what is known."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from minitune._checks import shown
from minitune._samplers import LogUniform, Normal, Quantized
from minitune.result import flatten, unflatten
from minitune.search._evaluated import evaluated_values, refuse_unknown
from minitune.search._foreign import LISTED, quantized
from minitune.search.parameters import Parameter, draw, parameters
from minitune.search.searcher import TriedConfig
from minitune.space import Categorical, Float, Integer

_PLAIN = (bool, int, float, str)


class OptunaSpace(Protocol):
    """A search space, as `OptunaSearch` uses it."""

    def suggest(self, trial: Any) -> dict[str, Any]:
        """The configuration for which a trial of Optuna's is asked."""
        ...

    def known(self, config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What Optuna may be told of a configuration: values, and their distributions, by its names for them.

        Raises:
            ValueError: See `evaluated_values`.
        """
        ...


class DomainSpace:
    """A space of this library's domains.

    Args:
        space: The space.

    Raises:
        ValueError: If Optuna cannot search it: there is a grid, or a normal distribution.
    """

    def __init__(self, space: dict[str, Any]):
        self._space = space
        for parameter in parameters(space):
            sampler = parameter.domain.get_sampler()
            sampler = sampler.get_sampler() if isinstance(sampler, Quantized) else sampler
            if isinstance(sampler, Normal):
                raise ValueError(
                    f"Optuna has no normal distribution, but parameter {parameter.name!r} has one; use uniform(), or "
                    "TPESearch, which has"
                )

    def suggest(self, trial: Any) -> dict[str, Any]:
        """See `OptunaSpace.suggest`."""
        config: dict[str, Any] = draw(self._space, lambda parameter: _ask_for(trial, parameter))
        return config

    def known(self, config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """See `OptunaSpace.known`. Values that a parameter cannot have are left out, with a warning."""
        found, _ = evaluated_values(self._space, config)
        distributions = {each.name: _distribution(each) for each in parameters(self._space) if each.name in found}
        return {
            name: distribution.choices[found[name]] if hasattr(distribution, "choices") else found[name]
            for name, distribution in distributions.items()
        }, distributions


class DistributionSpace:
    """A dict of Optuna's own distributions, nested or with `/` in its keys; anything else in it is a constant.

    Args:
        space: The dict.
    """

    def __init__(self, space: Mapping[str, Any]):
        from optuna.distributions import BaseDistribution

        given = flatten(space)
        self._distributions = {name: each for name, each in given.items() if isinstance(each, BaseDistribution)}
        self._constants = {name: each for name, each in given.items() if name not in self._distributions}

    def suggest(self, trial: Any) -> dict[str, Any]:
        """See `OptunaSpace.suggest`."""
        return unflatten({**self._constants, **{name: _ask(trial, name, d) for name, d in self._distributions.items()}})

    def known(self, config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """See `OptunaSpace.known`."""
        given = flatten(config)
        if not isinstance(config, TriedConfig):
            refuse_unknown(self._distributions | self._constants, given)
        found = {name: each for name, each in self._distributions.items() if name in given}
        for name, each in found.items():
            try:
                each.to_internal_repr(given[name])
            except ValueError as error:
                raise ValueError(f"{name}={shown(given[name])} is no value of {each}") from error
        return {name: given[name] for name in found}, found


class DefineByRunSpace:
    """A function of a trial of Optuna's, which asks it for values; what it returns is constant.

    Args:
        define: The function.
    """

    def __init__(self, define: Callable[[Any], Any]):
        self._define = define

    def suggest(self, trial: Any) -> dict[str, Any]:
        """See `OptunaSpace.suggest`.

        Raises:
            TypeError: If the function returns something else than a dict with names as keys, or None.
        """
        listener = _Listener(trial)
        constants = self._define(listener)
        good = constants is None or (isinstance(constants, dict) and all(isinstance(name, str) for name in constants))
        if not good:
            raise TypeError(
                "a define-by-run function must return None or a dict of constants by name, but returned "
                f"{shown(constants)}"
            )
        return unflatten({**listener.values, **(constants or {})})

    def known(self, config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """See `OptunaSpace.known`. The function is called once.

        Raises:
            ValueError: If it asks for a value that is not there.
        """
        from optuna.trial import FixedTrial

        fixed = FixedTrial(flatten(config))
        self._define(fixed)
        return fixed.params, fixed.distributions


class _Listener:
    """Notes what a trial of Optuna's is asked for, and what it answers."""

    def __init__(self, trial: Any):
        self._trial = trial
        self.values: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._trial, name)
        if not name.startswith("suggest_"):
            return member

        @functools.wraps(member)
        def ask(*args: Any, **kwargs: Any) -> Any:
            value = member(*args, **kwargs)
            self.values[inspect.signature(member).bind_partial(*args, **kwargs).arguments["name"]] = value
            return value

        return ask


def _distribution(parameter: Parameter) -> Any:
    """Optuna's distribution of a parameter. It has no steps for logarithmic ones: those are rounded afterwards."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    domain = parameter.domain
    if isinstance(domain, Categorical):
        if len(domain) > LISTED:
            return IntDistribution(0, len(domain) - 1)
        return CategoricalDistribution(_choices(domain))
    sampler = domain.get_sampler()
    q = sampler.q if isinstance(sampler, Quantized) else None
    log = isinstance(sampler.get_sampler() if isinstance(sampler, Quantized) else sampler, LogUniform)
    if isinstance(domain, Float):
        return FloatDistribution(domain.lower, domain.upper, log=log, step=None if log else q)
    if q is None:
        return IntDistribution(domain.lower, domain.upper - 1, log=log)
    first, stop = (index * int(q) for index in domain.index_range(int(q)))
    return IntDistribution(first, stop - int(q), log=log, step=1 if log else int(q))


def _choices(domain: Categorical) -> list[Any]:
    """The categories where Optuna can keep and compare them, else their indices."""
    categories = list(domain.categories)
    plain = all(each is None or type(each) in _PLAIN for each in categories)
    if plain and len(set(categories)) == len(categories) and not any(each != each for each in categories):
        return categories
    return list(range(len(categories)))


def _ask_for(trial: Any, parameter: Parameter) -> Any:
    """A parameter's value; for a choice the index of the category."""
    domain, distribution = parameter.domain, _distribution(parameter)
    value = _ask(trial, parameter.name, distribution)
    if isinstance(domain, Categorical):
        return distribution.choices.index(value) if hasattr(distribution, "choices") else value
    sampler = domain.get_sampler()
    if isinstance(sampler, Quantized):
        steps = value if isinstance(domain, Float) else round(value / sampler.q)
        return quantized(domain, steps)
    return value if isinstance(domain, Integer) else min(max(value, domain.lower), domain.upper)


def _ask(trial: Any, name: str, distribution: Any) -> Any:
    """Ask a trial of Optuna's for a value."""
    if hasattr(distribution, "choices"):
        return trial.suggest_categorical(name, distribution.choices)
    ask = trial.suggest_int if type(distribution).__name__.startswith("Int") else trial.suggest_float
    step = {} if distribution.log or distribution.step is None else {"step": distribution.step}
    return ask(name, distribution.low, distribution.high, log=distribution.log, **step)
