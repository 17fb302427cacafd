"""The loggers of Ray Tune before 1.2: `run(loggers=[...])` makes one object of each class for each trial."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from minitune.callback import Callback
from minitune.experiment.trial import Trial
from minitune.logger import LoggerCallback


class Logger:
    """Base class of loggers, with one object for each trial. Override `_init`, `on_result` and `close`."""

    def __init__(self, config: dict[str, Any], logdir: str, trial: Trial | None = None):
        self.config = config
        self.logdir = logdir
        self.trial = trial
        self._init()

    def _init(self) -> None:
        """Prepare. The attributes are already set."""

    def on_result(self, result: dict[str, Any]) -> None:
        """The trial has reported."""
        raise NotImplementedError(f"{type(self).__name__} must define on_result(result)")

    def update_config(self, config: dict[str, Any]) -> None:
        """The trial continues with another configuration."""

    def flush(self) -> None:
        """Write buffered data; called after each result."""

    def close(self) -> None:
        """The trial has ended."""


class NoopLogger(Logger):
    """A logger that writes nothing."""

    def on_result(self, result: dict[str, Any]) -> None:
        """Do nothing."""


class JsonLogger(Logger):
    """A name for `JsonLoggerCallback` in `loggers`."""


class CSVLogger(Logger):
    """A name for `CSVLoggerCallback` in `loggers`."""


class TBXLogger(Logger):
    """A name for `TBXLoggerCallback` in `loggers`."""


DEFAULT_LOGGERS = (JsonLogger, CSVLogger, TBXLogger)
"""The loggers that each run has."""


class LegacyLoggerCallback(LoggerCallback):
    """Makes and calls loggers of the old form.

    Args:
        logger_classes: Subclasses of `Logger`.
    """

    def __init__(self, logger_classes: Iterable[type[Logger]]):
        self.logger_classes = list(logger_classes)
        self._loggers: dict[Trial, list[Logger]] = {}

    def log_trial_start(self, trial: Trial) -> None:
        if trial in self._loggers:
            for logger in self._loggers[trial]:
                logger.update_config(dict(trial.config))
            return
        self._loggers[trial] = [kind(dict(trial.config), trial.local_path, trial) for kind in self.logger_classes]

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        for logger in self._loggers.get(trial, ()):
            logger.on_result(result)
            logger.flush()

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        for logger in self._loggers.pop(trial, ()):
            logger.close()


def callbacks_of(loggers: Any) -> list[Callback]:
    """The callbacks for the argument `loggers` of `run`: classes of loggers, or callbacks; None for the default
    loggers.

    Raises:
        TypeError: If an element is neither a logger nor a callback.
    """
    found: list[Callback] = []
    old: list[type[Logger]] = []
    for one in loggers or ():
        if one in DEFAULT_LOGGERS:
            continue
        if isinstance(one, Callback):
            found.append(one)
        elif isinstance(one, type) and issubclass(one, Callback):
            found.append(one())
        elif isinstance(one, type) and issubclass(one, Logger):
            old.append(one)
        else:
            raise TypeError(f"loggers must hold subclasses of Logger or callbacks, but got {one!r}")
    if old:
        return [*found, LegacyLoggerCallback(old)]
    return found
