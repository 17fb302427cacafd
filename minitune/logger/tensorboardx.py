"""TBXLoggerCallback: event files for TensorBoard. Needs the package `tensorboardX` (the extra `tensorboard`)."""

from __future__ import annotations

import itertools
import logging
import math
import os
import shlex
from collections.abc import Mapping
from typing import Any

from minitune.base import descriptors, files
from minitune.base.json_text import scalar_of, short_text
from minitune.experiment.trial import Trial
from minitune.logger.logger import LoggerCallback
from minitune.result import CONFIG, PID, TIME_TOTAL_S, TIMESTAMP, TIMESTEPS_TOTAL, TRAINING_ITERATION, flatten

logger = logging.getLogger("minitune")

_PREFIX = "ray/tune/"
"""In front of every name, so that dashboards made for Ray Tune find what they show."""
_NOT_SHOWN = (CONFIG, PID, TIMESTAMP, TIME_TOTAL_S, TRAINING_ITERATION)
_FLUSH_INTERVAL_S = 30
_MAX_OPEN = 32
"""Files that are open at once, or fewer where the process may open few: each has two threads and a pipe, four
descriptors in all, and any number of trials may be paused."""
_MAX_TEXT = 1_000
"""A longer text, or list, is shortened in the table of hyperparameters."""
_NO_INT = 2**63
"""numpy has no int of this size."""
_numbers = itertools.count()


class TBXLoggerCallback(LoggerCallback):
    """Writes an event file per trial: numbers as scalars, lists and arrays as histograms, hyperparameters at the end.

    Names are flattened and begin with `ray/tune/`; the step is `timesteps_total`, else `training_iteration`. Arrays of
    three, four and five dimensions are an image, images and a video.

    Raises:
        ImportError: If tensorboardX is not there.
    """

    def __init__(self) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise ImportError(
                f"TBXLoggerCallback needs tensorboardX ({error}); install it with: pip install 'minitune[tensorboard]'"
            ) from error
        self._summary_writer_cls: Any = SummaryWriter
        self._max_open = descriptors.share(64, most=_MAX_OPEN)
        self._trial_writer: dict[Trial, Any] = {}
        self._trial_result: dict[Trial, dict[str, Any]] = {}
        self._warned: set[str] = set()
        self._run_path: str | None = None

    def how_to_show(self) -> str | None:
        """See `Callback`."""
        return None if self._run_path is None else f"tensorboard --logdir {shlex.quote(self._run_path)}"

    def log_trial_start(self, trial: Trial) -> None:
        """Begin an event file; those of earlier attempts stay and are shown together with it.

        Where that cannot be done, the log says so, and the trial goes on without one.
        """
        self._close(trial)
        try:
            self._begin(trial)
        except OSError as error:
            if trial.trial_id not in self._warned:
                self._warned.add(trial.trial_id)
                logger.warning("trial %s is not shown in TensorBoard: %s", trial.name, error)

    def _begin(self, trial: Trial) -> None:
        if not trial.attempt:  # tried outside of a run; in one, to make it again would hide that it has gone
            trial.init_local_path()
        # the writer would make a directory that has gone, and follow a link that has taken its place
        with files.entry_of(os.path.join(trial.local_path, "events"), trial.experiment_path):
            pass
        if len(self._trial_writer) >= self._max_open:
            self._close(next(iter(self._trial_writer)))
        # The file's name ends with the second: an attempt within the same second would overwrite the one before.
        # Files are read in the order of their names. The random end keeps others from planting a link there.
        suffix = f".{os.getpid()}.{next(_numbers):09d}.{os.urandom(8).hex()}"
        self._trial_writer[trial] = self._summary_writer_cls(
            trial.local_path, flush_secs=_FLUSH_INTERVAL_S, filename_suffix=suffix
        )
        self._trial_result.setdefault(trial, {})
        self._run_path = trial.experiment_path

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Write the numbers and lists of a result; may block as writing does."""
        if trial not in self._trial_writer:
            self.log_trial_start(trial)
        writer = self._trial_writer.get(trial)
        if writer is None:
            return
        step = result.get(TIMESTEPS_TOTAL) or result[TRAINING_ITERATION]
        numbers: dict[str, Any] = {}
        for key, value in flatten({k: v for k, v in result.items() if k not in _NOT_SHOWN}).items():
            number = _number_of(value)
            if number is not None and number == number:
                writer.add_scalar(_PREFIX + key, number, global_step=step)
                numbers[_PREFIX + key] = number
            elif number is None:
                self._add_many(writer, _PREFIX + key, value, step)
        self._trial_result[trial] = numbers
        writer.flush()

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """Write the hyperparameters with the last numbers, and close the file."""
        numbers = self._trial_result.pop(trial, None)
        if trial in self._trial_writer and trial.evaluated_params and numbers:
            self._try_log_hparams(trial, numbers)
        self._close(trial)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Close what is still open."""
        for trial in list(self._trial_writer):
            self._close(trial)
        self._trial_result.clear()

    def _close(self, trial: Trial) -> None:
        writer = self._trial_writer.pop(trial, None)
        if writer is not None:
            writer.close()

    def _add_many(self, writer: Any, name: str, value: Any, step: int) -> None:
        """A list as a histogram, an array as what its dimensions say; anything else is left out."""
        dimensions = getattr(value, "ndim", None)
        if isinstance(value, list):
            if not value:
                return
        elif not isinstance(dimensions, int) or not getattr(value, "size", 0):
            return
        add, options = {
            3: (writer.add_image, {}),
            4: (writer.add_images, {}),
            5: (writer.add_video, {"fps": 20}),
        }.get(dimensions or 0, (writer.add_histogram, {}))
        try:
            add(name, value, global_step=step, **options)
        except Exception as error:  # whatever numpy and tensorboardX say of values that are no numbers
            if name not in self._warned:
                self._warned.add(name)
                logger.warning("%s is not shown in TensorBoard: %s: %s", name, type(error).__name__, error)

    def _try_log_hparams(self, trial: Trial, numbers: Mapping[str, Any]) -> None:
        """Write hyperparameters and last numbers for TensorBoard's table of runs; what it cannot hold is left out."""
        from tensorboardX.summary import hparams

        values = {name: _hyperparameter(value) for name, value in flatten(trial.evaluated_params).items()}
        shown = {name: value for name, value in values.items() if value is not None}
        try:
            for summary in hparams(hparam_dict=shown, metric_dict=dict(numbers)):
                self._trial_writer[trial].file_writer.add_summary(summary)
        except Exception as error:
            logger.warning("the hyperparameters of trial %s are not shown in TensorBoard: %s", trial.name, error)


def _number_of(value: Any) -> int | float | None:
    """A number, bools and numpy's scalars among them; as a float where numpy has no such int."""
    number: int | float | None = value if isinstance(value, (int, float)) else scalar_of(value)
    if not isinstance(number, int) or -_NO_INT < number < _NO_INT:
        return number
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _hyperparameter(value: Any) -> Any:
    """A value as the table of hyperparameters can hold it; None if it cannot."""
    if isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) <= _MAX_TEXT):
        return value
    scalar = scalar_of(value)
    if scalar is not None or not isinstance(value, (str, list, tuple)):
        return scalar
    return short_text(value[:_MAX_TEXT]) if len(value) > _MAX_TEXT else str(value)
