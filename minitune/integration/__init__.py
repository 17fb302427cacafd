"""Connections to other libraries. Each module needs the library that it is named after, and nothing here imports it.

::

    keras, lightgbm, pytorch_lightning, xgboost,
    transformers                                   callbacks of a training loop: they call `report` in the trial
      _metrics                                     which metrics they report, and with which checkpoint
    wandb, mlflow                                  trackers: callbacks of the run, in the driver; see also `contrib`
      _tracking                                    their thread, so that a slow tracker does not hold up the run

`setup_wandb` and `setup_mlflow` are for the trial instead: it writes its record by itself.
"""

from minitune.base.lazy import listing, submodules

__all__ = [
    "aim",
    "comet",
    "keras",
    "lightgbm",
    "mlflow",
    "pytorch_lightning",
    "ray_train",
    "transformers",
    "wandb",
    "xgboost",
]

__dir__ = listing(__all__)
__getattr__ = submodules(__name__)
