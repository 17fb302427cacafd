"""The callback for Lightning, with a trainer that calls it as Lightning's does."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from kit import fit, stand_ins

from minitune import report

NAME = "minitune.integration.pytorch_lightning"
OF_RAY = "minitune.ray.lightning"


class Callback:
    def on_validation_end(self, trainer, pl_module): ...

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx): ...


class Trainer:
    def __init__(self, callback):
        self.callback, self.sanity_checking, self.callback_metrics = callback, False, _metrics(9.0)

    def save_checkpoint(self, path):
        Path(path).write_text("state")

    def fit(self):
        self.sanity_checking = True
        self.callback.on_validation_end(self, None)
        self.sanity_checking = False
        for epoch in range(2):
            self.callback_metrics = _metrics(1.0 - epoch / 4)
            self.callback.on_train_batch_end(self, None, None, None, 0)
            self.callback.on_validation_end(self, None)


def _metrics(loss):
    """Metrics in Lightning's form: tensors of one number."""
    return {"val_loss": SimpleNamespace(item=lambda: loss)}


LIGHTNING = {
    "lightning": {},
    "lightning.pytorch": {"Callback": Callback},
    "lightning.pytorch.plugins": {},
    "lightning.pytorch.plugins.environments": {"LightningEnvironment": object},
    "lightning.pytorch.strategies": {"DDPStrategy": object},
}


@pytest.fixture
def module():
    with stand_ins(LIGHTNING, NAME) as module:
        yield module


@pytest.fixture
def of_ray():
    with stand_ins(LIGHTNING, OF_RAY) as module:
        yield module


def fit_with(callback):
    return fit(lambda config: Trainer(callback).fit())[0]


def test_validations_are_reported_and_saved_but_not_the_check_before(module, caplog):
    callback = module.TuneReportCheckpointCallback({"loss": "val_loss", "other": "unknown"}, filename="trainer.ckpt")
    result = fit_with(callback)
    assert result.error is None
    assert (result.metrics["loss"], result.metrics["training_iteration"]) == (0.75, 2)
    assert "other" not in result.metrics
    assert caplog.messages == ["Lightning has logged no metric 'unknown'; it is left out of the reports"]
    assert [os.listdir(kept.path) for kept, _ in result.best_checkpoints] == [["trainer.ckpt"]] * 2


def test_a_saved_state_is_renamed_and_not_copied(module, monkeypatch):
    inodes = []

    def save(self, path):
        Path(path).write_text("state")
        inodes.append(os.stat(path).st_ino)

    monkeypatch.setattr(Trainer, "save_checkpoint", save)
    result = fit_with(module.TuneReportCheckpointCallback())
    assert [os.stat(os.path.join(found.path, "checkpoint")).st_ino for found, _ in result.best_checkpoints] == inodes


def test_the_callback_reports_at_any_hook(module):
    on = ["train_batch_end", "validation_end"]
    result = fit_with(module.TuneReportCheckpointCallback(save_checkpoints=False, on=on))
    assert (result.metrics["val_loss"], result.metrics["training_iteration"], result.checkpoint) == (0.75, 4, None)
    with pytest.raises(ValueError, match="on must be among train_batch_end, validation_end, but got 'epoch'"):
        module.TuneCallback("epoch")


def test_a_subclass_reports_with_the_methods_of_ray_tune(module):
    class EverySecond(module.TuneReportCheckpointCallback):
        count = 0

        def _handle(self, trainer, pl_module):
            metrics = self._get_report_dict(trainer, pl_module)
            if not metrics:  # while Lightning checks the validation
                return
            self.count += 1
            if self.count % 2:
                report({**metrics, "count": self.count})
                return
            with self._get_checkpoint(trainer) as checkpoint:
                report({**metrics, "count": self.count}, checkpoint=checkpoint)

    result = fit_with(EverySecond())
    assert (result.error, result.metrics["val_loss"], result.metrics["count"]) == (None, 0.75, 2)
    assert [metrics["count"] for _, metrics in result.best_checkpoints] == [2]
    result = fit_with(EverySecond(save_checkpoints=False))
    assert (result.metrics["count"], result.checkpoint) == (2, None)


def test_the_callback_of_ray_train_reports_each_epoch_with_a_checkpoint(of_ray):
    def train(config):
        callback = of_ray.RayTrainReportCallback()
        trainer = Trainer(callback)
        for epoch in range(2):
            trainer.current_epoch, trainer.global_step = epoch, 10 * epoch
            trainer.callback_metrics = _metrics(1.0 - epoch / 4)
            callback.on_train_epoch_end(trainer, None)

    (result,) = fit(train)
    assert result.error is None
    assert [result.metrics[name] for name in ("val_loss", "epoch", "step")] == [0.75, 1, 10]
    assert [os.listdir(kept.path) for kept, _ in result.best_checkpoints] == [["checkpoint.ckpt"]] * 2


def test_without_any_metric_nothing_is_reported(module):
    result = fit_with(module.TuneReportCheckpointCallback(["never logged"]))
    assert result.error is None
    assert result.metrics.get("training_iteration") is None
    assert result.checkpoint is None


def test_a_callback_that_only_reports_saves_no_checkpoint(module):
    result = fit_with(module.TuneReportCallback({"loss": "val_loss"}, on="validation_end"))
    assert (result.metrics["loss"], result.metrics["training_iteration"], result.checkpoint) == (0.75, 2, None)


def test_in_a_trial_lightning_starts_no_processes_and_uses_the_device_of_the_trial(of_ray):
    assert of_ray.RayLightningEnvironment().creates_processes_externally
    torch = {"cuda": SimpleNamespace(is_available=lambda: True), "device": str}
    with stand_ins({"torch": torch}):
        assert of_ray.RayDDPStrategy().root_device == "cuda:0"
    trainer = object()
    assert of_ray.prepare_trainer(trainer) is trainer
