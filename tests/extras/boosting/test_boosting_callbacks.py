"""The callbacks for LightGBM and xgboost in runs of trials that train with them."""

from __future__ import annotations

import inspect
import math
import os
import random
from pathlib import Path
from typing import Any, ClassVar

import lightgbm
import numpy as np
import pytest
import xgboost
from kit import fit

from minitune.integration import lightgbm as for_lightgbm
from minitune.integration import xgboost as for_xgboost

_RANDOM = random.Random(0)
_ROWS = np.array([[_RANDOM.random() for _ in range(3)] for _ in range(80)])
_LABELS = (_ROWS[:, 0] + _ROWS[:, 1] > 1).astype(float)


class LightGBM:
    callbacks = for_lightgbm
    loss, error = "binary_logloss", "binary_error"
    params: ClassVar[dict[str, Any]] = {
        "objective": "binary",
        "metric": [loss, error],
        "num_leaves": 4,
        "min_data_in_leaf": 2,
        "num_threads": 1,
        "verbose": -1,
    }

    def train(self, callback: Any) -> None:
        data = lightgbm.Dataset(_ROWS, _LABELS)
        lightgbm.train(self.params, data, 5, valid_sets=[data], valid_names=["eval"], callbacks=[callback])

    def validate(self, callback: Any) -> None:
        data = lightgbm.Dataset(_ROWS, _LABELS)
        lightgbm.cv(self.params, data, 3, nfold=2, stratified=False, callbacks=[callback])

    def rounds(self, model: Any) -> int:
        return model.num_trees()


class XGBoost:
    callbacks = for_xgboost
    loss, error = "logloss", "error"
    params: ClassVar[dict[str, Any]] = {
        "objective": "binary:logistic",
        "eval_metric": [loss, error],
        "max_depth": 2,
        "nthread": 1,
    }

    def train(self, callback: Any) -> None:
        data = xgboost.DMatrix(_ROWS, _LABELS)
        xgboost.train(self.params, data, 5, evals=[(data, "eval")], verbose_eval=False, callbacks=[callback])

    def validate(self, callback: Any) -> None:
        xgboost.cv(self.params, xgboost.DMatrix(_ROWS, _LABELS), 3, nfold=2, callbacks=[callback])

    def rounds(self, model: Any) -> int:
        return model.num_boosted_rounds()


LIGHTGBM, XGBOOST = LightGBM(), XGBoost()
both = pytest.mark.parametrize("library", [LIGHTGBM, XGBOOST], ids=["lightgbm", "xgboost"])


@pytest.mark.parametrize(
    ("library", "options", "iterations", "checkpoints"),
    [
        (LIGHTGBM, {}, 5, 1),
        (LIGHTGBM, {"checkpoint_at_end": False}, 5, 0),
        (LIGHTGBM, {"frequency": 2}, 5, 3),
        (LIGHTGBM, {"frequency": 5}, 5, 1),
        (XGBOOST, {}, 5, 1),
        (XGBOOST, {"checkpoint_at_end": False}, 5, 0),
        (XGBOOST, {"frequency": 2}, 5, 3),
        (XGBOOST, {"frequency": 5}, 5, 1),
    ],
)
def test_rounds_are_reported_and_models_saved(
    tmp_path: Path, library: Any, options: dict[str, Any], iterations: int, checkpoints: int
) -> None:
    (result,) = fit(lambda config: library.train(library.callbacks.TuneReportCheckpointCallback(**options)))
    assert result.error is None
    assert result.metrics["training_iteration"] == iterations
    assert {f"eval-{library.loss}", f"eval-{library.error}"} <= set(result.metrics)
    assert len(result.best_checkpoints) == checkpoints
    assert all(type(result.metrics[f"eval-{name}"]) is float for name in (library.loss, library.error))
    for checkpoint, metrics in result.best_checkpoints:
        model = library.callbacks.TuneReportCheckpointCallback.get_model(checkpoint)
        assert library.rounds(model) == metrics["training_iteration"]


@both
def test_metrics_are_renamed_and_the_model_is_loaded_again(tmp_path: Path, library: Any) -> None:
    kind = library.callbacks.TuneReportCheckpointCallback
    callback = kind(
        metrics={"loss": f"eval-{library.loss}"},
        filename="mine.json",
        results_postprocessing_fn=lambda metrics: {**metrics, "odds": math.exp(-metrics["loss"])},
    )
    (result,) = fit(lambda config: library.train(callback))
    assert result.metrics["loss"] > 0
    assert result.metrics["odds"] == math.exp(-result.metrics["loss"])
    assert f"eval-{library.loss}" not in result.metrics
    assert os.listdir(result.checkpoint.path) == ["mine.json"]
    assert library.rounds(kind.get_model(result.checkpoint, "mine.json")) == 5


@both
def test_a_missing_metric_is_named(tmp_path: Path, library: Any) -> None:
    callback = library.callbacks.TuneReportCheckpointCallback("train-loss")
    (result,) = fit(lambda config: library.train(callback))
    expected = f"no metric 'train-loss' was logged; there are eval-{library.error}, eval-{library.loss}"
    assert expected in str(result.error)


def test_cross_validation_of_lightgbm_has_means_and_deviations(tmp_path: Path) -> None:
    callback = for_lightgbm.TuneReportCheckpointCallback(checkpoint_at_end=False)
    (result,) = fit(lambda config: LIGHTGBM.validate(callback))
    assert result.error is None
    assert result.metrics["training_iteration"] == 3
    assert {"valid-binary_error-mean", "valid-binary_error-stdv"} <= set(result.metrics)


def test_cross_validation_of_xgboost_has_pairs_and_no_model_to_save(tmp_path: Path) -> None:
    callback = for_xgboost.TuneReportCheckpointCallback("test-error")
    (result,) = fit(lambda config: XGBOOST.validate(callback))
    assert result.error is None
    assert result.metrics["training_iteration"] == 3
    mean, deviation = result.metrics["test-error"]
    assert 0 <= mean <= 1
    assert deviation >= 0


@both
def test_a_callback_that_only_reports_saves_no_checkpoint(tmp_path: Path, library: Any) -> None:
    callback = library.callbacks.TuneReportCallback({"loss": f"eval-{library.loss}"})
    (result,) = fit(lambda config: library.train(callback))
    assert (result.error, result.metrics["training_iteration"], result.checkpoint) == (None, 5, None)
    assert "loss" in result.metrics


@pytest.mark.parametrize(("library", "filename"), [(LIGHTGBM, "model.txt"), (XGBOOST, "model.ubj")])
def test_the_arguments_have_the_names_and_defaults_of_ray_tune(library: Any, filename: str) -> None:
    parameters = inspect.signature(library.callbacks.TuneReportCheckpointCallback).parameters.values()
    assert [(parameter.name, parameter.default) for parameter in parameters] == [
        ("metrics", None),
        ("filename", filename),
        ("frequency", 0),
        ("checkpoint_at_end", True),
        ("results_postprocessing_fn", None),
    ]


@pytest.mark.parametrize("library", [LightGBM(), XGBoost()])
def test_a_checkpoint_of_a_model_gives_the_model_back(library: Any, tmp_path: Path) -> None:
    kind = for_lightgbm.LightGBMCheckpoint if isinstance(library, LightGBM) else for_xgboost.XGBoostCheckpoint
    result = fit(lambda config: library.train(library.callbacks.RayTrainReportCallback()), storage_path=tmp_path)[0]
    model = kind.from_checkpoint(result.checkpoint).get_model()
    assert library.rounds(model) == 5
    made = kind.from_model(model)
    assert library.rounds(made.get_model()) == 5
    path = Path(made.path)
    assert [file.name for file in path.iterdir()] == [kind.MODEL_FILENAME]
    del made
    assert not path.exists()
    assert library.rounds(kind.from_model(model, path=tmp_path).get_model()) == 5
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(FileNotFoundError, match="holds no model"):
        kind(empty).get_model()
