"""HyperOptSearch: HyperOpt's TPE. It needs `hyperopt` (the extra of that name); `TPESearch` needs no package."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from minitune.base.checks import is_real, is_whole, require
from minitune.contrib._library import RaySearcher, bounds_of, indices_of, value_of
from minitune.search.foreign import check_library, evaluated_values, unquantized
from minitune.search.searcher import Suggestion
from minitune.space.domains import Categorical, Float, LogUniform, Normal, Sampler, sampler_and_step
from minitune.space.parameters import Parameter, draw, parameters
from minitune.space.tree import has_unresolved_values


class HyperOptSearch(RaySearcher):
    """Asks HyperOpt's TPE for configurations, and tells it their results.

    Its model leaves out trials that have failed, have reported NaN, or have no value.

    Args:
        space: A dict of this library's domains, or any space of HyperOpt's own; by default the run's.
        metric: The metric to optimise; by default the run's.
        points_to_evaluate: Configurations to try first; missing values are drawn. Not with a space of HyperOpt's own.
        n_initial_points: How many configurations are drawn before the model is used.
        random_state_seed: The seed of all draws; by default the run's.
        gamma: The share of the trials that counts as good; see HyperOpt.

    Raises:
        ImportError: If HyperOpt is not installed.
        ValueError: If an argument breaks its rule, or there is a grid in the space.
    """

    _STATE = ("_trials", "_live", "_rng", "_points", "_metric", "_mode")

    def __init__(
        self,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        n_initial_points: int = 20,
        random_state_seed: int | None = None,
        gamma: float = 0.25,
        **old: Any,
    ):
        check_library(self, "hyperopt.utils", "hyperopt>=0.2.7")
        import hyperopt

        require(is_whole(n_initial_points) and n_initial_points >= 1, "n_initial_points: an int >= 1", n_initial_points)
        require(is_real(gamma) and 0 < gamma < 1, "gamma: a number with 0 < gamma < 1", gamma)
        good = random_state_seed is None or is_whole(random_state_seed)
        require(good, "random_state_seed: None or an int", random_state_seed)
        super().__init__(metric, mode, points_to_evaluate, random_state_seed, old)
        self._suggest = partial(hyperopt.tpe.suggest, n_startup_jobs=int(n_initial_points), gamma=float(gamma))
        self._trials = hyperopt.Trials()
        self._live: dict[str, int] = {}
        self._has_own_space = space is not None
        self._domain: Any = None
        if isinstance(space, Mapping) and has_unresolved_values(dict(space)):
            self._set_space(dict(space))
        elif self._has_own_space:
            require(not self._points, "points_to_evaluate: None for a space of HyperOpt's own", points_to_evaluate)
            self._domain = hyperopt.Domain(_identity, space)

    def _set_space(self, space: dict[str, Any]) -> None:
        import hyperopt

        super()._set_space(space)
        expression = [0, _expression(parameters(space), None)]  # the library needs something, also without parameters
        self._domain = hyperopt.Domain(_identity, expression)

    # -- the loop ------------------------------------------------------------------------------------------------

    def suggest(self, trial_id: str) -> Suggestion:
        import hyperopt

        self._check_ready(self._domain is not None)
        (tid,) = self._trials.new_trial_ids(1)
        if self._points or (self._domains is not None and not self._domain.params):  # the library needs a parameter
            point = self._points.pop(0) if self._points else {}
            config, values = self._config(self._known(point))
            self._insert(tid, values)
        else:
            self._trials.refresh()
            (document,) = self._suggest([tid], self._domain, self._trials, self._rng.getrandbits(31))
            self._trials.insert_trial_doc(document)
            values = hyperopt.base.spec_from_misc(document["misc"])
            if self._domains is not None:
                config = self._config(values)[0]
            else:
                config = hyperopt.space_eval(self._domain.expr, values)
            self._trials.refresh()
        self._live[trial_id] = tid
        return config

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        tid = self._live.pop(trial_id, None)
        if tid is None:
            return
        document = next(each for each in reversed(self._trials.trials) if each["tid"] == tid)
        self._end(document, None if error else self._value_of(result))
        self._trials.refresh()

    def _learn(self, config: Mapping[str, Any], value: float | None) -> None:
        (tid,) = self._trials.new_trial_ids(1)
        self._end(self._insert(tid, self._known(config)), value)
        self._trials.refresh()

    # -- within ----------------------------------------------------------------------------------------------------

    def _known(self, config: Mapping[str, Any]) -> dict[str, Any]:
        space = self._domains or {}
        found, _ = evaluated_values(space, config)
        return {each.name: unquantized(each, found[each.name]) for each in parameters(space) if each.name in found}

    def _config(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        whole: dict[str, Any] = {}

        def choose(parameter: Parameter) -> Any:
            drawn = parameter.name not in values
            if drawn:
                value = unquantized(parameter, self._draw(parameter))
            else:
                value = values[parameter.name]
            whole[parameter.name] = value
            return value_of(parameter, value)

        return draw(self._domains, choose), whole

    def _insert(self, tid: int, values: Mapping[str, Any]) -> Any:
        import hyperopt

        labels = self._domain.params
        misc = {
            "tid": tid,
            "cmd": self._domain.cmd,
            "workdir": self._domain.workdir,
            "idxs": {label: [tid] if label in values else [] for label in labels},
            "vals": {label: [values[label]] if label in values else [] for label in labels},
        }
        (document,) = self._trials.new_trial_docs([tid], [None], [{"status": hyperopt.STATUS_NEW}], [misc])
        self._trials.insert_trial_doc(document)
        self._trials.refresh()
        return self._trials.trials[-1]

    def _end(self, document: Any, value: float | None) -> None:
        import hyperopt

        document["refresh_time"] = hyperopt.utils.coarse_utcnow()
        if value is not None:
            document["state"] = hyperopt.JOB_STATE_DONE
            document["result"] = {"loss": self._loss(value), "status": hyperopt.STATUS_OK}
        else:
            document["state"] = hyperopt.JOB_STATE_ERROR
            document["result"] = {"status": hyperopt.STATUS_FAIL}


def _identity(space: Any) -> Any:
    return space


# -- parameters in HyperOpt's terms --------------------------------------------------------------------------------


def _expression(all_of_them: Sequence[Parameter], parent: tuple[str, int] | None) -> dict[str, Any]:
    """The parameters below a category, or of the root, by their names.

    HyperOpt cannot draw a parameter with one value.
    """
    nodes = {}
    for each in all_of_them:
        bounds = bounds_of(each)
        if each.parent == parent and (bounds is None or bounds[0] != bounds[1]):
            nodes[each.name] = _node(each, all_of_them)
    return nodes


def _node(parameter: Parameter, all_of_them: Sequence[Parameter]) -> Any:
    from hyperopt import hp

    name = parameter.name
    domain = parameter.domain
    indices = indices_of(parameter)
    if isinstance(domain, Categorical) and indices is None:
        options = [{"index": index, **_expression(all_of_them, (name, index))} for index in range(len(domain))]
        return hp.choice(name, options)
    sampler, q = sampler_and_step(domain)
    if indices is not None:
        return _number_node(name, sampler, indices[0] - 0.5, indices[1] + 0.5, 1)  # each number is a cell of width 1
    low, high = (domain.lower, domain.upper) if isinstance(domain, Float) else (0.0, 0.0)
    return _number_node(name, sampler, low, high, q)


def _number_node(name: str, sampler: Sampler, low: float, high: float, q: float | None) -> Any:
    """A number between two bounds, or from a normal distribution, rounded to multiples of `q` unless that is None."""
    from hyperopt import hp

    if isinstance(sampler, Normal):
        if q:
            return hp.qnormal(name, sampler.mean, sampler.sd, q)
        return hp.normal(name, sampler.mean, sampler.sd)
    if isinstance(sampler, LogUniform):
        low = math.log(low)
        high = math.log(high)
        if q:
            return hp.qloguniform(name, low, high, q)
        return hp.loguniform(name, low, high)
    if q:
        return hp.quniform(name, low, high, q)
    return hp.uniform(name, low, high)
