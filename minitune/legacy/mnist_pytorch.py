"""`tune.examples.mnist_pytorch`: a small network, its data and its training, which scripts import. Needs PyTorch."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from minitune.checkpoint import Checkpoint
from minitune.trainable.session import report

EPOCH_SIZE = 512
"""The number of pictures in an epoch of `train_func`, so that it is short."""
TEST_SIZE = 256
"""The number of pictures that `test_func` uses."""


class ConvNet(nn.Module):
    """One convolution of three filters and one linear layer, for pictures of 28 by 28 in ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 3, kernel_size=3)
        self.classes = nn.Linear(3 * 8 * 8, 10)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Logarithms of probabilities, of shape (n, 10), for pictures of shape (n, 1, 28, 28)."""
        pooled = functional.relu(functional.max_pool2d(self.convolution(pictures), 3))
        return functional.log_softmax(self.classes(pooled.flatten(1)), dim=1)


def get_data_loaders(batch_size: int = 64) -> tuple[Any, Any]:
    """Loaders of MNIST for training and test. Needs torchvision. Blocks the first time: it downloads to `~/data`."""
    from torchvision import datasets, transforms

    scaled = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    loaders = [
        torch.utils.data.DataLoader(
            datasets.MNIST(os.path.expanduser("~/data"), train=train, download=True, transform=scaled),
            batch_size=batch_size,
            shuffle=True,
        )
        for train in (True, False)
    ]
    return loaders[0], loaders[1]


def train_func(model: nn.Module, optimizer: Any, train_loader: Any, device: Any = None) -> None:
    """Train for about `EPOCH_SIZE` pictures."""
    device = device or torch.device("cpu")
    model.train()
    seen = 0
    for pictures, labels in train_loader:
        if seen > EPOCH_SIZE:
            return
        seen += len(pictures)
        optimizer.zero_grad()
        loss = functional.nll_loss(model(pictures.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()


def test_func(model: nn.Module, data_loader: Any, device: Any = None) -> float:  # noqa: PT028  # it is no test
    """The share of right answers on about `TEST_SIZE` pictures."""
    device = device or torch.device("cpu")
    model.eval()
    right = 0
    seen = 0
    with torch.no_grad():
        for pictures, labels in data_loader:
            if seen > TEST_SIZE:
                break
            right += int((model(pictures.to(device)).argmax(1) == labels.to(device)).sum())
            seen += len(pictures)
    return right / seen


train = train_func
test = test_func
"""The names in earlier versions."""


def train_mnist(config: dict[str, Any]) -> None:
    """A trainable with the parameters `lr` and `momentum`. It reports `mean_accuracy` until something stops it.

    If the configuration has a true `should_checkpoint`, each report has a checkpoint with the model's weights.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_loader, test_loader = get_data_loaders()
    model = ConvNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=config["momentum"])
    while True:
        train_func(model, optimizer, train_loader, device)
        accuracy = test_func(model, test_loader, device)
        if not config.get("should_checkpoint"):
            report({"mean_accuracy": accuracy})
            continue
        with tempfile.TemporaryDirectory() as directory:
            torch.save(model.state_dict(), os.path.join(directory, "model.pt"))
            report({"mean_accuracy": accuracy}, checkpoint=Checkpoint(directory))
