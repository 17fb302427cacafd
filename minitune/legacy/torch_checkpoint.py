"""`train.torch.TorchCheckpoint`: a checkpoint with a PyTorch model in it."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from minitune.base import files
from minitune.checkpoint import Checkpoint

_MODEL_FILE = "model.pt"


class TorchCheckpoint(Checkpoint):
    """A checkpoint with a model or its weights in `model.pt`.

    `get_model` calls `torch.load`, which may run code from the file: use it only for checkpoints that you trust.

    Examples:
        `report({"loss": loss}, checkpoint=TorchCheckpoint.from_state_dict(model.state_dict()))`
    """

    MODEL_FILENAME = _MODEL_FILE

    @classmethod
    def from_state_dict(cls, state_dict: dict[str, Any], *, preprocessor: Any = None) -> TorchCheckpoint:
        """Save weights to a new temporary directory, which the caller owns.

        Args:
            state_dict: The return value of `model.state_dict()`.
            preprocessor: Must be None, since this package has no preprocessors.

        Raises:
            ValueError: If `preprocessor` is not None.
        """
        import torch

        if preprocessor is not None:
            raise ValueError("preprocessor must be None: write what you need to a file of the checkpoint's directory")
        directory = tempfile.mkdtemp(prefix="checkpoint_tmp_")
        with files.new_file(os.path.join(directory, _MODEL_FILE)) as file:
            torch.save(state_dict, file)
        return cls(directory)

    @classmethod
    def from_model(cls, model: Any, *, preprocessor: Any = None) -> TorchCheckpoint:
        """Save a whole module; see `from_state_dict`."""
        return cls.from_state_dict(model, preprocessor=preprocessor)

    def get_model(self, model: Any = None) -> Any:
        """Load the model.

        Args:
            model: The module for the weights; necessary if the checkpoint contains only weights.

        Raises:
            ValueError: If the checkpoint contains only weights and `model` is None.
            FileNotFoundError: If the checkpoint contains no `model.pt`.
        """
        import torch

        with self.as_directory() as directory:
            held = torch.load(os.path.join(directory, _MODEL_FILE), map_location="cpu", weights_only=False)
        if isinstance(held, torch.nn.Module):
            return held
        if model is None:
            raise ValueError("model must be given: this checkpoint holds weights, which need a module")
        model.load_state_dict(held)
        return model
