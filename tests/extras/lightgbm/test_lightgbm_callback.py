"""The callback for LightGBM in runs of trials that train with it."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
from kit import fit

from minitune.integration.lightgbm import TuneReportCallback, TuneReportCheckpointCallback

_RANDOM = random.Random(0)
_ROWS = np.array([[_RANDOM.random() for _ in range(3)] for _ in range(80)])
_LABELS = (_ROWS[:, 0] + _ROWS[:, 1] > 1).astype(float)
_PARAMS = {
    "objective": "binary",
    "metric": ["binary_logloss", "binary_error"],
    "num_leaves": 4,
    "min_data_in_leaf": 2,
    "num_threads": 1,
    "verbose": -1,
}


def boost(callback: TuneReportCheckpointCallback) -> None:
    data = lightgbm.Dataset(_ROWS, _LABELS)
    lightgbm.train(_PARAMS, data, 5, valid_sets=[data], valid_names=["eval"], callbacks=[callback])


@pytest.mark.parametrize(
    ("options", "checkpoints"),
    [({}, 1), ({"checkpoint_at_end": False}, 0), ({"frequency": 2}, 3), ({"frequency": 5}, 1)],
)
def test_rounds_are_reported_and_models_saved(tmp_path: Path, options: dict[str, Any], checkpoints: int) -> None:
    (result,) = fit(lambda config: boost(TuneReportCheckpointCallback(**options)))
    assert result.error is None
    assert result.metrics["training_iteration"] == 5
    assert {"eval-binary_logloss", "eval-binary_error"} <= set(result.metrics)
    assert len(result.best_checkpoints) == checkpoints


def test_metrics_are_renamed_and_the_model_comes_back(tmp_path: Path) -> None:
    callback = TuneReportCheckpointCallback({"loss": "eval-binary_logloss"}, filename="mine.txt")
    (result,) = fit(lambda config: boost(callback))
    assert result.metrics["loss"] > 0
    assert os.listdir(result.checkpoint.path) == ["mine.txt"]
    assert TuneReportCheckpointCallback.get_model(result.checkpoint, "mine.txt").num_trees() == 5


def test_cross_validation_has_means_and_deviations(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        callback = TuneReportCheckpointCallback(checkpoint_at_end=False)
        lightgbm.cv(_PARAMS, lightgbm.Dataset(_ROWS, _LABELS), 3, nfold=2, stratified=False, callbacks=[callback])

    (result,) = fit(train)
    assert result.error is None
    assert result.metrics["training_iteration"] == 3
    assert {"valid-binary_error-mean", "valid-binary_error-stdv"} <= set(result.metrics)


def test_the_form_without_checkpoints(tmp_path: Path) -> None:
    (result,) = fit(lambda config: boost(TuneReportCallback({"loss": "eval-binary_logloss"})))
    assert (result.error, result.metrics["training_iteration"], result.checkpoint) == (None, 5, None)
    assert "loss" in result.metrics
