"""TBXLoggerCallback: writes event files for TensorBoard. Needs the package `tensorboardX` (the extra `tensorboard`)."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Mapping
from typing import Any

from minitune.base.json_text import scalar_of, short_text
from minitune.base.numbers import number_or_flag
from minitune.experiment.trial import Trial
from minitune.logger.logger import LoggerCallback, step_of
from minitune.result import CONFIG, PID, TIME_TOTAL_S, TIMESTAMP, TRAINING_ITERATION, flatten

logger = logging.getLogger("minitune")

# The beginning of every name, so that dashboards for Ray Tune find their values.
_PREFIX = "ray/tune/"
_NOT_SHOWN = (CONFIG, PID, TIMESTAMP, TIME_TOTAL_S, TRAINING_ITERATION)
_FLUSH_INTERVAL_S = 30
# The largest number of open files. Each takes two threads and four descriptors, and any number of trials may be
# paused.
_MAX_OPEN = 32
# A text or list that is longer is shortened in the table of hyperparameters.
_MAX_TEXT = 1_000
_numbers = itertools.count()


class TBXLoggerCallback(LoggerCallback):
    """Writes an event file per trial: numbers as scalars, lists and arrays as histograms, hyperparameters at the end.

    Names are flattened and begin with `ray/tune/`. The step is `timesteps_total`, or else `training_iteration`.

    Raises:
        ImportError: If tensorboardX cannot be imported.
    """

    def __init__(self) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise ImportError(
                f"TBXLoggerCallback needs tensorboardX ({error}); install it with: pip install tensorboardX"
            ) from error
        self._summary_writer_cls: Any = SummaryWriter
        self._trial_writer: dict[Trial, Any] = {}
        self._trial_result: dict[Trial, dict[str, Any]] = {}
        self._warned: set[str] = set()

    def log_trial_start(self, trial: Trial) -> None:
        """Start a new event file.

        If the file cannot be created, this is logged once, and the trial continues without it.
        """
        self._close(trial)
        try:
            self._begin(trial)
        except OSError as error:
            if trial.trial_id not in self._warned:
                self._warned.add(trial.trial_id)
                logger.warning("trial %s is not shown in TensorBoard: %s", trial.name, error)

    def _begin(self, trial: Trial) -> None:
        if not trial.attempt.number:  # outside of a run only: in a run, a new directory would hide that it was removed
            trial.init_local_path()
        os.stat(trial.local_path)  # the writer would create a missing directory
        if len(self._trial_writer) >= _MAX_OPEN:
            self._close(next(iter(self._trial_writer)))
        # The writer names a file by the current second, so another attempt within that second would overwrite it. The
        # number keeps the files in order, because they are read in the order of their names.
        suffix = f".{os.getpid()}.{next(_numbers):09d}"
        self._trial_writer[trial] = self._summary_writer_cls(
            trial.local_path, flush_secs=_FLUSH_INTERVAL_S, filename_suffix=suffix
        )
        self._trial_result.setdefault(trial, {})

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Write the numbers, lists and arrays of a result. Blocks while it writes."""
        if trial not in self._trial_writer:
            self.log_trial_start(trial)
        writer = self._trial_writer.get(trial)
        if writer is None:
            return
        step = step_of(result)
        numbers: dict[str, Any] = {}
        for key, value in flatten({k: v for k, v in result.items() if k not in _NOT_SHOWN}).items():
            number = number_or_flag(value)
            if number is not None and number == number:
                number = float(number)  # the writer knows no large int
                writer.add_scalar(_PREFIX + key, number, global_step=step)
                numbers[_PREFIX + key] = number
            elif number is None:
                self._add_many(writer, _PREFIX + key, value, step)
        self._trial_result[trial] = numbers
        writer.flush()

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """Write the hyperparameters with the numbers of the last result, and close the file."""
        numbers = self._trial_result.pop(trial, None)
        if trial in self._trial_writer and trial.evaluated_params and numbers:
            self._try_log_hparams(trial, numbers)
        self._close(trial)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Close the files that are still open."""
        for trial in list(self._trial_writer):
            self._close(trial)
        self._trial_result.clear()

    def _close(self, trial: Trial) -> None:
        writer = self._trial_writer.pop(trial, None)
        if writer is not None:
            writer.close()

    def _add_many(self, writer: Any, name: str, value: Any, step: int) -> None:
        """Write a list or an array as a histogram."""
        if isinstance(value, list):
            if not value or any(isinstance(part, Mapping) for part in value):
                return
        elif not isinstance(getattr(value, "ndim", None), int) or not getattr(value, "size", 0):
            return
        try:
            writer.add_histogram(name, value, global_step=step)
        except Exception as error:  # numpy and tensorboardX raise various errors for values that are not numbers
            if name not in self._warned:
                self._warned.add(name)
                logger.warning("%s is not shown in TensorBoard: %s: %s", name, type(error).__name__, error)

    def _try_log_hparams(self, trial: Trial, numbers: Mapping[str, Any]) -> None:
        """Write hyperparameters and last numbers for TensorBoard's table of runs. Unsuitable values are left out."""
        from tensorboardX.summary import hparams

        parameters = {name: trial.shown_parameter(name) for name in trial.evaluated_params}
        values = {name: _hyperparameter(value) for name, value in flatten(parameters).items()}
        shown = {name: value for name, value in values.items() if value is not None}
        try:
            for summary in hparams(hparam_dict=shown, metric_dict=dict(numbers)):
                self._trial_writer[trial].file_writer.add_summary(summary)
        except Exception as error:
            logger.warning("the hyperparameters of trial %s are not shown in TensorBoard: %s", trial.name, error)


def _hyperparameter(value: Any) -> Any:
    """A value in a form that the table of hyperparameters can show; None if there is no such form."""
    if isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) <= _MAX_TEXT):
        return value
    scalar = scalar_of(value)
    if scalar is not None or not isinstance(value, (str, list, tuple)):
        return scalar
    if len(value) > _MAX_TEXT:
        return short_text(value[:_MAX_TEXT])
    return str(value)
