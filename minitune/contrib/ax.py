"""AxSearch: Ax's Bayesian optimisation. Needs `ax-platform` >= 1.3 (the extra `ax`).

Ax takes seconds to import, which happens when a searcher is created. Then each suggestion takes a second or more.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from minitune.base.checks import did_you_mean, require, require_flag, require_texts, shown
from minitune.base.numbers import finite_number
from minitune.base.text import warn_once
from minitune.contrib._library import RaySearcher, bounds_of, from_library, to_library, varying
from minitune.result import unflatten
from minitune.search.foreign import check_library, refuse_normal
from minitune.search.searcher import Suggestion
from minitune.space.domains import (
    Categorical,
    Float,
    LogUniform,
    choice,
    lograndint,
    loguniform,
    randint,
    sampler_and_step,
    uniform,
)
from minitune.space.parameters import Parameter, config_key, parameters, space_size
from minitune.space.tree import has_unresolved_values

logger = logging.getLogger("minitune")

_OBJECTIVE = "objective"
"""The name of the metric in Ax, which reads names as parts of a formula."""


class AxSearch(RaySearcher):
    """Searches with Ax.

    Ax learns about a trial when the trial ends; one without a value counts as failed. While Ax waits for results, it
    makes no suggestions. The search ends when every configuration of a finite space has been suggested.

    Args:
        space: This library's domains, or a list of dicts in Ax's form; by default the run's.
        points_to_evaluate: Tried first. Ax does not learn from one that violates a constraint.
        parameter_constraints: Inequalities between numbers without a step or a logarithmic scale: `"x + 2*y <= 1"`.
        outcome_constraints: Inequalities for metrics that trials report: `"size <= 100"`. Ax does not learn from points
            that were evaluated elsewhere.
        ax_client: A configured `ax.api.client.Client`, which determines space, direction and constraints.
        **ax_kwargs: Arguments of Ax's `configure_generation_strategy`, `random_seed`, `verbose_logging`, and those of
            earlier versions.

    Raises:
        ImportError: If Ax is not installed.
        ValueError: If an argument is invalid, or Ax cannot search the space.
    """

    _STATE = ("_client", "_live", "_attached", "_points", "_seed", "_rng", "_metric", "_mode")

    def __init__(
        self,
        space: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        parameter_constraints: Sequence[str] | None = None,
        outcome_constraints: Sequence[str] | None = None,
        ax_client: Any = None,
        **ax_kwargs: Any,
    ):
        storage = logging.getLogger("ax.storage.sqa_store.with_db_settings_base")
        storage.addFilter(_nothing)  # it logs a message when it is imported
        try:
            check_library(self, "ax.api.client", "ax-platform>=1.3")
        finally:
            storage.removeFilter(_nothing)
        self._is_verbose = ax_kwargs.pop("verbose_logging", False)
        require_flag("verbose_logging", self._is_verbose)
        old = {name: ax_kwargs.pop(name) for name in self.OLD_KEYWORDS if name in ax_kwargs}
        super().__init__(metric, mode, points_to_evaluate, ax_kwargs.pop("random_seed", None), old)
        constraints = {"parameter_constraints": parameter_constraints, "outcome_constraints": outcome_constraints}
        for name, given in constraints.items():
            require_texts(name, given or ())
        _check_options(ax_kwargs)
        if ax_client is not None:
            _check_client(ax_client)
            others = {
                "space": space,
                "mode": mode,
                "points_to_evaluate": points_to_evaluate,
                **constraints,
                **ax_kwargs,
            }
            for name, given in others.items():
                require(not given, f"{name}: not given, as ax_client has its own", given)
        self._constraints = {name: list(given or ()) for name, given in constraints.items()}
        self._options = ax_kwargs
        self._client = ax_client
        self._live: dict[str, int] = {}
        self._attached: set[str] = set()
        self._has_own_space = bool(space) or ax_client is not None
        if space:
            self._set_space(_as_domains(space))

    def _set_space(self, space: dict[str, Any]) -> None:
        refuse_normal(space, "Ax")
        super()._set_space(space)
        self._client = None

    # -- the loop ------------------------------------------------------------------------------------------------

    def suggest(self, trial_id: str) -> Suggestion:
        """See `Searcher.suggest`. Returns None while Ax waits for results."""
        client = self._ready()
        if client is None:
            return self._configured({})
        if self._points:
            point = self._points.pop(0)
            return self._attach(self._filled(point), trial_id)
        if self._domains is not None and len(self._attached) >= space_size(self._domains):
            logger.warning("AxSearch has suggested each of the %d configurations, so it ends", len(self._attached))
            return self.FINISHED  # Ax would search for another configuration for a minute
        from ax.exceptions.core import DataRequiredError, SearchSpaceExhausted
        from ax.exceptions.generation_strategy import MaxParallelismReachedException

        try:
            with self._quiet():
                trials = client.get_next_trials(max_trials=1)
        except SearchSpaceExhausted:
            return self.FINISHED
        except (DataRequiredError, MaxParallelismReachedException):
            if not self._live:  # no trial is running, so no result can change this
                raise
            return None
        for index, values in trials.items():
            self._live[trial_id] = index
            if self._domains is None:
                return unflatten(dict(values))
            config = self._configured(from_library(self._domains, values))
            self._attached.add(config_key(config))
            return config
        return None

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        index = self._live.pop(trial_id, None)
        if index is not None:
            self._end(index, {} if error or result is None else {**result, _OBJECTIVE: self._value_of(result)})

    def _learn(self, config: Mapping[str, Any], value: float | None) -> None:
        if self._ready() is not None:
            self._attach(self._filled(config), "")
            index = self._live.pop("", None)
            if index is not None:
                self._end(index, {} if value is None else {_OBJECTIVE: value})

    def _attach(self, values: dict[str, Any], trial_id: str) -> dict[str, Any]:
        """The configuration has the given values unchanged; Ax gets rounded ones."""
        config = self._configured(values)
        self._attached.add(config_key(config))
        try:
            with self._quiet():
                self._live[trial_id] = self._client.attach_trial(to_library(self._domains, values))
        except ValueError as error:  # it violates a constraint
            warn_once(
                f"AxSearch: Ax does not learn from the point {shown(config)}, nor from others of this kind: {error} "
                "(logged once)",
                about="AxSearch point",
            )
        return config

    def _end(self, index: int, metrics: Mapping[str, Any]) -> None:
        """A trial that lacks one of the metrics has failed."""
        needed = self._client._experiment.optimization_config.metric_names
        found = {}
        for name in needed:
            value = finite_number(metrics.get(name))
            if value is not None:
                found[name] = float(value)
        missing = sorted(set(needed) - set(found))
        if metrics and missing and missing != [_OBJECTIVE]:
            names = ", ".join(missing)
            warn_once(
                f"AxSearch counts trials as failed that do not report {names}, which Ax needs for its objective or its "
                "constraints (logged once)",
                about=f"AxSearch {names}",
            )
        with self._quiet():
            if missing:
                self._client.mark_trial_failed(trial_index=index)
            else:
                self._client.complete_trial(trial_index=index, raw_data=found)

    # -- within --------------------------------------------------------------------------------------------------

    def _ready(self) -> Any:
        """Ax's client; None if the space has no parameters."""
        if self._client is not None:
            return self._client
        self._check_ready(self._domains is not None)
        nodes = [_node(each) for each in varying(self._domains)]
        if nodes:
            self._client = self._new_client(nodes)
        return self._client

    def _new_client(self, nodes: list[Any]) -> Any:
        from ax.api.client import Client
        from ax.exceptions.core import AxError

        if self._seed is None:
            seed = self._rng.getrandbits(31)
        else:
            seed = self._seed % 2**31
        client = Client(random_seed=seed)
        if self._mode == "max":
            objective = _OBJECTIVE
        else:
            objective = f"-{_OBJECTIVE}"
        try:
            with self._quiet():
                client.configure_experiment(nodes, parameter_constraints=self._constraints["parameter_constraints"])
                for constraint in client._experiment.search_space.parameter_constraints:
                    _check_constrained(parameters(self._domains), constraint.constraint_dict)
                client.configure_optimization(objective, outcome_constraints=self._constraints["outcome_constraints"])
                client.configure_generation_strategy(**{"initialization_random_seed": seed, **self._options})
        except (AxError, ValueError, KeyError) as error:
            raise ValueError(f"Ax refuses the search space, its constraints or an option: {error}") from error
        return client

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Keep Ax's own handler from showing each trial."""
        handlers: Sequence[logging.Handler] = ()
        if not self._is_verbose:
            handlers = logging.getLogger("ax").handlers
        ours = [each for each in handlers if type(each) is logging.StreamHandler and each.level == logging.INFO]
        for handler in ours:
            handler.setLevel(logging.WARNING)
        try:
            yield
        finally:
            for handler in ours:
                handler.setLevel(logging.INFO)


def _nothing(record: logging.LogRecord) -> bool:
    return False


# -- arguments ---------------------------------------------------------------------------------------------------------


def _check_options(options: Mapping[str, Any]) -> None:
    """Check the options at once, not only at the first trial."""
    from ax.api.client import Client

    known = [*inspect.signature(Client.configure_generation_strategy).parameters][1:]
    for name in options:
        if name in known:
            continue
        known += ["random_seed", "verbose_logging"]
        instead = did_you_mean(name, known)
        raise TypeError(f"AxSearch takes no argument {name!r}{instead}; Ax takes {', '.join(known)}")


def _check_client(client: Any) -> None:
    """Refuse a client of another type, such as the older `AxClient`, and one without an objective."""
    from ax.api.client import Client

    if not isinstance(client, Client):
        raise ValueError(
            f"ax_client must be None or an ax.api.client.Client, but got {shown(client)}; configure a Client with "
            "configure_experiment() and configure_optimization(), or leave out ax_client and give space, metric and "
            "mode (an AxClient of ax.service is an older kind of client)"
        )
    experiment = client._maybe_experiment
    good = experiment is not None and experiment.optimization_config is not None
    require(good, "ax_client: one whose configure_experiment() and configure_optimization() were called", client)


def _check_constrained(known: list[Parameter], names: Iterable[str]) -> None:
    """Refuse a constraint on a parameter that is an index or a number of steps in Ax."""
    by_name = {each.name: each.domain for each in known}
    for name in names:
        domain = by_name[name]
        if isinstance(domain, Categorical) or sampler_and_step(domain)[1]:
            raise ValueError(
                f"{name} has categories or a step, so it cannot be part of parameter_constraints: use uniform() or "
                "randint(), or TuneConfig(constraints=[...]), which takes any function of a configuration"
            )


def _as_domains(space: Any) -> dict[str, Any]:
    """Convert a space to a dict of domains."""
    if isinstance(space, Mapping):
        require(has_unresolved_values(dict(space)), "space: None, a dict of domains or a list of Ax's dicts", space)
        return dict(space)
    is_list = isinstance(space, Sequence) and all(isinstance(each, Mapping) and "name" in each for each in space)
    require(is_list, "space: None, a dict of domains or a list of Ax's dicts", space)
    return unflatten({str(each["name"]): _as_domain(each) for each in space})


def _as_domain(parameter: Mapping[str, Any]) -> Any:
    kind = parameter.get("type")
    name = parameter["name"]
    if kind == "fixed" and "value" in parameter:
        return parameter["value"]
    if kind == "choice" and "values" in parameter:
        return choice(parameter["values"])
    bounds = parameter.get("bounds", ())
    good = kind == "range" and isinstance(bounds, Sequence) and len(bounds) == 2
    require(good, f"{name!r} in space: a dict with bounds, values or a value, as its type says", parameter)
    low, high = bounds
    usual = "float"
    if isinstance(low, int) and isinstance(high, int):
        usual = "int"
    if parameter.get("value_type", usual) == "int":
        return (lograndint if parameter.get("log_scale") else randint)(low, high + 1)
    return (loguniform if parameter.get("log_scale") else uniform)(low, high)


def _node(parameter: Parameter) -> Any:
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    name = parameter.name
    domain = parameter.domain
    bounds = bounds_of(parameter)
    if bounds is None:
        values = []
        if isinstance(domain, Categorical):
            values = list(range(len(domain)))
        return ChoiceParameterConfig(name, values, "int", is_ordered=False)
    scaling = "linear"
    if isinstance(sampler_and_step(domain)[0], LogUniform):
        scaling = "log"
    return RangeParameterConfig(name, bounds, "float" if isinstance(domain, Float) else "int", scaling=scaling)
