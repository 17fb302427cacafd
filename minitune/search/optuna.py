"""OptunaSearch: the samplers of Optuna, which are told every result.

A search space comes in three forms: this library's domains, Optuna's distributions, or a define-by-run function. Optuna
is imported when the first object needs it.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

from minitune.base.checks import require, shown
from minitune.base.lazy import submodules
from minitune.base.numbers import known_number
from minitune.result import DEFAULT_METRIC, TRAINING_ITERATION, flatten, unflatten
from minitune.search.foreign import (
    LibrarySearcher,
    check_library,
    evaluated_values,
    quantized,
    refuse_normal,
    unquantized,
)
from minitune.search.searcher import Metric, Suggestion, TriedConfig, no_space, require_mode
from minitune.space.distributions import own_space
from minitune.space.domains import Categorical, Float, LogUniform, sampler_and_step
from minitune.space.parameters import Parameter, draw, parameters
from minitune.space.tree import has_unresolved_values

logger = logging.getLogger("minitune")

_PLAIN = (bool, int, float, str)
"""The types of categories, besides None, that Optuna can keep in a storage and compare."""


# -- spaces -----------------------------------------------------------------------------------------------------------


class DomainSpace:
    """A space of this library's domains.

    `suggest` makes a configuration with a trial of Optuna. `known` returns the values from which Optuna can learn, and
    their distributions, by Optuna's names.

    Raises:
        ValueError: If Optuna cannot search it: there is a grid, or a normal distribution.
    """

    def __init__(self, space: dict[str, Any]):
        refuse_normal(space, "Optuna")
        self._space = space

    def suggest(self, trial: Any) -> dict[str, Any]:
        """Make a configuration with a trial of Optuna."""

        def choose(parameter: Parameter) -> Any:
            domain = parameter.domain
            distribution = _distribution(parameter)
            value = _ask(trial, parameter.name, distribution)
            if isinstance(domain, Categorical):
                return distribution.choices.index(value)
            return quantized(domain, value if isinstance(domain, Float) else unquantized(parameter, value))

        config: dict[str, Any] = draw(self._space, choose)
        return config

    def known(self, config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Values outside of the space are left out."""
        found, _ = evaluated_values(self._space, config)
        distributions = {each.name: _distribution(each) for each in parameters(self._space) if each.name in found}
        return {
            name: distribution.choices[found[name]] if hasattr(distribution, "choices") else found[name]
            for name, distribution in distributions.items()
        }, distributions


class DefineByRunSpace:
    """A function that asks a trial of Optuna for values, and may return constants."""

    def __init__(self, define: Callable[[Any], Any]):
        self._define = define

    def suggest(self, trial: Any) -> dict[str, Any]:
        """See `DomainSpace.suggest`.

        Raises:
            TypeError: If the function returns neither None nor a dict with names as keys.
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
        """See `DomainSpace.known`. The function is called once.

        Raises:
            ValueError: If it asks for a value that the configuration lacks.
        """
        from optuna.trial import FixedTrial

        fixed = FixedTrial(flatten(config))
        self._define(fixed)
        return fixed.params, fixed.distributions


OptunaSpace = DomainSpace | DefineByRunSpace


class _Listener:
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
    """Optuna's distribution of a parameter; steps on a logarithmic scale are rounded afterwards."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    domain = parameter.domain
    if isinstance(domain, Categorical):
        categories = list(domain.categories)
        plain = all(each is None or type(each) in _PLAIN for each in categories)
        if not plain or len(set(categories)) < len(categories) or any(each != each for each in categories):
            categories = list(range(len(categories)))  # Optuna could not keep them, or not tell them apart
        return CategoricalDistribution(categories)
    sampler, q = sampler_and_step(domain)
    log = isinstance(sampler, LogUniform)
    if isinstance(domain, Float):
        return FloatDistribution(domain.lower, domain.upper, log=log, step=None if log else q)
    if q is None:
        return IntDistribution(domain.lower, domain.upper - 1, log=log)
    first, stop = (index * int(q) for index in domain.index_range(int(q)))
    return IntDistribution(first, stop - int(q), log=log, step=1 if log else int(q))


def _ask(trial: Any, name: str, distribution: Any) -> Any:
    if hasattr(distribution, "choices"):
        return trial.suggest_categorical(name, distribution.choices)
    ask = trial.suggest_float
    if type(distribution).__name__.startswith("Int"):
        ask = trial.suggest_int
    if distribution.log or distribution.step is None:
        step = {}
    else:
        step = {"step": distribution.step}
    return ask(name, distribution.low, distribution.high, log=distribution.log, **step)


# -- searcher ---------------------------------------------------------------------------------------------------------


class OptunaSearch(LibrarySearcher):
    """Asks an Optuna study for configurations, and tells it their results.

    A trial with a value is COMPLETE in the study, one that has failed or reported NaN is FAIL, one without a value
    PRUNED. With one objective, results are reported at their `training_iteration`. Pruners have no effect: use a
    scheduler. The default sampler is `TPESampler`.

    Args:
        space: This library's domains, `optuna.distributions` by name, or a define-by-run function; by default the
            run's.
        mode: `"min"`, `"max"` or a list; Optuna is not told of an objective with `"obs"`.
        study_name: By default `"optuna"`.
        storage: One of `optuna.storages`, or a URL, whose study is continued; by default memory, saved with the run.
        seed: Of the default sampler; by default the run's.
        evaluated_rewards: The known values of `points_to_evaluate`, which are then not tried.

    Raises:
        ImportError: If Optuna is not installed.
        ValueError: If an argument is invalid, or Optuna cannot search the space.
    """

    _TAKES_SEVERAL = True
    _STATE = (
        *("_ot_study", "_ot_trials", "_completed_trials", "_steps"),
        *("_points", "_known", "_seed", "_metric", "_mode"),
    )

    def __init__(
        self,
        space: Mapping[str, Any] | Callable[[Any], Mapping[str, Any] | None] | None = None,
        metric: Metric = None,
        mode: str | list[str] | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        sampler: Any = None,
        study_name: str | None = None,
        storage: Any = None,
        seed: int | None = None,
        evaluated_rewards: Sequence[Any] | None = None,
    ):
        check_library(self, "optuna", "optuna>=3.0")
        import optuna

        super().__init__(metric, mode, points_to_evaluate, seed)
        good = space is None or callable(space) or isinstance(space, Mapping)
        require(good, "space: None, a dict or a define-by-run function", space)
        good = sampler is None or isinstance(sampler, optuna.samplers.BaseSampler)
        require(good, "sampler: None or one of optuna.samplers", sampler)
        good = storage is None or isinstance(storage, (str, optuna.storages.BaseStorage))
        require(good, "storage: None, a URL or one of optuna.storages", storage)
        require(study_name is None or isinstance(study_name, str), "study_name: None or text", study_name)
        if sampler is not None and seed is not None:
            logger.warning("OptunaSearch: seed=%r has no effect on the given sampler; pass it to the sampler", seed)
        self._known: list[tuple[Any, ...]] = []  # arguments of `add_evaluated_point` that wait for the study
        if evaluated_rewards is not None:
            rewards = list(evaluated_rewards)
            good = len(rewards) == len(self._points)
            require(good, "evaluated_rewards: None or one value for each of points_to_evaluate", evaluated_rewards)
            self._known = [(dict(point), reward) for point, reward in zip(self._points, rewards, strict=True)]
            self._points = []
        self._sampler = sampler
        self._study_name = study_name
        self._storage = storage
        self._space = space  # the argument as it is: FLAML reads it, and makes another searcher of it
        self._has_own_space = bool(space)
        self._optuna_space: OptunaSpace | None = None
        if callable(space):
            self._optuna_space = DefineByRunSpace(space)
        elif space:
            given = dict(space)
            if not has_unresolved_values(given):  # Optuna's names of nested parameters are paths
                given = unflatten(flatten(given))
            self._set_space(own_space(given))
        self._ot_study: Any = None
        self._ot_trials: dict[str, Any] = {}
        self._completed_trials: set[str] = set()  # scripts for Ray Tune read it
        self._steps: dict[str, int] = {}

    def _set_space(self, space: dict[str, Any]) -> None:
        self._optuna_space = DomainSpace(space)
        super()._set_space(space)

    @property
    def study(self) -> Any:
        """The `optuna.study.Study`, for example for Optuna's plots.

        Raises:
            ValueError: If there is no space, metric or mode yet.
        """
        if self._ot_study is None:
            import optuna

            if self._optuna_space is None:
                raise no_space(self)
            require_mode(self)
            before = optuna.logging.get_verbosity()
            optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))  # otherwise it logs that it makes a study
            try:
                self._ot_study = optuna.create_study(
                    storage=self._storage,
                    sampler=self._sampler or optuna.samplers.TPESampler(seed=self._seed),
                    pruner=optuna.pruners.NopPruner(),
                    study_name=self._study_name or "optuna",
                    directions=["minimize" if mode == "min" else "maximize" for _, mode in self._objectives],
                    load_if_exists=True,
                )
            finally:
                optuna.logging.set_verbosity(before)
            known = self._known
            self._known = []
            for arguments in known:
                self.add_evaluated_point(*arguments)
        return self._ot_study

    # -- the loop ------------------------------------------------------------------------------------------------

    def suggest(self, trial_id: str) -> Suggestion:
        if self._optuna_space is None:
            raise no_space(self)
        study = self.study
        if self._points:
            study.enqueue_trial(self._optuna_space.known(self._points.pop(0))[0])
        trial = study.ask()
        self._ot_trials[trial_id] = trial
        return self._optuna_space.suggest(trial)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """See `Searcher.on_trial_result`. A step that was reported before, as after a restart, counts once."""
        trial = self._ot_trials.get(trial_id)
        if trial is None or len(self._objectives) != 1:
            return
        value = known_number(result.get(self._objectives[0][0]))
        step = known_number(result.get(TRAINING_ITERATION))
        if value is not None and step is not None and step > self._steps.get(trial_id, -1):
            self._steps[trial_id] = int(step)
            trial.report(float(value), int(step))

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        trial = self._ot_trials.pop(trial_id, None)
        self._steps.pop(trial_id, None)
        if trial is None:
            return
        self._completed_trials.add(trial_id)
        from optuna.trial import TrialState

        found = [(result or {}).get(name) for name, _ in self._objectives]
        numbers = [float(number) for number in map(known_number, found) if number is not None]
        if not error and len(numbers) == len(found):
            self.study.tell(trial, numbers)
        elif error or any(value is not None for value in found):
            self.study.tell(trial, state=TrialState.FAIL)
        else:
            self.study.tell(trial, state=TrialState.PRUNED)

    # -- warm start ----------------------------------------------------------------------------------------------

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: Any,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """See `Searcher.add_evaluated_point`; for several objectives `value` is a list. It waits for the space.

        Raises:
            ValueError: If `parameters` is no dict, or the space lacks one of them.
        """
        require(isinstance(parameters, Mapping), "parameters: a dict, as a configuration", parameters)
        if self._optuna_space is None or not self._objectives:
            self._known.append((copy(parameters), value, error, pruned, intermediate_values))
            return
        from optuna.trial import TrialState, create_trial

        study = self.study
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        numbers = [float(number) for number in map(known_number, values) if number is not None]
        are_known = len(numbers) == len(values)
        has_failed = error or (not pruned and not are_known)
        params, distributions = self._optuna_space.known(parameters)
        study.add_trial(
            create_trial(
                state=TrialState.FAIL if has_failed else TrialState.PRUNED if pruned else TrialState.COMPLETE,
                values=numbers if are_known and not has_failed else None,
                params=params,
                distributions=distributions,
                intermediate_values=dict(enumerate(intermediate_values or [])),
            )
        )

    # -- within ----------------------------------------------------------------------------------------------------

    def _known_values(self, config: TriedConfig) -> dict[str, Any] | None:
        if self._optuna_space is None:
            return None
        try:
            return self._optuna_space.known(config)[0]
        except ValueError:  # the space was another one when the configuration was made
            return None

    @property
    def _objectives(self) -> list[tuple[str, str]]:
        if isinstance(self._mode, str):
            modes = [self._mode]
        else:
            modes = list(self._mode or [])
        names = self._metric or DEFAULT_METRIC
        if isinstance(names, str):
            names = [names]
        return [(str(name), mode) for name, mode in zip(names, modes, strict=False) if mode != "obs"]


__path__: list[str] = []
"""Ray has a module below this one, which is this one."""

__getattr__ = submodules(__name__)
