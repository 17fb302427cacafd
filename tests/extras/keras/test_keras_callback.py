"""The callback for Keras in runs of trials that train with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from kit import fit

from minitune import Result
from minitune.integration.keras import TuneReportCallback, TuneReportCheckpointCallback
from minitune.train.tensorflow import TensorflowCheckpoint


def fit_line(path: Path, **options: Any) -> Result:
    """The result of a trial that trains a line, with the callback."""

    def train(config: dict[str, Any]) -> None:
        model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=["mae"])
        x = np.linspace(0, 1, 16).reshape(8, 2)
        callback = TuneReportCheckpointCallback(**options)
        model.fit(x, x.sum(axis=1), epochs=3, batch_size=4, verbose=0, callbacks=[callback])

    return fit(train, storage_path=path)[0]


def test_epochs_are_reported_and_models_saved(tmp_path: Path) -> None:
    result = fit_line(tmp_path)
    assert result.error is None
    assert result.metrics["training_iteration"] == 3
    assert {"loss", "mae"} <= set(result.metrics)
    assert [os.listdir(kept.path) for kept, _ in result.best_checkpoints] == [["model.keras"]] * 3
    assert TuneReportCheckpointCallback.get_model(result.checkpoint).predict(np.zeros((1, 2)), verbose=0).shape == (
        1,
        1,
    )


def test_metrics_are_renamed_and_models_saved_at_the_end_only(tmp_path: Path) -> None:
    result = fit_line(tmp_path, metrics={"error": "mae"}, checkpoint_on="train_end")
    assert result.error is None
    assert result.metrics["training_iteration"] == 4
    assert len(result.best_checkpoints) == 1
    assert "error" in result.metrics
    assert "mae" not in result.metrics


def test_batches_may_be_reported_without_models(tmp_path: Path) -> None:
    result = fit_line(tmp_path, metrics="loss", checkpoint_on=(), report_metrics_on=["train_batch_end", "epoch_end"])
    assert result.error is None
    assert result.metrics["training_iteration"] == 3 * 2 + 3
    assert result.checkpoint is None


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"checkpoint_on must be among .*epoch_end.*, but got 'epoch'"):
        TuneReportCheckpointCallback(checkpoint_on="epoch")


def test_callbacks_that_only_report_save_nothing(tmp_path: Path) -> None:
    assert TuneReportCallback({"error": "mae"})._reported_on == {"epoch_end"}
    assert TuneReportCallback()._saved_on == set()


def test_a_checkpoint_of_a_model_gives_the_model_back(tmp_path: Path) -> None:
    model = TensorflowCheckpoint.from_checkpoint(fit_line(tmp_path).checkpoint).get_model()
    again = TensorflowCheckpoint.from_model(model).get_model()
    assert np.array_equal(again.get_weights()[0], model.get_weights()[0])
