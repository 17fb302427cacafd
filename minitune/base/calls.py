"""Errors of calls with an unknown keyword: they name the argument that was probably meant.

Python's own error names, for an inherited constructor, another class. All other errors pass unchanged.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from minitune.base.checks import did_you_mean

_Target = TypeVar("_Target", bound=Callable[..., Any])

_PLACES = {
    "callbacks": "RunConfig(callbacks=...)",
    "checkpoint_config": "RunConfig(checkpoint_config=...)",
    "config": "Tuner(param_space=...)",
    "direction": "TuneConfig(mode=...)",
    "directions": "TuneConfig(mode=...)",
    "keep_checkpoints_num": "CheckpointConfig(num_to_keep=...)",
    "max_concurrent_trials": "TuneConfig(max_concurrent_trials=...)",
    "max_epochs": 'RunConfig(stop={"training_iteration": ...})',
    "max_failures": "FailureConfig(max_failures=...)",
    "max_retries": "FailureConfig(max_failures=...)",
    "metric": "TuneConfig(metric=...)",
    "mode": "TuneConfig(mode=...)",
    "n_jobs": "TuneConfig(max_concurrent_trials=...)",
    "n_trials": "TuneConfig(num_samples=...) or TuneSearchCV(n_iter=...)",
    "name": "RunConfig(name=...)",
    "num_samples": "TuneConfig(num_samples=...)",
    "points_to_evaluate": "TuneConfig(search_alg=TPESearch(points_to_evaluate=...))",
    "param_space": "run(config=...)",
    "param_grid": "Tuner(param_space=...) or TuneSearchCV(param_distributions=...)",
    "pruner": "TuneConfig(scheduler=...)",
    "resources_per_trial": "with_resources(trainable, {...})",
    "sampler": "TuneConfig(search_alg=...)",
    "scheduler": "TuneConfig(scheduler=...)",
    "search_alg": "TuneConfig(search_alg=...) or Study(searcher=...)",
    "stop": "RunConfig(stop=...)",
    "storage_path": "RunConfig(storage_path=...)",
    "time_budget_s": "TuneConfig(time_budget_s=...)",
    "timeout": "TuneConfig(time_budget_s=...)",
}
"""Where the value of an argument goes that has this name in another class, or in another library."""


def explains_calls(target: _Target) -> _Target:
    """Decorate a function or class: a call with an unknown keyword raises a TypeError with help."""
    is_class = isinstance(target, type)
    # mypy: a subclass may have another signature; the wrapper passes all arguments on
    function: Any = target.__init__ if is_class else target

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:  # it comes from inside
                raise
            known = list(inspect.signature(function).parameters)[is_class:]
            unknown = next((keyword for keyword in kwargs if keyword not in known), None)
            if unknown is None:
                raise
            kind = type(args[0]) if is_class else target  # a subclass may inherit the constructor
            raise unknown_argument(kind.__name__, unknown, known) from None

    if is_class:
        target.__init__ = call  # type: ignore[method-assign]  # it calls the one it replaces
        return target
    return call  # type: ignore[return-value]  # it has the signature of `target`


def unknown_argument(function: str, name: str, known: Iterable[str]) -> TypeError:
    """The error of a call with a keyword that the function does not take."""
    if name in _PLACES:
        hint = f"; write {_PLACES[name]}"
    else:
        takes = ", ".join(each for each in known if each[0] != "_")
        hint = f"{did_you_mean(name, known)}; it takes {takes or 'nothing'}"
    return TypeError(f"{function}() takes no argument {name!r}{hint}")
