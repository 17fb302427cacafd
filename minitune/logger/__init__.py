"""Loggers: callbacks that write files."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minitune._alias import submodules
from minitune.base.text import warn_once
from minitune.callback import Callback
from minitune.logger.csv import CSVLoggerCallback
from minitune.logger.json import JsonLoggerCallback
from minitune.logger.logger import LoggerCallback, pretty_print

if TYPE_CHECKING:
    from minitune.logger.tensorboardx import TBXLoggerCallback as TBXLoggerCallback

__all__ = ["CSVLoggerCallback", "JsonLoggerCallback", "LoggerCallback", "TBXLoggerCallback", "pretty_print"]

__getattr__ = submodules(__name__, {"TBXLoggerCallback": "tensorboardx"})


_OWN: dict[type, Callable[..., None]] = {
    kind: kind.log_trial_result for kind in (CSVLoggerCallback, JsonLoggerCallback)
}


def split_plain(hooks: Sequence[Callable[..., Any]]) -> tuple[list[Callable[..., Any]], list[LoggerCallback]]:
    """Part the hooks `on_trial_result` into the first ones, and the loggers at their end that can take a line.

    Those are our loggers for CSV and JSON, one of each, as they are: neither derived from nor changed.
    """
    first = list(hooks)
    logs: dict[type, Any] = {}
    while first:
        log = getattr(first[-1], "__self__", None)
        if type(log) not in _OWN or type(log) in logs or not _is_unchanged(log, first[-1]):
            break
        logs[type(log)] = log
        first.pop()
    return first, [*logs.values()][::-1]


def _is_unchanged(log: Any, hook: Any) -> bool:
    """Whether a logger of ours logs in the way of its class."""
    is_base = getattr(hook, "__func__", None) is LoggerCallback.on_trial_result
    return is_base and getattr(log.log_trial_result, "__func__", None) is _OWN[type(log)]


def forwards_to_nothing(hook: Any) -> bool:
    """Whether a hook is the one of `LoggerCallback`, and what that calls is left as it is there."""
    name = getattr(hook, "__name__", "")
    called = name.replace("on_", "log_", 1)
    if getattr(hook, "__func__", None) is not vars(LoggerCallback).get(name) or not hasattr(LoggerCallback, called):
        return False
    return getattr(getattr(hook.__self__, called), "__func__", None) is getattr(LoggerCallback, called)


def default_loggers(callbacks: Sequence[Callback]) -> list[Callback]:
    """The loggers that a run has unless they are among its callbacks: CSV, JSON, and TensorBoard if it is installed.

    Args:
        callbacks: What the run has; a logger of the same class, or of one derived from it, takes the place of ours.
    """
    kinds: list[type[Callback]] = [CSVLoggerCallback, JsonLoggerCallback]
    if importlib.util.find_spec("tensorboardX") is not None:
        from minitune.logger.tensorboardx import TBXLoggerCallback

        kinds.append(TBXLoggerCallback)
    loggers = []
    for kind in kinds:
        if any(isinstance(callback, kind) for callback in callbacks):
            continue
        try:
            loggers.append(kind())
        except Exception as error:  # a package that is there, but cannot be loaded, must not end a run
            warn_once(f"{kind.__name__} is not used: {error}")
    return loggers
