"""LoggerCallback: base class of callbacks that write results. pretty_print: formats a result for people."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from minitune.base import json_text
from minitune.base.text import one_line
from minitune.experiment.callback import Callback
from minitune.experiment.trial import Trial
from minitune.result import TIMESTEPS_TOTAL, TRAINING_ITERATION

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
        """Called with each nested result, with its configuration as `config`."""

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """Called when the trial has ended."""

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
    """Format a result as text similar to YAML. Keys are sorted; `config`, `hist_stats`, None values and the keys of
    `exclude` are left out.
    """
    hidden = {*_NOT_PRINTED, *(exclude or ())}
    shown = {key: value for key, value in result.items() if value is not None and key not in hidden}
    return "".join(f"{line}\n" for line in _lines(json_text.clean(shown), "")) or "{}\n"


def _lines(values: Mapping[str, Any], indent: str) -> Iterator[str]:
    """The lines of a cleaned dict, and indented those of the dicts in it."""
    for key, value in sorted(values.items()):
        if isinstance(value, dict) and value:
            yield f"{indent}{one_line(key)}:"
            yield from _lines(value, f"{indent}  ")
        else:
            text = one_line(value) if isinstance(value, str) else json_text.dumps(value)
            yield f"{indent}{one_line(key)}: {text}"
