"""LoggerCallback: callbacks that write down what trials report; pretty_print: a result for people."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from minitune.base.json_text import clean, dumps
from minitune.callback import Callback
from minitune.experiment.trial import Trial

_FLOW_LENGTH = 3
_PLAIN = re.compile(r"[\w./](?:[\w./ -]*[\w./-])?", re.ASCII)
"""Text that needs no quotes ..."""
_OTHER = re.compile(
    r"(?i:true|false|null|yes|no|on|off|\.nan|\.inf)|[0-9._]+(?i:e-?[0-9]+)?|0[xo][0-9a-fA-F_]+|\d{4}-\d\d?-\d\d?"
)
"""... unless a reader of YAML takes it for a word of its own, a number or a date."""
_NOT_PRINTED = ("config", "hist_stats")


class LoggerCallback(Callback):
    """Base class of loggers: five methods instead of the hooks. State of a trial has to go in `log_trial_end`."""

    def log_trial_start(self, trial: Trial) -> None:
        """The trial has a worker: at the first start, at every resume and retry."""

    def log_trial_restore(self, trial: Trial) -> None:
        """The trial has loaded a checkpoint."""

    def log_trial_save(self, trial: Trial) -> None:
        """The trial was told to save."""

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """The trial has reported.

        Args:
            iteration: Turn of the driver's loop.
            trial: The trial.
            result: Its result, nested, with its configuration as `config`.
        """

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """The trial is over.

        Args:
            trial: The trial.
            failed: True if it ended in an error.
        """

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """See `Callback.on_trial_result`."""
        self.log_trial_result(iteration, trial, result)

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """See `Callback.on_trial_start`."""
        self.log_trial_start(trial)

    def on_trial_restore(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """See `Callback.on_trial_restore`."""
        self.log_trial_restore(trial)

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """See `Callback.on_trial_save`."""
        self.log_trial_save(trial)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """See `Callback.on_trial_complete`."""
        self.log_trial_end(trial, failed=False)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """See `Callback.on_trial_error`."""
        self.log_trial_end(trial, failed=True)


def pretty_print(result: Mapping[str, Any], exclude: Collection[str] | None = None) -> str:
    """A result as text in the manner of YAML: keys sorted, `config` and empty values left out.

    Args:
        result: A result, nested.
        exclude: More keys to leave out.

    Returns:
        Lines, each ending in a newline.
    """
    hidden = {*_NOT_PRINTED, *(exclude or ())}
    shown = {key: value for key, value in result.items() if value is not None and key not in hidden}
    return "".join(f"{line}\n" for line in _block(clean(shown), "")) or "{}\n"


def _block(value: Any, indent: str) -> list[str]:
    """A cleaned dict, or short list, as indented lines."""
    lines: list[str] = []
    items = sorted(value.items()) if isinstance(value, dict) else [(None, item) for item in value]
    for key, item in items:
        head = f"{indent}-" if key is None else f"{indent}{_scalar(key)}:"
        is_block = isinstance(item, dict) or (isinstance(item, list) and len(item) <= _FLOW_LENGTH)
        if is_block and item:
            lines.append(head)
            # Items of a list stand below their key, not further in, as YAML's writers have it.
            lines.extend(_block(item, indent if isinstance(item, list) and key is not None else indent + "  "))
        else:
            lines.append(f"{head} {_scalar(item)}")
    return lines


def _scalar(value: Any) -> str:
    """A leaf, quoted where a reader of YAML would take it for something else."""
    if not isinstance(value, str):
        return dumps(value)
    if _PLAIN.fullmatch(value) and not _OTHER.fullmatch(value):
        return value
    if value.isascii() and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return dumps(value)
