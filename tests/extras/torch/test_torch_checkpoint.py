"""Old forms that need PyTorch, against the real package."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from kit import fit
from minitune.train.torch import TorchCheckpoint
from minitune.tune.examples import mnist_pytorch

import minitune as tune


def test_weights_and_modules_come_back() -> None:
    model = torch.nn.Linear(2, 1)
    fresh = torch.nn.Linear(2, 1)
    checkpoint = TorchCheckpoint.from_state_dict(model.state_dict())
    assert torch.equal(checkpoint.get_model(fresh).weight, model.weight)
    assert torch.equal(TorchCheckpoint.from_model(model).get_model().weight, model.weight)
    assert isinstance(checkpoint, tune.Checkpoint)
    with pytest.raises(ValueError, match="weights, which need a module"):
        checkpoint.get_model()
    with pytest.raises(ValueError, match="preprocessor must be None"):
        TorchCheckpoint.from_model(model, preprocessor=1)


def test_the_network_of_the_examples_learns() -> None:
    torch.manual_seed(0)
    pictures, labels = torch.zeros(256, 1, 28, 28), torch.arange(256) % 2
    pictures[labels == 1, :, :14] = 1.0
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(pictures, labels), batch_size=32)
    model = mnist_pytorch.ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        mnist_pytorch.train_func(model, optimizer, loader)
    assert mnist_pytorch.test(model, loader) == 1.0


@pytest.mark.parametrize("should_checkpoint", [True, False])
def test_example_saves_weights_if_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, should_checkpoint: bool
) -> None:
    pictures = [(torch.zeros(4, 1, 28, 28), torch.zeros(4, dtype=torch.long))]
    monkeypatch.setattr(mnist_pytorch, "get_data_loaders", lambda: (pictures, pictures))
    space = {"lr": 0.1, "momentum": 0.9, "should_checkpoint": should_checkpoint}
    stop = {"training_iteration": 2}
    (result,) = fit(mnist_pytorch.train_mnist, space, stop=stop, storage_path=tmp_path)
    assert (result.checkpoint is not None) == should_checkpoint
    if result.checkpoint is not None:
        mnist_pytorch.ConvNet().load_state_dict(torch.load(Path(result.checkpoint.path, "model.pt")))
