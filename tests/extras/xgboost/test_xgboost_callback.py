"""The callback for xgboost in runs of trials that train with it."""

from __future__ import annotations

import math
import os
import random
from pathlib import Path
from typing import Any

import pytest
import xgboost
from kit import fit

from minitune.integration.xgboost import TuneReportCallback, TuneReportCheckpointCallback

_RANDOM = random.Random(0)
_ROWS = [[_RANDOM.random() for _ in range(3)] for _ in range(80)]
_LABELS = [float(row[0] + row[1] > 1) for row in _ROWS]
_PARAMS = {"objective": "binary:logistic", "eval_metric": ["logloss", "error"], "max_depth": 2, "nthread": 1}


def boost(callback: TuneReportCheckpointCallback, rounds: int = 5) -> None:
    data = xgboost.DMatrix(_ROWS, _LABELS)
    xgboost.train(_PARAMS, data, rounds, evals=[(data, "train")], verbose_eval=False, callbacks=[callback])


@pytest.mark.parametrize(
    ("options", "iterations", "checkpoints"),
    [
        ({}, 6, 1),  # the last model comes with the last metrics once more
        ({"checkpoint_at_end": False}, 5, 0),
        ({"frequency": 2}, 6, 3),
        ({"frequency": 5}, 5, 1),  # the last round was saved
    ],
)
def test_rounds_are_reported_and_models_saved(
    tmp_path: Path, options: dict[str, Any], iterations: int, checkpoints: int
) -> None:
    (result,) = fit(lambda config: boost(TuneReportCheckpointCallback(**options)))
    assert result.error is None
    assert result.metrics["training_iteration"] == iterations
    assert {"train-logloss", "train-error"} <= set(result.metrics)
    assert len(result.best_checkpoints) == checkpoints


def test_metrics_are_renamed_and_processed_and_the_model_comes_back(tmp_path: Path) -> None:
    callback = TuneReportCheckpointCallback(
        metrics={"loss": "train-logloss"},
        filename="mine.json",
        results_postprocessing_fn=lambda metrics: {**metrics, "odds": math.exp(-metrics["loss"])},
    )
    (result,) = fit(lambda config: boost(callback))
    assert result.metrics["odds"] == math.exp(-result.metrics["loss"])
    assert "train-logloss" not in result.metrics
    assert os.listdir(result.checkpoint.path) == ["mine.json"]
    model = TuneReportCheckpointCallback.get_model(result.checkpoint, "mine.json")
    assert model.num_boosted_rounds() == 5


def test_a_metric_that_is_not_there_is_named(tmp_path: Path) -> None:
    (result,) = fit(lambda config: boost(TuneReportCheckpointCallback("eval-logloss")))
    assert "no metric 'eval-logloss' was logged; there are train-error, train-logloss" in str(result.error)


def test_cross_validation_has_no_model_to_save(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        data = xgboost.DMatrix(_ROWS, _LABELS)
        xgboost.cv(_PARAMS, data, 3, nfold=2, callbacks=[TuneReportCheckpointCallback("test-error")])

    (result,) = fit(train)
    assert result.error is None
    assert result.metrics["training_iteration"] == 3
    mean, deviation = result.metrics["test-error"]
    assert 0 <= mean <= 1
    assert deviation >= 0


@pytest.mark.parametrize(
    ("options", "error"),
    [({"frequency": -1}, ValueError), ({"metrics": [3]}, TypeError), ({"results_postprocessing_fn": 3}, TypeError)],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(options))):
        TuneReportCheckpointCallback(**options)


def test_the_form_without_checkpoints(tmp_path: Path) -> None:
    (result,) = fit(lambda config: boost(TuneReportCallback({"loss": "train-logloss"})))
    assert (result.error, result.metrics["training_iteration"], result.checkpoint) == (None, 5, None)
    assert "loss" in result.metrics
