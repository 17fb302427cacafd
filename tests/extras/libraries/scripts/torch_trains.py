import os

import torch
from ray import train, tune
from ray.train.torch import TorchTrainer


def loop(config):
    group = torch.distributed
    assert (group.get_rank(), group.get_world_size(), os.environ["LOCAL_RANK"]) == (0, 1, "0")
    model = train.torch.prepare_model(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
    samples = torch.utils.data.TensorDataset(torch.randn(64, 2), torch.randn(64, 1))
    loader = train.torch.prepare_data_loader(torch.utils.data.DataLoader(samples, batch_size=config["batch_size"]))
    found = train.get_checkpoint()
    begin = 0
    if found:
        with found.as_directory() as directory:
            begin = torch.load(os.path.join(directory, "state.pt"))["epoch"] + 1
    for epoch in range(begin, 3):
        for x, y in loader:
            loss = ((model(x) - y) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        group.all_reduce(loss.detach())
        directory = os.path.abspath(f"epoch{epoch}")
        os.makedirs(directory, exist_ok=True)
        torch.save({"epoch": epoch}, os.path.join(directory, "state.pt"))
        checkpoint = train.Checkpoint.from_directory(directory)
        train.report({"loss": loss.item(), "epoch": epoch, "begin": begin}, checkpoint=checkpoint)
        if epoch == 1 and begin == 0:
            raise RuntimeError("breaks once")


run_config = train.RunConfig(
    storage_path=os.path.abspath("runs"), failure_config=train.FailureConfig(max_failures=1), verbose=0
)
trainer = TorchTrainer(
    loop,
    train_loop_config={"lr": 0.1, "batch_size": 16},
    scaling_config=train.ScalingConfig(num_workers=1, use_gpu=False),
    run_config=run_config,
)
alone = trainer.fit()
space = {"train_loop_config": {"lr": tune.loguniform(1e-3, 1e-1)}}
grid = tune.Tuner(
    trainer, param_space=space, tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=2, reuse_actors=True)
).fit()
assert not torch.distributed.is_initialized()
print(len(grid), grid.num_errors, alone.metrics["begin"] == 2, alone.metrics["epoch"])
