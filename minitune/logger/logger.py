"""LoggerCallback: base class of callbacks that write results. pretty_print: formats a result for people.

Also the step of a result, for the loggers whose programs draw curves over steps.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from minitune.base.json_text import clean, dumps
from minitune.callback import Callback
from minitune.experiment.trial import Trial
from minitune.result import TIMESTEPS_TOTAL, TRAINING_ITERATION

_FLOW_LENGTH = 3
# Text that needs no quotes in YAML, unless `_OTHER` matches it.
_PLAIN = re.compile(r"[\w./](?:[\w./ -]*[\w./-])?", re.ASCII)
# Text that a YAML reader takes for a keyword, a number or a date.
_OTHER = re.compile(
    r"(?i:true|false|null|yes|no|on|off|\.nan|\.inf)|[0-9._]+(?i:e-?[0-9]+)?|0[xo][0-9a-fA-F_]+|\d{4}-\d\d?-\d\d?"
)
_NOT_PRINTED = ("config", "hist_stats")
_STEP_LIMIT = 2**63


class LoggerCallback(Callback):
    """Base class of loggers. A subclass overrides these five methods instead of the hooks of `Callback`.

    `log_trial_end` must release the state that a logger keeps for a trial.
    """

    def log_trial_start(self, trial: Trial) -> None:
        """Called when the trial gets a worker: at its first start, and at every resume and retry."""

    def log_trial_restore(self, trial: Trial) -> None:
        """Called when the trial has loaded a checkpoint."""

    def log_trial_save(self, trial: Trial) -> None:
        """Called when the driver has asked the trial to save."""

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Called with each result.

        Args:
            iteration: The turn of the driver's loop.
            trial: The trial.
            result: Its nested result, with its configuration as `config`.
        """

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """Called when the trial has ended.

        Args:
            trial: The trial.
            failed: True if it ended in an error.
        """

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        self.log_trial_result(iteration, trial, result)

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_start(trial)

    def on_trial_restore(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_restore(trial)

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_save(trial)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_end(trial, failed=False)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_end(trial, failed=True)


def step_of(result: Mapping[str, Any]) -> int:
    """The step of a result: `timesteps_total`, or else `training_iteration`; 0 if neither is a number of 64 bits."""
    for name in (TIMESTEPS_TOTAL, TRAINING_ITERATION):
        try:
            step = int(result.get(name) or 0)
        except Exception:  # NaN, infinity, a text, or an object of the user's
            continue
        if step and -_STEP_LIMIT <= step < _STEP_LIMIT:
            return step
    return 0


def pretty_print(result: Mapping[str, Any], exclude: Collection[str] | None = None) -> str:
    """Format a result as text similar to YAML. Keys are sorted; `config`, `hist_stats` and None values are left out.

    Args:
        result: A nested result.
        exclude: More keys to leave out.

    Returns:
        Lines, each ending in a newline.
    """
    hidden = {*_NOT_PRINTED, *(exclude or ())}
    shown = {key: value for key, value in result.items() if value is not None and key not in hidden}
    return "".join(f"{line}\n" for line in _block(clean(shown), "")) or "{}\n"


def _block(value: Any, indent: str) -> list[str]:
    """The indented lines of a cleaned dict or a short list."""
    lines: list[str] = []
    if isinstance(value, dict):
        items = sorted(value.items())
    else:
        items = [(None, item) for item in value]
    for key, item in items:
        head = f"{indent}-" if key is None else f"{indent}{_scalar(key)}:"
        is_block = isinstance(item, dict) or (isinstance(item, list) and len(item) <= _FLOW_LENGTH)
        if is_block and item:
            lines.append(head)
            # Like YAML writers, do not indent the items of a list below their key.
            lines.extend(_block(item, indent if isinstance(item, list) and key is not None else indent + "  "))
        else:
            lines.append(f"{head} {_scalar(item)}")
    return lines


def _scalar(value: Any) -> str:
    """The text of a leaf, with quotes if a YAML reader would take it for another type."""
    if not isinstance(value, str):
        return dumps(value)
    if _PLAIN.fullmatch(value) and not _OTHER.fullmatch(value):
        return value
    if value.isascii() and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return dumps(value)
