"""The checkpoints of `ray.train` with one model in them: `train.torch.TorchCheckpoint` and those of other libraries."""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path
from typing import Any, TypeVar

from minitune.base import files
from minitune.base.checks import require
from minitune.base.forks import only_here
from minitune.checkpoint import Checkpoint

_Kind = TypeVar("_Kind", bound="_ModelCheckpoint")


class _ModelCheckpoint(Checkpoint):
    """A checkpoint with a model in one file. A subclass has the name of the file, and saves and loads the model."""

    MODEL_FILENAME = ""

    @classmethod
    def from_model(
        cls: type[_Kind], model: Any, *, preprocessor: Any = None, path: str | os.PathLike[str] | None = None
    ) -> _Kind:
        """Save a model.

        Args:
            model: The model.
            preprocessor: Must be None, since this package has no preprocessors.
            path: An existing directory for the file. By default a temporary one, which lives as long as the object.

        Raises:
            ValueError: If `preprocessor` is not None.
        """
        way_out = "preprocessor: None; write what you need to a file of the checkpoint's directory"
        require(preprocessor is None, way_out, preprocessor)
        checkpoint = cls(tempfile.mkdtemp(prefix="checkpoint_tmp_") if path is None else path)
        if path is None:
            weakref.finalize(checkpoint, only_here(files.discard_tree), checkpoint.path)
        cls._save(model, os.path.join(checkpoint.path, cls.MODEL_FILENAME))
        return checkpoint

    @classmethod
    def from_checkpoint(cls: type[_Kind], checkpoint: Checkpoint) -> _Kind:
        """The same directory as a checkpoint of this kind."""
        return cls(checkpoint.path)

    def _find(self) -> str:
        """The path of the model's file.

        Raises:
            FileNotFoundError: If the checkpoint does not contain one.
        """
        with self.as_directory() as directory:
            found = sorted(Path(directory).glob(f"{Path(self.MODEL_FILENAME).stem}.*"))
        if not found:
            raise FileNotFoundError(f"{self.path} holds no {self.MODEL_FILENAME}")
        return str(found[0])

    @staticmethod
    def _save(model: Any, path: str) -> None:
        raise NotImplementedError


class TorchCheckpoint(_ModelCheckpoint):
    """A checkpoint with a PyTorch model or its weights in `model.pt`.

    `get_model` calls `torch.load`, which may run code from the file: use it only for checkpoints that you trust.

    Examples:
        `report({"loss": loss}, checkpoint=TorchCheckpoint.from_state_dict(model.state_dict()))`
    """

    MODEL_FILENAME = "model.pt"

    @classmethod
    def from_state_dict(cls, state_dict: dict[str, Any], *, preprocessor: Any = None) -> TorchCheckpoint:
        """Save weights, the return value of `model.state_dict()`; see `from_model`."""
        return cls.from_model(state_dict, preprocessor=preprocessor)

    @staticmethod
    def _save(model: Any, path: str) -> None:
        import torch

        with files.new_file(path) as file:
            torch.save(model, file)

    def get_model(self, model: Any = None) -> Any:
        """Load the model.

        Args:
            model: The module for the weights; necessary if the checkpoint contains only weights.

        Raises:
            ValueError: If the checkpoint contains only weights and `model` is None.
            FileNotFoundError: If the checkpoint contains no `model.pt`.
        """
        import torch

        held = torch.load(self._find(), map_location="cpu", weights_only=False)
        if isinstance(held, torch.nn.Module):
            return held
        if model is None:
            raise ValueError("model must be given: this checkpoint holds weights, which need a module")
        model.load_state_dict(held)
        return model


class TensorflowCheckpoint(_ModelCheckpoint):
    """A checkpoint with a Keras model in `model.keras`, as the callback for Keras saves it, too."""

    MODEL_FILENAME = "model.keras"

    @staticmethod
    def _save(model: Any, path: str) -> None:
        model.save(path)

    def get_model(self) -> Any:
        """Load the model. FileNotFoundError if there is none."""
        import keras

        return keras.saving.load_model(self._find())


class _BoosterCheckpoint(_ModelCheckpoint):
    @staticmethod
    def _save(model: Any, path: str) -> None:
        model.save_model(path)


class XGBoostCheckpoint(_BoosterCheckpoint):
    """A checkpoint with a `Booster` of XGBoost in `model.json`, or in `model.ubj` of the callback for XGBoost."""

    MODEL_FILENAME = "model.json"

    def get_model(self) -> Any:
        """Load the `Booster`. FileNotFoundError if there is none."""
        from xgboost import Booster

        return Booster(model_file=self._find())


class LightGBMCheckpoint(_BoosterCheckpoint):
    """A checkpoint with a `Booster` of LightGBM in `model.txt`, as the callback for LightGBM saves it, too."""

    MODEL_FILENAME = "model.txt"

    def get_model(self) -> Any:
        """Load the `Booster`. FileNotFoundError if there is none."""
        from lightgbm import Booster

        return Booster(model_file=self._find())
