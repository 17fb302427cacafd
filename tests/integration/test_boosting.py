"""The callbacks for gradient boosting, with stand-ins for the libraries, which are tried in `tests/extras`."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from kit import Scalar, fit, stand_ins

from minitune.integration._metrics import Boosting
from minitune.ray.trainers import LightGBMTrainer, XGBoostTrainer


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"frequency": -1}, ValueError),
        ({"frequency": 1.5}, ValueError),
        ({"metrics": [3]}, TypeError),
        ({"results_postprocessing_fn": 3}, TypeError),
    ],
)
def test_wrong_arguments_are_refused(options, error):
    with pytest.raises(error, match=next(iter(options))):
        Boosting(**options)


# -- the callbacks, with stand-ins for the libraries -------------------------------------------------------------------


class Booster:
    """A model of LightGBM or xgboost: its file holds the number of its rounds."""

    def __init__(self, model_file=None):
        self.rounds = 0
        if model_file is not None:
            self.load_model(model_file)

    def save_model(self, path):
        Path(path).write_text(str(self.rounds))

    def load_model(self, path):
        self.rounds = int(Path(path).read_text())


class LightGBM:
    """Calls a callback as `lightgbm.train` does: after each round, whose number is also its loss."""

    name = "minitune.integration.lightgbm"
    libraries: ClassVar[dict[str, dict[str, Any]]] = {"lightgbm": {"Booster": Booster}}
    saved_as = "model.txt"

    def train(self, callback, rounds):
        model = Booster()
        for number in range(rounds):
            model.rounds = number + 1
            found = [("eval", "loss", float(number), False), ("eval", "acc", Scalar(0.5), True)]
            callback(SimpleNamespace(model=model, iteration=number, end_iteration=rounds, evaluation_result_list=found))


class XGBoost:
    """Calls a callback as `xgboost.train` does, with the history of all rounds."""

    name = "minitune.integration.xgboost"
    libraries: ClassVar[dict[str, dict[str, Any]]] = {
        "xgboost": {"Booster": Booster},
        "xgboost.callback": {"TrainingCallback": type("TrainingCallback", (), {})},
    }
    saved_as = "model.ubj"

    def train(self, callback, rounds, model=None):
        model = model or Booster()
        history = {"eval": {"loss": [], "acc": []}}
        for number in range(rounds):
            assert not callback.before_iteration(model, number, history), "it ends no training"
            model.rounds = number + 1
            history["eval"]["loss"].append(float(number))
            history["eval"]["acc"].append(0.5)
            assert not callback.after_iteration(model, number, history), "it ends no training"
        assert callback.after_training(model) is model


both = pytest.mark.parametrize("library", [LightGBM(), XGBoost()], ids=["lightgbm", "xgboost"])


def trained(library, make):
    """The result of a trial whose training has this callback, and the rounds of the models that it has saved."""
    with stand_ins(library.libraries, library.name) as module:
        callback = make(module)
        (result,) = fit(lambda config: library.train(callback, 5))
        assert result.error is None
        models = [type(callback).get_model(kept) for kept, _ in result.best_checkpoints]
        return result, [model.rounds for model in models]


@both
@pytest.mark.parametrize(
    ("options", "saved"),
    [
        ({}, [5]),
        ({"checkpoint_at_end": False}, []),
        ({"frequency": 2}, [2, 4, 5]),
        ({"frequency": 2, "checkpoint_at_end": False}, [2, 4]),
        ({"frequency": 5}, [5]),
    ],
    ids=str,
)
def test_each_round_is_reported_and_the_wanted_ones_are_saved(library, options, saved):
    result, models = trained(library, lambda module: module.TuneReportCheckpointCallback(**options))
    assert (result.metrics["eval-loss"], result.metrics["eval-acc"]) == (4.0, 0.5)
    assert type(result.metrics["eval-acc"]) is float
    assert result.metrics["training_iteration"] == 5
    assert models == saved
    assert [metrics["eval-loss"] + 1 for _, metrics in result.best_checkpoints] == saved


def twice(metrics):
    return {"twice": 2 * metrics.pop("eval-loss")}


@both
@pytest.mark.parametrize(
    ("chosen", "reported"),
    [
        (("eval-loss",), {"eval-loss": 4.0}),
        (({"loss": "eval-loss"},), {"loss": 4.0}),
        ((["eval-loss"], twice), {"twice": 8.0}),
        ((None, twice), {"twice": 8.0}),
    ],
    ids=str,
)
def test_a_callback_that_only_reports_the_wanted_metrics_saves_nothing(library, chosen, reported):
    result, models = trained(library, lambda module: module.TuneReportCallback(*chosen))
    names = ("loss", "eval-loss", "eval-acc", "twice")
    assert {name: result.metrics[name] for name in names if name in result.metrics} == reported
    assert models == []


@both
def test_a_trainer_of_a_library_trains_with_its_callback(library):
    with stand_ins(library.libraries, library.name) as module:
        trainer = {"lightgbm": LightGBMTrainer, "xgboost": XGBoostTrainer}[library.name.rpartition(".")[2]]
        (result,) = fit(trainer(lambda: library.train(module.RayTrainReportCallback(), 3)))
        assert os.listdir(result.checkpoint.path) == [library.saved_as]
        assert trainer.get_model(result.checkpoint).rounds == 3
        with pytest.raises(ValueError, match="_config must be None, with one worker"):
            trainer(print, **{trainer._CONFIG: 1})


def test_a_training_of_lightgbm_without_evaluations_is_reported():
    with stand_ins(LightGBM.libraries, LightGBM.name) as module:
        callback = module.TuneReportCheckpointCallback()
        of = {"model": Booster(), "end_iteration": 2, "evaluation_result_list": None}
        (result,) = fit(lambda config: [callback(SimpleNamespace(iteration=n, **of)) for n in range(2)] and None)
    assert (result.metrics["training_iteration"], len(result.best_checkpoints)) == (2, 1)


def test_a_callback_of_xgboost_serves_one_training_after_the_other():
    with stand_ins(XGBoost.libraries, XGBoost.name) as module:
        callback = module.TuneReportCheckpointCallback()
        (result,) = fit(lambda config: [XGBoost().train(callback, rounds) for rounds in (1, 2)] and None)
    assert result.metrics["training_iteration"] == 3, "no round is reported twice"
    assert [metrics["eval-loss"] for _, metrics in result.best_checkpoints] == [0.0, 1.0]
