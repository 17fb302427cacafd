import os

import lightning
import torch
from ray import train, tune
from ray.train.lightning import RayDDPStrategy, RayLightningEnvironment, RayTrainReportCallback, prepare_trainer
from ray.train.torch import TorchTrainer


class Line(lightning.LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.lr = lr
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch):
        loss = ((self.layer(batch[0]) - batch[1]) ** 2).mean()
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch):
        self.log("val_loss", ((self.layer(batch[0]) - batch[1]) ** 2).mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)


def loop(config):
    samples = torch.utils.data.TensorDataset(torch.randn(32, 2), torch.randn(32, 1))
    trainer = lightning.Trainer(
        max_epochs=2,
        devices="auto",
        accelerator="cpu",
        strategy=RayDDPStrategy(),
        plugins=[RayLightningEnvironment()],
        callbacks=[RayTrainReportCallback()],
        enable_progress_bar=False,
        enable_checkpointing=False,
        logger=False,
    )
    loader = torch.utils.data.DataLoader(samples, batch_size=8)
    prepare_trainer(trainer).fit(Line(config["lr"]), train_dataloaders=loader, val_dataloaders=loader)


run_config = train.RunConfig(
    storage_path=os.path.abspath("runs"), checkpoint_config=train.CheckpointConfig(num_to_keep=1)
)
trainer = TorchTrainer(loop, scaling_config=train.ScalingConfig(num_workers=1), run_config=run_config)
grid = tune.Tuner(
    trainer,
    param_space={"train_loop_config": {"lr": tune.loguniform(1e-3, 1e-1)}},
    tune_config=tune.TuneConfig(metric="val_loss", mode="min", num_samples=2),
).fit()
best = grid.get_best_result()
with best.checkpoint.as_directory() as directory:
    state = torch.load(os.path.join(directory, RayTrainReportCallback.CHECKPOINT_NAME), weights_only=False)
print(len(grid), grid.num_errors, state["epoch"] == best.metrics["epoch"] == 1, best.metrics["training_iteration"])
