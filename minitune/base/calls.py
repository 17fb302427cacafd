"""Errors of calls whose arguments do not fit: they name the argument that was probably meant.

Python's own error names only the wrong argument, and for an inherited constructor another class. Errors from inside the
function pass unchanged: if the call itself has failed, no frame of the function is in the traceback.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from minitune.base.checks import did_you_mean

_Target = TypeVar("_Target", bound=Callable[..., Any])
Hint = Callable[[Sequence[Any], Mapping[str, Any]], str]
"""Returns for the positional and the unknown arguments of a wrong call what to write instead, or an empty text."""

_PLACES = {
    "config": "Tuner(param_space=...)",
    "direction": "TuneConfig(mode=...)",
    "directions": "TuneConfig(mode=...)",
    "keep_checkpoints_num": "CheckpointConfig(num_to_keep=...)",
    "max_epochs": 'RunConfig(stop={"training_iteration": ...})',
    "max_failures": "FailureConfig(max_failures=...)",
    "max_retries": "FailureConfig(max_failures=...)",
    "metric": "TuneConfig(metric=...)",
    "mode": "TuneConfig(mode=...)",
    "n_jobs": "TuneConfig(max_concurrent_trials=...)",
    "n_trials": "TuneConfig(num_samples=...)",
    "num_samples": "TuneConfig(num_samples=...)",
    "points_to_evaluate": "TuneConfig(search_alg=TPESearch(points_to_evaluate=...))",
    "pruner": "TuneConfig(scheduler=...)",
    "resources_per_trial": "with_resources(trainable, {...})",
    "sampler": "TuneConfig(search_alg=...)",
    "timeout": "TuneConfig(time_budget_s=...)",
}
"""Where the value of an argument goes that has this name in another class, or in another library."""


def right_place(args: Sequence[Any], unknown: Mapping[str, Any]) -> str:
    """The `Hint` of the classes that configure a run."""
    return next((f"write {_PLACES[name]}" for name in unknown if name in _PLACES), "")


def explains_calls(hint: Hint | None = None, *, name: str | None = None) -> Callable[[_Target], _Target]:
    """Make a decorator of a function or class: a call with wrong arguments raises a TypeError with help. The text of
    `hint` replaces the name of a similar argument.
    """

    def decorate(target: _Target) -> _Target:
        if not isinstance(target, type):
            wrapped: _Target = _explained(target, lambda args: (target.__name__, args), hint)
            return wrapped

        def name_and_arguments(args: Sequence[Any]) -> tuple[str, Sequence[Any]]:
            kind = type(args[0])  # a subclass may inherit the constructor
            if name and kind is target:
                return name, args[1:]
            return kind.__name__, args[1:]

        # mypy: a subclass may have another signature; the wrapper passes all arguments on
        target.__init__ = _explained(target.__init__, name_and_arguments, hint)  # type: ignore[misc]
        return target

    return decorate


def unknown_argument(function: str, name: str, known: Iterable[str]) -> TypeError:
    """The error of a call with a keyword that the function does not take."""
    return TypeError(f"{function}() takes no argument {name!r}{did_you_mean(name, known)}")


def _explained(
    function: Any, name_and_arguments: Callable[[Sequence[Any]], tuple[str, Sequence[Any]]], hint: Hint | None
) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:
                raise
            name, given = name_and_arguments(args)
            signature = inspect.signature(function)
            known = list(signature.parameters)[len(args) - len(given) :]  # without `self`
            takes = f"it takes {', '.join(name for name in known if name[0] != '_') or 'nothing'}"
            others = {keyword: value for keyword, value in kwargs.items() if keyword not in known}
            instead = "" if hint is None else hint(given, others)
            unknown = next(iter(others), None)
            if unknown is None:
                text = f"{name}(): {_misfit(signature, args, kwargs)}; {instead or takes}"
            elif instead:
                text = f"{name}() takes no argument {unknown!r}; {instead}"
            else:
                text = f"{unknown_argument(name, unknown, known)}; {takes}"
            raise TypeError(text) from None

    return call


def _misfit(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """What is wrong with the arguments, such as `too many positional arguments`."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return "the arguments do not fit"
