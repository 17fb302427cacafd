"""The callbacks for Keras, called as `model.fit` calls them. Keras itself is tried in `tests/extras`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kit import fit, stand_ins


class Callback:
    """As that of Keras: it gets its model before the first hook is called."""

    model: Any = None

    def on_epoch_end(self, epoch, logs=None): ...

    def on_train_batch_end(self, batch, logs=None): ...

    def on_train_end(self, logs=None): ...


class Model:
    """Its file holds the number of its epochs."""

    def __init__(self):
        self.epochs = 0

    def save(self, path):
        Path(path).write_text(str(self.epochs))

    def fit(self, callback, epochs=2, batches=3):
        callback.model = self
        for epoch in range(epochs):
            for batch in range(batches):
                callback.on_train_batch_end(batch, {"loss": 10.0 * epoch + batch})
            self.epochs += 1
            callback.on_epoch_end(epoch, logs={"loss": float(epoch), "acc": 0.5})
        callback.on_train_end({"loss": 99.0})


@pytest.fixture
def module():
    keras = {
        "callbacks": SimpleNamespace(Callback=Callback),
        "saving": SimpleNamespace(load_model=lambda path: Path(path).read_text()),
    }
    with stand_ins({"keras": keras}, "minitune.integration.keras") as module:
        yield module


def fit_with(callback):
    (result,) = fit(lambda config: Model().fit(callback))
    assert result.error is None
    return result


def steps(result):
    """The number of reports, the last loss, and the number of checkpoints."""
    return result.metrics["training_iteration"], result.metrics["loss"], len(result.best_checkpoints)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, (2, 1.0, 2)),
        ({"checkpoint_on": ""}, (2, 1.0, 0)),
        ({"checkpoint_on": []}, (2, 1.0, 0)),
        ({"checkpoint_on": "train_end"}, (3, 99.0, 1)),
        ({"report_metrics_on": ["train_batch_end", "epoch_end"]}, (8, 1.0, 2)),
        ({"checkpoint_on": ["train_end", "epoch_end"], "report_metrics_on": []}, (3, 99.0, 3)),
    ],
    ids=str,
)
def test_metrics_and_models_have_their_own_hooks(module, options, told):
    assert steps(fit_with(module.TuneReportCheckpointCallback(**options))) == told


def test_a_callback_that_only_reports_saves_nothing(module):
    assert steps(fit_with(module.TuneReportCallback())) == (2, 1.0, 0)
    assert steps(fit_with(module.TuneReportCallback("loss", on="train_end"))) == (1, 99.0, 0)


@pytest.mark.parametrize("name", ["checkpoint_on", "report_metrics_on"])
def test_an_unknown_hook_is_refused_by_the_name_of_its_argument(module, name):
    with pytest.raises(ValueError, match=rf"{name} must be among batch_begin, .* but got 'epoch'"):
        module.TuneReportCheckpointCallback(**{name: "epoch"})


def test_a_hook_without_metrics_reports_an_empty_result(module):
    def train(config):
        module.TuneReportCallback().on_epoch_end(0)
        module.TuneReportCallback(on="train_end").on_train_end()

    (result,) = fit(train)
    assert (result.error, result.metrics["training_iteration"]) == (None, 2)
