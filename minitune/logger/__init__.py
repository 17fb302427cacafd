"""Loggers: callbacks that write files."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from minitune._alias import submodules
from minitune.base.text import warn_once
from minitune.callback import Callback
from minitune.logger.csv import CSVLoggerCallback
from minitune.logger.json import JsonLoggerCallback
from minitune.logger.logger import LoggerCallback, pretty_print
from minitune.logger.tensorboardx import TBXLoggerCallback

__all__ = ["CSVLoggerCallback", "JsonLoggerCallback", "LoggerCallback", "TBXLoggerCallback", "pretty_print"]

__getattr__ = submodules(__name__)


def default_loggers(callbacks: Sequence[Callback]) -> list[Callback]:
    """The loggers that a run has unless they are among its callbacks: CSV, JSON, and TensorBoard if it is installed.

    Args:
        callbacks: What the run has; a logger of the same class, or of one derived from it, takes the place of ours.
    """
    kinds: list[type[Callback]] = [CSVLoggerCallback, JsonLoggerCallback]
    if importlib.util.find_spec("tensorboardX") is not None:
        kinds.append(TBXLoggerCallback)
    loggers = []
    for kind in kinds:
        if any(isinstance(callback, kind) for callback in callbacks):
            continue
        try:
            loggers.append(kind())
        except Exception as error:  # a package that is there, but cannot be loaded, must not end a run
            warn_once(f"{kind.__name__} is left out: {error}")
    return loggers
