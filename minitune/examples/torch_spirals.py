"""Tune a PyTorch network on CPUs or GPUs: `python -m minitune.examples.torch_spirals`.

The network must tell which of two interleaved spirals a point belongs to. If there is a GPU, four trials share it.
minitune sets `CUDA_VISIBLE_DEVICES` for each trial, so `"cuda"` is the right device in all of them.

A checkpoint has the weights of the network and the state of the optimiser, so an interrupted trial continues where it
stopped.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minitune import (
    ASHAScheduler,
    Checkpoint,
    CheckpointConfig,
    CLIReporter,
    ResultGrid,
    RunConfig,
    TuneConfig,
    Tuner,
    choice,
    cluster_resources,
    get_checkpoint,
    loguniform,
    report,
    with_resources,
)

MAX_EPOCHS, STEPS = 16, 25
GOOD_ACCURACY = 0.9
MODEL_FILE = "model.pt"


def spirals(count: int, seed: int) -> tuple[Any, Any]:
    """Points on two spirals with a little noise, of shape (count, 2), and the number of each one's spiral, (count,)."""
    import torch

    rng = torch.Generator().manual_seed(seed)
    radius = torch.rand(count, generator=rng).sqrt()
    which = torch.randint(0, 2, (count,), generator=rng)
    angle = radius * 3 * math.pi + which * math.pi
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return points + 0.02 * torch.randn(count, 2, generator=rng), which


def network(units: int) -> Any:
    """Two hidden layers."""
    from torch import nn

    return nn.Sequential(nn.Linear(2, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU(), nn.Linear(units, 2))


def accuracy(model: Any, points: Any, labels: Any) -> float:
    """The share of points whose spiral is found."""
    return float((model(points).argmax(dim=1) == labels).float().mean())


def train(config: dict[str, Any]) -> None:
    """Train one network, epoch by epoch; the trial's function."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(config["seed"])
    points, labels = (tensor.to(device) for tensor in spirals(1024, seed=1))
    tune_points, tune_labels = (tensor.to(device) for tensor in spirals(1024, seed=2))
    model = network(config["units"]).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"], weight_decay=config["weight_decay"])
    epoch = 0
    if checkpoint := get_checkpoint():
        # weights_only reads only tensors and plain values, so that a file cannot run code
        state = torch.load(Path(checkpoint.path, MODEL_FILE), map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        epoch = state["epoch"]
    while epoch < MAX_EPOCHS:
        epoch += 1
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(points), labels)
            loss.backward()
            optimizer.step()
        with tempfile.TemporaryDirectory() as directory:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            torch.save(state, Path(directory, MODEL_FILE))
            metrics = {"accuracy": accuracy(model, tune_points, tune_labels), "loss": float(loss), "device": device}
            report(metrics, checkpoint=Checkpoint.from_directory(directory))


def tune(seed: int, samples: int, storage: str | None) -> ResultGrid:
    """Try `samples` networks; stop early the ones that fall behind. Blocks until all are done."""
    needs = {"cpu": 1, "gpu": 0.25} if cluster_resources().get("GPU") else {"cpu": 1}
    tuner = Tuner(
        with_resources(train, needs),
        param_space={
            "lr": loguniform(1e-4, 1e-1),
            "weight_decay": loguniform(1e-6, 1e-1),
            "units": choice([8, 16, 32, 64]),
            "seed": seed,
        },
        tune_config=TuneConfig(
            metric="accuracy",
            mode="max",
            num_samples=samples,
            seed=seed,
            reuse_actors=True,  # importing PyTorch takes long, so keep the workers
            scheduler=ASHAScheduler(max_t=MAX_EPOCHS, grace_period=2),
        ),
        run_config=RunConfig(
            storage_path=storage,
            checkpoint_config=CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="accuracy"),
            progress_reporter=CLIReporter(metric_columns=["training_iteration", "accuracy", "loss", "device"]),
        ),
    )
    return tuner.fit()


def load(checkpoint: Checkpoint, units: int) -> Any:
    """The network of a checkpoint."""
    import torch

    model = network(units)
    model.load_state_dict(torch.load(Path(checkpoint.path, MODEL_FILE), map_location="cpu", weights_only=True)["model"])
    return model


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example with the arguments of a command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Tune a PyTorch network that tells two spirals apart.")
    parser.add_argument("--seed", type=int, default=1, help="decides the weights and the configurations")
    parser.add_argument("--samples", type=int, default=12, help="how many networks to try (default: 12)")
    parser.add_argument("--storage", metavar="DIR", help="where results go (default: ~/minitune_results)")
    options = parser.parse_args(arguments)
    if options.samples < 1:
        parser.error(f"expected --samples >= 1, but got {options.samples}")
    try:
        import torch  # noqa: F401 - here, so that a missing package is reported once and not by each trial
    except ImportError:
        print("this example needs PyTorch: pip install 'minitune[torch]'", file=sys.stderr)
        return 1
    grid = tune(options.seed, options.samples, options.storage)
    if grid.errors:
        print(f"{len(grid.errors)} trials failed: see {grid.experiment_path}", file=sys.stderr)
        return 1
    best = grid.get_best_result(scope="all")
    checkpoint = best.get_best_checkpoint("accuracy", "max")
    found = accuracy(load(checkpoint, best.config["units"]), *spirals(4096, seed=3))
    print()
    print("Best configuration:  ", ", ".join(f"{k}={v:.3g}" for k, v in best.config.items() if k != "seed"))
    print(f"Held-out accuracy:    {found:.4f}  (points that neither training nor tuning has seen)")
    print(f"Best checkpoint:      {checkpoint.path}")
    if found < GOOD_ACCURACY:
        print(f"that is less than {GOOD_ACCURACY}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
