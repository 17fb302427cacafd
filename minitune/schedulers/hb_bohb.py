"""HyperBandForBOHB: HyperBand that tells the search algorithm at which level a result was reached."""

from __future__ import annotations

from typing import Any

from minitune.experiment.trial import Trial
from minitune.schedulers.hyperband import HyperBandScheduler
from minitune.schedulers.trial_scheduler import SchedulerContext


class HyperBandForBOHB(HyperBandScheduler):
    """HyperBand for search algorithms that model each level by itself.

    Each result that reaches a level holds `hyperband_info = {"budget": <the level>}` when the search algorithm hears of
    it, each other one an empty `hyperband_info`. All else is as in `HyperBandScheduler`, arguments included.

    Source: Falkner et al., "BOHB: Robust and Efficient Hyperparameter Optimization at Scale" (ICML 2018, arXiv
    1807.01774).
    """

    def on_trial_result(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> str:
        """See `HyperBandScheduler.on_trial_result`."""
        result["hyperband_info"] = {}
        return super().on_trial_result(tune_controller, trial, result)

    def _at_milestone(self, result: dict[str, Any], milestone: float) -> None:
        result["hyperband_info"]["budget"] = milestone
