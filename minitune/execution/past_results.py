"""PastResults: results as they stand on record, made into what they were."""

from __future__ import annotations

from typing import Any

from minitune.experiment.trial import Trial
from minitune.result import CONFIG, flatten


class PastResults:
    """Gives results their configuration back, and has them on one level.

    A configuration stands in none of them, so it is flattened once for each trial rather than for each result.
    """

    def __init__(self) -> None:
        self._configs: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    def complete(self, trial: Trial, metrics: dict[str, Any]) -> dict[str, Any]:
        """Put the trial's configuration into a result, where it belongs there.

        Returns:
            The result on one level.
        """
        if CONFIG not in metrics:
            return flatten(metrics)
        metrics[CONFIG] = None
        flat = flatten(metrics)
        metrics[CONFIG] = trial.config
        del flat[CONFIG]
        known = self._configs.get(trial.trial_id)
        if known is None or known[0] is not trial.config:
            known = self._configs[trial.trial_id] = trial.config, flatten({CONFIG: trial.config})
        flat.update(known[1])
        return flat

    def forget(self, trial: Trial) -> None:
        """The trial has ended."""
        self._configs.pop(trial.trial_id, None)
