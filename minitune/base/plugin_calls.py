"""Calls of plug-ins: an error names the hook.

See `minitune.driver.hooks`.
"""

from __future__ import annotations

import functools
import logging
import math
import time
import types
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, Protocol, TypeVar

from minitune.base.user_code import runs, user_code
from minitune.error import ConstraintError, DiskError, SampleError, TuneError

logger = logging.getLogger("minitune")

_Function = TypeVar("_Function", bound=Callable[..., Any])
_KEPT = "the run was ended; its reports are kept"


class HasName(Protocol):
    """A trial, for the text of an error."""

    @property
    def name(self) -> str:
        """The name that users see."""


class PluginError(TuneError):
    """A plug-in has raised an error, which is the cause. The text names hook and trial."""


class PluginCaller:
    """Calls hooks of plug-ins, and names one that raises an error or is slow.

    Args:
        slow_s: The log names a hook that takes longer, once: all trials wait for it.
    """

    def __init__(self, slow_s: float = math.inf) -> None:
        self._slow_s = slow_s
        self._slow: set[str] = set()

    def call(self, hooks: Iterable[Callable[..., Any]], trial: HasName | None, /, *args: Any, **kwargs: Any) -> Any:
        """Call hooks in order with the same arguments, and return the answer of the last one.

        Raises:
            ConstraintError: If a constraint of the search raises an error.
            PluginError: If a hook raises another `Exception`, which becomes the cause.
        """
        value: Any = None
        for hook in hooks:
            begin_s = time.monotonic()
            outer = user_code.running
            try:
                user_code.running = hook, begin_s
                value = hook(*args, **kwargs)
            except (PluginError, DiskError):  # a logger of this package raises a DiskError
                raise
            except Exception as error:
                raise_told(hook, trial, error)
            finally:
                user_code.running = outer  # first: from here on, a signal handler must not raise
                taken_s = time.monotonic() - begin_s
                # at the end of a run no trial waits
                if taken_s > self._slow_s and getattr(hook, "__name__", "") != "on_experiment_end":
                    self._warn_slow(hook_name(hook), taken_s)
        return value

    def _warn_slow(self, name: str, taken_s: float) -> None:
        if name not in self._slow:
            self._slow.add(name)
            logger.warning("%s took %.1f s; all trials waited during that time", name, taken_s)


def raise_told(hook: Callable[..., Any] | str, trial: HasName | None, error: Exception) -> NoReturn:
    """Raise the error of a hook, with the hook's name."""
    if isinstance(error, (ConstraintError, SampleError)):
        raise type(error)(f"{error}; {_KEPT}") from error.__cause__
    text = (
        f"{hook_name(hook)} raised {type(error).__name__}: {error}"
        + (f" (while it was told of trial {trial.name})" if trial is not None else "")
        + f"; {_KEPT}"
    )
    raise PluginError(text) from error


def guarded(function: _Function, name: str) -> _Function:
    """A user's function that the driver calls: a signal may end it, and its exception becomes a `PluginError`."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        try:
            with runs(name):
                return function(*args)
        except Exception as error:
            raise_told(name, None, error)

    return call  # type: ignore[return-value]  # it has the signature of `function`


def hook_name(hook: Any) -> str:
    """The name of a hook for users. A plug-in that passes its calls on names the one within it as `_passes_on_to`."""
    if isinstance(hook, str):
        return hook
    is_method = isinstance(hook, (types.MethodType, types.BuiltinMethodType))  # a mock has any attribute
    owner = hook.__self__ if is_method else hook
    name = hook.__name__ if is_method else ""
    while hasattr(type(owner), "_passes_on_to") and owner._passes_on_to is not None:
        owner = owner._passes_on_to
        if name == "next_trial":
            name = "suggest"
    return f"{type(owner).__name__}.{name}" if name else type(owner).__name__
