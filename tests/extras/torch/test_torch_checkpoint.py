"""Old forms that need PyTorch, against the real package."""

from __future__ import annotations

import pytest
import torch

import minitune as tune
from minitune.train.torch import TorchCheckpoint, prepare_model


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


def test_one_worker_shares_its_model_with_no_other() -> None:
    model = torch.nn.Linear(2, 1)
    for strategy in (None, "ddp", "fsdp"):
        assert prepare_model(model, parallel_strategy=strategy) is model
