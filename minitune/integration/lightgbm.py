"""TuneReportCheckpointCallback: reports each round of `lightgbm.train`, and saves models."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lightgbm import Booster

from minitune.checkpoint import Checkpoint
from minitune.integration._metrics import Boosting, PostProcessing, Wanted, report_saved

if TYPE_CHECKING:
    from lightgbm.callback import CallbackEnv


class TuneReportCheckpointCallback:
    """Reports the metrics of each round, named `<evaluation set>-<metric>`; pass it in `callbacks` of `lightgbm.train`.

    With `lightgbm.cv` each metric comes as `...-mean` and `...-stdv`.

    Args:
        metrics: The metrics to report, or a dict of their names by those to report; by default all.
        filename: Name of the model's file in a checkpoint.
        frequency: A checkpoint every so many rounds; 0 for none before the end.
        checkpoint_at_end: Whether the model of the last round is saved.
        results_postprocessing_fn: Makes of the metrics what is reported.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If `frequency` is negative.
    """

    CHECKPOINT_NAME = "model.txt"

    def __init__(
        self,
        metrics: Wanted = None,
        filename: str = CHECKPOINT_NAME,
        frequency: int = 0,
        checkpoint_at_end: bool = True,
        results_postprocessing_fn: PostProcessing | None = None,
    ):
        self._plan = Boosting(metrics, filename, frequency, checkpoint_at_end, results_postprocessing_fn)

    @classmethod
    def get_model(cls, checkpoint: Checkpoint, filename: str = CHECKPOINT_NAME) -> Booster:
        """The model in a checkpoint that this callback has saved under this file name."""
        with checkpoint.as_directory() as directory:
            return Booster(model_file=os.path.join(directory, filename))

    def __call__(self, env: CallbackEnv) -> None:
        """Report a round; called by the library."""
        logged = {}
        for part, name, value, *more in env.evaluation_result_list or ():
            is_mean = len(more) > 1  # of a cross-validation, whose entries have a deviation at their end
            logged[f"{part}-{name}{'-mean' if is_mean else ''}"] = value
            if is_mean:
                logged[f"{part}-{name}-stdv"] = more[1]
        is_last = env.iteration == env.end_iteration - 1
        is_saved = self._plan.is_due(env.iteration) or (is_last and self._plan.checkpoint_at_end)
        save = env.model.save_model if is_saved else None
        report_saved(self._plan.reported(logged), self._plan.filename, save)


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports the metrics of each round, without checkpoints; pass it in `callbacks` of `lightgbm.train`.

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
