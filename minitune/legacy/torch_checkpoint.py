"""`train.torch.TorchCheckpoint`: a checkpoint with a PyTorch model in it."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from minitune._alias import submodules
from minitune.base import files
from minitune.checkpoint import Checkpoint

_MODEL_FILE = "model.pt"

__getattr__ = submodules(__name__)


class TorchCheckpoint(Checkpoint):
    """A checkpoint that holds a model or its weights in `model.pt`.

    Reading one runs `torch.load`, which may unpickle: only for checkpoints that you trust.

    Example:
        `report({"loss": loss}, checkpoint=TorchCheckpoint.from_state_dict(model.state_dict()))`
    """

    MODEL_FILENAME = _MODEL_FILE

    @classmethod
    def from_state_dict(cls, state_dict: dict[str, Any], *, preprocessor: Any = None) -> TorchCheckpoint:
        """A checkpoint of weights, in a new temporary directory, which the caller owns.

        Args:
            state_dict: What `model.state_dict()` returns.
            preprocessor: Must be None: there are no preprocessors here.

        Raises:
            ValueError: If there is a preprocessor.
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
        """A checkpoint of a whole module; see `from_state_dict`."""
        return cls.from_state_dict(model, preprocessor=preprocessor)

    def get_model(self, model: Any = None) -> Any:
        """The model, with its weights loaded.

        Args:
            model: The module to load the weights into; needed if the checkpoint holds weights.

        Raises:
            ValueError: If the checkpoint holds weights and there is no module for them.
            FileNotFoundError: If it holds no `model.pt`.
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
