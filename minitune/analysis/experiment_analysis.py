"""ExperimentAnalysis: what `run` returns."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from typing import Any

from minitune.checkpoint import Checkpoint
from minitune.experiment.trial import Trial
from minitune.result import TRAINING_ITERATION, flatten
from minitune.result_grid import best_trial, signed

logger = logging.getLogger("minitune")


class ExperimentAnalysis:
    """The trials of a finished run and the best of them.

    Args:
        experiment_checkpoint_path: The run's directory.
        trials: Its trials.
        default_metric: The metric of the `best_...` members.
        default_mode: `"min"` or `"max"`.
    """

    def __init__(
        self,
        experiment_checkpoint_path: str,
        *,
        trials: Sequence[Trial],
        default_metric: str | None = None,
        default_mode: str | None = None,
    ):
        self.experiment_path = experiment_checkpoint_path
        self.trials = list(trials)
        self.default_metric = "_metric" if default_metric is None and default_mode is not None else default_metric
        self.default_mode = default_mode

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """The last result of each trial, by trial id."""
        return {trial.trial_id: trial.last_result for trial in self.trials}

    @property
    def best_trial(self) -> Trial | None:
        """The best trial by the default metric and mode."""
        return self.get_best_trial()

    @property
    def best_config(self) -> dict[str, Any] | None:
        """The configuration of the best trial."""
        return self.get_best_config()

    @property
    def best_result(self) -> dict[str, Any]:
        """The last result of the best trial.

        Raises:
            ValueError: If metric and mode are not known.
        """
        best = self.get_best_trial()
        return best.last_result if best is not None else {}

    @property
    def best_checkpoint(self) -> Checkpoint | None:
        """The best kept checkpoint of the best trial."""
        best = self.get_best_trial()
        return None if best is None else self.get_best_checkpoint(best)

    def get_all_configs(self, prefix: bool = False) -> dict[str, dict[str, Any]]:
        """The configuration of each trial, by trial id; with `prefix` its keys begin with `config/`."""
        return {
            trial.trial_id: {f"config/{k}" if prefix else k: v for k, v in trial.config.items()}
            for trial in self.trials
        }

    def get_best_trial(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last", filter_nan_and_inf: bool = True
    ) -> Trial | None:
        """The best trial, or None with a warning if no trial has the metric.

        Args:
            metric: By default `default_metric`.
            mode: By default `default_mode`.
            scope: `last`, `all`, `avg`, `last-5-avg` or `last-10-avg`.
            filter_nan_and_inf: Leave out trials whose value is not finite.

        Raises:
            ValueError: If metric or mode is not known.
        """
        metric, mode = self._metric_and_mode(metric, mode)
        best = best_trial(self.trials, metric, mode, scope, filter_nan_and_inf)
        if best is None:
            logger.warning("no trial of %s has reported a usable value of %r", self.experiment_path, metric)
        return best

    def get_best_config(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last"
    ) -> dict[str, Any] | None:
        """The configuration of the best trial; see `get_best_trial`."""
        best = self.get_best_trial(metric, mode, scope)
        return None if best is None else best.config

    def get_best_checkpoint(
        self, trial: Trial, metric: str | None = None, mode: str | None = None
    ) -> Checkpoint | None:
        """The kept checkpoint of `trial` with the best finite value of the metric, or None."""
        metric = metric or self.default_metric or TRAINING_ITERATION
        _, mode = self._metric_and_mode(metric, mode)
        scored = [(signed(flatten(kept.metrics).get(metric), mode), kept) for kept in trial.checkpoints]
        finite = [(score, kept) for score, kept in scored if math.isfinite(score)]
        if not finite:
            return None
        best = max(finite, key=lambda pair: pair[0])[1]
        return Checkpoint(os.path.join(trial.local_path, best.record.directory))

    def get_last_checkpoint(self, trial: Trial | None = None) -> Checkpoint | None:
        """The latest checkpoint of `trial`, by default of the best trial."""
        trial = trial or self.get_best_trial()
        return None if trial is None else trial.checkpoint

    def _metric_and_mode(self, metric: str | None, mode: str | None) -> tuple[str, str]:
        metric, mode = metric or self.default_metric, mode or self.default_mode
        if metric is None or mode is None:
            raise ValueError(
                f"metric and mode must be known, but got metric={metric!r}, mode={mode!r}; pass them here, or to run()"
            )
        return metric, mode
