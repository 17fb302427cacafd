"""TuneReportCheckpointCallback: reports each round of `xgboost.train`, and saves models."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from xgboost import Booster
from xgboost.callback import TrainingCallback

from minitune.checkpoint import Checkpoint
from minitune.integration._metrics import Boosting, PostProcessing, Wanted, report_saved


class TuneReportCheckpointCallback(TrainingCallback):  # type: ignore[misc]  # the library has no types
    """Reports the metrics of each round, named `<evaluation set>-<metric>`; pass it in `callbacks` of `xgboost.train`.

    The last model is reported with the last metrics once more, unless its round was saved. `xgboost.cv` has no model
    to save; its metrics are pairs of mean and standard deviation.

    Args:
        metrics: The metrics to report, or a dict of their names by those to report; by default all.
        filename: Name of the model's file in a checkpoint; its ending says the format.
        frequency: A checkpoint every so many rounds; 0 for none before the end.
        checkpoint_at_end: Whether the last model is saved.
        results_postprocessing_fn: Makes of the metrics what is reported.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If `frequency` is negative.
    """

    CHECKPOINT_NAME = "model.ubj"

    def __init__(
        self,
        metrics: Wanted = None,
        filename: str = CHECKPOINT_NAME,
        frequency: int = 0,
        checkpoint_at_end: bool = True,
        results_postprocessing_fn: PostProcessing | None = None,
    ):
        super().__init__()
        self._plan = Boosting(metrics, filename, frequency, checkpoint_at_end, results_postprocessing_fn)
        self._metrics: dict[str, Any] = {}
        self._saved_round = -1

    @classmethod
    def get_model(cls, checkpoint: Checkpoint, filename: str = CHECKPOINT_NAME) -> Booster:
        """The model in a checkpoint that this callback has saved under this file name."""
        with checkpoint.as_directory() as directory:
            booster = Booster()
            booster.load_model(os.path.join(directory, filename))
            return booster

    def after_iteration(self, model: Any, epoch: int, evals_log: Mapping[str, Mapping[str, list[Any]]]) -> bool:
        """Report a round; called by the library."""
        logged = {f"{part}-{name}": values[-1] for part, found in evals_log.items() for name, values in found.items()}
        self._metrics = self._plan.reported(logged)
        is_saved = self._plan.is_due(epoch) and isinstance(model, Booster)
        if is_saved:
            self._saved_round = epoch
        report_saved(self._metrics, self._plan.filename, model.save_model if is_saved else None)
        return False

    def after_training(self, model: Any) -> Any:
        """Report the last model, unless that was done; called by the library."""
        is_saved = not isinstance(model, Booster) or model.num_boosted_rounds() - 1 == self._saved_round
        if self._plan.checkpoint_at_end and not is_saved:
            report_saved(self._metrics, self._plan.filename, model.save_model)
        return model


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports the metrics of each round, without checkpoints; pass it in `callbacks` of `xgboost.train`.

    Args:
        metrics: The metrics to report, or a dict of these by other names; by default all.
        results_postprocessing_fn: Makes of the metrics what is reported.

    Raises:
        TypeError: If an argument is of the wrong type.

    Example:
        >>> callback = TuneReportCallback({"loss": "eval-logloss"})
    """

    def __init__(self, metrics: Wanted = None, results_postprocessing_fn: PostProcessing | None = None):
        super().__init__(metrics, checkpoint_at_end=False, results_postprocessing_fn=results_postprocessing_fn)
