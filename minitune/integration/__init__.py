"""Callbacks that report from other libraries' training loops; each module needs the library that it is named after."""

from minitune._alias import listing, submodules

__all__ = [
    "aim",
    "comet",
    "keras",
    "lightgbm",
    "mlflow",
    "pytorch_lightning",
    "wandb",
    "xgboost",
]

__dir__ = listing(__all__)
__getattr__ = submodules(__name__)
