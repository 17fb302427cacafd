"""RayTrainReportCallback: reports what a `Trainer` of transformers logs, with its checkpoints."""

from __future__ import annotations

import shutil
from typing import Any

from transformers.trainer_callback import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from minitune.integration._metrics import report_saved


class RayTrainReportCallback(TrainerCallback):
    """Reports the last logged metrics whenever the `Trainer` saves; add it with `trainer.add_callback`.

    The checkpoint has the `Trainer`'s own in its directory `checkpoint`. Training arguments decide when it saves, such
    as `save_strategy="epoch"`.
    """

    CHECKPOINT_NAME = "checkpoint"

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report; called by the library."""
        metrics: dict[str, Any] = {}
        for logged in state.log_history:
            metrics.update(logged)
        saved = get_last_checkpoint(args.output_dir)
        report_saved(metrics, self.CHECKPOINT_NAME, lambda target: shutil.copytree(saved, target))


def prepare_trainer(trainer: Any) -> Any:
    """Return the `Trainer`, which needs no preparation in one process."""
    return trainer
