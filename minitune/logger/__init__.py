"""Loggers: callbacks that write the results of trials to files. Each run has those of `default_loggers`.

::

    logger                    LoggerCallback, their base: `log_trial_start`, `log_trial_result`, `log_trial_end`
    json, csv, tensorboardx   one file format each
    reconcile                 makes their files match the journal, at a resume
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minitune._alias import PACKAGE, listing, submodules
from minitune.callback import Callback
from minitune.logger.csv import CSVLoggerCallback
from minitune.logger.json import JsonLoggerCallback
from minitune.logger.logger import LoggerCallback, pretty_print

if TYPE_CHECKING:
    from minitune.logger.tensorboardx import TBXLoggerCallback as TBXLoggerCallback

__all__ = ["CSVLoggerCallback", "JsonLoggerCallback", "LoggerCallback", "TBXLoggerCallback", "pretty_print"]

__dir__ = listing(__all__)
_load = submodules(__name__, {"TBXLoggerCallback": "tensorboardx"})


def __getattr__(name: str) -> Any:
    if name in ("critical", "debug", "error", "exception", "info", "warning"):  # `from ray import logger` is a Logger
        return getattr(logging.getLogger(PACKAGE), name)
    return _load(name)


_OWN: dict[type, Callable[..., None]] = {
    kind: kind.log_trial_result for kind in (CSVLoggerCallback, JsonLoggerCallback)
}


def split_plain(hooks: Sequence[Callable[..., Any]]) -> tuple[list[Callable[..., Any]], list[LoggerCallback]]:
    """Split the hooks `on_trial_result` into the first ones, and the loggers at their end that accept whole lines: at
    most one each of CSV and JSON, without a subclass and without a changed method.
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
    """Whether a logger's methods for results are those of its class."""
    is_base = getattr(hook, "__func__", None) is LoggerCallback.on_trial_result
    return is_base and getattr(log.log_trial_result, "__func__", None) is _OWN[type(log)]


def forwards_to_nothing(hook: Any) -> bool:
    """Whether a hook does nothing: it is the hook of `LoggerCallback`, and the `log_...` method is not overridden."""
    name = getattr(hook, "__name__", "")
    called = name.replace("on_", "log_", 1)
    if getattr(hook, "__func__", None) is not vars(LoggerCallback).get(name) or not hasattr(LoggerCallback, called):
        return False
    return getattr(getattr(hook.__self__, called), "__func__", None) is getattr(LoggerCallback, called)


def default_loggers(callbacks: Sequence[Callback]) -> list[Callback]:
    """The default loggers that a run still needs, unless `callbacks` have an instance of their class: CSV and JSON."""
    kinds: list[type[Callback]] = [CSVLoggerCallback, JsonLoggerCallback]
    return [kind() for kind in kinds if not any(isinstance(callback, kind) for callback in callbacks)]
