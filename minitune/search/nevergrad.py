"""NevergradSearch: the optimizers of Nevergrad. It needs `nevergrad` (the extra of that name)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minitune.base.checks import require
from minitune.result import unflatten
from minitune.search.foreign import (
    SpaceSearcher,
    check_library,
    counted,
    indices_of,
    quantized,
    refuse_normal,
    usable,
)
from minitune.search.searcher import Suggestion, no_space, require_mode
from minitune.space.domains import Categorical, Float, LogUniform, sampler_and_step
from minitune.space.parameters import Parameter, parameters
from minitune.space.tree import has_unresolved_values


class NevergradSearch(SpaceSearcher):
    """Asks an optimizer of Nevergrad for configurations, and tells it their values.

    The optimizer is not told of trials without a value. Most optimizers can do without these.

    Args:
        optimizer: A class of optimizers, such as `nevergrad.optimizers.OnePlusOne`, which is the default, a configured
            one, or an optimizer object, which has a space of its own.
        optimizer_kwargs: Arguments of the class, such as `{"budget": 100}`.
        space: The search space, if it is not that of the run: a dict of this library's domains or a parametrization of
            Nevergrad's; for an optimizer object None, or a list with the names of its parameters.
        metric: Name of the result to optimise; by default the run's.
        mode: `"min"` or `"max"`.
        points_to_evaluate: Configurations that are tried first; values that they lack are drawn. Only for domains.
        **old: Arguments of earlier versions: `max_concurrent`, `reward_attr`, `use_early_stopped_trials`.

    Raises:
        ImportError: If Nevergrad is not installed.
        ValueError: If an argument breaks its rule, or Nevergrad cannot search the space.
    """

    def __init__(
        self,
        optimizer: Any = None,
        optimizer_kwargs: Mapping[str, Any] | None = None,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        **old: Any,
    ):
        check_library(self, "nevergrad", "nevergrad")
        import nevergrad as ng

        super().__init__(metric, mode, points_to_evaluate, old=old)
        good = optimizer_kwargs is None or isinstance(optimizer_kwargs, Mapping)
        require(good, "optimizer_kwargs: None or a dict", optimizer_kwargs)
        is_object = isinstance(optimizer, ng.optimizers.base.Optimizer)
        require(optimizer is None or is_object or callable(optimizer), "optimizer: one of nevergrad's", optimizer)
        require(
            not (is_object and optimizer_kwargs), "optimizer_kwargs: None for an optimizer object", optimizer_kwargs
        )
        self._factory = None if is_object else optimizer or ng.optimizers.OnePlusOne
        self._kwargs = dict(optimizer_kwargs or {})
        self._optimizer = optimizer if is_object else None
        self._names = list(space) if is_object and space is not None else None
        self._live: dict[str, Any] = {}
        self._parametrization: Any = None
        if not is_object and isinstance(space, Mapping) and has_unresolved_values(dict(space)):
            self._set_space(dict(space))
        elif not is_object and space is not None:
            good = isinstance(space, ng.p.Parameter)
            require(good, "space: None, a dict of domains or a parametrization of Nevergrad's", space)
            self._parametrization = space
        self._has_own_space = is_object or self._parametrization is not None
        good = not self._points or not self._has_own_space or self._space is not None
        require(good, "points_to_evaluate: None for a space of Nevergrad's own", points_to_evaluate)

    def _set_space(self, space: dict[str, Any]) -> None:
        import nevergrad as ng

        refuse_normal(space, "Nevergrad")
        super()._set_space(space)
        found = {each.name: _node(each) for each in parameters(space)}
        self._parametrization = ng.p.Dict(**{name: node for name, node in found.items() if node is not None})

    # -- the loop ------------------------------------------------------------------------------------------------

    def suggest(self, trial_id: str) -> Suggestion:
        """See `Searcher.suggest`.

        Raises:
            ValueError: If there is no space or mode.
        """
        optimizer = self._ready()
        if optimizer is None:
            return self._configured({})
        values: dict[str, Any] | None
        if self._points:  # as given: the library's value is only close to it
            values = self._filled(self._points.pop(0))
            candidate = optimizer.parametrization.spawn_child(new_value=_to_library(self._space, values))
        else:
            candidate = optimizer.ask()
            values = None if self._space is None else _from_library(self._space, candidate.value)
        self._live[trial_id] = candidate
        if values is not None:
            return self._configured(values)
        if self._names is not None:
            return unflatten(dict(zip(self._names, candidate.args[0], strict=True)))
        return unflatten(candidate.kwargs or candidate.value)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """See `Searcher.on_trial_complete`."""
        candidate, value = self._live.pop(trial_id, None), self._value_of(result)
        if candidate is not None and not error and usable(value):
            self._ready().tell(candidate, self._loss(value))

    # -- warm start ----------------------------------------------------------------------------------------------

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """See `Searcher.add_evaluated_point`. The optimizer is not told of failed configurations.

        Raises:
            ValueError: If there is no space of domains yet, or no mode.
        """
        optimizer = self._ready()
        if self._space is None:
            raise ValueError(
                "NevergradSearch can learn from points only in a space of domains, not in a space of Nevergrad"
            )
        if optimizer is not None and not error and usable(value):
            values = _to_library(self._space, self._filled(parameters))
            candidate = optimizer.parametrization.spawn_child(new_value=values)
            optimizer.tell(candidate, self._loss(value))

    # -- state -----------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """See `Searcher.get_state`. It has the optimizer, but not the space and the arguments."""
        return {name: getattr(self, name) for name in ("_optimizer", "_live", "_rng", "_points", "_metric", "_mode")}

    # -- within ----------------------------------------------------------------------------------------------------

    def _ready(self) -> Any:
        """The optimizer; None for a space with only one configuration, which it could not search."""
        if self._parametrization is None and self._optimizer is None:
            raise no_space(self)
        require_mode(self)
        if self._optimizer is None and self._factory is not None and self._parametrization.dimension:
            import numpy

            self._parametrization.random_state = numpy.random.RandomState(self._rng.getrandbits(32))
            self._optimizer = self._factory(self._parametrization, **self._kwargs)
        return self._optimizer


# -- parameters in Nevergrad's terms -------------------------------------------------------------------------------


def _node(parameter: Parameter) -> Any:
    """Nevergrad's parameter; None for one that has one value only."""
    from nevergrad import p

    domain, indices = parameter.domain, indices_of(parameter)
    if isinstance(domain, Categorical) and indices is None:
        return p.Choice(list(range(len(domain)))) if len(domain) > 1 else None
    low, high = (domain.lower, domain.upper) if isinstance(domain, Float) else indices or (0, 0)
    if low == high:
        return None
    is_log = isinstance(sampler_and_step(domain)[0], LogUniform)
    number = p.Log(lower=low, upper=high) if is_log else p.Scalar(lower=low, upper=high)
    return number if isinstance(domain, Float) else number.set_integer_casting()


def _to_library(space: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Nevergrad's values of the parameters that it knows; for a choice the index of the category."""
    return {each.name: counted(each, values[each.name]) for each in parameters(space) if _node(each) is not None}


def _from_library(space: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters' values of Nevergrad's; for a choice the index of the category."""
    found: dict[str, Any] = {}
    for each in parameters(space):
        if each.name in values:
            value, domain, indices = values[each.name], each.domain, indices_of(each)
            if indices is not None:
                value = min(max(int(value), indices[0]), indices[1])
            found[each.name] = int(value) if isinstance(domain, Categorical) else quantized(domain, value)
    return found
