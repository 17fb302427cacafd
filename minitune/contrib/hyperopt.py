"""HyperOptSearch: HyperOpt's TPE. It needs `hyperopt` (the extra of that name); `TPESearch` needs no package."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from minitune.base.checks import is_real, is_whole, require, shown
from minitune.contrib._library import RaySearcher, bounds_of, indices_of, value_of
from minitune.search.foreign import check_library, evaluated_values, unquantized
from minitune.search.searcher import Suggestion
from minitune.space.domains import Categorical, Float, Integer, LogUniform, Normal, Sampler, is_same, sampler_and_step
from minitune.space.parameters import Parameter, draw, is_searchable, parameters
from minitune.space.tree import assign_value, copy_tree, find_unresolved, has_unresolved_values, path_text


class HyperOptSearch(RaySearcher):
    """Asks HyperOpt's TPE for configurations, and tells it their results.

    Its model leaves out trials that have failed, have reported NaN, or have no value.

    Args:
        space: A dict of this library's domains, or any space of HyperOpt's own; by default the run's.
        metric: The metric to optimise; by default the run's.
        points_to_evaluate: Configurations to try first; missing values are drawn. In HyperOpt's own space, keys are
            labels, and a choice's value is a plain category or an index.
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
            self._domain = hyperopt.Domain(_identity, space)
            for point in self._points:
                self._given_values(point)  # refuses what is not in the space

    def _set_space(self, space: dict[str, Any]) -> None:
        import hyperopt

        super()._set_space(space)
        expression = [0, _expression(parameters(space), None)]  # the library needs something, also without parameters
        self._domain = hyperopt.Domain(_identity, expression)

    @staticmethod
    def convert_search_space(spec: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        """This library's domains as a space of HyperOpt's own, which can be changed and passed as `space`: a new dict
        whose labels are the paths of the parameters, such as `"model/depth"`, below `prefix`.

        Raises:
            ValueError: If there is a grid, a function, or another domain that HyperOpt cannot draw from.
        """
        converted: dict[str, Any] = _converted(dict(spec), prefix)
        return converted

    # -- the loop ------------------------------------------------------------------------------------------------

    def suggest(self, trial_id: str) -> Suggestion:
        import hyperopt

        self._check_ready(self._domain is not None)
        (tid,) = self._trials.new_trial_ids(1)
        if self._points and self._domains is None:
            given = self._given_values(self._points.pop(0))
            values = dict(self._active(self._domain.expr, given))
            config = self._evaluated(values)
            self._insert(tid, values)
        elif self._points or (self._domains is not None and not self._domain.params):  # the library needs a parameter
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
                config = self._evaluated(values)
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

    def _evaluated(self, values: Mapping[str, Any]) -> dict[str, Any]:
        import hyperopt

        config: dict[str, Any] = hyperopt.space_eval(self._domain.expr, values)
        return config

    def _given_values(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """The values by label that a point gives in HyperOpt's own space; for a choice the index."""
        from hyperopt.pyll import dfs

        unknown = [label for label in point if label not in self._domain.params]
        if unknown:
            known = ", ".join(self._domain.params)
            raise ValueError(f"every key of a point must be one of the labels {known}, but got {unknown[0]!r}")
        values = dict(point)
        for node in dfs(self._domain.expr):
            if node.name == "switch":
                choice, *options = node.pos_args
                label = choice.pos_args[0].obj
                plain = {index: option.obj for index, option in enumerate(options) if option.name == "literal"}
                same = [index for index, category in plain.items() if is_same(category, values.get(label))]
                if label in values and same:
                    values[label] = same[0]
        for label, value in values.items():
            good = is_real(value) and not math.isnan(value)
            require(good, f"{label!r} of a point: a number, or a category of the choice", value)
        return values

    def _active(self, node: Any, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """The labels that an expression uses, with their values; missing ones are drawn."""
        if node.name == "hyperopt_param":
            label = node.pos_args[0].obj
            distribution = node.pos_args[1]
            if label in given:
                yield label, given[label]
            else:
                import numpy  # which HyperOpt needs as well
                from hyperopt.pyll import stochastic

                generator = numpy.random.default_rng(self._rng.getrandbits(63))
                yield label, stochastic.sample(distribution, generator).item()
            return
        parts = [*node.pos_args, *(part for _, part in node.named_args)]
        if node.name == "switch":
            ((label, index),) = self._active(parts[0], given)
            options = parts[1:]
            require(index in range(len(options)), f"{label!r} of a point: an index below {len(options)}", index)
            yield label, index
            parts = [options[int(index)]]
        for part in parts:
            yield from self._active(part, given)

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


def _converted(space: Any, label: str) -> Any:
    """See `HyperOptSearch.convert_search_space`; `space` may be any part of a space."""
    from hyperopt import hp
    from hyperopt.pyll import scope

    space = copy_tree(space)
    for path, domain in list(find_unresolved(space)):
        name = "/".join(filter(None, (label, path_text(path))))
        if domain.is_grid() or not is_searchable(domain):
            raise ValueError(f"parameter {name!r} must be of a kind that HyperOpt can draw, but got {shown(domain)}")
        sampler, q = sampler_and_step(domain)
        if isinstance(domain, Categorical):
            node = hp.choice(
                name, [_converted(each, f"{name}/{index}") for index, each in enumerate(domain.categories)]
            )
        elif isinstance(domain, Integer):
            first, stop = domain.index_range(int(q or 1))
            node = scope.int(_number_node(name, sampler, first - 0.5, stop - 0.5, 1))
            if q:
                node = node * int(q)
        else:
            is_single = domain.lower == domain.upper  # which HyperOpt cannot draw
            if is_single:
                node = domain.lower
            else:
                node = _number_node(name, sampler, domain.lower, domain.upper, q)
        space = assign_value(space, path, node)
    return space
