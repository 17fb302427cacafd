"""`WandbLogger`: how runs were sent to Weights & Biases before `WandbLoggerCallback`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minitune.experiment.trial import Trial
from minitune.integration._tracking import TrialFacts
from minitune.integration.wandb import WandbLoggerCallback
from minitune.result import flatten, unflatten


class WandbLogger(WandbLoggerCallback):
    """A `WandbLoggerCallback` for `run(loggers=[WandbLogger])`, whose arguments are in the configuration of each trial.

    They are in `config["wandb"]`, or in `config["logger_config"]["wandb"]`. The run at W&B gets the configuration
    without them.

    Raises:
        ImportError: If wandb is not installed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._arguments: dict[str, dict[str, Any]] = {}  # by trial id

    def __getstate__(self) -> dict[str, Any]:
        """See `WandbLoggerCallback`. The arguments may have a key, too; a resumed run starts its trials again."""
        return {**super().__getstate__(), "_arguments": {}}

    def log_trial_start(self, trial: Trial) -> None:
        nested = trial.config.get("logger_config") or {}
        self._arguments[trial.trial_id] = nested.get("wandb") or trial.config.get("wandb") or {}
        super().log_trial_start(trial)

    def open(self, facts: TrialFacts) -> Any:
        given = WandbLoggerCallback(**self._arguments[facts.trial_id])
        self._excludes = given._excludes
        self._logs_config = given._logs_config
        config = unflatten(facts.config)
        config.pop("wandb", None)
        config.pop("logger_config", None)
        return given.open(replace(facts, config=flatten(config)))
