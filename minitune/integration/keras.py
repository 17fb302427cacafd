"""TuneReportCheckpointCallback: reports what Keras logs during `fit`, and saves models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import keras

from minitune.base.checks import shown
from minitune.checkpoint import Checkpoint
from minitune.integration._metrics import Wanted, names_wanted, pick, report_saved

_PARTS = ("batch", "epoch", "train", "train_batch", "test", "test_batch", "predict", "predict_batch")
_EVENTS = frozenset(f"{part}_{moment}" for part in _PARTS for moment in ("begin", "end"))


class TuneReportCheckpointCallback(keras.callbacks.Callback):
    """Reports the logged metrics and saves the model; pass it in `callbacks` of `model.fit`.

    The model is the file `model.keras` of a checkpoint. A checkpoint always comes with metrics.

    Args:
        checkpoint_on: When to save the model: the name of one or several of Keras' hooks, without `on_`; empty for
            never.
        report_metrics_on: When to report metrics; see `checkpoint_on`.
        metrics: The metrics to report, or a dict from the reported name to the library's name; by default all.

    Raises:
        TypeError: If `metrics` has the wrong type.
        ValueError: If there is no such hook.
    """

    CHECKPOINT_NAME = "model.keras"

    def __init__(
        self,
        checkpoint_on: str | Iterable[str] = "epoch_end",
        report_metrics_on: str | Iterable[str] = "epoch_end",
        metrics: Wanted = None,
    ):
        super().__init__()
        self._saved_on = _events("checkpoint_on", checkpoint_on)
        self._reported_on = _events("report_metrics_on", report_metrics_on)
        self._names = names_wanted(metrics)
        for event in self._saved_on | self._reported_on:
            setattr(self, f"on_{event}", self._hook(event))

    @classmethod
    def get_model(cls, checkpoint: Checkpoint) -> Any:
        """Load the model from a checkpoint of this callback."""
        with checkpoint.as_directory() as directory:
            return keras.saving.load_model(os.path.join(directory, cls.CHECKPOINT_NAME))

    def _hook(self, event: str) -> Any:
        """Make the method that Keras calls at an event. The first argument may be the number of the epoch or batch."""

        def call(*arguments: Any, logs: Mapping[str, Any] | None = None) -> None:
            if logs is None and arguments and not isinstance(arguments[-1], int):
                logs = arguments[-1]
            save = None
            if event in self._saved_on:
                save = self.model.save
            report_saved(pick(self._names, logs or {}), self.CHECKPOINT_NAME, save)

        return call


ReportCheckpointCallback = TuneReportCheckpointCallback
"""Its name in `ray.air.integrations.keras`."""


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports the logged metrics, without checkpoints; pass it in `callbacks` of `model.fit`.

    `metrics` and the errors are those of `TuneReportCheckpointCallback`; `on` is its `report_metrics_on`.
    """

    def __init__(self, metrics: Wanted = None, on: str | Iterable[str] = "epoch_end"):
        super().__init__(checkpoint_on=(), report_metrics_on=on, metrics=metrics)


def _events(name: str, events: str | Iterable[str]) -> frozenset[str]:
    """Return the events that an argument names.

    Raises:
        ValueError: If one is unknown.
    """
    found = frozenset([events] if isinstance(events, str) and events else events)
    if not found <= _EVENTS:
        raise ValueError(f"{name} must be among {', '.join(sorted(_EVENTS))}, but got {shown(events)}")
    return found
