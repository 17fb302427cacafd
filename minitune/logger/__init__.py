"""Loggers: callbacks that write the results of trials to files. Each run has those of `default_loggers`.

::

    logger                    LoggerCallback, their base: `log_trial_start`, `log_trial_result`, `log_trial_end`
    json, csv, tensorboardx   one file format each
    reconcile                 makes their files match the journal, at a resume
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from minitune.base.lazy import listing, submodules
from minitune.experiment.callback import Callback
from minitune.logger.csv import CSVLoggerCallback
from minitune.logger.json import JsonLoggerCallback
from minitune.logger.logger import LoggerCallback, pretty_print

if TYPE_CHECKING:
    from minitune.logger.tensorboardx import TBXLoggerCallback as TBXLoggerCallback

__all__ = ["CSVLoggerCallback", "JsonLoggerCallback", "LoggerCallback", "TBXLoggerCallback", "pretty_print"]

__dir__ = listing(__all__)
__getattr__ = submodules(__name__, {"TBXLoggerCallback": "tensorboardx"})


def default_loggers(callbacks: Sequence[Callback]) -> list[Callback]:
    """The default loggers that a run still needs, unless `callbacks` have an instance of their class: CSV and JSON."""
    kinds: list[type[Callback]] = [CSVLoggerCallback, JsonLoggerCallback]
    return [kind() for kind in kinds if not any(isinstance(callback, kind) for callback in callbacks)]
