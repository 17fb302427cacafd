"""TuneReportCheckpointCallback: reports each round of `lightgbm.train`, and saves models."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightgbm import Booster

from minitune.base.lazy import submodules
from minitune.base.text import plain_number
from minitune.checkpoint import Checkpoint
from minitune.integration._metrics import Boosting, PostProcessing, Wanted, report_saved

if TYPE_CHECKING:
    from lightgbm.callback import CallbackEnv


@dataclass(eq=False)
class TuneReportCheckpointCallback(Boosting):
    """Reports the metrics of each round, named `<evaluation set>-<metric>`; pass it in `callbacks` of `lightgbm.train`.

    With `lightgbm.cv`, it reports `...-mean` and `...-stdv` for each metric.

    Args:
        metrics: The metrics to report, or a dict from the reported name to the library's name; by default all.
        filename: The name of the model's file in a checkpoint.
        frequency: The number of rounds between two checkpoints; 0 for none before the end.
        checkpoint_at_end: Whether to save the last model.
        results_postprocessing_fn: Gets the metrics and returns those to report.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `frequency` is negative.
    """

    CHECKPOINT_NAME = "model.txt"
    filename: str = CHECKPOINT_NAME

    @classmethod
    def get_model(cls, checkpoint: Checkpoint, filename: str = CHECKPOINT_NAME) -> Booster:
        """Load the model from a checkpoint of this callback."""
        with checkpoint.as_directory() as directory:
            return Booster(model_file=os.path.join(directory, filename))

    def __call__(self, env: CallbackEnv) -> None:
        """Report a round; called by the library."""
        logged: dict[str, float | None] = {}  # the library's values are numbers of NumPy
        for part, name, value, *more in env.evaluation_result_list or ():
            is_mean = len(more) > 1  # an entry of a cross-validation, which ends with the standard deviation
            logged[f"{part}-{name}{'-mean' if is_mean else ''}"] = plain_number(value)
            if is_mean:
                logged[f"{part}-{name}-stdv"] = plain_number(more[1])
        is_last = env.iteration == env.end_iteration - 1
        is_saved = self._is_due(env.iteration) or (is_last and self.checkpoint_at_end)
        report_saved(self._reported(logged), self.filename, env.model.save_model if is_saved else None)


RayTrainReportCallback = TuneReportCheckpointCallback
"""Its name in `ray.train.lightgbm`."""


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports the metrics of each round, without checkpoints; pass it in `callbacks` of `lightgbm.train`.

    The arguments are those of `TuneReportCheckpointCallback`, and so are the errors.
    """

    def __init__(self, metrics: Wanted = None, results_postprocessing_fn: PostProcessing | None = None):
        super().__init__(metrics, checkpoint_at_end=False, results_postprocessing_fn=results_postprocessing_fn)


__getattr__ = submodules(__name__)  # for names that Ray has here
