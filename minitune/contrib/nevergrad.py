"""NevergradSearch: the optimizers of Nevergrad. It needs `nevergrad` (the extra of that name)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minitune.base.checks import require
from minitune.contrib._library import RaySearcher, bounds_of, from_library, to_library, varying
from minitune.result import unflatten
from minitune.search.foreign import check_library, refuse_normal
from minitune.search.searcher import Suggestion
from minitune.space.domains import Categorical, Float, LogUniform, sampler_and_step
from minitune.space.parameters import Parameter
from minitune.space.tree import has_unresolved_values


class NevergradSearch(RaySearcher):
    """Asks an optimizer of Nevergrad for configurations, and tells it their values.

    The optimizer is not told of trials without a value.

    Args:
        optimizer: A class such as `nevergrad.optimizers.OnePlusOne` (the default), a configured one, or an object with
            a space of its own.
        optimizer_kwargs: Arguments of the class, such as `{"budget": 100}`.
        space: A dict of this library's domains or Nevergrad's parametrization, by default the run's; for an optimizer
            object None, or a list with the names of its parameters.

    Raises:
        ImportError: If Nevergrad is not installed.
        ValueError: If an argument breaks its rule, or Nevergrad cannot search the space.
    """

    _STATE = ("_optimizer", "_live", "_rng", "_points", "_metric", "_mode")

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
        check_library(self, "nevergrad", "nevergrad>=1.0")
        import nevergrad as ng

        super().__init__(metric, mode, points_to_evaluate, None, old)
        good = optimizer_kwargs is None or isinstance(optimizer_kwargs, Mapping)
        require(good, "optimizer_kwargs: None or a dict", optimizer_kwargs)
        is_object = isinstance(optimizer, ng.optimizers.base.Optimizer)
        require(optimizer is None or is_object or callable(optimizer), "optimizer: one of nevergrad's", optimizer)
        require(
            not (is_object and optimizer_kwargs), "optimizer_kwargs: None for an optimizer object", optimizer_kwargs
        )
        if is_object:
            self._factory = None
        else:
            self._factory = optimizer or ng.optimizers.OnePlusOne
        self._kwargs = dict(optimizer_kwargs or {})
        self._optimizer = None
        if is_object:
            self._optimizer = optimizer
        self._names = None
        if is_object and space is not None:
            self._names = list(space)
        self._live: dict[str, Any] = {}
        self._parametrization: Any = None
        if not is_object and isinstance(space, Mapping) and has_unresolved_values(dict(space)):
            self._set_space(dict(space))
        elif not is_object and space is not None:
            good = isinstance(space, ng.p.Parameter)
            require(good, "space: None, a dict of domains or a parametrization of Nevergrad's", space)
            self._parametrization = space
        self._has_own_space = is_object or self._parametrization is not None
        good = not self._points or not self._has_own_space or self._domains is not None
        require(good, "points_to_evaluate: None for a space of Nevergrad's own", points_to_evaluate)

    def _set_space(self, space: dict[str, Any]) -> None:
        import nevergrad as ng

        refuse_normal(space, "Nevergrad")
        super()._set_space(space)
        self._parametrization = ng.p.Dict(**{each.name: _node(each) for each in varying(space)})

    # -- the loop ------------------------------------------------------------------------------------------------

    def suggest(self, trial_id: str) -> Suggestion:
        optimizer = self._ready()
        if optimizer is None:
            return self._configured({})
        values: dict[str, Any] | None
        if self._points:  # as given: the library's value is only close to it
            values = self._filled(self._points.pop(0))
            candidate = optimizer.parametrization.spawn_child(new_value=to_library(self._domains, values))
        else:
            candidate = optimizer.ask()
            values = None
            if self._domains is not None:
                values = from_library(self._domains, candidate.value)
        self._live[trial_id] = candidate
        if values is not None:
            return self._configured(values)
        if self._names is not None:
            return unflatten(dict(zip(self._names, candidate.args[0], strict=True)))
        return unflatten(candidate.kwargs or candidate.value)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        candidate = self._live.pop(trial_id, None)
        value = self._value_of(result)
        if candidate is not None and not error and value is not None:
            self._ready().tell(candidate, self._loss(value))

    def _learn(self, config: Mapping[str, Any], value: float | None) -> None:
        optimizer = self._ready()
        if optimizer is not None and value is not None:
            values = to_library(self._domains, self._filled(config))
            optimizer.tell(optimizer.parametrization.spawn_child(new_value=values), self._loss(value))

    def _ready(self) -> Any:
        """The optimizer; None for a space with only one configuration."""
        self._check_ready(self._parametrization is not None or self._optimizer is not None)
        if self._optimizer is None and self._factory is not None and self._parametrization.dimension:
            import numpy

            self._parametrization.random_state = numpy.random.RandomState(self._rng.getrandbits(32))
            self._optimizer = self._factory(self._parametrization, **self._kwargs)
        return self._optimizer


def _node(parameter: Parameter) -> Any:
    from nevergrad import p

    domain = parameter.domain
    bounds = bounds_of(parameter)
    if bounds is None:
        if isinstance(domain, Categorical):
            return p.Choice(list(range(len(domain))))
        return None
    is_log = isinstance(sampler_and_step(domain)[0], LogUniform)
    number = (p.Log if is_log else p.Scalar)(lower=bounds[0], upper=bounds[1])
    if isinstance(domain, Float):
        return number
    return number.set_integer_casting()
