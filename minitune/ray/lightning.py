"""What Ray Train has for Lightning, in one process: a callback, and parts of a `Trainer` that change nothing here."""

from __future__ import annotations

from typing import Any

from minitune.integration._metrics import report_saved
from minitune.ray.trainers import get_device

try:
    from lightning.pytorch import Callback
    from lightning.pytorch.plugins.environments import LightningEnvironment
    from lightning.pytorch.strategies import DDPStrategy
except ModuleNotFoundError:  # its older name
    from pytorch_lightning import Callback
    from pytorch_lightning.plugins.environments import LightningEnvironment
    from pytorch_lightning.strategies import DDPStrategy


class RayTrainReportCallback(Callback):
    """Reports all logged metrics, with a checkpoint, at the end of each training epoch; pass it in `callbacks`.

    The metrics also have the numbers `epoch` and `step`.
    """

    CHECKPOINT_NAME = "checkpoint.ckpt"

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Report; called by Lightning."""
        metrics = {name: value.item() for name, value in trainer.callback_metrics.items()}
        metrics["epoch"] = trainer.current_epoch
        metrics["step"] = trainer.global_step
        report_saved(metrics, self.CHECKPOINT_NAME, trainer.save_checkpoint)


class RayLightningEnvironment(LightningEnvironment):
    """The surroundings of a Lightning `Trainer` in a `TorchTrainer`: a group of one process."""

    @property
    def creates_processes_externally(self) -> bool:
        """True: Lightning starts no processes."""
        return True


class RayDDPStrategy(DDPStrategy):
    """Lightning's strategy for several processes, in one, on the device of the trial."""

    @property
    def root_device(self) -> Any:
        """The device of the trial."""
        return get_device()


def prepare_trainer(trainer: Any) -> Any:
    """Return the Lightning `Trainer`, which needs no preparation in one process."""
    return trainer
