"""TuneReportCheckpointCallback: reports each round of `xgboost.train`, and saves models."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xgboost import Booster
from xgboost.callback import TrainingCallback

from minitune.base.lazy import submodules
from minitune.checkpoint import Checkpoint
from minitune.integration._metrics import Boosting, PostProcessing, Wanted, report_saved


@dataclass(eq=False)
class TuneReportCheckpointCallback(Boosting, TrainingCallback):
    """Reports the metrics of each round, named `<evaluation set>-<metric>`; pass it in `callbacks` of `xgboost.train`.

    It reports a round when the library begins the next one or ends the training. Only then is it known whether the
    round was the last one, whose report has the last model. `xgboost.cv` has no model to save, and its metrics are
    pairs of mean and standard deviation.

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
        self._waiting: tuple[int, dict[str, Any]] | None = None
        """The number and the metrics of the round that is not reported yet."""

    @classmethod
    def get_model(cls, checkpoint: Checkpoint, filename: str = CHECKPOINT_NAME) -> Booster:
        """Load the model from a checkpoint of this callback."""
        with checkpoint.as_directory() as directory:
            booster = Booster()
            booster.load_model(os.path.join(directory, filename))
            return booster

    def before_iteration(self, model: Any, epoch: int, evals_log: Mapping[str, Mapping[str, list[Any]]]) -> bool:
        """Report the round before; called by the library."""
        self._report_waiting(model, is_last=False)
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: Mapping[str, Mapping[str, list[Any]]]) -> bool:
        """Note the metrics of a round; called by the library."""
        logged = {f"{part}-{name}": values[-1] for part, found in evals_log.items() for name, values in found.items()}
        self._waiting = epoch, self._reported(logged)
        return False

    def after_training(self, model: Any) -> Any:
        """Report the last round, with the model; called by the library."""
        self._report_waiting(model, is_last=True)
        return model

    def _report_waiting(self, model: Any, *, is_last: bool) -> None:
        if self._waiting is None:
            return
        epoch, metrics = self._waiting
        self._waiting = None
        is_due = self._is_due(epoch) or (is_last and self.checkpoint_at_end)
        # For `xgboost.cv`, the model is a list of the folds' models.
        is_saved = is_due and isinstance(model, Booster)
        report_saved(metrics, self.filename, model.save_model if is_saved else None)


RayTrainReportCallback = TuneReportCheckpointCallback
"""Its name in `ray.train.xgboost`."""


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports the metrics of each round, without checkpoints; pass it in `callbacks` of `xgboost.train`.

    The arguments are those of `TuneReportCheckpointCallback`, and so are the errors.
    """

    def __init__(self, metrics: Wanted = None, results_postprocessing_fn: PostProcessing | None = None):
        super().__init__(metrics, checkpoint_at_end=False, results_postprocessing_fn=results_postprocessing_fn)


__getattr__ = submodules(__name__)  # for names that Ray has here
