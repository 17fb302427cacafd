"""Calls of plug-ins: the error of a hook names the hook, and a child process that a hook has forked gets an error.

See `minitune.driver.hooks`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from minitune.base.forks import Origin
from minitune.base.user_code import runs, user_code
from minitune.error import ConstraintError, SampleError, TuneError, dual_error, sample_error
from minitune.experiment.trial import Trial
from minitune.search.search_algorithm import SearchGenerator
from minitune.search.searcher import SearcherWrapper

_Function = TypeVar("_Function", bound=Callable[..., Any])
_KEPT = "the run was ended; its reports are kept"


class PluginError(TuneError):
    """A plug-in has raised an error. The text names hook and trial.

    If possible, it is also an instance of the exception's class.
    """


def call_plugin(hook: Callable[..., Any], trial: Trial | None, /, *args: Any, **kwargs: Any) -> Any:
    """Call a hook of a plug-in. For events, `driver.hooks` has a faster form, which looks up once what is overridden.

    Raises:
        ConstraintError: If a constraint of the search raises an error.
        PluginError: If it raises another `Exception`, which becomes the cause.
        TuneError: In a child process that the hook has forked.
    """
    origin = Origin()
    outer = user_code.running
    try:
        user_code.running = hook, time.monotonic()
        value = hook(*args, **kwargs)
    except PluginError:
        raise
    except Exception as error:
        if not origin.is_here():  # a forked child handles its own errors
            raise
        raise_told(hook, trial, error)
    finally:
        user_code.running = outer
    if not origin.is_here():
        raise forked_error(hook_name(hook))
    return value


def raise_told(hook: Callable[..., Any], trial: Trial | None, error: Exception) -> NoReturn:
    """Raise the error of a hook, with the hook's name."""
    if isinstance(error, ConstraintError):
        raise ConstraintError(f"{error}; {_KEPT}") from error.__cause__
    if isinstance(error, SampleError) and isinstance(error.__cause__, Exception):
        raise sample_error(error.__cause__, f"{error}; {_KEPT}") from error.__cause__
    text = (
        f"{hook_name(hook)} raised {type(error).__name__}: {error}"
        + (f" (while it was told of trial {trial.name})" if trial is not None else "")
        + f"; {_KEPT}"
    )
    raise (dual_error(PluginError, error, text) or PluginError(text)) from error


def forked_error(who: str) -> TuneError:
    """The error for a child that `who` has forked: if it continued, the run would have two drivers."""
    return TuneError(
        f"{who} has forked, and the child process returned from it. The run belongs to the parent, which continues. "
        "End the child with os._exit(), or use subprocess or multiprocessing"
    )


def guarded(function: _Function, name: str) -> _Function:
    """A user's function that the driver calls: a signal may end it, and a child that it forks and that returns gets an
    error.
    """
    origin = Origin()

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        with runs(name):
            value = function(*args)
        if not origin.is_here():
            raise forked_error(name)
        return value

    return call  # type: ignore[return-value]  # it has the signature of `function`


def hook_name(hook: Any) -> str:
    """The name of a hook for users. That of a wrapped searcher is its own."""
    if isinstance(hook, str):
        return hook
    owner = getattr(hook, "__self__", None)
    if owner is None:
        return type(hook).__name__
    name = hook.__name__
    if isinstance(owner, SearchGenerator) and name == "next_trial":
        name = "suggest"
    while isinstance(owner, (SearchGenerator, SearcherWrapper)):
        owner = owner.searcher
    return f"{type(owner).__name__}.{name}"
