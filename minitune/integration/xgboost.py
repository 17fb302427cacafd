"""TuneReportCheckpointCallback: reports each round of `xgboost.train`, and saves models."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xgboost import Booster
from xgboost.callback import TrainingCallback

from minitune.checkpoint import Checkpoint
from minitune.integration._metrics import Boosting, PostProcessing, Wanted, report_saved


@dataclass(eq=False)
class TuneReportCheckpointCallback(Boosting, TrainingCallback):
    """Reports the metrics of each round, named `<evaluation set>-<metric>`; pass it in `callbacks` of `xgboost.train`.

    At the end of the training, it reports the last model with the last metrics again, unless it has saved the model of
    this round. `xgboost.cv` has no model to save, and its metrics are pairs of mean and standard deviation.

    Args:
        metrics: The metrics to report, or a dict from the reported name to the library's name; by default all.
        filename: The name of the model's file in a checkpoint. Its ending selects the format.
        frequency: The number of rounds between two checkpoints; 0 for none before the end.
        checkpoint_at_end: Whether to save the last model.
        results_postprocessing_fn: Gets the metrics and returns those to report.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `frequency` is negative.
    """

    CHECKPOINT_NAME = "model.ubj"
    filename: str = CHECKPOINT_NAME

    def __post_init__(self) -> None:
        super().__post_init__()
        self._metrics: dict[str, Any] = {}
        self._saved_round = -1

    @classmethod
    def get_model(cls, checkpoint: Checkpoint, filename: str = CHECKPOINT_NAME) -> Booster:
        """Load the model from a checkpoint of this callback."""
        with checkpoint.as_directory() as directory:
            booster = Booster()
            booster.load_model(os.path.join(directory, filename))
            return booster

    def after_iteration(self, model: Any, epoch: int, evals_log: Mapping[str, Mapping[str, list[Any]]]) -> bool:
        """Report a round; called by the library."""
        logged = {f"{part}-{name}": values[-1] for part, found in evals_log.items() for name, values in found.items()}
        self._metrics = self._reported(logged)
        is_saved = self._is_due(epoch) and isinstance(model, Booster)
        if is_saved:
            self._saved_round = epoch
        report_saved(self._metrics, self.filename, model.save_model if is_saved else None)
        return False

    def after_training(self, model: Any) -> Any:
        """Report the last model if it is not saved yet; called by the library."""
        is_saved = not isinstance(model, Booster) or model.num_boosted_rounds() - 1 == self._saved_round
        if self.checkpoint_at_end and not is_saved:
            report_saved(self._metrics, self.filename, model.save_model)
        return model


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports the metrics of each round, without checkpoints; pass it in `callbacks` of `xgboost.train`.

    Args:
        metrics: The metrics to report, or a dict from the reported name to the library's name; by default all.
        results_postprocessing_fn: Gets the metrics and returns those to report.

    Raises:
        TypeError: If an argument has the wrong type.

    Example:
        >>> callback = TuneReportCallback({"loss": "eval-logloss"})
    """

    def __init__(self, metrics: Wanted = None, results_postprocessing_fn: PostProcessing | None = None):
        super().__init__(metrics, checkpoint_at_end=False, results_postprocessing_fn=results_postprocessing_fn)
